"""A compiled program -> what is known, what is estimated and what is assumed of it, as plain data.

*Known* is what the compiler says for certain: memory, collectives, bytes, FLOP. *Estimated* is the time of a replay of
its schedule. *Assumed* is what no compiler says: the time of collectives and of a call's overhead. The sum of the
compiler's estimated cycles is in none of them: it is no time.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime.aot.assumed import Override, Prices
from runtime.aot.collectives import Collective, group_size, kind_of, payload_bytes
from runtime.aot.compiled import Compiled
from runtime.aot.device import Device
from runtime.aot.hlo import Operation, parse
from runtime.aot.known import Known, known
from runtime.aot.lints import Expected, Finding, findings
from runtime.aot.recipe import Recipe
from runtime.aot.replay import Rates, Replayed, Schedule
from simulator.spec.model import ModelSpec

Data = dict[str, Any]


@dataclass(frozen=True)
class Assumptions:
    """What the user may say instead of what is assumed."""

    override: Override | None = None
    """Of the price of a collective."""
    call_overhead_s: float = 0.0
    """Host time of one call of a program that nothing hides."""
    overhead_source: str = "nothing is assumed"


@dataclass(frozen=True)
class Reading:
    """One program in three parts, each plain data for JSON, and what is wrong with it."""

    program: str
    topology: str
    variant: str
    state: str
    """``ok`` or ``does_not_fit``."""
    known: Data
    estimated: Data
    """Empty where it does not fit, or where no clock of the generation is known."""
    assumed: Data
    findings: tuple[Finding, ...]

    @property
    def replay_s(self) -> float | None:
        """Seconds of a call without collectives at the datasheet's bandwidth; None where nothing was replayed."""
        return float(self.estimated["without_collectives"]["datasheet"]["total_s"]) if self.estimated else None

    def to_json(self) -> Data:
        """Plain data."""
        return dataclasses.asdict(self)


def passes_of(recipe: Recipe) -> dict[str, int]:
    """How often each model runs in one call; a round drafts K times, the first time over two tokens."""
    if recipe.program == "round":
        return {"target": 1, "draft": recipe.tokens - 1}
    return {"draft" if recipe.target is None else "target": 1}


def expected_of(recipe: Recipe) -> Expected:
    """What the recipe's program should come to."""
    passes = passes_of(recipe)
    models = {"target": (recipe.target, recipe.target_degree), "draft": (recipe.draft, recipe.draft_degree)}
    layers = reduces = 0
    for role, count in passes.items():
        spec, degree = models[role]
        if spec is not None:
            layers += count * spec.layers
            reduces += count * spec.layers * _reduces_of(spec) * (degree > 1)
    return Expected(layers, reduces, bound_by_bytes=recipe.program != "prefill")


def _reduces_of(spec: ModelSpec) -> int:
    return 1 if spec.block == "parallel" else 2


def read(
    compiled: Compiled, recipe: Recipe, text: str, device: Device, assumptions: Assumptions | None = None
) -> Reading:
    """Read one compilation.

    Args:
        compiled: what the compilation came to.
        recipe: what was compiled.
        text: the program; not looked at where it does not fit.
        device: what it was compiled for.
        assumptions: what counts instead of what is assumed.
    """
    assumptions = assumptions or Assumptions()
    named = compiled.program, compiled.topology, compiled.variant.words, compiled.state
    shared = {"asked": _asked(recipe, device), "memory": _memory(compiled)}
    if compiled.state != "ok":
        return Reading(*named, shared, {}, {}, ())
    module = parse(text)
    facts = known(module, compiled.devices, passes_of(recipe), reads_cache=recipe.program != "prefill")
    expected = expected_of(recipe)
    prices = device.prices(assumptions.override)

    def price(op: Operation) -> float:
        return prices.seconds(kind_of(op), payload_bytes(op), group_size(op, device.topology.devices)) or 0.0

    schedule = Schedule(module, price)
    return Reading(
        *named,
        shared | _known(facts, expected, device, recipe),
        _estimated(schedule, facts, device),
        _assumed(schedule, facts, device, prices, assumptions),
        tuple(findings(facts, expected)),
    )


def _asked(recipe: Recipe, device: Device) -> Data:
    """The sizes that the program was written down for, by which others count what it should do."""
    degrees = {"target": recipe.target_degree, "draft": recipe.draft_degree}
    sizes = {"batch": recipe.batch, "tokens": recipe.tokens, "positions": recipe.positions}
    return sizes | {"degrees": degrees, "hardware": device.profile}


