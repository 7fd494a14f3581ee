"""Which programs of a scenario are compiled, in which variants, and which of them is the one to report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.aot.compiled import PROGRAMS, ProgramName, Variant
from runtime.aot.compiler import TIMEOUT_S, compile_program
from runtime.aot.device import Device, device_of
from runtime.aot.extrapolate import extrapolated
from runtime.aot.reading import Assumptions, Reading, read
from runtime.aot.recipe import Recipe, recipe_of
from runtime.aot.store import Store
from runtime.aot.topologies import topology_of
from runtime.aot.variants import variants
from simulator.spec.model import ModelSpec
from simulator.spec.scenario import Deployment, Scenario

PREFILL_VARIANTS = (Variant("scanned"),)
"""Unrolled, the prefill of a 70B takes 157 s and 14.7 GB to compile; its matrices, not HBM, bind, so a scan is fair."""
DEPTHS = (8, 16)
"""Layers of the two programs from which a quick compilation extrapolates."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Workshop:
    """Where and how programs are compiled and read."""

    store: Store
    device: Device
    assumptions: Assumptions
    report: Report
    timeout_s: float = TIMEOUT_S
    quick: bool = False

    def read(self, recipe: Recipe) -> Reading:
        """Compile and read one program; quickly, the same with fewer layers, twice."""
        target = recipe.target
        if not self.quick or target is None or target.layers <= DEPTHS[-1]:
            return self._read(recipe)
        few, more = (self._read(_with_layers(recipe, target, layers)) for layers in DEPTHS)
        return extrapolated((few, more), DEPTHS, target.layers, self.device)

    def read_all(self, scenario: Scenario, programs: Iterable[ProgramName]) -> dict[str, list[Reading]]:
        """Every variant of every program; what does not fit in one variant is not tried in another."""
        every = recipes(scenario, programs, self.device)
        found: dict[str, list[Reading]] = {}
        for done, recipe in enumerate(every):
            self.report(f"{done} of {len(every)}: {recipe.program}, {recipe.variant.words}")
            earlier = found.setdefault(recipe.program, [])
            if not any(reading.state != "ok" for reading in earlier):
                earlier.append(self.read(recipe))
        return found

    def _read(self, recipe: Recipe) -> Reading:
        compiled = compile_program(recipe, self.store, self.report, self.timeout_s)
        text = compiled.text(self.store.folder) if compiled.state == "ok" else ""
        return read(compiled, recipe, text, self.device, self.assumptions)


def workshop(
    deployment: Deployment, folder: Path, report: Report, assumptions: Assumptions | None = None, *, quick: bool
) -> Workshop:
    """A workshop for the slice of a deployment, which keeps its programs in ``folder``.

    Raises:
        RefusedError: the compiler has no such hardware or slice.
    """
    device = device_of(topology_of(deployment), deployment.hardware)
    return Workshop(Store(folder / "programs"), device, assumptions or Assumptions(), report, quick=quick)


def programs_of(scenario: Scenario) -> tuple[ProgramName, ...]:
    """The programs that a scenario has: without a draft model only those of the target."""
    drafts = scenario.draft_model is not None and scenario.lookahead > 0
    return tuple(name for name in PROGRAMS if drafts or name in ("prefill", "plain_step"))


def recipes(scenario: Scenario, programs: Iterable[ProgramName], device: Device) -> list[Recipe]:
    """Every program in the variants that it is compiled in."""
    found = []
    for program in programs:
        wanted = PREFILL_VARIANTS if program == "prefill" else variants(device.topology)
        found += [recipe_of(scenario, program, device.topology, variant) for variant in wanted]
    return found


def best(readings: Sequence[Reading]) -> Reading:
    """Of one program's variants the one whose replay takes least at the datasheet's rate, or that moves least.

    A scanned one, which is reported beside it, only where there is no other. Of the others one that copies no cache
    goes first: copies grow with the positions, and a replay of a short cache hardly shows them.
    """
    fitting = [reading for reading in readings if reading.state == "ok"]
    unrolled = [reading for reading in fitting if not reading.variant.startswith("scanned")]
    some = unrolled or fitting or readings
    return min(some, key=lambda reading: (bool(reading.known.get("cache_copies")), _cost(reading)))


def _cost(reading: Reading) -> float:
    return float(reading.known.get("hbm_bytes", 0)) if reading.replay_s is None else reading.replay_s


def _with_layers(recipe: Recipe, target: ModelSpec, layers: int) -> Recipe:
    return replace(recipe, target=target.model_copy(update={"layers": layers}))
