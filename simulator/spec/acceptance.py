"""Laws of acceptance: how many of the K proposed tokens a round keeps.

Each law says what its rounds are made of, for exact results, and draws accepted counts from a generator.
``acceptance_rate`` is P(a draft token is accepted, given that all before it in the round were).
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from simulator.errors import RefusedError
from simulator.spec.fields import Name, Probability, Says, Strict, mistake
from simulator.spec.law import LONG_OUTPUT, IndependentLaw, Law, kept, padded
from simulator.spec.processes import Process, Replay, RoundProcess, accepted_law, beta_nodes
from simulator.spec.sequences import DrawnSequences, ReplayedSequences, Sequences

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Rates = Annotated[tuple[Probability, ...], Field(min_length=1, max_length=64)]
Counts = Annotated[tuple[Annotated[int, Field(ge=0, le=64)], ...], Field(min_length=1, max_length=50_000)]
StretchRounds = Annotated[float, Field(ge=1, le=1_000_000)]


class RateAcceptance(IndependentLaw):
    """Every position is accepted with the same probability."""

    kind: Literal["rate"]
    acceptance_rate: Probability
    """P(a draft token is accepted, given that all before it in the round were)."""

    def rates(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Floats, Floats]:
        """Shares of the sequences [I] and their conditional acceptances [I, K]."""
        return np.ones(1), self.conditional(lookahead)[None, :]

    def conditional(self, lookahead: int) -> Floats:
        """Conditional acceptance of positions 1..K; shape [K]."""
        return np.full(lookahead, self.acceptance_rate)


class PerPositionAcceptance(IndependentLaw):
    """A probability of its own for every position; later ones repeat the last that is given."""

    kind: Literal["per_position"]
    acceptance_rates: Rates
    """Conditional acceptance of the 1st, 2nd, ... proposed token. Not vLLM's survival rates, which are products."""

    def rates(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Floats, Floats]:
        """Shares of the sequences [I] and their conditional acceptances [I, K]."""
        return np.ones(1), self.conditional(lookahead)[None, :]

    def conditional(self, lookahead: int) -> Floats:
        """Conditional acceptance of positions 1..K; shape [K]."""
        return padded(self.acceptance_rates, lookahead)


class ForcedAcceptance(Law):
    """A list of accepted counts, replayed round by round; every sequence starts at the first and wraps around."""

    kind: Literal["forced"]
    accepted: Counts
    """Accepted draft tokens of the 1st, 2nd, ... round, each 0 to lookahead."""

    def processes(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Process, ...]:
        """What the rounds of a sequence may be, with shares of the sequences that sum to 1."""
        return (Replay(1.0, kept(self.accepted, lookahead)),)

    def sequences(self, lookahead: int, batch: int, rng: np.random.Generator) -> Sequences:
        """``batch`` sequences at the first count of the list; ``rng`` is not used."""
        return ReplayedSequences(batch, rng, (kept(self.accepted, lookahead),))

    def conditional(self, lookahead: int) -> Floats:
        """The rates with the same mean: of the rounds that reached a position, the share that passed it; [K]."""
        counts = np.asarray(self.accepted)
        reached = np.array([(counts >= k).sum() for k in range(lookahead + 1)], dtype=np.float64)
        return np.divide(reached[1:], reached[:-1], out=np.zeros(lookahead), where=reached[:-1] > 0)

    def mean_tokens(self, lookahead: int) -> float:
        """Tokens per round of long outputs, the target's own included."""
        return 1.0 + float(kept(self.accepted, lookahead).mean())


class Domain(Strict):
    """One kind of request: its share, and how well the draft guesses there."""

    share: Probability
    """Share of the sequences that are of this domain."""
    acceptance_rates: Rates
    """Conditional acceptance of the 1st, 2nd, ... proposed token; later ones repeat the last."""


class MixtureAcceptance(IndependentLaw):
    """Requests of several domains, such as code and chat; a sequence belongs to one of them for all its rounds."""

    kind: Literal["mixture"]
    domains: Annotated[
        dict[Name, Domain],
        Field(min_length=1, max_length=1000),
        Says("1 to 1,000 domains by name, each a mapping with the keys share, acceptance_rates"),
    ]
    """Domains by name; their shares sum to 1."""

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> Self:
        total = sum(domain.share for domain in self.domains.values())
        if abs(total - 1) > 1e-9:
            raise mistake(f"domains whose shares sum to 1; these sum to {total:.10g}", "domains")
        return self

    def rates(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Floats, Floats]:
        """Shares of the sequences [I] and their conditional acceptances [I, K]."""
        shares = np.array([domain.share for domain in self.domains.values()])
        rates = np.array([padded(domain.acceptance_rates, lookahead) for domain in self.domains.values()])
        return shares / shares.sum(), rates


class BetaAcceptance(IndependentLaw):
    """Every sequence draws a constant rate of its own from a beta distribution."""

    kind: Literal["beta"]
    mean: Annotated[float, Field(ge=0.001, le=0.999)]
    """Mean of the acceptance rate over the sequences."""
    concentration: Annotated[float, Field(ge=0.01, le=1_000_000)]
    """a + b of the beta distribution: the variance of the rates is mean (1 - mean) / (concentration + 1)."""

    @property
    def shape(self) -> tuple[float, float]:
        """a and b of the beta distribution."""
        return self.mean * self.concentration, (1 - self.mean) * self.concentration

    def rates(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Floats, Floats]:
        """Shares of the sequences [I] and their conditional acceptances [I, K], at the nodes of a quadrature.

        As a function of the rate, P(N tokens take more than r rounds) falls over a width of about 1 / sqrt(N).
        """
        nodes, weights = beta_nodes(*self.shape, 32 + math.isqrt(16 * tokens))
        return weights, np.repeat(nodes[:, None], lookahead, axis=1)

    def sequences(self, lookahead: int, batch: int, rng: np.random.Generator) -> Sequences:
        """``batch`` fresh sequences, whose rates and accepted counts are drawn from ``rng``."""
        one = np.ones((1, 1))

        def fresh(count: int) -> Floats:
            return np.repeat(rng.beta(*self.shape, size=(count, 1, 1)), lookahead, axis=2)

        return DrawnSequences(batch, rng, fresh, one[0], one)


