"""The runtime's own decoder as the real TPU compiler makes it, where that is installed: small models, seconds each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.aot import compiler
from runtime.aot.compiled import PROGRAMS, Compiled, ProgramName, Variant
from runtime.aot.compiler import compile_program
from runtime.aot.hlo import Module, parse
from runtime.aot.known import known
from runtime.aot.recipe import recipe_of
from runtime.aot.store import Store
from runtime.aot.topologies import topology
from runtime.aot.variants import EAGER
from simulator.errors import MeasurementError, RefusedError
from simulator.spec.load import load_scenario
from tests.synthetic import ROOT

pytestmark = [pytest.mark.tpu_compiler, pytest.mark.slow]

LAYERS = 3
NARROW = (
    *(f"target.{key}={value}" for key, value in {"layers": LAYERS, "d_model": 1024, "heads": 16, "d_ff": 4096}.items()),
    *(f"draft.model.{key}={value}" for key, value in {"layers": 2, "d_model": 512, "heads": 8, "d_ff": 2048}.items()),
    *("target.kv_heads=16", "draft.model.kv_heads=8", "workload.prompt_tokens=256"),
    *("decoding.lookahead=4", "deployment.chips=4", "deployment.slice=2x2x1"),
)
OWN = Variant()
Make = Callable[..., Compiled]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def make(store: Store) -> Make:
    """Compiles a program of narrow Chinchillas on four chips."""

    def compiled(program: ProgramName, variant: Variant = OWN, where: str = "v4:2x2x1", *settings: str) -> Compiled:
        words = [*NARROW, *settings]
        scenario = load_scenario(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml", words)[0].scenario
        return compile_program(recipe_of(scenario, program, topology(where), variant), store, lambda _: None, 300)

    return compiled


def read(compiled: Compiled, store: Store) -> Module:
    return parse(compiled.text(store.folder))


@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments_are_weights_and_cache(make: Make, program: ProgramName) -> None:
    found = make(program)
    assert found.memory is not None
    assert found.memory.arguments == pytest.approx(sum(found.argument_parts.values()), rel=1e-3, abs=8192)
    caches = [size for name, size in found.argument_parts.items() if name.endswith(("cache", "distances"))]
    assert found.memory.aliased >= sum(caches), "every donated buffer is used again"


@pytest.mark.parametrize("variant", [Variant(), Variant(options=EAGER), Variant("scanned")], ids=lambda v: v.words)
@pytest.mark.parametrize(("program", "batch"), [("plain_step", 1), ("verify_step", 1), ("plain_step", 3)])
def test_collectives_and_no_copies(
    make: Make, store: Store, program: ProgramName, batch: int, variant: Variant
) -> None:
    module = read(make(program, variant, "v4:2x2x1", f"workload.batch={batch}"), store)
    found = known(module, 4, {"target": 1})
    assert found.count("all-reduce", "layer") == 2 * LAYERS
    assert (found.count("all-reduce"), found.count("all-gather")) == (2 * LAYERS + 1, 1)
    assert len(found.collectives) == len({(c.kind, c.place) for c in found.collectives})
    assert not found.vector_products, "no product with weights or cache on the vector unit"
    assert not found.undonated
    if variant != Variant():  # left to itself the compiler writes some caches back from on-chip memory
        assert not found.cache_copies


def test_a_round_is_its_steps(make: Make, store: Store) -> None:
    found = known(read(make("round", Variant(options=EAGER)), store), 4, {"target": 1, "draft": 4})
    assert found.count("all-reduce", "layer") == 2 * LAYERS + 4 * 2 * 2
    assert found.count("all-gather") == 5
    assert not found.cache_copies, "rolling back moves nothing"


@pytest.mark.parametrize("where", ["v4:1x1x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:1x1x1"])
def test_other_slices(make: Make, where: str) -> None:
    found = make("verify_step", Variant(), where)
    assert found.state == "ok"
    assert found.devices == topology(where).devices


def test_what_does_not_fit_says_how_much_it_needs(make: Make) -> None:
    found = make("plain_step", Variant("scanned"), "v4:1x1x1", "target.d_model=32768", "target.d_ff=131072")
    assert (found.state, found.hlo, found.memory) == ("does_not_fit", "", None)
    assert found.needed_gib is not None
    weights = sum(found.argument_parts.values()) / 2**30
    assert found.needed_gib == pytest.approx(weights, rel=0.05)
    assert found.available_gib == pytest.approx(30.75, abs=0.01)


def test_unknown_options_and_slices_are_refused(make: Make, store: Store) -> None:
    before: set[Path] = set(store.folder.iterdir())
    with pytest.raises(RefusedError, match="No such compile option"):
        make("plain_step", Variant(options={"xla_tpu_no_such_thing": "true"}))
    with pytest.raises(RefusedError, match="the compiler knows no such slice"):
        make("plain_step", Variant(), "v4:3x3x3")
    assert set(store.folder.iterdir()) == before


def test_an_abort_is_told(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Asked for a latency model that it does not have for a TPU v4, the compiler aborts the process that it is in.
    flags = {"LIBTPU_INIT_ARGS": f"--xla_jf_dump_static_llo_profile_to={tmp_path}"}
    monkeypatch.setattr(compiler, "VARIABLES", compiler.VARIABLES | flags)
    with pytest.raises(MeasurementError, match="ended by SIGABRT"):
        make("plain_step", Variant(options={"xla_tpu_hbm_initial_cycle_penalty": "1"}))
