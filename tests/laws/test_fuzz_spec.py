"""Whatever stands in a file, loading it gives points or a ConfigError that a person can read.

`pytest tests/laws/test_fuzz_spec.py --fuzz-examples 5000` looks longer, each time elsewhere.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.errors import ConfigError
from simulator.spec.axes import path_problem
from simulator.spec.describe import every_path
from simulator.spec.explain import explain
from simulator.spec.load import load_scenario, scenario_from
from simulator.spec.scenario import Scenario
from simulator.spec.source import parse
from tests.builders import scenario

Check = Callable[[Any], None]
PATHS = every_path(Scenario)
KEYS = sorted({key for path in PATHS for key in path.split(".")} | {"base", "sweep", "kind", "<<", "table", "at"})
GOOD: dict[str, Any] = {
    **json.loads(json.dumps(scenario().resolved())),
    "sweep": {"decoding.lookahead": [2, 4], "target.layers": [16]},
    "plan": {
        "drafts": {"layers": [1, 4], "d_model": [256], "head_dim": 64, "kv_share": [0.5], "vocabulary": [4096]},
        "existing": ["llama-3.2-1b"],
        "targets": [{"name": "int8", "weight_dtype": "int8", "chips": 2}],
        "limits": {"tpot": "5 ms", "price": "3 USD/h"},
        "prior": {"points": [{"loss_gap": 0.2, "acceptance": 0.7}]},
    },
    "published": [
        {"metric": "tpot_s", "value": "5 ms", "where": "table 1", "source": "a paper", "use": "fit", "at": {"seed": 0}}
    ],
}
GOOD_TEXT = yaml.safe_dump(GOOD, sort_keys=False)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@pytest.fixture
def fuzz(request: pytest.FixtureRequest) -> Callable[[st.SearchStrategy[Any], Check], None]:
    """Runs a check on as many examples as the option says; the default number is the same examples every time."""
    count = request.config.getoption("--fuzz-examples")
    rules = settings(
        max_examples=count,
        derandomize=count <= 300,
        database=None,
        deadline=timedelta(seconds=10),
        suppress_health_check=list(HealthCheck),
    )

    def run(strategy: st.SearchStrategy[Any], check: Check) -> None:
        @rules
        @given(strategy)
        def on_every_example(example: Any) -> None:
            check(example)

        on_every_example()

    return run


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., None]:
    """Loads text or bytes as a scenario file, and checks what comes of it."""

    def check(content: str | bytes, options: tuple[str, ...] = ()) -> None:
        path = tmp_path / "fuzzed.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        try:
            points = load_scenario(path, options)
        except ConfigError as error:
            assert_readable(error)
        else:
            assert points
            for point in points[:3]:
                resolved = point.scenario.resolved()
                back = scenario_from(json.loads(json.dumps(resolved, allow_nan=False)))
                assert back.resolved() == resolved

    return check


def assert_readable(error: ConfigError) -> None:
    assert error.problems
    for problem in error.problems:
        assert problem.accepts.strip(), problem
        assert "\n" not in f"{problem.accepts}{problem.found}", problem
        assert str(problem).count("\n") == 1 + bool(problem.found), problem
        assert not re.search(r"pydantic|Input should|<class|Traceback|^something else", problem.accepts), problem
        assert (problem.line >= 1) == (problem.column >= 1), problem
    str(error).encode("utf-8")


def test_bytes(fuzz: Callable[..., None], load: Check) -> None:
    fuzz(st.binary(max_size=200), load)


def test_text_of_yaml_marks(fuzz: Callable[..., None], load: Check) -> None:
    marks = st.sampled_from(
        [*":-?[]{},&*!|>'\"%@`#~<\n\t ", ": ", "\n  ", "\n- ", "&a ", "*a ", "!!int ", "---\n", "<<: "]
    )
    values = st.sampled_from([*KEYS, "1", "1e6", ".nan", "true", "1 GB/s", "\\x", "\u2028", "\ufeff", "\x85", "é"])
    fuzz(st.lists(marks | values, max_size=40).map("".join), load)


def test_characters_changed_in_a_valid_file(fuzz: Callable[..., None], load: Check) -> None:
    edits = st.lists(
        st.tuples(st.integers(0, len(GOOD_TEXT)), st.integers(0, 12), st.text(max_size=4)), min_size=1, max_size=5
    )

    def edited(changes: list[tuple[int, int, str]]) -> str:
        text = GOOD_TEXT
        for at, length, new in changes:
            text = text[:at] + new + text[at + length :]
        return text

    fuzz(edits.map(edited), load)


names = st.sampled_from(KEYS) | st.text(max_size=6)
hostile = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 200),
    st.integers(-(10**39), 10**39),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["1 GB/s", "-1 s", "1e308 TB", "0 B", "5 ms", "rate", "model", "none", "tiny", "../x.yaml", "2x2", "0" * 99]
    ),
    st.sampled_from([[], {}, [[]], [None], {"kind": "model"}, {"kind": "none"}, {"kind": []}, {"kind": {}}, {1: 2}]),
    st.integers(1, 60).map(lambda depth: json.loads("[" * depth + "]" * depth)),
    st.integers(1, 60).map(lambda depth: json.loads('{"a":' * depth + "1" + "}" * depth)),
)
trees = st.recursive(
    hostile, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.integers(0, 9), inner, max_size=4)
)


def dumped(data: Any) -> str:
    return str(yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=True))


def test_trees(fuzz: Callable[..., None], load: Check) -> None:
    fuzz(st.dictionaries(names, trees, max_size=8).map(dumped), load)


def every_place(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inside for place in every_place(value, (*path, key)))]


PLACES = every_place(GOOD)[1:]
mutation = st.tuples(
    st.sampled_from(PLACES), st.sampled_from(["drop", "set", "set", "rename", "add", "wrap"]), names, trees
)


def mutated(changes: list[tuple[tuple[Any, ...], str, str, Any]]) -> Any:
    data = copy.deepcopy(GOOD)
    for path, what, name, value in changes:
        parent: Any = data
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
            for part in path[:-1]:
                parent = parent[part]
            change(parent, path[-1], what, name, value)
    return data


def change(parent: Any, key: Any, what: str, name: str, value: Any) -> None:
    if what == "set":
        parent[key] = value
    elif what == "wrap":
        parent[key] = [parent[key]]
    elif what == "add":
        parent[key][name] = value
    else:
        old = parent.pop(key)
        if what == "rename":
            parent[name] = old


def test_mutations_of_a_valid_scenario(fuzz: Callable[..., None], load: Check) -> None:
    fuzz(st.lists(mutation, min_size=1, max_size=4).map(mutated).map(dumped), load)


def test_one_mutation_of_a_valid_scenario(fuzz: Callable[..., None], load: Check) -> None:
    fuzz(st.tuples(mutation).map(list).map(mutated).map(dumped), load)


def test_options(fuzz: Callable[..., None], load: Callable[..., None]) -> None:
    paths = st.sampled_from(PATHS) | st.lists(names, max_size=4).map(".".join) | st.text(max_size=8)
    values = trees.map(json.dumps) | st.text(max_size=8)
    options = st.lists(st.builds("{}={}".format, paths, values) | st.text(max_size=8), min_size=1, max_size=3)
    fuzz(options.map(tuple), lambda given_options: load(GOOD_TEXT, given_options))


def test_a_base_under_mutations(fuzz: Callable[..., None], load: Check, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(GOOD_TEXT, "utf-8")
    own = st.lists(mutation, min_size=1, max_size=3).map(mutated)
    parts = st.tuples(own, st.sets(st.sampled_from(sorted(GOOD))))
    fuzz(parts.map(lambda p: dumped({"base": "base.yaml"} | {k: v for k, v in p[0].items() if k in p[1]})), load)


def test_paths_are_known_or_explained(fuzz: Callable[..., None]) -> None:
    def check(path: str) -> None:
        assert isinstance(path_problem(path), str)
        try:
            assert explain(path)
        except ConfigError as error:
            assert_readable(error)

    fuzz(st.sampled_from(PATHS) | st.lists(names, max_size=5).map(".".join) | st.text(max_size=10), check)


def test_what_is_parsed_is_plain_data_with_a_place_for_everything(fuzz: Callable[..., None]) -> None:
    def check(tree: Any) -> None:
        with contextlib.suppress(ConfigError):
            document = parse(dumped(tree), "f.yaml")
            assert len(document.places) == len(every_place(json.loads(json.dumps(_lists(document.data)))))

    fuzz(trees, check)


def _lists(data: Any) -> Any:
    if isinstance(data, dict):
        # JSON would make one key of 1 and '1'.
        return {f"{type(key).__name__} {key}": _lists(value) for key, value in data.items()}
    return [_lists(value) for value in data] if isinstance(data, tuple) else data
