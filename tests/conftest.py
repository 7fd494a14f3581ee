"""Options and fixtures that all tests share."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples on every run and on every machine, however busy: time is measured in benchmarks/, not asserted here.
settings.register_profile("sps", deadline=None, derandomize=True)
settings.load_profile("sps")

# The planner is tested without JAX too. Virtual devices must be set before the first of them is used.
if importlib.util.find_spec("jax") is not None:
    import jax

    jax.config.update("jax_num_cpu_devices", 8)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say how tests may be run."""
    parser.addoption("--fix", action="store_true", help="rewrite the expected texts and generated files, then compare")
    parser.addoption("--fuzz-examples", type=int, default=300, metavar="N", help="examples of each fuzz test (300)")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs the TPU compiler where it is not installed; it is looked for, not loaded."""
    if item.get_closest_marker("tpu_compiler") and importlib.util.find_spec("libtpu") is None:
        pytest.skip("needs the TPU compiler: the extra 'tpu' (libtpu)")


@pytest.fixture
def fix(request: pytest.FixtureRequest) -> bool:
    """Whether expected texts are to be rewritten."""
    return bool(request.config.getoption("--fix"))


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """Machine code that is hardly optimised, for tests that compile much and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
