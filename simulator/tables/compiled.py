"""Tables of compiled programs: what is known, what is estimated, what is assumed.

They take readings as plain data, as a compiled record keeps them under ``programs`` in its provenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures, time_scale
from simulator.units import human_bytes, human_time

Reading = Mapping[str, Any]

_FROM = ", from "


def known_memory(readings: Sequence[Reading]) -> Table:
    """Whether each program fits, and what of a chip's HBM it takes."""
    columns = (
        Column("program", numeric=False),
        Column("layers", numeric=False),
        Column("fits", numeric=False),
        Column("arguments"),
        Column("temporaries"),
        Column("code"),
        Column("in all"),
    )
    from_few = dict.fromkeys(words for reading in readings if (words := reading["variant"].partition(_FROM)[2]))
    note = "".join(f"extrapolated from {words}" for words in from_few)
    return Table("known: HBM of a chip", columns, tuple(_memory_row(reading) for reading in readings), note)


def _memory_row(reading: Reading) -> tuple[str, ...]:
    memory = reading["known"]["memory"]
    if reading["state"] != "ok":
        short = f"{memory['needed_gib']:.2f} of {memory['available_gib']:.2f} GiB"
        return (_words(reading["program"]), _layers(reading), "NO", "", "", "", short)
    sizes = (memory[f"{name}_bytes"] for name in ("arguments", "temporaries", "code", "total"))
    return (_words(reading["program"]), _layers(reading), "yes", *(human_bytes(size) for size in sizes))


def known_work(readings: Sequence[Reading]) -> Table:
    """HBM bytes, FLOP and what a layer should not have, of the programs that fit."""
    columns = (
        Column("program", numeric=False),
        Column("HBM moved"),
        Column("over floor"),
        Column("FLOP"),
        Column("rows"),
        Column("bound from"),
        Column("reduces/layer"),
        Column("vector code"),
        Column("cache written"),
    )
    note = (
        "over floor: bytes moved over those of weights and cache; rows: most that weights are multiplied\n"
        "with, padding included; bound from: rows from which the datasheet's matrix units, not its HBM,\n"
        "bind; vector code: matrix products that the vector unit does; cache written: whole buffers of\n"
        "keys or values that are written back or copied"
    )
    lines = tuple(_work_row(each) for each in _fitting(readings))
    return Table("known: what one call does", columns, lines, note).without_constant("bound from")


def _work_row(reading: Reading) -> tuple[str, ...]:
    known = reading["known"]
    flop = sum(known["matrix_flop"].values()) + sum(known["vector_flop"].values())
    bound = known["compute_bound_rows"]
    written = sum(each["count"] * each["payload_bytes"] for each in known["cache_copies"])
    return (
        _words(reading["program"]),
        human_bytes(known["hbm_bytes"]),
        f"{known['bytes_over_floor']:.3f}",
        f"{flop:.3g}",
        figures(max(known["rows"].values(), default=0.0)),
        figures(bound) if bound is not None else "",
        figures(known["all_reduces_in_layers"] / known["layers"]) if known["layers"] else "",
        str(sum(each["count"] for each in known["vector_products"])),
        human_bytes(written) if written else "0",
    )


def known_collectives(readings: Sequence[Reading]) -> Table:
    """Every kind of collective in every place, with its assumed price."""
    columns = (
        Column("program", numeric=False),
        Column("collective", numeric=False),
        Column("in", numeric=False),
        Column("count"),
        Column("payload"),
        Column("devices"),
        Column("algorithm", numeric=False),
    )
    lines = tuple(
        (
            _words(reading["program"]),
            each["kind"],
            each["place"],
            f"{each['count']:,}",
            human_bytes(each["payload_bytes"]),
            str(each["group"]),
            each["algorithm"],
        )
        for reading in _fitting(readings)
        for each in reading["known"]["collectives"]
    )
    return Table("known: collectives", columns, lines)


def known_parts(readings: Sequence[Reading]) -> Table:
    """HBM bytes and FLOP of each part of a model, in each program."""
    fitting = _fitting(readings)
    parts = dict.fromkeys(part for reading in fitting for part in reading["known"]["moved_bytes"])
    columns = [Column("part", numeric=False)]
    for reading in fitting:
        columns += [Column(name, group=_words(reading["program"])) for name in ("HBM", "FLOP")]
    lines = tuple((_words(part), *(cell for reading in fitting for cell in _part(reading, part))) for part in parts)
    return Table("known: by part of the model", tuple(columns), lines)


