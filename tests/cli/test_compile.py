"""`sps compile` with programs that the TPU compiler made before, and the compiler itself where it is installed."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from runtime.aot import compiler, plan
from runtime.aot.compiled import Compiled, Memory, Variant
from runtime.aot.loops import scheduled
from runtime.aot.recipe import Recipe
from runtime.aot.store import Store
from runtime.aot.variants import EAGER
from simulator.cli import app
from simulator.errors import MeasurementError
from simulator.spec.record import RunRecord
from tests.compiled_texts import CHIPS, module, text
from tests.synthetic import ROOT

CHINCHILLA = str(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml")
TWO_LAYERS = ("--topology", "v4:2x2x1", "--set", "target.layers=2", "--program", "plain_step")
Sps = Callable[..., Result]


@pytest.fixture
def sps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sps:
    """The command, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["compile", *words])


def compiled_as(name: str, recipe: Recipe, store: Store) -> Compiled:
    """What a compilation would have come to, had it made one of the programs that lie here."""
    store.folder.mkdir(parents=True, exist_ok=True)
    (store.folder / "program.hlo.gz").write_bytes(gzip.compress(text(name).encode()))
    fits = name != "too_large"
    return Compiled(
        recipe.program,
        recipe.topology,
        CHIPS,
        recipe.variant,
        "ok" if fits else "does_not_fit",
        "program.hlo.gz" if fits else "",
        Memory(67_000_000, 4_200_000, 4_194_304, 1_000_000, 2_000_000) if fits else None,
        {"target weights": 62_000_000, "target cache": 4_194_304},
        None if fits else 31.49,
        None if fits else 30.75,
        0.1,
        1.0,
        10**9,
        {"libtpu": "0.0.52"},
    )


@pytest.fixture
def compiler_that_makes(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Recipe]]:
    """Stands in for the compiler: every recipe gives the same program. Returns what was asked."""

    def makes(name: str) -> list[Recipe]:
        asked: list[Recipe] = []

        def compile_program(recipe: Recipe, store: Store, *_: object) -> Compiled:
            asked.append(recipe)
            return compiled_as(name, recipe, store)

        monkeypatch.setattr(plan, "compile_program", compile_program)
        return asked

    return makes


def test_the_three_parts_are_told_and_kept(sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]) -> None:
    asked = compiler_that_makes("right")
    done = sps(CHINCHILLA, *TWO_LAYERS)
    assert done.exit_code == 0, done.output
    told = done.stdout
    for words in ("known: HBM of a chip", "known: collectives", "estimated: a call by", "assumed: prices"):
        assert words in told
    assert "static profile of libtpu 0.0.52 for a v5p of 2x2x1" in told
    assert max(map(len, told.splitlines())) <= 100
    assert [recipe.variant for recipe in asked] == [Variant(), Variant(options=EAGER), Variant("scanned")]
    assert {recipe.topology for recipe in asked} == {"v4:2x2x1"}
    (record,) = json.loads(Path("out/chinchilla-70b-tpu-v4/compiled.json").read_text())["records"]
    found = RunRecord.model_validate(record)
    assert (found.kind, found.status.state) == ("compiled", "ok")
    assert found.metrics["plain_step_layer_all_reduces"] == 4
    assert found.metrics["plain_step_vector_matmuls"] == 0
    assert found.metrics["memory_per_chip_bytes"] == 67_000_000 + 1_000_000 + 2_000_000 + 4_200_000 - 4_194_304
    assert set(found.provenance["programs"][0]) >= {"known", "estimated", "assumed", "findings"}
    assert not found.components
    assert found.scenario["deployment"]["chips"] == 4
    assert found.scenario["deployment"]["slice"] == "2x2x1"


def test_another_generation_brings_its_profile(sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]) -> None:
    asked = compiler_that_makes("right")
    done = sps(CHINCHILLA, "--topology", "v5e:2x2", *TWO_LAYERS[2:], "--json")
    assert done.exit_code == 0, done.output
    (record,) = json.loads(done.stdout)["records"]
    assert {recipe.topology for recipe in asked} == {"v5e:2x2"}
    assert record["scenario"]["deployment"]["hardware"]["name"] == "tpu_v5e"
    assert record["provenance"]["programs"][0]["estimated"]["clock_per_s"] == 1.5e9


