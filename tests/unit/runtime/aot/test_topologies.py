"""Names of slices, and the slice of a scenario."""

from __future__ import annotations

import pytest

from runtime.aot.topologies import GENERATIONS, topology, topology_of
from simulator.errors import RefusedError
from simulator.spec.load import load_scenario
from simulator.spec.scenario import Scenario
from tests.synthetic import ROOT


def scenario(**settings: object) -> Scenario:
    """The founding case, on other chips."""
    words = [f"deployment.{key}={value}" for key, value in settings.items()]
    return load_scenario(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml", words)[0].scenario


@pytest.mark.parametrize(
    ("name", "chips", "devices"),
    [("v4:2x2x4", 16, 16), ("V4:1x1x1", 1, 1), ("v5e:4x4", 16, 16), ("7x:2x2x1", 4, 8), ("tpu7x:2x2x1", 4, 8)],
)
def test_names(name: str, chips: int, devices: int) -> None:
    found = topology(name)
    assert (found.chips, found.devices) == (chips, devices)
    assert topology(found.name) == found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("v9:2x2", "no generation of that name"),
        ("2x2x4", "no generation of that name"),
        ("v4", "a torus of 3 axes"),
        ("v4:2x2", "a torus of 3 axes"),
        ("v4:2x2x0", "a torus of 3 axes"),
        ("v4:2x-2x4", "a torus of 3 axes"),
        ("v5e:2x2x4", "a torus of 2 axes"),
        ("v4:32x32x32", "at most 4,096 chips"),
    ],
)
def test_what_is_no_slice_is_refused(name: str, said: str) -> None:
    with pytest.raises(RefusedError, match=said) as caught:
        topology(name)
    assert "accepts" in str(caught.value)


def test_the_slice_of_a_scenario() -> None:
    assert topology_of(scenario().deployment).name == "v4:2x2x4"


@pytest.mark.parametrize(
    ("chips", "name"),
    [(1, "1x1x1"), (2, "1x1x2"), (4, "2x2x1"), (8, "2x2x2"), (16, "2x2x4"), (32, "2x4x4"), (64, "4x4x4")],
)
def test_without_a_slice_it_is_the_usual_one_of_as_many_chips(chips: int, name: str) -> None:
    deployment = scenario().deployment.model_copy(update={"slice": None, "chips": chips})
    assert topology_of(deployment).name == f"v4:{name}"


def test_chips_that_are_no_power_of_two_need_a_slice() -> None:
    deployment = scenario().deployment.model_copy(update={"slice": None, "chips": 12})
    with pytest.raises(RefusedError, match=r"deployment\.slice"):
        topology_of(deployment)


def test_other_hardware_needs_a_topology() -> None:
    elsewhere = load_scenario(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml")[0].scenario.deployment
    profile = elsewhere.hardware.model_copy(update={"name": "h100_sxm"})
    with pytest.raises(RefusedError, match="--topology"):
        topology_of(elsewhere.model_copy(update={"hardware": profile}))


def test_every_generation_has_its_datasheet() -> None:
    for generation in GENERATIONS:
        assert (ROOT / "hardware_profiles" / f"{generation.profile}.yaml").is_file()
