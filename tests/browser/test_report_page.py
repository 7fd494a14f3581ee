"""Does the report work in a real browser, offline, on a desk and on a telephone?"""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.compare import compare
from simulator.report import report
from tests.browser.chromium import Page
from tests.synthetic import predicted_and_measured

pytestmark = pytest.mark.browser
_OVERFLOWING = """
    [...document.querySelectorAll("body *")]
        .filter(e => !e.closest(".scroll") && !e.closest("svg") && e.getBoundingClientRect().right > innerWidth + 1)
        .map(e => e.tagName + "." + e.className)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report(compare(predicted_and_measured())), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False)])
def test_the_report_opens_from_a_file_and_fits(
    browser: str, file: Path, tmp_path: Path, width: int, dark: bool
) -> None:
    with Page(browser, tmp_path, width, dark=dark) as page:
        page.load(file)
        assert page.complaints() == []
        assert page.requests() == [file.as_uri()]
        assert page.evaluate("document.querySelectorAll('.js-plotly-plot').length") == 5
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(_OVERFLOWING) == []
        drawn = page.evaluate("[...document.querySelectorAll('.plot')].map(p => p.querySelector('svg').clientWidth)")
        assert all(0.6 * min(width, 992) < one <= width for one in drawn)


def test_paper_is_light_and_narrow_whatever_the_screen(browser: str, file: Path, tmp_path: Path) -> None:
    with Page(browser, tmp_path, 1280, dark=True) as page:
        page.load(file)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        widths = page.evaluate("[...document.querySelectorAll('.plot')].map(p => p.querySelector('svg').clientWidth)")
        ink = page.evaluate("document.querySelector('.xtitle').style.fill")
        assert set(widths) == {680}
        assert ink == "rgb(51, 51, 51)"
        assert page.complaints() == []
