"""The programs that are timed: they run, compile once, and do what a round does."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import jax
import numpy as np
import pytest

from runtime import programs
from runtime.generate import generate, generate_plain
from runtime.pair import Pair
from runtime.programs import Bench, Program
from runtime.sampling import Sampling
from simulator.errors import RefusedError
from simulator.spec.acceptance import ForcedAcceptance, RateAcceptance
from tests.tiny_models import collectives, decoder, prompts, tiny

TARGET, DRAFT = tiny(), tiny(layers=1)
LAW = RateAcceptance(kind="rate", acceptance_rate=0.8)
BUILDERS: dict[str, Callable[[Bench], Program]] = {
    "plain_step": programs.plain_steps,
    "draft_step": programs.draft_steps,
    "verify_step": programs.verify_steps,
    "verify_and_draft_first_step": programs.verify_and_draft_first_steps,
    "round": lambda bench: programs.rounds(bench, LAW),
    "sampling": programs.verdicts,
    "prefill": programs.prefills,
}
# All-reduces: 2 L + 1 a step, L = 2 in the target and 1 in the draft; the steps of a round's scan count once.
# All-gathers: one a step.
EXPECTED = {"verify_step": (5, 1), "round": (5 + 3 + 3, 3), "sampling": (0, 0)}


class Compilations:
    """Counts what XLA compiles."""

    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, _seconds: float, **_: str | int) -> None:
        self.count += event.endswith("backend_compile_duration")


@pytest.fixture(scope="module")
def compilations() -> Compilations:
    return Compilations()


@functools.cache
def pair_on(chips: int) -> Pair:
    """The two models on some chips."""
    return Pair.random(TARGET, DRAFT, jax.random.key(0), chips)


def bench(chips: int = 1, sampling: Sampling | None = None) -> Bench:
    """Two sequences that start over after 6 tokens."""
    return Bench(pair_on(chips), 2, 5, 6, 3, sampling or Sampling())


@pytest.mark.parametrize("name", BUILDERS)
def test_a_program_repeats_without_compiling_again(name: str, compilations: Compilations) -> None:
    program = BUILDERS[name](bench())
    assert program.name == name
    before = compilations.count
    for repetitions in (1, 7, 2):
        assert program.run(repetitions) > 0
    assert compilations.count == before
    assert collectives(program.compiled) == {}
    assert not any(weight.is_deleted() for weight in jax.tree.leaves(pair_on(1)))


@pytest.mark.parametrize("name", EXPECTED)
def test_collectives_on_two_chips(name: str) -> None:
    program = BUILDERS[name](bench(chips=2))
    program.run(2)
    reduces, gathers = EXPECTED[name]
    wanted = {"all-reduce": reduces, "all-gather": gathers}
    assert collectives(program.compiled) == {kind: count for kind, count in wanted.items() if count}


@pytest.mark.parametrize("name", ["verify_and_draft_first_step", "round", "sampling"])
def test_greedy_programs(name: str) -> None:
    BUILDERS[name](bench(sampling=Sampling(temperature=0.0))).run(3)


def test_rounds_follow_the_law_and_start_over() -> None:
    greedy = bench(sampling=Sampling(temperature=0.0))
    program = programs.rounds(greedy, ForcedAcceptance(kind="forced", accepted=(0, 1)))
    program.run(3)
    state, _ = program.carry
    # The first token, then 1, 2 and 1 more.
    np.testing.assert_array_equal(state.emitted, [5, 5])
    program.run(1)
    state, _ = program.carry
    np.testing.assert_array_equal(state.emitted, [1, 1])
    np.testing.assert_array_equal(state.rounds, [4, 4])


def test_no_float32_copy_of_what_is_indexed_in_bfloat16() -> None:
    # XLA:CPU would convert the whole embedding and the whole cache for a few rows of them.
    pair = Pair.random(tiny(layers=1, weight_dtype="bfloat16", vocabulary=96), None, jax.random.key(0))
    text = programs.plain_steps(Bench(pair, 2, 5, 6, 0, Sampling())).compiled.as_text()
    assert "f32[96,32]" not in text
    assert "u16[96,32]" in text
    scattered = re.findall(r"= (\w+)\[4,64,8\]\S* scatter\(", text)
    assert scattered == ["u16", "u16"]


def test_what_needs_a_draft_says_so() -> None:
    alone = Bench(Pair.random(TARGET, None, jax.random.key(0)), 1, 5, 6, 0, Sampling())
    for name in ("draft_step", "verify_and_draft_first_step", "round"):
        with pytest.raises(RefusedError, match="needs a draft"):
            BUILDERS[name](alone)


def test_verify_steps_keep_within_the_cache() -> None:
    with pytest.raises(RefusedError, match="too small"):
        programs.verify_steps(bench(), tokens=100)


def test_generation_compiles_once(compilations: Compilations) -> None:
    pair, asked = pair_on(1), prompts(2, 5, 64)
    generate(pair, asked, 6, 3, Sampling(), jax.random.key(0), forced=LAW)
    key = jax.random.key(1)
    before = compilations.count
    other = RateAcceptance(kind="rate", acceptance_rate=0.1)
    generate(pair, asked, 6, 3, Sampling(), key, forced=other)
    assert compilations.count == before
    assert not key.is_deleted()


def test_generation_refuses_what_it_cannot_do() -> None:
    pair, asked, key = Pair.of(decoder(TARGET, 0), None), prompts(1, 5, 64), jax.random.key(0)
    with pytest.raises(RefusedError, match="needs a draft"):
        generate(pair, asked, 6, 3, Sampling(), key)
    with pytest.raises(RefusedError, match="too small"):
        generate_plain(pair, asked, 60, Sampling(), key, positions=64)
    with pytest.raises(RefusedError, match="one vocabulary"):
        Pair.of(decoder(TARGET, 0), decoder(tiny(vocabulary=65), 0))
    with pytest.raises(RefusedError, match="16 devices are needed"):
        Pair.random(TARGET, None, key, degree=16)
    with pytest.raises(RefusedError, match="beside a target over 3"):
        Pair.random(TARGET, DRAFT, key, degree=3, draft_degree=2)