def _memory(compiled: Compiled) -> Data:
    """Bytes of one device."""
    if compiled.memory is None:
        return {"needed_gib": compiled.needed_gib, "available_gib": compiled.available_gib}
    memory = compiled.memory
    return {
        "arguments_bytes": memory.arguments,
        "temporaries_bytes": memory.temporaries,
        "outputs_bytes": memory.outputs - memory.aliased,
        "code_bytes": memory.code,
        "total_bytes": memory.arguments + memory.temporaries + memory.outputs - memory.aliased + memory.code,
        "argument_parts_bytes": dict(compiled.argument_parts),
    }


def _known(facts: Known, expected: Expected, device: Device, recipe: Recipe) -> Data:
    spec = recipe.draft if recipe.target is None else recipe.target
    rate, weight_bytes = (spec.rate_dtype, spec.weight_bytes) if spec is not None else ("", 0.0)
    return {
        "layers": expected.layer_passes,
        "all_reduces_in_layers": facts.count("all-reduce", "layer"),
        "collectives": [dataclasses.asdict(each) for each in facts.collectives],
        "hbm_bytes": facts.hbm_bytes,
        "floor_bytes": facts.floor_bytes,
        "bytes_over_floor": facts.bytes_over_floor,
        "moved_bytes": {part: dataclasses.asdict(moved) for part, moved in facts.moved.items()},
        "matrix_flop": dict(facts.matrix_flop),
        "vector_flop": dict(facts.vector_flop),
        "rows": dict(facts.rows),
        "compute_bound_rows": device.compute_bound_rows(rate, weight_bytes),
        "cache_copies": _alike(facts),
        "vector_products": [dataclasses.asdict(each) for each in facts.vector_products],
        "undonated": list(facts.undonated),
        "unknown_loops": facts.unknown_loops,
    }


def _alike(facts: Known) -> list[Data]:
    """Copies of the cache, those of the same size together."""
    counts: Counter[tuple[str, int]] = Counter()
    for copy in facts.cache_copies:
        counts[copy.how, copy.payload_bytes] += copy.count
    return [{"how": how, "payload_bytes": size, "count": count} for (how, size), count in counts.items()]


def _rates(device: Device) -> dict[str, float]:
    """HBM bytes/s of a replay, by where they come from."""
    rates = {"datasheet": device.hbm_bytes_per_s}
    if device.compiler_bytes_per_s is not None:
        rates["compiler"] = device.compiler_bytes_per_s
    return rates


def _estimated(schedule: Schedule, facts: Known, device: Device) -> Data:
    """A replay without collectives at each rate; empty without a clock."""
    if device.clock_per_s is None:
        return {}
    rates = {name: Rates(device.clock_per_s, rate) for name, rate in _rates(device).items()}
    replays = {name: schedule.replay(each, priced=False) for name, each in rates.items()}
    floor_s = facts.floor_bytes / device.hbm_bytes_per_s
    return {
        "clock_per_s": device.clock_per_s,
        "clock_source": device.topology.generation.clock_source,
        "hbm_bytes_per_s": _rates(device),
        "bandwidth_floor_s": floor_s,
        "without_collectives": {name: _seconds(replayed) for name, replayed in replays.items()},
        "over_floor": replays["datasheet"].total_s / floor_s if floor_s else None,
    }


def _assumed(schedule: Schedule, facts: Known, device: Device, prices: Prices, assumptions: Assumptions) -> Data:
    priced = [(each, prices.seconds(each.kind, each.payload_bytes, each.group)) for each in facts.collectives]
    found: Data = {
        "collective_source": prices.source,
        "collectives": [_priced(each, seconds) for each, seconds in priced],
        "unpriced": sum(each.count for each, seconds in priced if seconds is None),
        "collectives_s": sum(each.count * seconds for each, seconds in priced if seconds is not None),
        "call_overhead_s": assumptions.call_overhead_s,
        "call_overhead_source": assumptions.overhead_source,
    }
    if device.clock_per_s is None or found["unpriced"]:
        return found
    clock = device.clock_per_s
    totals = {name: schedule.replay(Rates(clock, rate)).total_s for name, rate in _rates(device).items()}
    return found | {"with_collectives_s": {name: total + assumptions.call_overhead_s for name, total in totals.items()}}


def _priced(collective: Collective, seconds: float | None) -> Data:
    kept: Mapping[str, Any] = dataclasses.asdict(collective)
    return {name: kept[name] for name in ("kind", "place", "payload_bytes", "group", "count")} | {"each_s": seconds}


def _seconds(replayed: Replayed) -> Data:
    return dataclasses.asdict(replayed) | {"total_s": replayed.total_s}
