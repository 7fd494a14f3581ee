"""Does docs/published.md hold the tables that `sps validate published` prints?"""

from __future__ import annotations

from pathlib import Path

from simulator import tables
from simulator.spec.publication import load_all
from simulator.validation.published import crossed, judged, orders, summaries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "published.md"
START, END = "<!-- tables -->\n```\n", "```\n<!-- end -->"


def written() -> str:
    """The tables as they come out now."""
    published = load_all()
    rows = judged(published)
    found = [*summaries(rows), *crossed(published)]
    parts = [*tables.published_verdict(rows), ""]
    parts += [f"{tables.published_errors(found, by).text()}\n" for by in ("quantity", "hardware", "engine", "cross")]
    return "\n".join([*parts, tables.published_orders(orders(rows)).text()]) + "\n"


def test_the_page_has_the_tables_of_today(fix: bool) -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    old, _, after = rest.partition(END)
    now = written()
    if fix:
        PAGE.write_text(f"{before}{START}{now}{END}{after}", encoding="utf-8")
        return
    # A number may move in its last digit with the library that solved a fit.
    assert [line.split()[:2] for line in old.splitlines()] == [line.split()[:2] for line in now.splitlines()]
    assert _numbers(old) == _close(_numbers(now))


def _numbers(text: str) -> list[float]:
    words = (word.rstrip("%") for word in text.split())
    return [float(word) for word in words if word.lstrip("+-").replace(".", "", 1).isdigit()]


def _close(numbers: list[float]) -> object:
    import pytest

    return pytest.approx(numbers, abs=0.15, rel=0.01)
