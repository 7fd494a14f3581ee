"""Any two or more records about the same question: error by term, bias, rank agreement.

views.py      a record with its scenario read back: values, labels, the question in words
pairs.py      which record is set against which, and why the rest is not
flags.py      measurements that cannot be true
rows.py       two records -> one row a term; published values -> rows
agreement.py  rows -> bias and worst error by term; the order of two drafts
"""

from simulator.compare.agreement import Ranking, Summary
from simulator.compare.comparison import Comparison, compare
from simulator.compare.flags import FLAG_WORDS, Flag
from simulator.compare.pairs import NotCompared
from simulator.compare.rows import Row
from simulator.compare.views import Value, View, label, question, views

__all__ = [
    "FLAG_WORDS",
    "Comparison",
    "Flag",
    "NotCompared",
    "Ranking",
    "Row",
    "Summary",
    "Value",
    "View",
    "compare",
    "label",
    "question",
    "views",
]
