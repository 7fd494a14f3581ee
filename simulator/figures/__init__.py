"""Records -> plotly figures: pure functions that draw and decide nothing.

style.py   colours, symbols, dashes and patterns; the layout that reads at 400 pixels; NOT VALIDATED
curves.py  predicted against seen, time to N tokens
speedup.py speedup over K
held_out.py  errors of held-out shapes
publications.py  what others measured over what is predicted
shapes.py  every shape of a plan by width and depth
plan.py    front, gain and chances of a plan's candidates
bars.py    the round and its parts, the step and its mechanisms
"""

from simulator.figures.bars import mechanisms, rounds
from simulator.figures.curves import parity, time_to_tokens
from simulator.figures.held_out import held_out
from simulator.figures.plan import chances, front, gain_surface
from simulator.figures.publications import published
from simulator.figures.shapes import shapes
from simulator.figures.speedup import speedup

__all__ = [
    "chances",
    "front",
    "gain_surface",
    "held_out",
    "mechanisms",
    "parity",
    "published",
    "rounds",
    "shapes",
    "speedup",
    "time_to_tokens",
]