class MarkovAcceptance(Law):
    """Easy and hard stretches: a sequence changes between two rates, and its first round is like any other."""

    kind: Literal["markov"]
    easy_rate: Probability
    """Acceptance rate in easy stretches."""
    hard_rate: Probability
    """Acceptance rate in hard stretches."""
    easy_rounds: StretchRounds
    """Mean length of an easy stretch in rounds."""
    hard_rounds: StretchRounds
    """Mean length of a hard stretch in rounds."""

    @model_validator(mode="after")
    def _easy_is_easier(self) -> Self:
        if self.easy_rate < self.hard_rate:
            raise mistake(f"at least hard_rate, which is {self.hard_rate:g}", "easy_rate")
        return self

    def processes(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Process, ...]:
        """What the rounds of a sequence may be, with shares of the sequences that sum to 1."""
        accepted = np.array([accepted_law(rates) for rates in self._rates(lookahead)])
        return (RoundProcess(1.0, *self._chain(), accepted),)

    def sequences(self, lookahead: int, batch: int, rng: np.random.Generator) -> Sequences:
        """``batch`` fresh sequences, whose states and accepted counts are drawn from ``rng``."""
        rates = self._rates(lookahead)
        return DrawnSequences(batch, rng, lambda count: np.repeat(rates[None], count, axis=0), *self._chain())

    def _rates(self, lookahead: int) -> Floats:
        """Conditional acceptances in easy and hard rounds; shape [2, K]."""
        return np.repeat([[self.easy_rate], [self.hard_rate]], lookahead, axis=1)

    def _chain(self) -> tuple[Floats, Floats]:
        """Law of the first state [2], and of the next [2, 2]: a stretch of mean length n ends with chance 1 / n."""
        ends = 1 / np.array([self.easy_rounds, self.hard_rounds])
        initial = np.array([self.easy_rounds, self.hard_rounds]) / (self.easy_rounds + self.hard_rounds)
        return initial, np.array([[1 - ends[0], ends[0]], [ends[1], 1 - ends[1]]])


class RecordedAcceptance(Law):
    """Accepted counts of recorded requests; a sequence replays one of them, and wraps around."""

    kind: Literal["recorded"]
    recorded_lookahead: Annotated[int, Field(ge=1, le=64)]
    """K of the recording; at a smaller one a round accepts at most that many."""
    requests: Annotated[tuple[Counts, ...], Field(min_length=1, max_length=10_000)]
    """For each request the accepted draft tokens of its 1st, 2nd, ... round; all are replayed equally often."""

    @model_validator(mode="after")
    def _counts_within_lookahead(self) -> Self:
        for index, counts in enumerate(self.requests):
            if max(counts) > self.recorded_lookahead:
                accepts = f"counts of at most recorded_lookahead, which is {self.recorded_lookahead}"
                raise mistake(f"{accepts}; request {index + 1} has {max(counts)}", "requests")
        return self

    def processes(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Process, ...]:
        """What the rounds of a sequence may be, with shares of the sequences that sum to 1.

        Raises:
            RefusedError: ``lookahead`` exceeds that of the recording.
        """
        return tuple(Replay(1 / len(self.requests), counts) for counts in self._lists(lookahead))

    def sequences(self, lookahead: int, batch: int, rng: np.random.Generator) -> Sequences:
        """``batch`` fresh sequences, whose requests are drawn from ``rng``.

        Raises:
            RefusedError: ``lookahead`` exceeds that of the recording.
        """
        return ReplayedSequences(batch, rng, self._lists(lookahead))

    def _lists(self, lookahead: int) -> tuple[Ints, ...]:
        if lookahead > self.recorded_lookahead:
            own = self.recorded_lookahead
            raise RefusedError(f"requests recorded at lookahead {own} do not say what {lookahead} would keep")
        return tuple(kept(counts, lookahead) for counts in self.requests)


class AdversarialAcceptance(IndependentLaw):
    """A share of the requests is crafted so that what is drafted for them is rejected."""

    kind: Literal["adversarial"]
    share: Probability
    """Share of the sequences that are crafted."""
    acceptance_rate: Probability
    """Acceptance rate of the other sequences."""
    adversarial_rate: Probability = 0.0
    """Acceptance rate of the crafted sequences."""

    @model_validator(mode="after")
    def _crafted_is_harder(self) -> Self:
        if self.adversarial_rate > self.acceptance_rate:
            raise mistake(f"at most acceptance_rate, which is {self.acceptance_rate:g}", "adversarial_rate")
        return self

    def rates(self, lookahead: int, tokens: int = LONG_OUTPUT) -> tuple[Floats, Floats]:
        """Shares of the sequences [I] and their conditional acceptances [I, K]."""
        rates = np.repeat([[self.acceptance_rate], [self.adversarial_rate]], lookahead, axis=1)
        return np.array([1 - self.share, self.share]), rates


Acceptance = Annotated[
    RateAcceptance
    | PerPositionAcceptance
    | ForcedAcceptance
    | MixtureAcceptance
    | BetaAcceptance
    | MarkovAcceptance
    | RecordedAcceptance
    | AdversarialAcceptance,
    Field(discriminator="kind"),
]
