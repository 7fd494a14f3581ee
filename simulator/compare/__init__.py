"""Any two or more records about the same question: error by term, bias, rank agreement.

views.py      a record with its scenario read back: values, labels, the question in words
pairs.py      which record is set against which, and why the rest is not
flags.py      measurements that cannot be true
rows.py       two records -> one row a term; published values -> rows
agreement.py  rows -> bias and worst error by term; the order of two drafts
compiled.py   a compiled program's counts against the cost model's, part by part
counts.py     what the cost model counts of a compiled program
reasons.py    the one table of known reasons why they differ, each with its amount
allowed.py    those amounts
timed.py      its replayed time against the predicted one
"""

from simulator.compare.agreement import Ranking, Summary
from simulator.compare.comparison import Comparison, compare
from simulator.compare.compiled import TOLERANCE, CompiledComparison, Count, chosen, compared
from simulator.compare.flags import FLAG_WORDS, Flag
from simulator.compare.pairs import NotCompared
from simulator.compare.reasons import REASONS, Reason
from simulator.compare.rows import Row
from simulator.compare.timed import Times
from simulator.compare.views import Value, View, label, question, views

__all__ = [
    "FLAG_WORDS",
    "REASONS",
    "TOLERANCE",
    "Comparison",
    "CompiledComparison",
    "Count",
    "Flag",
    "NotCompared",
    "Ranking",
    "Reason",
    "Row",
    "Summary",
    "Times",
    "Value",
    "View",
    "chosen",
    "compare",
    "compared",
    "label",
    "question",
    "views",
]
