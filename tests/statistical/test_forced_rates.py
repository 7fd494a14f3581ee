"""Do forced rates give the counts that they promise?

The first rounds of every sequence are looked at, as many as it has whatever it accepts: later rounds exist only where
few tokens were accepted before. Of n such rounds the number that keep at least k tokens is binomial.
"""

from __future__ import annotations

import jax
import numpy as np
from scipy.stats import binom

from runtime.generate import generate
from runtime.pair import Pair
from runtime.sampling import Sampling
from simulator.spec.acceptance import PerPositionAcceptance
from tests.tiny_models import decoder, prompts, tiny

FALSE_ALARM = 1e-6
BATCH, LOOKAHEAD, ROUNDS = 2048, 3, 5


def test_survival_of_every_position() -> None:
    # n = 2048 x 5 = 10,240 rounds; two tails at each of 3 positions share the false alarm.
    spec = tiny(layers=1, d_model=8, heads=2, kv_heads=1, head_dim=4, d_ff=16, vocabulary=8)
    pair = Pair.of(decoder(spec, 0), decoder(spec, 1))
    law = PerPositionAcceptance(kind="per_position", acceptance_rates=(0.9, 0.4, 0.7))
    output = 1 + ROUNDS * (LOOKAHEAD + 1)
    made = generate(pair, prompts(BATCH, 2, 8), output, LOOKAHEAD, Sampling(), jax.random.key(5), forced=law)
    counts = np.asarray(made.accepted)[:, :ROUNDS]
    survival = np.cumprod(law.conditional(LOOKAHEAD))
    for position in range(1, LOOKAHEAD + 1):
        kept, chance = int((counts >= position).sum()), float(survival[position - 1])
        tail = min(binom.cdf(kept, counts.size, chance), binom.sf(kept - 1, counts.size, chance))
        assert tail >= FALSE_ALARM / (2 * LOOKAHEAD), f"{kept} of {counts.size} kept {position}, expected {chance:.3f}"
