"""Have the TPU compiler make programs of small scenarios, and keep what was read of them for the tests.

Run ``python -m tests.compiled_readings.make`` where libtpu is installed; it writes the records beside this file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from simulator.cli import app

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SCENARIOS: dict[str, tuple[str, ...]] = {
    # Two layers of the founding case, so that the head and the small cache weigh more than they do in it.
    "chinchilla": (
        str(ROOT / "scenarios" / "chinchilla_70b_tpu_v4.yaml"),
        "decoding.lookahead=4",
        "target.layers=2",
        "draft.model.layers=2",
    ),
    "grouped": (str(HERE / "grouped.yaml"),),
    "experts": (str(HERE / "experts.yaml"),),
}


def main() -> None:
    """Write the records that are named, or all, anew, with the variants that they report alone."""
    for name, (file, *settings) in SCENARIOS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            sets = [word for setting in settings for word in ("--set", setting)]
            # Where a program is not what it should be the command fails, and the record is written all the same.
            CliRunner().invoke(app, ["compile", file, *sets, "--out", folder])
            (record,) = json.loads((Path(folder) / "compiled.json").read_text(encoding="utf-8"))["records"]
        kept, chosen = record["provenance"], record["provenance"]["chosen"]
        kept["programs"] = [each for each in kept["programs"] if each["variant"] == chosen[each["program"]]]
        (HERE / f"{name}.json").write_text(json.dumps({"records": [record]}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