def test_the_sum_of_the_compilers_cycles_is_nowhere(
    sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]
) -> None:
    compiler_that_makes("right")
    done = sps(CHINCHILLA, *TWO_LAYERS, "--json")
    cycles = sum(run.times * (run.operation.cycles or 0) for run in scheduled(module("right")))
    numbers = list(_numbers(json.loads(done.stdout)))
    assert len(numbers) > 50
    assert cycles not in numbers
    assert cycles / 1.05e9 not in [pytest.approx(number, rel=1e-6) for number in numbers]


def _numbers(data: Any) -> list[float]:
    if isinstance(data, dict | list):
        return [n for part in (data.values() if isinstance(data, dict) else data) for n in _numbers(part)]
    return [float(data)] if isinstance(data, int | float) else []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("three_reduces", "all_reduces_per_layer: 6 all-reduces in 2 layers"),
        ("gathered", "collective_in_layer: inside the layers stand 2 all-gather"),
        ("one_row", "vector_matmul: 9 matrix products are vector code"),
        ("restacked", "bytes_over_floor: 96.5 MB of HBM moved, 1.44 times"),
    ],
)
def test_a_lint_fails_the_command_and_the_record_is_kept(
    sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]], name: str, words: str
) -> None:
    compiler_that_makes(name)
    done = sps(CHINCHILLA, *TWO_LAYERS, "--out", "found")
    assert done.exit_code == 4
    assert words in " ".join(done.stderr.split())
    assert Path("found/compiled.json").is_file()


def test_what_does_not_fit_is_a_status_and_not_tried_again(
    sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = compiler_that_makes("right")
    monkeypatch.setattr(
        plan,
        "compile_program",
        lambda recipe, store, *_: (asked.append(recipe), _too_large(compiled_as("right", recipe, store)))[1],
    )
    done = sps(CHINCHILLA, *TWO_LAYERS)
    assert done.exit_code == 3
    assert "does not fit: plain_step needs 31.49 GiB of 30.75 GiB a chip" in " ".join(done.stderr.split())
    assert "31.49 of 30.75 GiB" in done.stdout
    assert len(asked) == 1


def _too_large(compiled: Compiled) -> Compiled:
    from dataclasses import replace

    return replace(compiled, state="does_not_fit", hlo="", memory=None, needed_gib=31.49, available_gib=30.75)


def test_the_files_own_values_are_compiled_and_not_its_sweep(
    sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]
) -> None:
    asked = compiler_that_makes("right")
    sps(CHINCHILLA, *TWO_LAYERS, "--program", "verify_step")
    assert {recipe.tokens for recipe in asked if recipe.program == "verify_step"} == {5}
    asked.clear()
    sps(CHINCHILLA, *TWO_LAYERS, "--program", "verify_step", "--sweep")
    assert {recipe.tokens for recipe in asked if recipe.program == "verify_step"} == {2, 3, 4, 5, 6, 7, 8}


def test_quick_compiles_two_depths(sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]) -> None:
    asked = compiler_that_makes("right")
    deep = [word for word in TWO_LAYERS if word != "target.layers=2"]
    deep.insert(deep.index("--program"), "target.layers=80")
    done = sps(CHINCHILLA, *deep, "--quick")
    assert {recipe.target.layers for recipe in asked if recipe.target is not None} == {8, 16}
    assert "extrapolated from 8 and 16 layers" in done.stdout


def test_a_price_that_is_given_is_used(sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]) -> None:
    compiler_that_makes("right")
    done = sps(CHINCHILLA, *TWO_LAYERS, "--collective-latency", "5 us", "--collective-bandwidth", "90 GB/s")
    assert done.exit_code == 0, done.output
    assert "given: 5 us, then 90 GB/s" in done.stdout