def _part(reading: Reading, part: str) -> tuple[str, str]:
    known = reading["known"]
    moved = known["moved_bytes"].get(part, {"read": 0, "written": 0})
    flop = known["matrix_flop"].get(part, 0.0) + known["vector_flop"].get(part, 0.0)
    count = moved["read"] + moved["written"]
    return human_bytes(count) if count else "", f"{flop:.3g}" if flop else ""


def estimated(readings: Sequence[Reading]) -> Table:
    """The replay of every program and variant, without collectives."""
    shown = [reading for reading in _fitting(readings) if reading["estimated"]]
    totals = [reading["estimated"]["without_collectives"]["datasheet"]["total_s"] for reading in shown]
    unit, scale = time_scale(totals)
    columns = (
        Column("program", numeric=False),
        Column("layers", numeric=False),
        Column(f"floor {unit}"),
        Column("matmul", group="replay at the datasheet's bandwidth"),
        Column("attention", group="replay at the datasheet's bandwidth"),
        Column("other", group="replay at the datasheet's bandwidth"),
        Column("stall", group="replay at the datasheet's bandwidth"),
        Column("in all", group="replay at the datasheet's bandwidth"),
        Column("over floor"),
        Column("at compiler's"),
    )
    lines = tuple(_estimated_row(reading, scale) for reading in shown)
    note = (
        "no collectives; stall: waiting for HBM; at compiler's: in all, at the bandwidth that the compiler\n"
        "reckons with. The schedule is the compiler's, so are the cycles of each operation; nothing ran."
    )
    return Table("estimated: a call by replaying its schedule", columns, lines, note).without_empty_columns()


def _estimated_row(reading: Reading, scale: float) -> tuple[str, ...]:
    found = reading["estimated"]
    at, reckoned = (found["without_collectives"].get(rate) for rate in ("datasheet", "compiler"))
    parts = (at[f"{name}_s"] for name in ("matmul", "attention", "other", "stall", "total"))
    return (
        _words(reading["program"]),
        _layers(reading),
        figures(found["bandwidth_floor_s"] / scale),
        *(figures(seconds / scale) for seconds in parts),
        f"{found['over_floor']:.3f}" if found["over_floor"] is not None else "",
        figures(reckoned["total_s"] / scale) if reckoned is not None else "",
    )


def assumed(readings: Sequence[Reading]) -> Table:
    """What collectives are assumed to take, and what a call then takes."""
    columns = (
        Column("program", numeric=False),
        Column("collectives"),
        Column("no price"),
        Column("take"),
        Column("overhead"),
        Column("a call"),
        Column("at compiler's"),
    )
    return Table("assumed: prices", columns, tuple(_assumed_row(reading) for reading in _fitting(readings)))


def _assumed_row(reading: Reading) -> tuple[str, ...]:
    found = reading["assumed"]
    totals = found.get("with_collectives_s", {})
    return (
        _words(reading["program"]),
        f"{sum(each['count'] for each in found['collectives']):,}",
        str(found["unpriced"] or ""),
        human_time(found["collectives_s"]) if not found["unpriced"] else "",
        human_time(found["call_overhead_s"]),
        *(human_time(totals[rate]) if rate in totals else "" for rate in ("datasheet", "compiler")),
    )


def assumed_words(readings: Sequence[Reading]) -> list[str]:
    """Where the assumed prices come from."""
    fitting = _fitting(readings)
    sources = dict.fromkeys(reading["assumed"]["collective_source"] for reading in fitting)
    overheads = dict.fromkeys(reading["assumed"]["call_overhead_source"] for reading in fitting)
    clocks = dict.fromkeys(
        f"{reading['estimated']['clock_per_s'] / 1e9:g} GHz ({reading['estimated']['clock_source']})"
        for reading in fitting
        if reading["estimated"]
    )
    words = [f"collectives: {source}" for source in sources] + [f"overhead of a call: {each}" for each in overheads]
    return words + [f"clock: {clock}" for clock in clocks]


def _fitting(readings: Sequence[Reading]) -> list[Reading]:
    return [reading for reading in readings if reading["state"] == "ok"]


def _layers(reading: Reading) -> str:
    """How the layers are written down, in few words."""
    variant: str = reading["variant"].partition(_FROM)[0]
    loop, *more = variant.split(", ")
    options = ["options"] if any("=" in word for word in more) else []
    return ", ".join([word for word in more if "=" not in word] + options) or loop


def _words(name: str) -> str:
    return name.replace("_", " ")
