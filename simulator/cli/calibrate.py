"""sps calibrate: measure this machine and write a hardware profile fitted to it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from simulator.cli.files import ready, to_json, write
from simulator.cli.options import AsJson
from simulator.errors import ConfigError, Problem

DesignFile = Annotated[
    Path | None, typer.Option("--design", metavar="FILE", help="What to measure. The toolkit's own unless given.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer shapes, in minutes.")]
Hardware = Annotated[
    str | None, typer.Option("--hardware", metavar="NAME", help="The profile of this machine, where it is not known.")
]
Devices = Annotated[
    str | None, typer.Option("--devices", metavar="LIST", help="Numbers of devices, such as 1,4. Those of the design.")
]


def calibrate(  # noqa: PLR0917
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call the calibration.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The hardware profile to write.")],
    quick: Quick = False,
    design: DesignFile = None,
    hardware: Hardware = None,
    devices: Devices = None,
    as_json: AsJson = False,
) -> None:
    """Measure this machine and write a hardware profile with a calibration fitted to it."""
    from simulator import tables
    from simulator.calibration import Predictor, steadied
    from simulator.calibration import calibrate as fitted
    from simulator.cli import machine
    from simulator.validation import table_text
    from simulator.validation.machine import design_for, profile_for, write_profile

    if out.suffix != ".yaml":
        raise ConfigError((Problem("", 0, 0, "--out", str(out), "a file whose name ends in .yaml"),))
    counts = numbers(devices)
    folder = ready(out.parent / f"{out.stem}_measurements")
    here = machine.host()
    profile = profile_for(here, hardware)
    wanted = machine.fit_only(design_for(here.platform, design, quick=quick))
    records = machine.measured(wanted, folder, "calibrate", counts)
    write(folder / "times.csv", table_text(records))
    steady = steadied(records, Predictor(profile))
    today = dt.datetime.now(dt.UTC).date()
    known = fitted([r for r in steady if r.role == "fit"], profile, name, today)
    write_profile(out, known, f"Written by `sps calibrate` on {today}; not validated.")
    found = known.calibrations[name]
    if as_json:
        typer.echo(to_json({"records": [], "profile": str(out), "calibration": found.model_dump(mode="json")}))
        return
    error = f"root mean square error {found.residual:.1%}"
    for line in tables.wrapped(
        f"{found.free_parameters} numbers fitted to {found.fitted_values} times; {error}",
        "NOT VALIDATED: `sps validate device` tests it on shapes that it was not fitted to",
        f"calibration '{name}' in {out}; use it with `hardware: {out}` and `calibration: {name}` under deployment",
    ):
        typer.echo(line)


def numbers(devices: str | None) -> list[int] | None:
    """Numbers of devices from ``1,4``.

    Raises:
        ConfigError: anything else.
    """
    if devices is None:
        return None
    words = devices.split(",")
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        accepts = "whole numbers of at least 1, such as 1,4"
        raise ConfigError((Problem("", 0, 0, "--devices", devices, accepts),))
    return [int(word) for word in words]
