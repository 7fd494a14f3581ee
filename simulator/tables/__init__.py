"""Tables for people, the same for the terminal and for the report.

layout.py     Table and its plain text, at most 100 columns wide
wording.py    numbers with their units, names of terms in words
against_compiled.py  what the cost model counts of a compiled program, and why it differs
agreement.py  predicted against seen: by point, by term, published
verdicts.py   the same in a few lines; the order of two drafts
anchors.py    what predictions were anchored to
arithmetic.py what a predicted number is made of
answer.py     the first answer: fits, plain decoding, a round, when it pays
best_lookahead.py  K* of a plan over batch and context
compiled.py   what the TPU compiler says of programs: known, estimated, assumed
held_out.py  what a validation found
measured_parts.py  parts of measured steps and rounds
plan.py       what a plan found, in sentences and in a table
plan_compiled.py its last candidates as the TPU compiler makes them
plan_heads.py what acceptance its draft heads need
points.py     one record a row: what a sweep predicts, what was measured
publications.py  what others measured beside what is predicted of it
"""

from simulator.tables.against_compiled import (
    compiled_counts,
    compiled_sections,
    compiled_times,
    compiled_verdict,
)
from simulator.tables.agreement import (
    by_point,
    by_term,
    preferred,
    published,
    summaries,
)
from simulator.tables.anchors import anchor_lines, anchor_warnings
from simulator.tables.answer import answer, round_parts, wrapped
from simulator.tables.arithmetic import arithmetic
from simulator.tables.best_lookahead import lookahead_table, lookahead_words, prior_worth
from simulator.tables.compiled import (
    assumed,
    assumed_words,
    estimated,
    known_collectives,
    known_memory,
    known_parts,
    known_work,
)
from simulator.tables.compiled_points import compiled_points
from simulator.tables.held_out import criteria, every_held_out, validation_errors, validation_verdict
from simulator.tables.layout import WIDTH, Column, Table, plain
from simulator.tables.measured_parts import ablation, in_place
from simulator.tables.plan import PLAN_LEGEND, plan_answer, plan_table, tails
from simulator.tables.plan_compiled import confirmed
from simulator.tables.plan_heads import HEADS_LEGEND, heads_table
from simulator.tables.points import calibration_words, measurements, sweep
from simulator.tables.publications import (
    published_errors,
    published_orders,
    published_reasons,
    published_rows,
    published_verdict,
)
from simulator.tables.verdicts import (
    derived_lines,
    flag_lines,
    missing_lines,
    ranking_verdicts,
    rankings,
    status_lines,
    verdicts,
)

__all__ = [
    "HEADS_LEGEND",
    "PLAN_LEGEND",
    "WIDTH",
    "Column",
    "Table",
    "ablation",
    "anchor_lines",
    "anchor_warnings",
    "answer",
    "arithmetic",
    "assumed",
    "assumed_words",
    "by_point",
    "by_term",
    "calibration_words",
    "compiled_counts",
    "compiled_points",
    "compiled_sections",
    "compiled_times",
    "compiled_verdict",
    "confirmed",
    "criteria",
    "derived_lines",
    "estimated",
    "every_held_out",
    "flag_lines",
    "heads_table",
    "in_place",
    "known_collectives",
    "known_memory",
    "known_parts",
    "known_work",
    "lookahead_table",
    "lookahead_words",
    "measurements",
    "missing_lines",
    "plain",
    "plan_answer",
    "plan_table",
    "preferred",
    "prior_worth",
    "published",
    "published_errors",
    "published_orders",
    "published_reasons",
    "published_rows",
    "published_verdict",
    "ranking_verdicts",
    "rankings",
    "round_parts",
    "status_lines",
    "summaries",
    "sweep",
    "tails",
    "validation_errors",
    "validation_verdict",
    "verdicts",
    "wrapped",
]
