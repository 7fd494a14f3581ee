"""Do the figures show what the records say, readable without colour and without a wide page?"""

from __future__ import annotations

from typing import Any

import pytest

from simulator import figures
from simulator.compare import Comparison, compare
from simulator.figures.style import NOT_VALIDATED
from simulator.spec.record import RunRecord, Validation
from tests.synthetic import predicted_and_measured


@pytest.fixture(scope="module")
def records() -> list[RunRecord]:
    return predicted_and_measured()


@pytest.fixture(scope="module")
def comparison(records: list[RunRecord]) -> Comparison:
    return compare(records)


def drawn(comparison: Comparison) -> dict[str, Any]:
    views = comparison.views
    return {
        "parity": figures.parity(comparison),
        "rounds": figures.rounds(views),
        "speedup": figures.speedup(views),
        "mechanisms": figures.mechanisms(views),
        "time_to_tokens": figures.time_to_tokens(views),
    }


def texts(figure: Any) -> list[str]:
    return [note.text for note in figure.layout.annotations]


def test_every_figure_is_drawn_and_none_has_a_width_of_its_own(comparison: Comparison) -> None:
    for figure in drawn(comparison).values():
        assert figure.data
        assert figure.layout.width is None
        assert figure.layout.legend.orientation == "h"


def test_predictions_that_nobody_validated_say_so_in_every_plot(
    comparison: Comparison, records: list[RunRecord]
) -> None:
    assert all(any(NOT_VALIDATED in text for text in texts(f)) for f in drawn(comparison).values())
    state = Validation(state="validated", record="measured.json")
    checked = compare([record.model_copy(update={"validation": state}) for record in records])
    assert not any(NOT_VALIDATED in text for f in drawn(checked).values() for text in texts(f))


def test_measurements_alone_make_no_claim_that_needs_validation(records: list[RunRecord]) -> None:
    views = compare([record for record in records if record.kind == "measured"]).views
    assert NOT_VALIDATED not in "".join(texts(figures.rounds(views)))


def test_stacked_series_differ_in_pattern_and_lines_in_dash_or_symbol(comparison: Comparison) -> None:
    for figure in (figures.rounds(comparison.views), figures.mechanisms(comparison.views)):
        bars = [trace for trace in figure.data if trace.type == "bar"]
        assert len({trace.marker.pattern.shape for trace in bars}) == len(bars)
    lines = {(trace.name, trace.line.dash, trace.marker.symbol) for trace in figures.speedup(comparison.views).data}
    assert len({(dash, symbol) for _, dash, symbol in lines}) == len({name for name, _, _ in lines}) == 4


def test_the_parts_of_each_round_add_up_to_the_round(comparison: Comparison) -> None:
    figure = figures.rounds(comparison.views)
    bars = [trace for trace in figure.data if trace.type == "bar"]
    ends = [sum(trace.x[index] or 0.0 for trace in bars) for index in range(len(bars[0].y))]
    shown = {view.record.kind: view for view in comparison.views}
    rounds = {view.get("round_s").value for view in comparison.views if view.get("round_s")}
    assert len(bars[0].y) == 2 * 12
    assert shown.keys() == {"analytic", "simulated", "measured"}
    for end in ends:
        assert min(abs(end * 1e-3 - value) for value in rounds) < 1e-9


def test_parity_has_a_point_for_every_compared_time_with_its_spread(comparison: Comparison) -> None:
    figure = figures.parity(comparison)
    points = {trace.name: trace for trace in figure.data if trace.mode == "markers"}
    assert {"plain step", "draft step", "verify step", "round"} <= points.keys()
    assert all(len(points[name].x) == 12 for name in ("plain step", "round"))
    assert points["round"].error_x.array is not None
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_speedup_has_a_panel_for_each_number_of_chips(comparison: Comparison) -> None:
    figure = figures.speedup(comparison.views)
    assert {"on 1 device", "on 4 devices"} <= set(texts(figure))
    predicted = [trace for trace in figure.data if trace.mode == "lines"]
    seen = [trace for trace in figure.data if trace.mode == "markers"]
    assert [list(trace.x) for trace in predicted] == [[2, 4, 8]] * 4
    assert all(trace.error_y.array is not None for trace in seen)


def test_a_large_sweep_is_drawn_in_part_and_says_so(records: list[RunRecord]) -> None:
    many = []
    for length in range(100, 108):
        for record in records:
            workload = record.scenario["workload"] | {"output_tokens": length}
            axes = record.axes | {"workload.output_tokens": length}
            scenario = record.scenario | {"workload": workload}
            many.append(record.model_copy(update={"scenario": scenario, "axes": axes}))
    views = compare(many).views
    assert "(the first 40 of 96 points)" in figures.rounds(views).layout.xaxis.title.text
    assert "(the first 6 of 16 series)" in figures.speedup(views).layout.xaxis2.title.text
    assert len(figures.time_to_tokens(views).data[-1].y) == 2 * 40


def test_nothing_is_drawn_of_what_no_record_has(records: list[RunRecord]) -> None:
    bare = records[0].model_copy(update={"metrics": {"plain_step_s": 0.01}, "components": {}, "mechanisms": {}})
    comparison = compare([bare])
    assert drawn(comparison) == dict.fromkeys(("parity", "rounds", "speedup", "mechanisms", "time_to_tokens"))
