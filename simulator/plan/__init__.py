"""Which draft to train before anyone trains it: all shapes by closed form, the best of them under uncertainty.

space.py    the shapes of drafts, as arrays
screen.py   time of a round of each of them, by the cost model
ranking.py  joint draws of acceptance and of times: who is best, how surely, and what it costs to be wrong
outcome.py  the search as a whole, and what comes of it
training.py what it costs to train a draft, and when that is paid back
export.py   a candidate as arguments of serving engines
"""

from simulator.plan.export import Command, commands
from simulator.plan.outcome import Outcome, Proposal, plan
from simulator.plan.ranking import Ranked
from simulator.plan.screen import Candidates
from simulator.plan.training import TrainingCost, training_cost

__all__ = [
    "Candidates",
    "Command",
    "Outcome",
    "Proposal",
    "Ranked",
    "TrainingCost",
    "commands",
    "plan",
    "training_cost",
]
