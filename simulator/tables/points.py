"""One record a row: what a sweep predicts, what was measured; and where the numbers come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.compare import View
from simulator.tables.layout import Column, Table
from simulator.tables.wording import figures, short_names, time_scale

_MEASURED = {
    "plain_step_s": "plain step",
    "draft_first_step_s": "1st draft",
    "draft_step_s": "draft step",
    "verify_step_s": "verify",
    "round_s": "round",
}
_NAMED = 5
_SWEEP_NOTE = (
    "round cost in plain steps; needs: acceptance from which a round pays; speedup over plain decoding of\n"
    "the same target on the same chips: of a long output, and of this one played to its end"
)


def sweep(views: Sequence[View], simulated: Sequence[View] = ()) -> Table:
    """Round cost, needed acceptance and gain of each point; the best is marked.

    Args:
        views: predictions by closed form, whose speedup is that of a long output.
        simulated: those of the same points that play the output to its end.
    """
    unit, scale = time_scale(v.value for view in views if (v := view.get("round_s")))
    each_unit, each_scale = time_scale(v.value for view in views if (v := view.get("tpot_s")))
    # A round says nothing of points that draft nothing, nor a speedup of targets that differ.
    plainly = any(view.get("round_s") is None for view in views) or any("target" in v.other_axes for v in views)
    columns = (
        *_place_columns(views),
        Column(f"tpot {each_unit}"),
        Column(f"round {unit}"),
        Column("round cost"),
        Column("needs"),
        Column("tokens/round"),
        Column("speedup"),
        Column("to the end"),
        Column("", numeric=False),
    )
    played = {view.record.scenario_hash: view for view in simulated}
    names, others = short_names(view.draft for view in views), _other_names(views)
    best = best_by_speedup(views)
    lines = []
    for view in views:
        time, even = view.get("round_s"), view.get("break_even_acceptance")
        each = view.get("tpot_s")
        cells = (
            figures(each.value / each_scale) if each and plainly else "",
            figures(time.value / scale) if time else "",
            _number(view, "round_cost"),
            figures(even.value) if even else _never_or_always(view),
            _number(view, "acceptance_length"),
            _number(view, "speedup"),
            _number(played.get(view.record.scenario_hash), "speedup"),
            _remark(view, view is best),
        )
        lines.append((*_place(view, names, others), *cells))
    drafted = any(view.lookahead for view in views)
    table = Table("", columns, tuple(lines), _SWEEP_NOTE if drafted else "").without_empty_columns()
    # With more axes there is no room for a column that says the same in every row.
    return table.without_constant("X", "K") if any(others) else table


def best_by_speedup(views: Sequence[View]) -> View | None:
    """The answerable point that ends the asked output soonest, against plain decoding, where any gains."""
    ranked = [(gain, view) for view in views if view.record.status.state == "ok" and (gain := _gain(view))]
    top = max(ranked, key=lambda item: item[0], default=None)
    return top[1] if top is not None and top[0] > 1 else None


def _gain(view: View) -> float:
    """Speedup of the asked output, by the exact law of its rounds; that of a long one where there is none."""
    plain, whole, first = (view.get(name) for name in ("plain_step_s", "e2e_s", "ttft_s"))
    decoded = view.scenario.workload.output_tokens - 1
    if plain and whole and first and whole.value > first.value:
        return decoded * plain.value / (whole.value - first.value)
    found = view.get("speedup")
    return found.value if found else 0.0


def measurements(views: Sequence[View]) -> Table:
    """The measured times of each point, with half the width of their intervals in percent."""
    terms = [term for term in _MEASURED if any(view.get(term) for view in views)]
    scales = {t: time_scale(v.value for view in views if (v := view.get(t))) for t in terms}
    columns = [*_place_columns(views), *(Column(scales[term][0], group=_MEASURED[term]) for term in terms)]
    columns += [Column("speedup"), Column("a round", group="tokens"), Column("", numeric=False)]
    names, others = short_names(view.draft for view in views), _other_names(views)
    lines = [
        (
            *_place(view, names, others),
            *(_spread(view, term, scales[term][1]) for term in terms),
            _spread(view, "speedup", 1.0),
            _number(view, "acceptance_length"),
            _remark(view, is_best=False),
        )
        for view in views
    ]
    return Table("", tuple(columns), tuple(lines)).without_empty_columns()


def _place_columns(views: Sequence[View]) -> list[Column]:
    others = dict.fromkeys(path for view in views for path in view.other_axes)
    fixed = [Column("draft", numeric=False), Column("X"), Column("K")]
    return fixed + [Column(path.rpartition(".")[2], numeric=False) for path in others]


def _place(view: View, names: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    told = (others[path].get(str(value), str(value)) for path, value in view.other_axes.items())
    return (names[view.draft], str(view.chips), str(view.lookahead), *told)


def _other_names(views: Sequence[View]) -> dict[str, dict[str, str]]:
    """Shorter names for the values of the other axes of a sweep, where they are names."""
    found: dict[str, dict[str, str]] = {}
    for path in dict.fromkeys(path for view in views for path in view.other_axes):
        values = [value for view in views if isinstance(value := view.other_axes.get(path), str)]
        found[path] = short_names(values)
    return found


def _number(view: View | None, term: str) -> str:
    value = view.get(term) if view is not None else None
    return figures(value.value) if value else ""


def _spread(view: View, term: str, scale: float) -> str:
    value = view.get(term)
    if value is None:
        return ""
    if value.low is None or value.high is None:
        return figures(value.value / scale)
    return f"{figures(value.value / scale)} +-{(value.high - value.low) / 2 / value.value:.0%}"


def _never_or_always(view: View) -> str:
    """Why there is no break-even acceptance: the round costs more than K+1 tokens, or less than one."""
    cost = view.get("round_cost")
    if cost is None or view.lookahead == 0:
        return ""
    return "always" if cost.value < 1 else "never"


def _remark(view: View, is_best: bool) -> str:
    status = view.record.status
    if status.state != "ok":
        return status.state.replace("_", " ")
    return "<- best" if is_best else ""


def calibration_words(views: Sequence[View]) -> list[str]:
    """Which calibrations stand behind some predictions, what they were fitted on, and whether they hold here."""
    return list(dict.fromkeys(words for view in views for words in _calibration(view)))


def _few(names: Sequence[str]) -> str:
    """The names, or some of them where they are many; the report has all."""
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[: _NAMED - 1])} and {more + 1} more"


def _calibration(view: View) -> list[str]:
    name = view.scenario.deployment.calibration
    if name is None:
        return [_without_calibration(view), *_engine_words(view)]
    told: Mapping[str, Any] = view.record.provenance.get("calibration") or {}
    free, fitted = told.get("free_parameters", "?"), told.get("fitted_values", "?")
    named = [str(one) for one in told.get("free_parameter_names", ())]
    # Of many the profile has the list.
    names = _few(named) if len(named) <= 2 * _NAMED else ""
    words = f"calibration {name}: {free} free parameter{'s' * (free != 1)}{f' ({names})' if names else ''}"
    words += f" fitted to {fitted} value{'s' * (fitted != 1)}"
    if isinstance(residual := told.get("residual"), float | int):
        words += f", residual {100 * residual:.1f} %"
    words += "" if view.validated else "; NOT VALIDATED here"
    source = told.get("source")
    return [words, *([f"    from {source}"] if source else []), *_engine_words(view)]


def _without_calibration(view: View) -> str:
    """A floor, unless what an engine adds to the datasheet is known."""
    if (view.record.provenance.get("engine") or {}).get("known"):
        return "no calibration: datasheet peaks, and what is known of the engine; NOT VALIDATED here"
    times = "All times but those that are anchored" if view.record.provenance.get("anchored") else "These times"
    return f"no calibration: datasheet peaks without any overhead. {times} are a floor, NOT a prediction."


def _engine_words(view: View) -> list[str]:
    """Which engine's overheads are in the times; that none are, where nothing is known of it."""
    engine: Mapping[str, Any] = view.record.provenance.get("engine") or {}
    if not engine:
        return []
    if not engine.get("known"):
        return [f"engine {engine.get('name')}: {engine.get('words')}"]
    free, fitted = engine.get("free_parameters", "?"), engine.get("fitted_values", "?")
    fit = f"{free} number{'s' * (free != 1)} fitted to {fitted} value{'s' * (fitted != 1)}"
    return [f"engine {engine.get('name')}: {fit}; {engine.get('description')}"]
