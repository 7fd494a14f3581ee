"""A record with its scenario read back: its values, and what it is about in words."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulator.spec.acceptance import (
    Acceptance,
    AdversarialAcceptance,
    BetaAcceptance,
    ForcedAcceptance,
    MarkovAcceptance,
    MixtureAcceptance,
    PerPositionAcceptance,
    RateAcceptance,
    RecordedAcceptance,
)
from simulator.spec.load import scenario_from
from simulator.spec.model import ModelSpec
from simulator.spec.record import Distribution, RunRecord
from simulator.spec.scenario import Scenario

PREDICTED_KINDS = ("analytic", "simulated", "compiled")
_SHORT_DTYPE = {"bfloat16": "bf16", "float32": "f32", "float16": "f16"}
_NOT_ASKED = ("name", "description", "seed", "published", "measured")
# Swept paths that every label shows in its own words.
_SHOWN_AXES = ("draft", "draft.model", "deployment.chips", "decoding.lookahead")


@dataclass(frozen=True)
class Value:
    """A number and its 90 % interval, where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class View:
    """One record and the scenario that it is about."""

    record: RunRecord
    scenario: Scenario

    @functools.cached_property
    def asked(self) -> dict[str, Any]:
        """The question in full: what two records must share to be compared."""
        data = self.scenario.model_dump(mode="json")
        deployment = data["deployment"] | {"hardware": self.scenario.deployment.hardware.name}
        del deployment["calibration"], deployment["price"]
        return {name: value for name, value in data.items() if name not in _NOT_ASKED} | {"deployment": deployment}

    @functools.cached_property
    def key(self) -> str:
        """A short name of the question."""
        return question_key(self.asked)

    @property
    def draft(self) -> str:
        """Name of the draft, or ``none``."""
        model = self.scenario.draft_model
        return model.name if model is not None else "none"

    @property
    def chips(self) -> int:
        """X."""
        return self.scenario.deployment.chips

    @property
    def lookahead(self) -> int:
        """K."""
        return self.scenario.lookahead

    @property
    def predicted(self) -> bool:
        """Whether it was computed rather than observed."""
        return self.record.kind in PREDICTED_KINDS

    @property
    def imported(self) -> bool:
        """Whether it was read from a log or result of another tool, which has only some of the terms."""
        return "imported" in self.record.provenance

    @property
    def validated(self) -> bool:
        """Whether predictions like this one were checked against measurements."""
        return self.record.validation.state == "validated"

    @property
    def other_axes(self) -> dict[str, str | int | float]:
        """Swept values that neither the draft's name, X nor K tells."""
        return {path: value for path, value in self.record.axes.items() if path not in _SHOWN_AXES}

    def get(self, term: str) -> Value | None:
        """A scalar metric in SI units with its interval, or the component of that name."""
        record, value = self.record, self.record.metric(term)
        if value is None:
            value = record.components.get(term.removesuffix("_s"))
        if value is None:
            return None
        return Value(value, record.metric(f"{term}_low"), record.metric(f"{term}_high"))

    def values(self) -> dict[str, Value]:
        """Every number of the record by name; the parts of a distribution as ``time_to_tokens_s.mean``."""
        found = {f"{name}_s": Value(seconds) for name, seconds in self.record.components.items()}
        for name, value in self.record.metrics.items():
            if isinstance(value, Distribution):
                found |= {f"{name}.{part}": Value(getattr(value, part)) for part in ("mean", "p50", "p90")}
            elif not name.endswith(("_low", "_high")):
                found[name] = self.get(name) or Value(value)
        return found


def views(records: Iterable[RunRecord]) -> tuple[View, ...]:
    """Each record with its scenario.

    Raises:
        pydantic.ValidationError: a record whose scenario this version cannot read.
    """
    return tuple(View(record, scenario_from(record.scenario)) for record in records)


def question_key(asked: Mapping[str, Any]) -> str:
    """A short name of a question or of a part of one; equal questions have the same."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def devices(view: View) -> str:
    """``4 chips``, or ``4 devices`` where they share one host's memory."""
    word = "device" if view.scenario.deployment.hardware.shares_memory else "chip"
    return f"{view.chips:,} {word}{'s' * (view.chips != 1)}"


