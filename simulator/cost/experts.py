"""How many experts a step touches, and how many of them lie on the chips that have the most."""

from __future__ import annotations

import numpy as np

from simulator.cost.shape import Array, Experts, Number


def touched_experts(experts: Experts, rows: Number) -> Array:
    """Distinct experts of a layer that ``rows`` tokens are routed to: ``E (1 - (1 - k/E)^n)`` in expectation.

    n is the number of tokens that route independently, ``1 + (rows - 1)(1 - correlation)``.
    """
    independent = 1 + (np.asarray(rows, dtype=np.float64) - 1) * (1 - experts.correlation)
    missed = np.power(1 - experts.per_token / np.asarray(experts.count, dtype=np.float64), independent)
    return np.asarray(experts.count * (1 - missed))


def busiest_group(experts: Experts, rows: Number, groups: Number) -> Array:
    """Experts that the group of chips with the most of them touches, in expectation; the others wait for it.

    The touched experts of a group are taken as binomial and the groups as independent of each other:
    ``E[max] = sum over m of 1 - P(one group touches at most m)^groups``. Groups share a fixed sum, so that the truth
    is a little less.
    """
    touched, count = touched_experts(experts, rows), np.asarray(experts.count, dtype=np.float64)
    groups = np.asarray(groups, dtype=np.float64)
    if np.all(groups <= 1):
        return touched
    from scipy import special  # a quarter of a second, which only experts in groups are worth

    own = np.ceil(count / groups)
    probability = np.minimum(touched / count, 1.0)
    total = np.zeros(np.broadcast(touched, groups).shape)
    for m in range(int(own.max(initial=0))):
        # P(X <= m) of a binomial is a regularised incomplete beta function.
        below = special.betainc(np.maximum(own - m, 1.0), m + 1.0, 1 - probability)
        total = total + np.where(m < own, 1 - below**groups, 0.0)
    return np.where(groups > 1, total, touched)
