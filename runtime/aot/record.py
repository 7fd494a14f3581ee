"""Readings of a scenario's programs -> one ``compiled`` record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.aot.plan import best
from runtime.aot.reading import Reading
from simulator.spec.load import Point
from simulator.spec.record import RunRecord, Status, new_record

Readings = Mapping[str, Sequence[Reading]]
"""By program, the readings of its variants."""


def record_of(point: Point, readings: Readings, versions: Mapping[str, str]) -> RunRecord:
    """The record: counts and bytes as metrics, estimates under names of their own, all three parts in the provenance.

    What a chip must hold is that of the program that needs most. The sum of the compiler's cycles is nowhere.
    """
    chosen = {program: best(variants) for program, variants in readings.items()}
    reasons = [_does_not_fit(reading) for reading in chosen.values() if reading.state != "ok"]
    fitting = {program: reading for program, reading in chosen.items() if reading.state == "ok"}
    metrics: dict[str, float] = {}
    for program, reading in fitting.items():
        metrics |= {f"{program}_{name}": float(value) for name, value in _metrics(reading).items()}
        scanned = [each for each in readings[program] if each.state == "ok" and each.variant.startswith("scanned")]
        if scanned and (scanned_s := best(scanned).replay_s) is not None:
            metrics[f"{program}_replay_scanned_s"] = scanned_s
    if fitting:
        metrics["memory_per_chip_bytes"] = float(max(r.known["memory"]["total_bytes"] for r in fitting.values()))
    return new_record(
        "compiled",
        point.scenario,
        axes=point.axes,
        status=Status(state="does_not_fit", reason="; ".join(reasons)) if reasons else Status(),
        metrics=metrics,
        provenance={
            "versions": dict(versions),
            "topology": next(iter(chosen.values())).topology,
            "chosen": {program: reading.variant for program, reading in chosen.items()},
            "programs": [reading.to_json() for variants in readings.values() for reading in variants],
        },
    )


def _does_not_fit(reading: Reading) -> str:
    memory = reading.known["memory"]
    return f"{reading.program} needs {memory['needed_gib']:.2f} GiB of {memory['available_gib']:.2f} GiB a chip"


def _metrics(reading: Reading) -> dict[str, float]:
    known, memory = reading.known, reading.known["memory"]
    found = {
        "arguments_bytes": memory["arguments_bytes"],
        "temporaries_bytes": memory["temporaries_bytes"],
        "code_bytes": memory["code_bytes"],
        "hbm_bytes": known["hbm_bytes"],
        "floor_bytes": known["floor_bytes"],
        "flop": sum(known["matrix_flop"].values()) + sum(known["vector_flop"].values()),
        "collectives": sum(each["count"] for each in known["collectives"]),
        "layer_all_reduces": known["all_reduces_in_layers"],
        "vector_matmuls": sum(each["count"] for each in known["vector_products"]),
        "cache_copies_bytes": sum(each["count"] * each["payload_bytes"] for each in known["cache_copies"]),
    }
    return found | _estimates(reading)


def _estimates(reading: Reading) -> dict[str, Any]:
    if not reading.estimated:
        return {}
    found = {"replay_s": reading.replay_s}
    rates = reading.estimated["without_collectives"]
    if "compiler" in rates:
        found["replay_compiler_rate_s"] = rates["compiler"]["total_s"]
    if "with_collectives_s" in reading.assumed:
        found["replay_with_collectives_s"] = reading.assumed["with_collectives_s"]["datasheet"]
    return found
