"""What is asked of a compiling child, what becomes of its answer, and what of its failures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime import children
from runtime.aot import compiler, store
from runtime.aot.child import _sizes
from runtime.aot.compiled import Compiled, Memory, ProgramName, Variant
from runtime.aot.compiler import compile_program
from runtime.aot.recipe import Recipe, recipe_of
from runtime.aot.store import Store, key
from runtime.aot.topologies import topology
from runtime.aot.variants import variants
from simulator.errors import MeasurementError, RefusedError
from simulator.spec.load import load_scenario
from simulator.spec.scenario import Scenario
from tests.synthetic import ROOT

WHERE = topology("v4:2x2x4")


def scenario(*settings: str) -> Scenario:
    """The founding case with K = 1, changed."""
    return load_scenario(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml", list(settings))[0].scenario


def recipe(program: ProgramName = "draft_step", *settings: str) -> Recipe:
    """One of its programs."""
    return recipe_of(scenario(*settings), program, WHERE, Variant(options={"xla_tpu_some": "1"}))


def compiled(asked: Recipe) -> Compiled:
    """An answer."""
    return Compiled(
        program=asked.program,
        topology=asked.topology,
        devices=16,
        variant=asked.variant,
        state="ok",
        hlo=f"{key(asked)}.hlo.gz",
        memory=Memory(10, 5, 4, 1, 2),
        argument_parts={"draft weights": 10},
        needed_gib=None,
        available_gib=None,
        lower_s=0.1,
        compile_s=0.2,
        peak_rss_bytes=1000,
        versions={},
    )


def test_data_survive_the_way_to_a_child_and_back() -> None:
    for program in ("prefill", "plain_step", "draft_step", "verify_step", "round"):
        asked = recipe(program)  # type: ignore[arg-type]
        assert Recipe.of(json.loads(json.dumps(asked.to_json()))) == asked
    answer = compiled(recipe())
    assert Compiled.of(json.loads(json.dumps(answer.to_json()))) == answer


def test_a_recipe_holds_what_its_program_depends_on_and_nothing_else() -> None:
    assert key(recipe("plain_step")) == key(
        recipe("plain_step", "acceptance.acceptance_rate=0.5", "decoding.lookahead=3")
    )
    assert key(recipe("plain_step")) != key(recipe("plain_step", "workload.batch=2"))
    assert key(recipe("verify_step")) != key(recipe("verify_step", "decoding.lookahead=3"))
    assert key(recipe("round")) != key(recipe("round", "decoding.temperature=0.5"))
    assert len({key(replace(recipe(), variant=variant)) for variant in variants(WHERE)}) == len(variants(WHERE))


def test_another_compiler_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(recipe())
    monkeypatch.setattr(store, "versions", lambda: {"libtpu": "0"})
    assert key(recipe()) != before


@pytest.mark.parametrize(
    ("settings", "where", "said"),
    [
        (("deployment.tensor_parallel=16",), "v4:2x2x2", "a degree of 8"),
        (("workload.batching=continuous",), "v4:2x2x4", "batching continuous is modelled, not executed"),
        (("decoding.lookahead=0",), "v4:2x2x4", "needs a draft model"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings: tuple[str, ...], where: str, said: str) -> None:
    asked = scenario(*settings)
    with pytest.raises(RefusedError, match=said):
        recipe_of(asked, "draft_step", topology(where), Variant())


def test_degrees_that_do_not_divide_each_other_are_refused() -> None:
    asked = scenario()
    draft = asked.deployment.draft.model_copy(update={"tensor_parallel": 3})
    asked = asked.model_copy(update={"deployment": asked.deployment.model_copy(update={"draft": draft})})
    with pytest.raises(RefusedError, match="one divides the other"):
        recipe_of(asked, "round", WHERE, Variant())


def test_an_answer_is_kept_and_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked, folder = recipe(), tmp_path / "new" / "store"
    calls: list[Mapping[str, Any]] = []

    def child(request: Mapping[str, Any], *_: Any, **__: Any) -> Any:
        calls.append(request)
        Path(request["hlo"]).write_bytes(b"text")
        return compiled(Recipe.of(request["recipe"])).to_json()

    monkeypatch.setattr(compiler, "run_child", child)
    monkeypatch.setattr(compiler, "refuse_without_libtpu", lambda: None)
    first = compile_program(asked, Store(folder), lambda _: None)
    assert compile_program(asked, Store(folder), lambda _: None) == first
    assert len(calls) == 1
    (folder / first.hlo).unlink()
    assert Store(folder).find(asked) is None, "a record without its text is none"
    Store(folder).keep(asked, first)
    (folder / first.hlo).write_bytes(b"text")
    (folder / f"{key(asked)}.json").write_text("{", encoding="utf-8")
    assert Store(folder).find(asked) is None, "half a record is none"


def test_without_libtpu_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RefusedError, match=r"sps-planner\[tpu\]"):
        compile_program(recipe(), Store(tmp_path), lambda _: None)
    assert not list(tmp_path.iterdir())


Run = Callable[[str], Any]


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Compiles with a child that runs some Python instead; ``sys.argv`` are the request and the answer."""

    def run(code: str) -> Any:
        real = children._watch

        def watch(command: list[str], *rest: Any) -> int:
            return real([sys.executable, "-c", code, *command[-2:]], *rest)

        monkeypatch.setattr(children, "_watch", watch)
        monkeypatch.setattr(compiler, "refuse_without_libtpu", lambda: None)
        return compile_program(recipe(), Store(tmp_path), lambda _: None, timeout_s=5)

    return run


HALF = "import json, os, sys, time; open(json.load(open(sys.argv[1]))['hlo'] + '.unfinished', 'w').write('x'); "


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "print('F0000 Check failed'); sys.stdout.flush(); os.abort()",
            "(?s)compiling process was ended by SIGABRT.*Check",
        ),
        ("os.kill(os.getpid(), 9)", "ended by SIGKILL, as the system does where memory runs out"),
        ("time.sleep(60)", "did not end within 5 s"),
        ("raise SystemExit(1)", "ended with exit code 1"),
    ],
)
def test_a_child_that_dies_leaves_nothing_behind(child: Run, tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(MeasurementError, match=said):
        child(HALF + code)
    assert not list(tmp_path.iterdir())


def test_a_child_that_refuses_is_heard(child: Run) -> None:
    with pytest.raises(RefusedError, match="no such slice"):
        child("print('no such slice'); raise SystemExit(3)")


def test_a_child_has_what_libtpu_needs(child: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALLOW_MULTIPLE_LIBTPU_LOAD", raising=False)
    wanted = [name for name in compiler.VARIABLES if name not in os.environ]
    assert wanted
    with pytest.raises(RefusedError, match="all there"):
        child(f"import os; print('all there' if all(n in os.environ for n in {wanted}) else 'no'); raise SystemExit(3)")


def test_sizes_are_read_from_the_compilers_error() -> None:
    words = (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: XLA:TPU compile permanent error. Ran out of memory in memory"
        " space hbm. Used 47.61G of 30.75G hbm. Exceeded hbm capacity by 16.86G."
    )
    assert _sizes(words) == (47.61, 30.75)
    assert _sizes("RESOURCE_EXHAUSTED: HLO temporaries (512.00M) exceeds available HBM (0.25G)") == (0.5, 0.25)
    with pytest.raises(RefusedError, match="No such compile option"):
        _sizes("INVALID_ARGUMENT: No such compile option: 'xla_tpu_nothing'")
    with pytest.raises(MeasurementError, match="INTERNAL"):
        _sizes("INTERNAL: something else\nat length")
