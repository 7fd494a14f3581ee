"""Does the contract stay light: a device host has no planning libraries, a laptop no JAX?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIO = ROOT / "scenarios/chinchilla_70b_tpu_v4.yaml"
HEAVY = (
    "simpy",
    "scipy",
    "plotly",
    "jax",
    "jaxlib",
    "flax",
    "rich",
    "typer",
    "joblib",
    "distributed",
    "libtpu",
    "runtime",
)


def loaded_after(code: str) -> set[str]:
    """The modules that a fresh process has loaded after ``code``."""
    tail = "\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + tail], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import simulator.spec.load",
        "import simulator.spec.record",
        "import simulator.spec.explain, simulator.spec.schema",
    ],
)
def test_the_contract_loads_nothing_heavy(code: str) -> None:
    # pint takes a third of a second: it is loaded by the first quantity that is read.
    assert loaded_after(code) & {*HEAVY, "pint"} == set()


def test_reading_a_scenario_loads_nothing_heavy() -> None:
    loaded = loaded_after(f"from simulator.spec.load import load_scenario\nload_scenario({str(SCENARIO)!r})")
    # Where SciPy is installed pint loads the empty shell of it, some milliseconds; nothing may be loaded inside.
    assert loaded & {*HEAVY, "scipy.stats", "scipy.optimize", "scipy.special"} == {"scipy"} & loaded
    assert "pint" in loaded
