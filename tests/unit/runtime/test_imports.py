"""The runtime knows of the simulator only its contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CORE = "import runtime.generate, runtime.programs, sys; print(*(name for name in sys.modules if '.' in name))"
ALLOWED = ("simulator.spec", "simulator.units", "simulator.errors")


def test_the_core_imports_the_contract_and_nothing_else_of_the_simulator() -> None:
    done = subprocess.run([sys.executable, "-c", CORE], cwd=ROOT, capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("simulator.")}
    assert ours, "the contract itself must have been imported"
    assert {name for name in ours if not name.startswith(ALLOWED)} == set()
