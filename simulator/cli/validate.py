"""sps validate: is a calibration right about shapes that it was not fitted to?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simulator.cli.calibrate import DesignFile, Devices, Hardware, Quick, numbers
from simulator.cli.files import ready, to_json, write
from simulator.cli.options import AsJson, OutFolder
from simulator.errors import ConfigError, Problem, RefusedError

if TYPE_CHECKING:
    from simulator.spec.hardware import HardwareProfile
    from simulator.spec.probe import ProbeRecord
    from simulator.validation import Outcome

What = Annotated[
    Literal["device", "published"],
    typer.Argument(help="What to validate predictions against: this machine, or what others published."),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="NAME", help="Of published values, those of this source; may be repeated."),
]
Given = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="FILE:NAME",
        help="A profile and the calibration in it to test; fitted to this run's own shapes unless given.",
    ),
]
FAILED = 1


def validate(  # noqa: PLR0913, PLR0917
    what: What,
    quick: Quick = False,
    out: OutFolder = None,
    design: DesignFile = None,
    calibration: Given = None,
    hardware: Hardware = None,
    devices: Devices = None,
    source: Only = None,
    as_json: AsJson = False,
) -> None:
    """Fit to some shapes, predict others, measure both, and say how far off; or predict what others published.

    Exit code 1 where the device's shapes are too far off.
    """
    if what == "published":
        from simulator.cli.published import validate_published

        refused = {"--quick": quick, "--design": design, "--calibration": calibration, "--hardware": hardware}
        validate_published(source or [], out, refused | {"--devices": devices}, as_json=as_json)
        return
    if source:
        raise ConfigError((Problem("--source", 0, 0, "", "", "only with `sps validate published`"),))
    from simulator.cli import machine
    from simulator.validation.judged import judged
    from simulator.validation.machine import design_for, profile_for

    counts, folder = numbers(devices), ready(out or Path("out") / "validate_device")
    here = machine.host()
    asked = design_for(here.platform, design, quick=quick)
    given = given_profile(calibration, here.platform) if calibration else None
    records = machine.measured(asked, folder / "processes", "validate", counts)
    profile = given[0] if given else profile_for(here, hardware)
    outcome, known = judged(records, asked, profile, given[1] if given else None)
    report(outcome, known, records, folder, as_json=as_json)


def given_profile(text: str, platform: str) -> tuple[HardwareProfile, str]:
    """The profile and the name of the calibration that ``FILE:NAME`` stands for.

    Raises:
        ConfigError: there is no such file or calibration.
        RefusedError: the calibration does not say how sure it is.
    """
    from simulator.validation.machine import read_profile

    file, _, name = text.rpartition(":")
    profile = read_profile(file or text)
    if name not in profile.calibrations:
        known = ", ".join(profile.calibrations) or "none"
        accepts = f"FILE:NAME, with the name of a calibration in the file: {known}"
        raise ConfigError((Problem("", 0, 0, "--calibration", text, accepts),))
    if profile.shares_memory != (platform == "cpu"):
        raise RefusedError(f"{profile.name} is not the kind of machine that this is ({platform})")
    if not profile.calibrations[name].uncertainty:
        raise RefusedError(f"the calibration {name} does not say how sure it is: NOT VALIDATED")
    return profile, name


def report(
    outcome: Outcome, profile: HardwareProfile, records: Sequence[ProbeRecord], folder: Path, *, as_json: bool
) -> None:
    """Write everything, say the verdict, and end with exit code 1 where it is bad."""
    from simulator.report import rendered, validation_page
    from simulator.validation.judged import keep

    keep(folder, outcome, profile, records)
    page = write(folder / "validation.html", rendered(validation_page(outcome)))
    if as_json:
        typer.echo(to_json({"records": [], "validation": outcome.to_json()}))
    else:
        for line in told(outcome):
            typer.echo(line)
    for name, file in (("profile", folder / "profile.yaml"), ("report", page)):
        typer.echo(f"{name}: {file}", err=as_json)
    if not outcome.passed:
        raise typer.Exit(FAILED)


def told(outcome: Outcome) -> list[str]:
    """The answer for people."""
    from simulator import tables

    verdict = tables.wrapped(*tables.validation_verdict(outcome))
    return [*verdict, "", tables.criteria(outcome).text(), "", tables.validation_errors(outcome.summaries()).text(), ""]
