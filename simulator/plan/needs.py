"""How good a draft must be: the acceptance from which it is as fast as is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.plan.ranking import Entry
from simulator.speculation import break_even_acceptance

Array = npt.NDArray[np.float64]


def needed(entries: Sequence[Entry], token_s: Array, lookahead: Sequence[int] | None = None) -> Array:
    """The least acceptance rate at which each candidate takes no more than ``token_s`` a token, [entries].

    NaN where no acceptance does, and without a draft; 0 where every one does. All at once: a bisection for each would
    take longer than the whole search.

    Args:
        entries: the candidates.
        token_s: seconds a token of a sequence that are asked of each, [entries].
        lookahead: of each the K to take; the best for that acceptance unless given.
    """
    own = [i for i, entry in enumerate(entries) if not entry.plain]
    found = np.full(len(entries), np.nan)
    if not own:
        return found
    taken = {i: slice(None) if lookahead is None else [entries[i].lookahead.index(lookahead[i])] for i in own}
    costs = [entries[i].round_s[taken[i]] / token_s[i] for i in own]
    depths = [np.array(entries[i].lookahead)[taken[i]] for i in own]
    cost = np.concatenate(costs)
    least = np.where(cost < 1, 0.0, break_even_acceptance(cost, np.concatenate(depths)))
    starts = np.cumsum([0, *(len(each) for each in costs[:-1])])
    found[own] = np.fmin.reduceat(least, starts)
    return found
