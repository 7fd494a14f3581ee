"""What others measured against what is predicted of it: errors, verdicts, and how they add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from simulator.errors import RefusedError
from simulator.predict import Prediction, predict_scenario
from simulator.spec.publication import RATES, RATIOS, Entry, Publication, Published
from simulator.spec.scenario import Scenario
from simulator.steps import Steps
from simulator.units import human_time

Verdict = Literal["fitted", "validated", "missed", "floor alone", "contradicts physics", "not modelled"]
WITHIN = 0.15
"""Relative error up to which a test row counts as validated: what two public measurements of one thing differ by."""
TIE = 0.03
"""Speedups this near to 1, or to each other, have no order: public noise is 3 to 8 %."""
COMPILED = "xla-compiled"
"""Calibrations of programs that were compiled and never run, by docs/calibrations/compiled.py: no row was fitted to."""
QUANTITIES = {
    "plain_step_s": "plain step",
    "prefill_s": "prefill",
    "draft_step_s": "draft step",
    "draft_first_step_s": "draft step",
    "verify_step_s": "verify step",
    "round_s": "round",
    "round_cost": "round",
    "speedup": "speedup",
}


@dataclass(frozen=True)
class Judged:
    """One published value beside its prediction."""

    about: Publication
    entry: Entry
    predicted: float | None
    verdict: Verdict
    reason: str = ""
    calibration: str = ""

    @property
    def published(self) -> float:
        """The published value in SI units."""
        return self.entry.row.measured

    @property
    def error(self) -> float | None:
        """Predicted over published, less 1; of a rate, its time: positive is too slow, of a speedup too much gain."""
        if self.predicted is None:
            return None
        ratio = self.predicted / self.published
        return (1 / ratio if self.entry.row.unit == "token/s" else ratio) - 1

    @property
    def quantity(self) -> str:
        """What kind of value it is, for summaries."""
        row, scenario = self.entry.row, self.entry.scenario
        if row.metric in ("tpot_s", "tokens_per_s", "e2e_s"):
            return "plain step" if scenario is None or scenario.lookahead == 0 else "round"
        return str(QUANTITIES.get(row.metric, row.metric))

    @property
    def hardware(self) -> str:
        """The chip."""
        return self.entry.scenario.deployment.hardware.name if self.entry.scenario else "-"

    @property
    def engine(self) -> str:
        """The engine that the scenario names."""
        return (self.entry.scenario.deployment.engine if self.entry.scenario else None) or "none named"

    @property
    def counted(self) -> bool:
        """Whether its error counts."""
        return self.predicted is not None and self.verdict not in ("contradicts physics", "floor alone")


def judged(published: Iterable[Published]) -> list[Judged]:
    """Every row of every file, in their order."""
    return [judge(one.about, entry) for one in published for entry in one.entries]


def judge(about: Publication, entry: Entry, calibration: str | None = None) -> Judged:
    """One row; under another calibration of the same chip, where one is named."""
    row, scenario = entry.row, entry.scenario
    if scenario is None:
        return Judged(about, entry, None, "not modelled", row.not_modelled or "")
    if calibration is not None:
        deployment = scenario.deployment.model_copy(update={"calibration": calibration})
        scenario = scenario.model_copy(update={"deployment": deployment})
    name = scenario.deployment.calibration or "datasheet"
    try:
        prediction = predict_scenario(scenario)
    except RefusedError as error:
        return Judged(about, entry, None, "not modelled", str(error), name)
    value = _value(prediction, row.metric)
    if value is None:
        return Judged(about, entry, None, "not modelled", f"no {row.metric} is predicted of it", name)
    if reason := impossible(scenario, prediction, row.metric, row.measured):
        return Judged(about, entry, value, "contradicts physics", reason, name)
    deployment = scenario.deployment
    if deployment.calibration is None and deployment.engine not in deployment.hardware.engines:
        return Judged(about, entry, value, "floor alone", "nothing is known of this chip but its datasheet", name)
    found = Judged(about, entry, value, "fitted" if row.use == "fit" else "validated", "", name)
    if row.use == "test" and abs(found.error or 0.0) > WITHIN:
        return Judged(about, entry, value, "missed", unexplained(scenario, row.metric, row.measured, value), name)
    return found


def unexplained(scenario: Scenario, metric: str, measured: float, predicted: float) -> str:
    """How much longer or shorter a step or round took than weights, cache, collectives and the engine explain."""
    if metric in RATIOS:
        return f"more than {WITHIN:.0%} off"
    each = {"tokens_per_s": scenario.workload.batch, "e2e_s": 1 / scenario.workload.output_tokens}.get(metric, 1.0)
    seconds = each * (1 / measured - 1 / predicted if metric in RATES else measured - predicted)
    what = "a token" if metric in ("tokens_per_s", "e2e_s", "tpot_s") else "a pass"
    return f"{human_time(abs(seconds), 3)} {what} {'more' if seconds > 0 else 'less'} than is explained"


def _value(prediction: Prediction, metric: str) -> float | None:
    known = prediction.metrics.get(metric, prediction.components.get(metric.removesuffix("_s")))
    return float(known) if isinstance(known, float | int) else None


def impossible(scenario: Scenario, prediction: Prediction, metric: str, measured: float) -> str:
    """Why a published value cannot be true of its scenario; empty where it can.

    One pass reads its weights and cache at most at datasheet bandwidth and multiplies at most at the peak rate; a round
    contains a verify step; and no speedup exceeds the tokens of a round, as a round takes no less than a plain step.
    """
    name = {"round_s": "verify_step", "tpot_s": "plain_step"}.get(metric, metric.removesuffix("_s"))
    if metric == "tpot_s" and scenario.lookahead > 0:
        return ""
    steps = Steps.of(scenario)
    if metric == "speedup":
        length = prediction.metrics.get("acceptance_length")
        if isinstance(length, float) and measured > length * (1 + TIE):
            return (
                f"a speedup of {measured:.2f} from {length:.2f} tokens a round: the baseline was weak or tokens lossy"
            )
        return ""
    if name not in steps.passes or not metric.endswith("_s"):
        return ""
    step = steps.passes[name]
    positions = 0.0 if name.endswith("prefill") else scenario.mean_positions
    read, floor_s = step.floor(positions)
    kept = step.machine.profile.peaks.on_chip_memory
    cached = kept is not None and read <= kept.value_bytes
    if measured < floor_s and not cached and step.model.experts is None:
        return f"under {floor_s * 1e3:.3g} ms, in which the datasheet's rate reads its {read / 1e9:.3g} GB a chip"
    peak = step.machine.profile.peaks.matmul[step.machine.dtype].value_flop_per_s
    compute_s = float(step.cost.model_flop) / peak
    if measured < compute_s:
        return f"under the {compute_s * 1e3:.3g} ms that its arithmetic takes at the peak rate"
    return ""


@dataclass(frozen=True)
class Summary:
    """Errors of some rows together."""

    by: str
    name: str
    use: str
    count: int
    median: float
    p90: float
    worst: float
    bias: float


def summaries(rows: Sequence[Judged]) -> list[Summary]:
    """By quantity, hardware, engine and source; rows that were fitted to apart from those that were not."""
    keys: dict[str, Callable[[Judged], str]] = {
        "quantity": lambda row: row.quantity,
        "hardware": lambda row: row.hardware,
        "engine": lambda row: row.engine,
        "source": lambda row: row.about.name,
    }
    found: list[Summary] = []
    for by, key in keys.items():
        groups: dict[tuple[str, str], list[float]] = {}
        for row in rows:
            if row.counted and row.error is not None:
                groups.setdefault((key(row), row.entry.row.use), []).append(row.error)
        found += [summary(by, name, use, errors) for (name, use), errors in sorted(groups.items())]
    return found


def summary(by: str, name: str, use: str, errors: Sequence[float]) -> Summary:
    """Of relative errors, how large they are and to which side."""
    sizes = np.abs(errors)
    p90 = float(np.quantile(sizes, 0.9))
    middle, bias = float(np.median(sizes)), float(np.median(errors))
    return Summary(by, name, use, len(errors), middle, p90, float(sizes.max()), bias)


@dataclass(frozen=True)
class Order:
    """How often a yes or no, or an order, came out as published."""

    name: str
    right: int
    asked: int
    ties: int


def orders(rows: Sequence[Judged]) -> list[Order]:
    """The sign of the gain, over all and where it was published to be a loss; and the order of speedups of a source.

    Of rows that nothing was fitted to.
    """
    tested = [row for row in rows if row.entry.row.use == "test" and row.counted]
    gains = [row for row in tested if row.entry.row.metric == "speedup"]
    clear = [row for row in gains if abs(row.published - 1) > TIE]
    losses = [row for row in clear if row.published < 1]
    pairs = list(_pairs(gains))
    return [
        Order("sign of the gain", sum(map(_same_sign, clear)), len(clear), len(gains) - len(clear)),
        Order("losses found", sum(map(_same_sign, losses)), len(losses), 0),
        Order("order of two speedups", sum(pairs), len(pairs), 0),
    ]


def _same_sign(row: Judged) -> bool:
    return row.predicted is not None and (row.predicted > 1) == (row.published > 1)


def _pairs(gains: Sequence[Judged]) -> Iterator[bool]:
    """Of two speedups of one source that differ by more than the noise, whether the larger was predicted larger."""
    for one, other in combinations(gains, 2):
        apart = abs(one.published / other.published - 1) > 2 * TIE
        if one.about.name == other.about.name and apart and one.predicted and other.predicted:
            yield (one.predicted > other.predicted) == (one.published > other.published)


def crossed(published: Sequence[Published]) -> list[Summary]:
    """Each source of a chip under the calibrations that other sources of it were fitted with, and the compiled one.

    Once each. Rows that have that calibration anyway are left out: their errors stand in the other tables.
    """
    fitted = sorted({pair for one in published for pair in (_calibrations(one) | _compiled(one))})
    found: list[Summary] = []
    for one, (chip, name) in ((one, pair) for one in published for pair in fitted):
        again = [judge(one.about, entry, name) for entry in one.entries if _has_another(entry, chip, name)]
        errors = [row.error for row in again if row.counted and row.error is not None]
        if errors:
            where = f", {chip.removeprefix('tpu_')}," if name == COMPILED and len(_compiled(one)) > 1 else ""
            found.append(summary("cross", f"{one.about.name}{where} under {name}", "test", errors))
    return found


def _has_another(entry: Entry, chip: str, calibration: str) -> bool:
    """Whether a row is of this chip and predicted under another of its calibrations."""
    deployment = entry.scenario.deployment if entry.scenario else None
    own = deployment.calibration if deployment and deployment.hardware.name == chip else None
    return own is not None and own != calibration


def _calibrations(published: Published) -> set[tuple[str, str]]:
    """The chips and calibrations that a source's rows were fitted with."""
    return {
        (entry.scenario.deployment.hardware.name, entry.scenario.deployment.calibration)
        for entry in published.entries
        if entry.scenario and entry.scenario.deployment.calibration and entry.row.use == "fit"
    }


def _compiled(published: Published) -> set[tuple[str, str]]:
    """The chips of a source's rows that have a compiled calibration, with it."""
    chips = [entry.scenario.deployment.hardware for entry in published.entries if entry.scenario]
    return {(chip.name, COMPILED) for chip in chips if COMPILED in chip.calibrations}


def to_json(rows: Sequence[Judged], published: Sequence[Published]) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "rows": [_row(row) for row in rows],
        "summaries": [vars(one) for one in [*summaries(rows), *crossed(published)]],
        "orders": [vars(one) for one in orders(rows)],
    }


def _row(row: Judged) -> dict[str, Any]:
    own = row.entry.row
    return {
        "source": row.about.name,
        "where": own.where,
        "metric": own.metric,
        "published": row.published,
        "predicted": row.predicted,
        "error": row.error,
        "verdict": row.verdict,
        "reason": row.reason,
        "use": own.use,
        "hardware": row.hardware,
        "engine": row.engine,
        "calibration": row.calibration,
        "confidence": own.confidence,
        "quantity": row.quantity,
        "set": {key: str(value) for key, value in own.set.items()},
    }