def test_an_overhead_that_is_given_is_added(sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]) -> None:
    compiler_that_makes("right")
    times = []
    for words in ((), ("--call-overhead", "0.6 ms")):
        done = sps(CHINCHILLA, *TWO_LAYERS, *words, "--json")
        (record,) = json.loads(done.stdout)["records"]
        times.append(record["metrics"]["plain_step_replay_with_collectives_s"])
    assert times[1] - times[0] == pytest.approx(0.6e-3)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--program", "training"), 2, "one of prefill, plain_step, draft_step, verify_step, round"),
        (("--topology", "v9:2x2"), 3, "no generation of that name"),
        (("--topology", "v4:2x2"), 3, "3 lengths"),
        (("--topology", "v4:2x2x2", "--set", "deployment.tensor_parallel=16"), 2, "a divisor of chips, which is 8"),
        (("--topology", "v4:2x2x2", "--set", "deployment.tensor_parallel=4"), 2, "accepts  chips, which is 8"),
        (("--collective-latency", "5"), 2, "accepts  a quantity in s"),
        (("--call-overhead", "1 GB"), 2, "accepts  a quantity in s"),
        (("--collective-bandwidth", "5 GB/s"), 2, "only together with --collective-latency"),
    ],
)
def test_mistakes_are_explained_and_leave_nothing(
    sps: Sps,
    compiler_that_makes: Callable[[str], list[Recipe]],
    words: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    asked = compiler_that_makes("right")
    done = sps(CHINCHILLA, *words)
    assert done.exit_code == code, done.output
    assert says in " ".join(done.stderr.split()).replace("accepts ", "accepts  ")
    assert asked == []
    assert not list(Path().rglob("compiled.json"))


def test_without_the_compiler_it_is_refused(sps: Sps, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name, *_: None if name == "libtpu" else real(name))
    done = sps(CHINCHILLA, "--program", "draft_step")
    assert done.exit_code == 3
    assert "the TPU compiler is not installed" in done.stderr
    assert not list(Path().rglob("compiled.json"))


def test_slices_and_points_of_a_sweep_have_a_row_each(
    sps: Sps, compiler_that_makes: Callable[[str], list[Recipe]]
) -> None:
    asked = compiler_that_makes("right")
    two = ("--set", "target.layers=2", "--program", "plain_step")
    slices = ("--topology", "v4:2x2x1", "--topology", "v5p:2x2x1")
    done = sps(CHINCHILLA, *two, *slices, "--sweep", "--set", "decoding.temperature=1")
    assert done.exit_code == 0, done.output
    records = json.loads(Path("out/chinchilla-70b-tpu-v4/compiled.json").read_text())["records"]
    assert len(records) == 14
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("v4:", "v5p:"))]
    assert [row[0] for row in rows] == ["v4:2x2x1"] * 7 + ["v5p:2x2x1"] * 7
    best = 1e3 * records[0]["metrics"]["plain_step_replay_s"]
    assert f"{best:.2f}" == rows[0][-2]
    assert {recipe.topology for recipe in asked} == {"v4:2x2x1", "v5p:2x2x1"}


def test_a_point_that_cannot_be_compiled_is_told_and_the_others_are_kept(
    sps: Sps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_program(recipe: Recipe, store: Store, *_: object) -> Compiled:
        if recipe.topology == "v4:2x2x2":
            raise MeasurementError("the child was ended by SIGABRT")
        return compiled_as("right", recipe, store)

    monkeypatch.setattr(plan, "compile_program", compile_program)
    slices = ("--topology", "v4:2x2x2", "--topology", "v4:2x2x1")
    done = sps(CHINCHILLA, "--set", "target.layers=2", "--program", "plain_step", *slices)
    assert done.exit_code == 5
    assert "1 of 2 points could not be compiled" in done.stderr
    assert "tpu_v4 2x2x2, decoding.lookahead 4: the child was ended by SIGABRT" in done.stderr
    (record,) = json.loads(Path("out/chinchilla-70b-tpu-v4/compiled.json").read_text())["records"]
    assert record["provenance"]["topology"] == "v4:2x2x1"
