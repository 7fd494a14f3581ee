"""Is a time taken from quiet windows, and a difference from the same visits?"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from runtime import timing
from runtime.children import run_child
from runtime.timing import Windows, build_all, interleaved
from simulator.errors import MeasurementError, RefusedError


def windows(*rows: tuple[float, float]) -> Windows:
    found = Windows()
    for visit, (seconds, foreign) in enumerate(rows):
        found.add(visit, seconds, foreign)
    return found


def test_windows_with_foreign_load_are_dropped() -> None:
    time = windows((1.0, 0.0), (2.0, 0.5), (1.2, 0.01), (1.1, 0.0)).timing()
    assert time.median == 1.1
    assert (time.windows, time.dropped) == (3, 1)


def test_where_hardly_any_window_is_quiet_all_count() -> None:
    time = windows((1.0, 0.0), (2.0, 0.5), (3.0, 0.5)).timing()
    assert (time.median, time.windows, time.dropped) == (2.0, 3, 0)


def test_a_difference_is_taken_within_visits_so_that_drift_cancels() -> None:
    part = windows(*((float(drift), 0.0) for drift in (10, 20, 30, 40)))
    whole = windows(*((drift + 1.5, 0.0) for drift in (10, 20, 30, 40)))
    assert whole.beyond(part).median == pytest.approx(1.5)
    assert part.beyond(whole).median == pytest.approx(-1.5)


def test_every_program_gets_its_quiet_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = itertools.cycle([0.0, 0.0, 0.0, 0.9])

    def window(run: Callable[[int], float], repetitions: int) -> tuple[float, float]:
        return run(repetitions), next(loads)

    monkeypatch.setattr(timing, "_window", window)
    warm = []
    session = interleaved(
        {"one": lambda _: 1.0, "two": lambda _: 3.0},
        beyond={"two": "one"},
        visits=3,
        window_s=0.01,
        budget_s=60.0,
        warmed_up=lambda: warm.append(True),
    )
    assert session.timing("one").windows >= 3
    assert session.beyond("two", "one").median == 2.0
    assert session.noise_floor == 0.0
    assert warm == [True]


def test_a_budget_ends_the_search_for_quiet_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_window", lambda run, repetitions: (run(repetitions), 0.9))
    session = interleaved({"one": lambda _: 1.0}, visits=3, window_s=0.01, budget_s=0.0)
    assert session.timing("one").windows == 2
    assert session.foreign_load == 0.9


def test_what_fails_to_build_is_raised() -> None:
    def broken() -> Callable[[int], float]:
        raise RefusedError("not executed")

    with pytest.raises(RefusedError, match="not executed"):
        build_all({"bad": broken}, lambda _: None)


def test_a_child_that_fails_leaves_its_last_words() -> None:
    with pytest.raises(MeasurementError, match="exit code 1") as failure:
        run_child({"task": "measure", "devices": "many"}, lambda _: None, 60.0)
    assert "Error" in str(failure.value)


def test_a_child_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(MeasurementError, match=r"did not end within 0\.05 s"):
        run_child({"task": "host", "devices": 1}, lambda _: None, 0.05)
