"""Do the editors' schemas agree with the loader, and does every file of the toolkit name its own?"""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from simulator.spec.library import MODELS, PROFILES, SCENARIOS
from simulator.spec.schema import FILES, schema_text
from simulator.spec.source import read

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs/schema"
KINDS = {PROFILES: "hardware", MODELS: "model", SCENARIOS: "scenario", SCENARIOS / "published": "publication"}
SHIPPED = [(path, kind) for folder, kind in KINDS.items() for path in sorted(folder.glob("*.yaml"))]
GOOD = read(ROOT / "tests/bad_yaml/parts/good.yaml").data


@pytest.mark.parametrize("name", FILES)
def test_the_written_schema_is_the_current_one(name: str, fix: bool) -> None:
    path = SCHEMAS / f"{name}.schema.json"
    if fix:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(schema_text(name), "utf-8")
    assert path.read_text("utf-8") == schema_text(name), "run pytest tests/unit/test_schema.py --fix"


@pytest.mark.parametrize(("path", "kind"), SHIPPED, ids=lambda value: getattr(value, "stem", str(value)))
def test_shipped_file_names_its_schema_and_fits_it(path: Path, kind: str) -> None:
    first = path.read_text("utf-8").partition("\n")[0]
    relative = Path(os.path.relpath(SCHEMAS / f"{kind}.schema.json", path.parent)).as_posix()
    assert first == f"# yaml-language-server: $schema={relative}"
    assert errors(read(path).data, kind) == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"decoding": {"lookahed": 4}}, "/decoding/lookahed"),
        ({"decoding": {"lookahead": 65}}, "/decoding/lookahead"),
        ({"decoding": {"lookahead": "four"}}, "/decoding/lookahead"),
        ({"acceptance": {"kind": "rate", "acceptance_rate": 1.5}}, "/acceptance"),
        ({"draft": {"kind": "none", "model": "tiny"}}, "/draft"),
        ({"target": 7}, "/target"),
        ({"target": {"name": "no-more"}}, "/target"),
        ({"name": "two words"}, "/name"),
        ({"sweep": {"decoding.lookahead": 4}}, "/sweep/decoding.lookahead"),
        ({"base": "good"}, "/base"),
        ({"gamma": 4}, "/gamma"),
        ({"measured": {"verify_step": {"1": "7 ms"}}}, "/measured"),
        ({"measured": {"plain_step": 7}}, "/measured"),
    ],
)
def test_scenario_schema_marks_mistakes(change: dict[str, Any], where: str) -> None:
    assert errors(GOOD, "scenario") == []
    assert where in {error.partition(" ")[0] for error in errors(GOOD | change, "scenario")}


def test_scenario_schema_leaves_open_what_a_base_or_a_sweep_supplies() -> None:
    assert errors({"base": "other.yaml"}, "scenario") == []
    assert errors({"base": "other.yaml", "decoding": {"temperature": 0}}, "scenario") == []
    swept = copy.deepcopy(GOOD) | {"decoding": {}, "sweep": {"decoding.lookahead": (1, 2), "target.layers": (1,)}}
    assert errors(swept, "scenario") == []
    assert errors({"name": "alone"}, "scenario") != []


def test_scenario_schema_knows_measured_steps() -> None:
    measured = {"plain_step": "7.07 ms", "verify_step": {"2": "7.9 ms", "65": "30 ms"}}
    assert errors(GOOD | {"measured": measured}, "scenario") == []


@pytest.mark.parametrize("name", FILES)
def test_every_key_has_a_description(name: str) -> None:
    def undescribed(schema: Any, path: str = "") -> list[str]:
        if not isinstance(schema, dict):
            return []
        found = [
            f"{path}.{key}"
            for key, value in schema.get("properties", {}).items()
            if key != "kind" and not ({"description", "$ref"} & set(value))
        ]
        return found + [hit for key, value in schema.items() for hit in undescribed(value, f"{path}.{key}")]

    assert undescribed(json.loads(schema_text(name))) == []


def errors(data: Any, name: str) -> list[str]:
    """What is wrong with ``data``, by the part of JSON Schema that our schemas use."""
    schema = json.loads(schema_text(name))
    return list(_errors(data, schema, schema, ""))


_TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, tuple),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}
_LIMITS = {
    "minimum": lambda v, limit: v >= limit,
    "maximum": lambda v, limit: v <= limit,
    "exclusiveMinimum": lambda v, limit: v > limit,
    "minLength": lambda v, limit: len(v) >= limit,
    "maxLength": lambda v, limit: len(v) <= limit,
    "minItems": lambda v, limit: len(v) >= limit,
    "maxItems": lambda v, limit: len(v) <= limit,
    "minProperties": lambda v, limit: len(v) >= limit,
    "pattern": lambda v, limit: re.search(limit, v),
    "enum": lambda v, limit: v in limit,
    "const": lambda v, limit: v == limit,
    "required": lambda v, limit: set(limit) <= set(v),
}
_SAID = {"$schema", "$defs", "title", "description", "default", "examples", "format", "type"}
_INSIDE = {"$ref", "anyOf", "oneOf", "items"}
_KEYS = {"properties", "patternProperties", "additionalProperties", "propertyNames"}


def _errors(data: Any, schema: Any, root: Any, path: str) -> list[str]:
    if schema is True:  # anything at all
        return []
    assert set(schema) <= _SAID | _INSIDE | _KEYS | set(_LIMITS), f"the test does not know {set(schema)}"
    if "type" in schema and not _TYPES[schema["type"]](data):
        return [f"{path} is no {schema['type']}"]
    found = [f"{path} breaks {word}" for word in set(schema) & set(_LIMITS) if not _LIMITS[word](data, schema[word])]
    if "$ref" in schema:
        found += _errors(data, root["$defs"][schema["$ref"].rpartition("/")[2]], root, path)
    for word in set(schema) & {"anyOf", "oneOf"}:
        fitting = sum(not _errors(data, option, root, path) for option in schema[word])
        found += [f"{path} fits {fitting} of {word}"] if fitting == 0 or (word == "oneOf" and fitting > 1) else []
    for key, value in data.items() if isinstance(data, dict) else ():
        patterns = [below for pattern, below in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
        below = schema.get("properties", {}).get(key, (*patterns, schema.get("additionalProperties", {}))[0])
        found += [f"{path}/{key} is unknown"] if below is False else _errors(value, below, root, f"{path}/{key}")
        found += _errors(key, schema.get("propertyNames", {}), root, f"{path}/{key}")
    for index, value in enumerate(data) if isinstance(data, tuple) and "items" in schema else ():
        found += _errors(value, schema["items"], root, f"{path}/{index}")
    return found
