"""Records -> plotly figures: pure functions that draw and decide nothing.

style.py   colours, symbols, dashes and patterns; the layout that reads at 400 pixels; NOT VALIDATED
curves.py  predicted against seen, time to N tokens
speedup.py speedup over K
held_out.py  errors of held-out shapes
publications.py  what others measured over what is predicted
bars.py    the round and its parts, the step and its mechanisms
"""

from simulator.figures.bars import mechanisms, rounds
from simulator.figures.curves import parity, time_to_tokens
from simulator.figures.held_out import held_out
from simulator.figures.publications import published
from simulator.figures.speedup import speedup

__all__ = ["held_out", "mechanisms", "parity", "published", "rounds", "speedup", "time_to_tokens"]
