"""Can a record be read back as the scenario it is about, and are unknown names refused?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from simulator.predict import predict
from simulator.spec.describe import keys_of
from simulator.spec.fields import Strict
from simulator.spec.library import SCENARIOS
from simulator.spec.load import Point, load_scenario, scenario_from
from simulator.spec.record import Distribution, RunRecord, Status, new_record, scenario_hash
from simulator.spec.scenario import Scenario
from simulator.spec.terms import COMPONENTS, DISTRIBUTION_METRICS, MECHANISMS, metric_names
from simulator.units import format_quantity
from tests.builders import PROFILE, model, scenario

FILES = sorted(SCENARIOS.glob("*.yaml")) + sorted((SCENARIOS / "published" / "sweeps").glob("*.yaml"))


def used(scenario: Scenario) -> Scenario:
    """``scenario`` with no calibration and no engine but its own, and without a plan, as a record keeps it."""
    hardware = scenario.deployment.hardware
    known = {name: one for name, one in hardware.calibrations.items() if name == scenario.deployment.calibration}
    engines = {name: one for name, one in hardware.engines.items() if name == scenario.deployment.engine}
    deployment = scenario.deployment.model_copy(
        update={"hardware": hardware.model_copy(update={"calibrations": known, "engines": engines})}
    )
    return scenario.model_copy(update={"deployment": deployment, "plan": None})


def assert_reads_back(given_scenario: Scenario) -> None:
    text = json.dumps(given_scenario.resolved(), allow_nan=False)
    back = scenario_from(json.loads(text))
    assert back == used(given_scenario)
    assert json.dumps(back.resolved(), allow_nan=False) == text
    assert scenario_hash(back) == scenario_hash(given_scenario)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_scenario_reads_back(path: Path) -> None:
    for point in load_scenario(path):
        assert_reads_back(point.scenario)


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8"), min_size=3, max_size=30)
probabilities = st.floats(0, 1)
efficiencies = st.floats(1e-9, 1000) | st.integers(1, 1000)
ROTARY_SCALING = {"factor": 8, "low_frequency_factor": 1.0, "high_frequency_factor": 4, "original_positions": 8192}
dtypes = st.sampled_from(["float32", "bfloat16", "float16", "int8", "fp8", "int4"])


def quantities(unit: str, low: float = 1e-12, high: float = 1e9) -> st.SearchStrategy[str]:
    prefixed = st.builds("{} {}{}".format, st.integers(1, 999), st.sampled_from(["", "k", "M"]), st.just(unit))
    return st.floats(low, high).map(lambda value: format_quantity(value, unit)) | prefixed


def sourced(unit: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"value": quantities(unit), "source": texts})


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    groups = draw(st.integers(1, 8))
    changes = st.fixed_dictionaries(
        {"heads": st.integers(1, 8).map(lambda n: n * groups), "kv_heads": st.just(groups)},
        optional={
            "weight_dtype": dtypes,
            "kv_dtype": st.none() | dtypes,
            "tokenizer": names,
            "tied_embeddings": st.booleans(),
            "published_parameters": st.floats(1, 1e15) | st.integers(1, 10**12),
            "source": texts,
            "rotary_base": st.floats(1, 1e9) | st.integers(1, 10**6),
            "norm_epsilon": st.floats(0, 1),
            "rotary_scaling": st.none() | st.just(ROTARY_SCALING),
        },
    )
    return model(draw(names), **draw(changes))


def rising(key: str, values: st.SearchStrategy[float], write: Any, other: str) -> st.SearchStrategy[tuple[Any, ...]]:
    points = st.lists(values, min_size=1, max_size=4, unique=True).map(sorted)
    return points.map(lambda keys: tuple({key: write(value), other: 0.5} for value in keys))


def curves() -> st.SearchStrategy[Any]:
    return rising("footprint", st.floats(1, 1e20), lambda value: format_quantity(value, "B"), "efficiency")


parameters = st.fixed_dictionaries(
    {
        "hbm_efficiency": efficiencies | curves(),
        "matmul_efficiency": efficiencies,
        "step_overhead": quantities("s"),
        "layer_overhead": quantities("s") | st.just("0 s"),
        "sampling": st.fixed_dictionaries({}, optional={"base": quantities("s"), "per_logit": quantities("s")}),
        "round_overhead": quantities("s"),
    },
    optional={
        "kv_efficiency": efficiencies,
        "row_factor": rising("rows", st.integers(1, 10**6), int, "factor"),
        "all_reduce": st.just({"algorithm": "table", "table": ({"payload": "1 MB", "time": "3 us"},)})
        | st.fixed_dictionaries({"algorithm": st.sampled_from(["ring", "torus"]), "base": quantities("s")}),
    },
)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    calibration = PROFILE["calibrations"]["made-up"] | {
        "parameters": (draw(parameters),),
        "date": "2025-11-29",
        "validity": draw(st.dictionaries(st.sampled_from(["rows", "layers"]), st.just({"low": -1.5, "high": 1e300}))),
    }
    hardware = PROFILE | {"calibrations": {"own": calibration, "other": calibration}}
    hardware["peaks"] = PROFILE["peaks"] | draw(st.fixed_dictionaries({}, optional={"on_chip_memory": sourced("B")}))
    drafts = st.just({"kind": "none"}) | st.builds(lambda m: {"kind": "model", "model": m}, models())
    laws = st.one_of(
        st.fixed_dictionaries({"kind": st.just("rate"), "acceptance_rate": probabilities}),
        st.builds(
            lambda rates: {"kind": "per_position", "acceptance_rates": tuple(rates)},
            st.lists(probabilities, min_size=1),
        ),
        st.builds(
            lambda counts: {"kind": "forced", "accepted": tuple(counts)}, st.lists(st.integers(0, 64), min_size=1)
        ),
    )
    published = {"metric": "tpot_s", "value": draw(quantities("s")), "where": "t 1", "source": "s 1", "use": "fit"}
    published["at"] = draw(
        st.dictionaries(texts, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts, max_size=2)
    )
    return {
        "name": draw(names),
        "description": draw(texts),
        "target": draw(models()),
        "draft": draw(drafts),
        "deployment": {
            "hardware": hardware,
            "calibration": draw(st.sampled_from(["own", None])),
            "chips": draw(st.integers(1, 64)),
        },
        "decoding": {"lookahead": draw(st.integers(0, 64)), "temperature": draw(st.sampled_from([0, 1, 0.3]))},
        "acceptance": draw(laws),
        "workload": {"prompt_tokens": draw(st.integers(1, 10**8)), "output_tokens": draw(st.integers(2, 10**7))},
        "seed": draw(st.integers(0, 2**31 - 1)),
        "published": (published,),
    }


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_any_scenario_reads_back(data: dict[str, Any]) -> None:
    assert_reads_back(Scenario.model_validate(data))


def test_the_hash_is_that_of_the_question() -> None:
    same = scenario(deployment__hardware__description="an invented chip")
    assert scenario_hash(same) == scenario_hash(scenario())
    assert scenario_hash(scenario(decoding__lookahead=5)) != scenario_hash(scenario())


def test_the_hash_does_not_depend_on_how_a_quantity_is_written() -> None:
    def at(value: str) -> str:
        return scenario_hash(
            scenario(deployment__hardware__peaks__hbm_bandwidth={"value": value, "source": "invented"})
        )

    assert len({at(value) for value in ("1000 GB/s", "1 TB/s", "1e12 B/s", "1000000 MB/s", "60 TB/min")}) == 1


def test_calibrations_that_are_not_used_are_not_recorded() -> None:
    unused = scenario(deployment__calibration=None)
    assert unused.resolved()["deployment"]["hardware"]["calibrations"] == {}
    assert scenario_from(unused.resolved()).deployment.hardware.calibrations == {}


def test_a_record_reads_back() -> None:
    spread = Distribution(n=3, mean=1.0, p50=1.0, p90=2.0, p99=3.0)
    record = new_record(
        "simulated",
        scenario(),
        axes={"decoding.lookahead": 4, "target": "x", "decoding.temperature": 0.5},
        metrics={"tpot_s": 0.01, "tpot_s_low": 0.009, "speedup": 2.0, "time_to_tokens_s": spread},
        components={"round": 0.02},
        mechanisms={"round": {"weights": 0.02}},
        status=Status(state="does_not_fit", reason="too large"),
        provenance={"versions": {"python": "3.11"}},
    )
    assert RunRecord.model_validate(json.loads(json.dumps(record.to_json()))) == record
    assert record.metric("speedup") == 2.0
    assert record.metric("round_s") is None
    assert record.metric("time_to_tokens_s") is None


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"metrics": {"tpot": 0.01}}, "tpot"),
        ({"metrics": {"tpot_s_mean": 0.01}}, "tpot_s_mean"),
        ({"components": {"verify": 0.01}}, "verify"),
        ({"mechanisms": {"verify": {}}}, "verify"),
        ({"mechanisms": {"round": {"bandwidth": 0.01}}}, "bandwidth"),
        ({"metrics": {"time_to_tokens_s": 0.01}}, "time_to_tokens_s"),
        ({"metrics": {"tpot_s": Distribution(n=1, mean=1.0, p50=1.0, p90=1.0, p99=1.0)}}, "tpot_s"),
    ],
)
def test_names_that_are_not_known_are_refused(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=f"names that this version knows; {named} is not one"):
        new_record("analytic", scenario(), **values)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(number: float) -> None:
    with pytest.raises(ValidationError):
        new_record("analytic", scenario(), metrics={"tpot_s": number})


def test_terms_do_not_overlap() -> None:
    assert len(set(COMPONENTS)) == len(COMPONENTS)
    assert len(set(MECHANISMS)) == len(MECHANISMS)
    assert set(DISTRIBUTION_METRICS) <= metric_names()


def _schema_classes(base: type[BaseModel] = Strict) -> list[type[BaseModel]]:
    return [found for one in base.__subclasses__() for found in (one, *_schema_classes(one))]


@pytest.mark.parametrize("schema", _schema_classes(), ids=lambda schema: schema.__name__)
def test_yaml_names_of_a_class_are_all_different(schema: type[BaseModel]) -> None:
    assert len(keys_of(schema)) == len(schema.model_fields)


def test_a_record_changed_by_hand_is_inconsistent() -> None:
    record = predict((Point(scenario(), {}),))[0]
    assert record.inconsistency() == ""
    assert "scenario_hash" in record.model_copy(update={"scenario_hash": "0" * 16}).inconsistency()
    slower = record.components | {"plain_step": 2 * record.components["plain_step"]}
    assert "plain_step" in record.model_copy(update={"components": slower}).inconsistency()
