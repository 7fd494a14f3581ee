"""Does the page of a plan work in a real browser, offline, on a desk and on a telephone?"""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.plan import best_lookahead, plan
from simulator.report import plan_page, rendered
from simulator.spec.load import load_scenario
from simulator.spec.named import models_named
from tests.browser.chromium import Page
from tests.browser.test_report_page import _OVERFLOWING

pytestmark = pytest.mark.browser
SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "plan_chinchilla_draft.yaml"
_CUT = """
    [...document.querySelectorAll(".plot text")].filter(t => {
        const box = t.getBoundingClientRect(), plot = t.closest(".plot").getBoundingClientRect();
        return box.width && (box.left < plot.left - 1 || box.right > plot.right + 1 || box.bottom > plot.bottom + 1);
    }).map(t => t.textContent)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.html"
    (point,) = load_scenario(SCENARIO, ())
    assert point.scenario.plan is not None
    outcome = plan(point.scenario, models_named(point.scenario.plan.named_models, SCENARIO.parent))
    path.write_text(rendered(plan_page(outcome, best_lookahead(outcome))), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False)])
def test_the_page_opens_from_a_file_and_fits(browser: str, file: Path, tmp_path: Path, width: int, dark: bool) -> None:
    with Page(browser, tmp_path, width, dark=dark) as page:
        page.load(file)
        assert page.complaints() == []
        assert page.requests() == [file.as_uri()]
        assert page.evaluate("document.querySelectorAll('.js-plotly-plot').length") == 4
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(_OVERFLOWING) == []
        assert page.evaluate(_CUT) == []
        drawn = page.evaluate("[...document.querySelectorAll('.plot')].map(p => p.querySelector('svg').clientWidth)")
        assert all(0.6 * min(width, 992) < one <= width for one in drawn)
