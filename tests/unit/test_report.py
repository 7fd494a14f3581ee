"""Is the report one file that needs nothing, says what was asked first, and believes no record?"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from simulator.compare import compare, question
from simulator.report import report
from simulator.spec.record import RunRecord, Status
from tests.synthetic import predicted_and_measured

ONE_POINT = ("decoding.lookahead=4", "deployment.chips=4", "draft.model=quickstart-draft-wide")
EVIL = "</script><img src=x onerror=alert(1)>"


class _Outline(HTMLParser):
    """Tags with their attributes, and the text that a reader sees, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style", "title") and data.strip():
            self.words.append(data.strip())


def outline(page: str) -> _Outline:
    found = _Outline()
    found.feed(page)
    return found


@pytest.fixture(scope="module")
def records() -> list[RunRecord]:
    return predicted_and_measured(ONE_POINT)


@pytest.fixture(scope="module")
def page(records: list[RunRecord]) -> str:
    return report(compare(records))


def test_the_first_words_are_the_question(page: str, records: list[RunRecord]) -> None:
    assert outline(page).words[0] == question(compare(records).views)


def test_plotly_is_inlined_once_and_nothing_is_fetched(page: str) -> None:
    tags = outline(page).tags
    assert page.count("plotly.js v") == 1
    assert not [a for tag, a in tags if tag in ("script", "img", "iframe", "link") and "http" in str(a)]
    assert not [a for tag, a in tags if tag == "script" and "src" in a]
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_the_page_takes_the_width_of_the_device(page: str) -> None:
    viewport = next(a["content"] for tag, a in outline(page).tags if tag == "meta" and a.get("name") == "viewport")
    assert viewport == "width=device-width, initial-scale=1"


def test_every_table_scrolls_in_a_box_of_its_own(page: str) -> None:
    assert page.count("<table>") == len(re.findall(r'<div class="scroll"[^>]*><table>', page)) > 3


def test_words_from_files_are_text_and_nothing_else(records: list[RunRecord]) -> None:
    spoilt = []
    for record in records:
        scenario = record.scenario | {"description": EVIL}
        told = {"calibration": {"name": EVIL, "source": EVIL}, EVIL: {"note": EVIL}}
        state = Status(state="outside_calibration", reason=EVIL)
        axes = {"draft.model": EVIL, "workload.batch": EVIL}
        changes = {"scenario": scenario, "provenance": told, "status": state, "axes": axes}
        spoilt.append(record.model_copy(update=changes))
    page = report(compare(spoilt))
    assert "<img" not in page.replace("<image", "").partition("plotly.js v")[0]
    assert page.partition("plotly.js v")[0].count("&lt;img") > 3
    assert not [a for tag, a in outline(page).tags if tag == "img"]


def test_figure_data_are_json_that_cannot_end_their_script(page: str) -> None:
    blocks = re.findall(r'<script type="application/json" id="figure-\d+">(.*?)</script>', page, flags=re.DOTALL)
    assert len(blocks) == page.count('class="plot"') == 5
    for block in blocks:
        assert "<" not in block
        assert json.loads(block).keys() >= {"data", "layout"}


def test_what_is_wrong_is_told_in_words(records: list[RunRecord]) -> None:
    floor = records[0].metric("bandwidth_floor_s")
    assert floor is not None
    bad = records[-1].model_copy(update={"metrics": records[-1].metrics | {"plain_step_s": floor / 2}})
    page = report(compare([*records[:2], bad]))
    assert "under the physical floor: invalid measurement" in page
    assert "NOT VALIDATED" in page


def test_the_same_records_give_the_same_bytes(records: list[RunRecord], page: str) -> None:
    assert report(compare(records)) == page


def test_predictions_alone_make_a_report(records: list[RunRecord]) -> None:
    words = outline(report(compare(records[:2]))).words
    assert "What each point promises" in words
