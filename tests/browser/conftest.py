"""A browser where there is one; a skip with its reason where there is none."""

from __future__ import annotations

import pytest

from tests.browser import chromium


@pytest.fixture(scope="session")
def browser() -> str:
    """Path of a Chromium."""
    found = chromium.find()
    if found is None:
        pytest.skip("no Chromium on this machine; on Debian: apt-get install chromium")
    return found
