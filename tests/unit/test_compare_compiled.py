"""Is what differs between a compiled program and the cost model found, and is no more explained than is known?

The readings are of programs that the TPU compiler made of two small scenarios; tests/compiled_readings/make.py.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from simulator.cli import app
from simulator.compare import REASONS, TOLERANCE, CompiledComparison, Count, Reason, chosen, compare, compared
from simulator.compare.allowed import LEAST_NEW, LEAST_ROWS, Case
from simulator.compare.counts import program_of
from simulator.compare.reasons import explained
from simulator.predict import predict
from simulator.spec.load import Point, load_scenario, scenario_from
from simulator.spec.record import RunRecord
from simulator.spec.scenario import Scenario
from simulator.tables import compiled_counts, compiled_times, compiled_verdict
from tests.synthetic import ROOT

FOLDER = ROOT / "tests" / "compiled_readings"
NAMES = ("chinchilla", "grouped", "experts")
PROGRAMS = ("prefill", "plain_step", "draft_step", "verify_step", "round")


@functools.cache
def record(name: str) -> RunRecord:
    (data,) = json.loads((FOLDER / f"{name}.json").read_text())["records"]
    return RunRecord.model_validate(data)


@functools.cache
def scenario(name: str) -> Scenario:
    return scenario_from(record(name).scenario)


def readings(name: str) -> dict[str, Any]:
    """By program, to be changed."""
    return {each["program"]: copy.deepcopy(dict(each)) for each in chosen(record(name))}


@functools.cache
def whole(name: str) -> CompiledComparison:
    return compared(name, scenario(name), list(readings(name).values()))


def count(comparison: CompiledComparison, program: str, quantity: str, part: str) -> Count:
    (found,) = (
        each for each in comparison.counts if (each.program, each.quantity, each.part) == (program, quantity, part)
    )
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_program_is_compared(name: str) -> None:
    assert {each.program for each in whole(name).counts} == set(PROGRAMS)
    quantities = {"flop", "bytes", "collectives", "collective bytes", "memory"}
    assert all({c.quantity for c in whole(name).counts if c.program == p} == quantities for p in PROGRAMS)


def test_weights_cache_and_collectives_are_those_of_the_cost_model() -> None:
    for name in NAMES:
        for program in ("plain_step", "verify_step", "draft_step"):
            dense = "feed_forward" if name != "experts" or program == "draft_step" else "head"
            for part in ("qkv", "output", dense, "head"):
                assert abs(count(whole(name), program, "bytes", part).difference) < 1e-3
            for place in ("layer", "embedding", "head"):
                assert count(whole(name), program, "collective bytes", place).difference == 0
        held = [c for c in whole(name).counts if c.quantity == "memory" and c.part.endswith(("weights", "cache"))]
        assert len(held) == 12
        assert all(abs(each.difference) < 1e-3 for each in held)


def test_nothing_is_unexplained_but_the_memory_of_a_round_with_few_weights() -> None:
    assert [c for c in whole("chinchilla").counts if c.state == "unexplained"] == []
    left = {(c.program, c.quantity, c.part) for c in whole("grouped").counts if c.state == "unexplained"}
    # Its code is a quarter of its weights, and its buffers 3 % of them.
    assert left == {("round", "memory", "buffers"), ("round", "memory", "in all")}
    # What lies between the matrices of all experts, for every token of a prompt.
    left = {(c.program, c.quantity, c.part) for c in whole("experts").counts if c.state == "unexplained"}
    assert left == {("prefill", "bytes", "experts"), ("prefill", "bytes", "in all")}


def test_alike_is_within_the_tolerance_and_the_rest_is_listed() -> None:
    for name in NAMES:
        for each in whole(name).counts:
            assert (abs(each.difference) <= TOLERANCE) == (each.state == "alike")
        assert all(each.state != "alike" for each in whole(name).listed)


def cases(name: str) -> Iterator[Case]:
    """Every count that needs a reason."""
    for each in whole(name).listed:
        program = program_of(scenario(name), readings(name)[each.program])
        if each.part != "in all" or each.quantity == "memory":
            yield Case(program, each.quantity, each.part, each.predicted, each.compiled, each.whole)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.name)
def test_each_reason_is_needed_by_a_real_program(reason: Reason, monkeypatch: pytest.MonkeyPatch) -> None:
    needing = [
        case for name in NAMES for case in cases(name) if reason in (explained(case, TOLERANCE * case.whole) or ())
    ]
    assert needing
    monkeypatch.setattr("simulator.compare.reasons.REASONS", [each for each in REASONS if each is not reason])
    assert any(explained(case, TOLERANCE * case.whole) is None for case in needing)


@pytest.mark.parametrize("part", ["qkv", "output", "feed_forward", "head", "distances", "attention"])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_count_that_no_reason_allows_is_unexplained(part: str, factor: float) -> None:
    found = readings("chinchilla")["verify_step"]
    found["known"]["matrix_flop"][part] *= factor
    found["known"]["moved_bytes"][part]["read"] = int(found["known"]["moved_bytes"][part]["read"] * factor)
    comparison = compared("", scenario("chinchilla"), [found])
    assert count(comparison, "verify_step", "flop", part).state == "unexplained"
    if part != "attention" or factor < 1:  # a tenth more of it is what an append may be
        assert count(comparison, "verify_step", "bytes", part).state == "unexplained"


def three_reduces(known: dict[str, Any]) -> None:
    next(each for each in known["collectives"] if each["place"] == "layer")["count"] += 2


def a_gather_in_a_layer(known: dict[str, Any]) -> None:
    known["collectives"].append({**known["collectives"][0], "place": "layer", "kind": "all-gather", "count": 2})


def larger_payload(known: dict[str, Any]) -> None:
    for each in known["collectives"]:
        each["payload_bytes"] = int(1.1 * each["payload_bytes"])


def larger_cache(known: dict[str, Any]) -> None:
    known["memory"]["argument_parts_bytes"]["target cache"] *= 2


def copied_cache(known: dict[str, Any]) -> None:
    known["moved_bytes"]["attention"]["written"] += 2 * known["moved_bytes"]["attention"]["read"]


@pytest.mark.parametrize(
    ("change", "quantity", "part"),
    [
        (three_reduces, "collectives", "layer all-reduce"),
        (three_reduces, "collective bytes", "layer"),
        (a_gather_in_a_layer, "collectives", "layer all-gather"),
        (larger_payload, "collective bytes", "embedding"),
        (larger_cache, "memory", "target cache"),
        (copied_cache, "bytes", "attention"),
    ],
)
def test_what_a_program_should_not_have_is_unexplained(
    change: Callable[[dict[str, Any]], None], quantity: str, part: str
) -> None:
    found = readings("chinchilla")["plain_step"]
    change(found["known"])
    assert count(compared("", scenario("chinchilla"), [found]), "plain_step", quantity, part).state == "unexplained"


def test_the_sum_is_explained_where_all_of_its_parts_are() -> None:
    found = readings("chinchilla")["plain_step"]
    assert count(whole("chinchilla"), "plain_step", "flop", "in all").state == "explained"
    found["known"]["matrix_flop"]["qkv"] *= 2
    assert count(compared("", scenario("chinchilla"), [found]), "plain_step", "flop", "in all").state == "unexplained"


def test_exact_reasons_come_before_ranges() -> None:
    # Padding one row to two would allow this 18 % too.
    assert count(whole("chinchilla"), "plain_step", "flop", "distances").reasons == ("allocated",)
    assert count(whole("chinchilla"), "plain_step", "flop", "attention").reasons == ("allocated", "two rows")


def test_rows_and_new_keys_are_padded_as_the_runtime_does() -> None:
    arithmetic = pytest.importorskip("runtime.arithmetic", reason="the runtime needs JAX, which is not installed")
    lowering = arithmetic.Lowering.on("tpu", "bfloat16")
    assert (lowering.min_rows, lowering.min_new) == (LEAST_ROWS, LEAST_NEW)


def test_times_are_those_of_the_scenarios_calibration() -> None:
    analytic = predict([Point(scenario("chinchilla"), {})])[0]
    for each in whole("chinchilla").times:
        assert each.calibration == "chen-2023"
        predicted_s = analytic.components[each.program]
        assert each.predicted_s == pytest.approx(predicted_s)
        assert each.floor_s <= each.worked_s * (1 + 1e-9)
        assert each.floor_s < each.replayed_s


def test_on_other_chips_counts_compare_and_times_do_not() -> None:
    other = scenario("chinchilla").deployment.model_copy(update={"chips": 4, "slice": "2x2x1"})
    found = compared(
        "", scenario("chinchilla").model_copy(update={"deployment": other}), [readings("chinchilla")["plain_step"]]
    )
    assert found.times == ()
    assert count(found, "plain_step", "bytes", "qkv").difference == 0
    assert count(found, "plain_step", "memory", "target weights").state == "alike"


def test_what_does_not_fit_is_compared_by_its_memory() -> None:
    found = readings("chinchilla")["plain_step"]
    known = {"asked": found["known"]["asked"], "memory": {"needed_gib": 40.0, "available_gib": 30.75}}
    (only,) = compared("", scenario("chinchilla"), [{**found, "state": "does_not_fit", "known": known}]).counts
    assert (only.quantity, only.part, only.compiled) == ("memory", "in all", 40 * 2**30)
    assert only.state == "unexplained"


def test_records_of_both_kinds_are_compared_by_the_predictions_calibration() -> None:
    settings = ("decoding.lookahead=4", "target.layers=2", "draft.model.layers=2")
    (other,) = load_scenario(
        ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml", (*settings, "deployment.calibration=tpu-v4-2022")
    )
    comparison = compare([record("chinchilla"), *predict([other])])
    (found,) = comparison.compiled
    assert {each.calibration for each in found.times} == {"tpu-v4-2022"}
    assert [row.term for row in comparison.rows if row.reference_kind == "compiled"] == ["memory_per_chip_bytes"]
    assert json.loads(json.dumps(comparison.to_json(), allow_nan=False))["compiled"][0]["counts"]


def test_the_tables_name_what_differs_and_why() -> None:
    rows = compiled_counts(whole("chinchilla")).rows
    shown = {(program, quantity, part): why for program, quantity, part, *_, why in rows}
    assert shown["plain step", "FLOP", "attention"] == "allocated, two rows"
    assert shown["plain step", "FLOP", "in all"] == "as its parts"
    assert shown["plain step", "HBM bytes", "in all"] == ""
    assert ("plain step", "HBM bytes", "qkv") not in shown
    assert len(compiled_times(whole("chinchilla")).rows) == len(PROGRAMS)
    words = compiled_verdict(whole("chinchilla"))
    assert words[0].endswith("are explained")
    used = {name for each in whole("chinchilla").counts for name in each.reasons}
    assert {line.partition(":")[0] for line in words[1:-1]} == used


@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_record_alone_can_be_compared(name: str) -> None:
    done = CliRunner().invoke(app, ["compare", str(FOLDER / f"{name}.json")])
    assert done.exit_code == 0, done.output
    assert "compiled against predicted: one chip, one call" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
