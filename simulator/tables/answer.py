"""The first answer to a planner: does it fit, what does plain decoding cost, what a round, and when does it pay."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from simulator.compare import View
from simulator.compare.views import devices, question_key
from simulator.tables.anchors import anchored_to
from simulator.tables.layout import WIDTH, plain
from simulator.tables.points import best_by_speedup
from simulator.tables.wording import figures, interval, time_scale
from simulator.units import human_bytes, human_time

_LABEL = 16
MAX_GROUPS = 6


def answer(views: Sequence[View]) -> list[str]:
    """The lines of the answer, for each draft on each number of chips; the best K stands for its group."""
    groups: dict[str, list[View]] = {}
    for view in views:
        decoding = {name: value for name, value in view.asked["decoding"].items() if name != "lookahead"}
        measured = view.scenario.measured and view.scenario.measured.model_dump(mode="json")
        groups.setdefault(question_key(view.asked | {"decoding": decoding, "measured": measured}), []).append(view)
    lines: list[str] = []
    for group in list(groups.values())[:MAX_GROUPS]:
        view = best_by_speedup(group) or group[0]
        if len(groups) > 1:
            # What else differs from group to group: decoding is no part of it.
            others = [f"{path} {value}" for path, value in view.other_axes.items() if not path.startswith("decoding.")]
            lines += [*([""] if lines else []), ", ".join((f"{view.draft} on {devices(view)}", *others))]
        lines += [wrapped for label, words in _facts(view) for wrapped in _wrap(label, words)]
    if len(groups) > MAX_GROUPS:
        lines += ["", f"and {len(groups) - MAX_GROUPS} more groups like these: see the table"]
    return lines


def _facts(view: View) -> Iterator[tuple[str, str]]:
    yield _memory(view)
    if anchors := anchored_to(view):
        yield "anchored to", anchors
    plain_step, floor, nominal = (view.get(f"{name}_s") for name in ("plain_step", "bandwidth_floor", "nominal_floor"))
    if plain_step:
        told = f"{human_time(plain_step.value)} a token {interval('plain_step_s', plain_step)}"
        yield "plain decoding", f"{told.ljust(23)} {_mechanisms(view.record.mechanisms.get('plain_step', {}))}"
    if floor:
        published = f"; {human_time(nominal.value)} by the published parameter count" if nominal else ""
        yield "floor", f"{human_time(floor.value)} a token at datasheet bandwidth with the bytes of the step{published}"
    if prefill := view.get("prefill_s"):
        yield "first token", _first_token(view, prefill.value)
    if round_s := view.get("round_s"):
        cost = view.get("round_cost")
        ratio = f" = {cost.value:.2f} plain steps" if cost else ""
        told = f"{human_time(round_s.value)} {interval('round_s', round_s)}".rstrip()
        yield f"a round, K={view.lookahead}", f"{told}{ratio}: {_split(view)}"
        if ahead := view.get("round_ahead_s"):
            yield "drafted ahead", f"{human_time(ahead.value)} a round after one that kept all {view.lookahead} tokens"
        yield "pays above", _pays(view)
        if own := view.scenario.deployment.own_draft_chips:
            beside = f"plain decoding on the target's {view.scenario.deployment.target_chips} chips"
            yield "gain over", f"{beside}; the draft's {own} would stand idle, and could serve the target instead"
    if usd := _cost(view):
        yield "cost", usd


def _memory(view: View) -> tuple[str, str]:
    used, status = view.get("memory_per_chip_bytes"), view.record.status
    if status.state == "does_not_fit":
        return "DOES NOT FIT", status.reason
    limit = human_bytes(view.scenario.deployment.hardware.usable_bytes())
    terms = view.record.provenance.get("memory_terms_bytes")
    parts = sorted(terms.items(), key=lambda item: -item[1])[:4] if isinstance(terms, Mapping) else []
    detail = ", ".join(f"{name} {human_bytes(value)}" for name, value in parts)
    told = f"{human_bytes(used.value)} of {limit} a chip" if used else f"not known; {limit} a chip"
    if status.state != "ok":
        told += f"; {status.state.replace('_', ' ').upper()}: {status.reason}"
    return ("fits" if used else "memory"), told + (f" ({detail})" if detail else "")


def _first_token(view: View, prefill_s: float) -> str:
    """TTFT without queueing, and what it is made of."""
    whole, draft = view.get("ttft_s"), view.get("draft_prefill_s")
    told = f"{human_time(whole.value if whole else prefill_s)} for {view.scenario.workload.prompt_tokens:,} tokens"
    told += f" (draft {human_time(draft.value)})" if draft else ""
    if beyond := view.record.provenance.get("prefill_extrapolated"):
        told += f"; EXTRAPOLATED: {beyond}"
    if total := view.get("e2e_s"):
        told += f"; end to end {human_time(total.value)} for {view.scenario.workload.output_tokens:,} tokens out"
    return told


def _cost(view: View) -> str:
    """What a million tokens cost, plainly and by this draft; empty without a price, or where it does not fit."""
    plainly, drafted = view.get("plain_million_tokens_usd"), view.get("million_tokens_usd")
    if plainly is None or drafted is None or view.record.status.state == "does_not_fit":
        return ""
    by_draft = f", {figures(drafted.value)} at K={view.lookahead}" if view.lookahead else ""
    chips = f"{view.chips} chip{'s' * (view.chips != 1)} at {view.scenario.deployment.chip_usd_per_h:.2f} USD/h"
    return f"{figures(plainly.value)} USD per million output tokens by plain decoding{by_draft} ({chips}, no prefill)"


def _mechanisms(parts: Mapping[str, float]) -> str:
    """What the time goes to, the largest first, in the unit of the largest."""
    unit, scale = time_scale(parts.values())
    ranked = sorted(parts.items(), key=lambda item: -item[1])
    words = (f"{name.replace('_', ' ')} {figures(value / scale)}" for name, value in ranked if value > 0)
    return " | ".join(words) + (f" {unit}" if parts else "")


def _split(view: View) -> str:
    """``first draft step 1.81 | draft 3 x 1.80 | verify 14.2 | ...``."""
    parts = round_parts(view)
    unit, scale = time_scale(parts.values())
    words = []
    for name, value in parts.items():
        count = view.lookahead - 1
        amount = f"{count} x {figures(value / count / scale)}" if name == "draft steps" else figures(value / scale)
        words.append(f"{name} {amount}")
    return " | ".join(words) + (f" {unit}" if parts else "")


def _pays(view: View) -> str:
    cost, even = view.get("round_cost"), view.get("break_even_acceptance")
    if even:
        return f"acceptance {even.value:.2f} at K={view.lookahead}, of each token given those before it"
    if cost and cost.value > view.lookahead + 1:
        return (
            f"no acceptance at all: a round costs {cost.value:.2f} plain steps and emits at most {view.lookahead + 1}"
        )
    if cost and cost.value >= 1:
        return "no acceptance at all: even where all is accepted, rounds take longer than plain steps"
    return "any acceptance: a round costs less than a plain step" if cost else "not known"


def round_parts(view: View) -> dict[str, float]:
    """Seconds of a round by part, in the order in which they run; what no part explains is ``not separated``."""
    steps = (
        ("first draft step", "draft_first_step_s", 1),
        ("draft steps", "draft_step_s", view.lookahead - 1),
        ("shipping", "shipping_s", 1),
        ("verify", "verify_step_s", 1),
        ("sampling", "sampling_s", 1),
        ("overhead", "round_overhead_s", 1),
    )
    parts = {name: count * value.value for name, term, count in steps if count > 0 and (value := view.get(term))}
    total = view.get("round_s")
    rest = total.value - sum(parts.values()) if total else 0.0
    return parts | ({"not separated": rest} if total and rest > 1e-6 * total.value else {})


def _wrap(label: str, words: str) -> list[str]:
    indent = " " * _LABEL
    text = textwrap.wrap(plain(words), WIDTH - _LABEL, break_on_hyphens=False) or [""]
    return [label.ljust(_LABEL) + text[0].strip(), *(indent + line for line in text[1:])]


def wrapped(*paragraphs: str) -> list[str]:
    """``paragraphs`` in lines of at most 100 columns, for a terminal."""
    fill = textwrap.TextWrapper(WIDTH, break_on_hyphens=False, subsequent_indent="    ")
    return [line for words in paragraphs for line in fill.wrap(plain(words))]
