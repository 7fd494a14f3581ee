"""Which draft to train before anyone trains it: all shapes by closed form, the best of them under uncertainty.

space.py      the shapes of drafts, as arrays
screen.py     time of a round of each of them, by the cost model
ranking.py    joint draws of acceptance and of times: who is best, how surely, and what it costs to be wrong
candidates.py  what is drawn of it: plain decoding, the best shapes
spelled_out.py drafts that exist, heads on hidden states
heads.py      those heads as models
needs.py      how good a draft must be
proposals.py  the candidates once ranked
outcome.py    the search as a whole, and what comes of it
lookahead.py  the best lookahead of the leading draft over batch and context
training.py   what it costs to train a draft, and when that is paid back
export.py     a candidate as arguments of serving engines
"""

from simulator.plan.export import Command, commands
from simulator.plan.lookahead import BestLookahead, best_lookahead, leading_draft
from simulator.plan.outcome import HeadCost, Outcome, plan
from simulator.plan.proposals import Proposal, front_of
from simulator.plan.ranking import Ranked
from simulator.plan.screen import Candidates
from simulator.plan.training import TrainingCost, training_cost

__all__ = [
    "BestLookahead",
    "Candidates",
    "Command",
    "HeadCost",
    "Outcome",
    "Proposal",
    "Ranked",
    "TrainingCost",
    "best_lookahead",
    "commands",
    "front_of",
    "leading_draft",
    "plan",
    "training_cost",
]
