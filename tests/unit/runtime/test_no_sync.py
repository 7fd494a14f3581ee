"""Inside a run nothing is compiled and the host is not waited for: events and transfers are counted.

On two chips every way from a device to the host passes the arrays' own conversion, which is counted; on a single CPU
device numpy would read them behind its back. On an accelerator JAX's guard refuses implicit transfers besides.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from runtime import programs
from runtime.generate import generate
from runtime.pace import Policy
from runtime.pair import Pair
from runtime.sampling import Sampling
from runtime.serving import Desk, Request, serve
from runtime.stepping import step_rounds
from simulator.spec.acceptance import RateAcceptance
from tests.tiny_models import prompts, tiny

pytestmark = pytest.mark.usefixtures("quick_compilation")

GREEDY, LOOKAHEAD, CAPACITY = Sampling(temperature=0.0), 2, 24
ARRAY = type(jnp.zeros(()))


@dataclass
class Counts:
    """What has happened so far."""

    compilations: int = 0
    transfers: int = 0


COUNTS = Counts()


def heard(event: str, _seconds: float, **_: str | int) -> None:
    """Count an event of JAX if it is a compilation."""
    COUNTS.compilations += event == "/jax/core/compile/backend_compile_duration"


@pytest.fixture(scope="module", autouse=True)
def _listening() -> Iterator[None]:
    """Count compilations and conversions of arrays to host values."""
    converted = vars(ARRAY)["_value"]

    def counted(array: jax.Array) -> np.ndarray:
        COUNTS.transfers += 1
        return converted.fget(array)  # type: ignore[no-any-return]

    jax.monitoring.register_event_duration_secs_listener(heard)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ARRAY, "_value", property(counted))
        yield
    jax.monitoring.unregister_event_duration_listener(heard)


@contextmanager
def quiet(transfers: int = 0) -> Iterator[None]:
    """A stretch that compiles nothing and takes that many explicit transfers."""
    compiled, transferred = COUNTS.compilations, COUNTS.transfers
    with jax.transfer_guard_device_to_host("disallow"):
        yield
    assert COUNTS.compilations == compiled
    assert COUNTS.transfers - transferred == transfers


@functools.cache
def pair() -> Pair:
    """Two random models on two chips."""
    return Pair.random(tiny(layers=1), tiny(layers=1), jax.random.key(0), 2)


ASKED, KEYS = prompts(3, 5, 64), jax.random.split(jax.random.key(1), 2)


def test_the_counters_count() -> None:
    sharding = NamedSharding(pair().mesh, PartitionSpec())
    one, other = (jax.device_put(np.ones(4), sharding) for _ in range(2))
    with quiet(transfers=1):
        jax.device_get(one)
    with quiet(transfers=1):
        np.asarray(other)
    with pytest.raises(AssertionError), quiet():
        jax.jit(lambda x: x + 1)(one)


def test_generating_other_amounts_for_other_prompts() -> None:
    def run(output: int, seed: int, costs: tuple[float, ...]) -> jax.Array:
        lengths = (5, 1 + seed, 3)
        options = {"prompt_tokens": lengths, "capacity": CAPACITY, "stop_tokens": (3, 4)}
        policy = Policy.by_cost(costs)
        made = generate(pair(), ASKED, output, LOOKAHEAD, GREEDY, keys[seed], policy=policy, **options)  # type: ignore[arg-type]
        return made.emitted

    keys = list(KEYS)
    run(CAPACITY, 0, (1.0, 1.2, 1.4))
    with quiet():
        emitted = [run(output, 1, (1.0, 1.0, 1.0 + output / 10)) for output in (1, 2, 7, CAPACITY)]
    assert [int(one.max()) for one in emitted] == [1, 2, 7, CAPACITY]


def test_stepping_takes_one_transfer_a_round() -> None:
    def run(key: jax.Array, output: int) -> int:
        stream = step_rounds(pair(), ASKED, output, LOOKAHEAD, GREEDY, key, capacity=CAPACITY)
        return sum(1 for _ in stream)

    keys = list(KEYS)
    run(keys[0], 3)
    before = COUNTS.transfers
    with jax.transfer_guard_device_to_host("disallow"):
        emissions = run(keys[1], CAPACITY)
    # The tokens of prefill are the first, and a round emits at most three.
    assert emissions >= 1 + (CAPACITY - 1) / (LOOKAHEAD + 1)
    assert COUNTS.transfers - before == emissions
    with quiet(transfers=emissions):
        assert run(keys[1], CAPACITY) == emissions


def test_serving_compiles_a_program_for_each_length_of_prompt_and_no_more() -> None:
    desk = Desk(2, 40, CAPACITY, LOOKAHEAD, GREEDY)

    def run(lengths: tuple[int, ...], outputs: tuple[int, ...], key: jax.Array) -> int:
        asked = [Request(str(number), [1] * n, m) for number, (n, m) in enumerate(zip(lengths, outputs, strict=True))]
        return sum(len(delivery.tokens) for delivery in serve(pair(), asked, desk, key))

    keys = list(KEYS)
    before = COUNTS.compilations
    run((3,), (4,), keys[0])
    # The empty slots, one round, one length of prompt.
    assert COUNTS.compilations - before == 3
    run((20,), (4,), keys[0])
    assert COUNTS.compilations - before == 4
    before = COUNTS.compilations
    with jax.transfer_guard_device_to_host("disallow"):
        assert run((1, 32, 9, 16, 17), (5, 1, CAPACITY, 3, 2), keys[1]) == 5 + 1 + CAPACITY + 3 + 2
    assert COUNTS.compilations == before


def test_a_timed_program_runs_on_its_own() -> None:
    bench = programs.Bench(pair(), 2, 5, 6, LOOKAHEAD, GREEDY)
    law = RateAcceptance(kind="rate", acceptance_rate=0.8)
    program = programs.rounds(bench, law)
    program.run(1)
    with quiet():
        program.run(20)