def label(view: View, names: Mapping[str, str] | None = None) -> str:
    """The point in a few words: ``wide, 4 devices, K 4``; ``names`` has shorter ones for the drafts."""
    others = (f"{path.rpartition('.')[2]} {value}" for path, value in view.other_axes.items())
    return ", ".join(((names or {}).get(view.draft, view.draft), devices(view), f"K {view.lookahead}", *others))


def question(points: Sequence[View]) -> str:
    """What was asked, in words, over all points of a sweep."""
    scenarios = [view.scenario for view in points]
    deployments = [s.deployment for s in scenarios]
    parts = (
        f"{_either(_model(s.target) for s in scenarios)} + {_either(_model(s.draft_model) for s in scenarios)}",
        f"on {_either(d.chips for d in deployments)} x {_either(d.hardware.name for d in deployments)}",
        f"({_sharding(scenarios)}),",
        f"K {_either(s.lookahead for s in scenarios)},",
        f"batch {_either(s.workload.batch for s in scenarios)},",
        f"{_either(f'{s.workload.prompt_tokens:,}' for s in scenarios)} cached",
        f"+ {_either(f'{s.workload.output_tokens:,}' for s in scenarios)} new tokens",
    )
    law = (
        f", acceptance {_either(_law(s.acceptance) for s in scenarios)}" if any(s.lookahead for s in scenarios) else ""
    )
    return " ".join(parts) + law


def _either(words: Iterable[object]) -> str:
    """``1, 2 or 4``: each once, in the order of the sweep."""
    known = list(dict.fromkeys(str(word) for word in words))
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}"


def _model(model: ModelSpec | None) -> str:
    if model is None:
        return "no draft"
    return f"{model.name} {_SHORT_DTYPE.get(model.weight_dtype, model.weight_dtype)}"


def _sharding(scenarios: Sequence[Scenario]) -> str:
    target = _either(s.deployment.target_degree for s in scenarios)
    draft = _either(s.deployment.draft_degree for s in scenarios)
    return f"TP {target}" if draft == target else f"TP {target}; draft TP {draft}"


def _law(law: Acceptance) -> str:
    match law:
        case RateAcceptance():
            return f"{law.acceptance_rate:g} per token, given those before it"
        case PerPositionAcceptance():
            return f"by position {_rates(law.acceptance_rates)}"
        case ForcedAcceptance():
            return f"forced, {sum(law.accepted) / len(law.accepted):.2f} draft tokens a round"
        case MixtureAcceptance():
            return f"by domain {_domains(law)}"
        case BetaAcceptance():
            return (
                f"{law.mean:g} per token on average, each sequence its own (beta, concentration {law.concentration:g})"
            )
        case MarkovAcceptance():
            easy = f"{law.easy_rate:g} per token in easy stretches of {law.easy_rounds:g} rounds"
            return f"{easy}, {law.hard_rate:g} in hard ones of {law.hard_rounds:g}"
        case RecordedAcceptance():
            return f"replayed from {len(law.requests):,} recorded request{'s' * (len(law.requests) != 1)}"
        case AdversarialAcceptance():
            rate = f"{law.acceptance_rate:g} per token"
            return f"{rate}, {law.adversarial_rate:g} for the {100 * law.share:.3g} % of requests that are adversarial"


def _domains(law: MixtureAcceptance) -> str:
    """``code (0.6) 0.9/0.8 and chat (0.4) 0.5``: the four with the largest shares."""
    largest = sorted(law.domains.items(), key=lambda item: -item[1].share)
    said = [f"{name} ({domain.share:g}) {_rates(domain.acceptance_rates)}" for name, domain in largest[:4]]
    if len(largest) > 4:
        said.append(f"{len(largest) - 4} more")
    return " and ".join(said)


def _rates(rates: Sequence[float]) -> str:
    return "/".join(f"{rate:g}" for rate in rates[:8])
