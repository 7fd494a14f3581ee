"""Which draft to train before anyone trains it: all shapes by closed form, the best of them under uncertainty.

space.py    the shapes of drafts, as arrays
screen.py   time of a round of each of them, by the cost model
ranking.py  joint draws of acceptance and of times: who is best, how surely, and what it costs to be wrong
outcome.py  the search as a whole, and what comes of it
lookahead.py  the best lookahead of the leading draft over batch and context
"""

from simulator.plan.lookahead import BestLookahead, best_lookahead, leading_draft
from simulator.plan.outcome import Outcome, plan
from simulator.plan.ranking import Ranked
from simulator.plan.screen import Candidates

__all__ = ["BestLookahead", "Candidates", "Outcome", "Ranked", "best_lookahead", "leading_draft", "plan"]
