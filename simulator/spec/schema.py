"""JSON schemas of the YAML files, for completion and hints in editors; written to docs/schema by its test.

They say what a file may hold key by key. What only :func:`simulator.spec.load.load_scenario` can see (names of files,
keys that a base or a sweep supplies, physics) they leave open rather than mark wrong what is right.
"""

from __future__ import annotations

import json
from typing import Any, get_args

from pydantic import BaseModel

from simulator.spec.acceptance import Acceptance
from simulator.spec.axes import MAX_POINTS
from simulator.spec.describe import every_path
from simulator.spec.document import dotted
from simulator.spec.drafting import ModelDraft
from simulator.spec.explain import MORE_KEYS
from simulator.spec.hardware import HardwareProfile
from simulator.spec.library import REFERENCES
from simulator.spec.model import ModelSpec
from simulator.spec.publication import PublicationFile
from simulator.spec.scenario import Decoding, Deployment, DraftDeployment, Scenario, Workload

FILES: dict[str, type[BaseModel]] = {
    "scenario": Scenario,
    "hardware": HardwareProfile,
    "model": ModelSpec,
    "publication": PublicationFile,
}
"""`<name>.schema.json` is the schema of files that hold one of these."""

_TITLES = {
    "scenario": "A scenario",
    "hardware": "A hardware profile",
    "model": "A model",
    "publication": "What others measured",
}
_NAMED = {"Scenario": "target", "ModelDraft": "model", "Deployment": "hardware"}
# The sections of a scenario; a base or a sweep may supply any of their keys but the kind.
_SECTIONS = (Deployment, DraftDeployment, Decoding, Workload, ModelDraft, *get_args(get_args(Acceptance)[0]))


def schema_text(name: str) -> str:
    """The JSON schema of the files called ``name`` in :data:`FILES`, as it stands in docs/schema."""
    schema = _tidy(FILES[name].model_json_schema())
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _TITLES[name], **schema}
    if name == "scenario":
        _open_up(schema)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _tidy(schema: Any) -> Any:
    """Without the titles that repeat the keys, and the defaults that mean 'not given'."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidy = {key: value for key, value in schema.items() if key not in ("title", "discriminator") or "type" in value}
    if "pattern" in tidy or tidy.get("default") in (None, [], {}) or isinstance(tidy.get("default"), dict):
        tidy.pop("default", None)
    return {key: _tidy(value) for key, value in tidy.items()}


def _open_up(schema: dict[str, Any]) -> None:
    """Let names stand for models and profiles, and a base or a sweep supply what is not stated."""
    parts = {**schema["$defs"], "Scenario": schema}
    for part, key in _NAMED.items():
        whole = parts[part]["properties"][key]
        named = {"type": "string", "description": "A name, or a .yaml file relative to this one."}
        parts[part]["properties"][key] = {"description": whole.pop("description"), "anyOf": [named, whole]}
    for section in _SECTIONS:
        part = parts[section.__name__]
        part["required"] = [key for key in part.pop("required", ()) if key == "kind"]
    schema["anyOf"] = [{"required": ["base"]}, {"required": ["sweep"]}, {"required": schema.pop("required")}]
    schema["$defs"]["Values"] = {"type": "array", "minItems": 1, "maxItems": MAX_POINTS}
    values = {"$ref": "#/$defs/Values"}
    below_names = tuple(f"{dotted(path)}." for path in REFERENCES)
    paths = [path for path in every_path(Scenario) if not path.startswith(below_names)]
    schema["properties"] |= {
        "base": {"type": "string", "pattern": r"\.yaml$", "description": MORE_KEYS["base"]},
        "sweep": {
            "type": "object",
            "description": MORE_KEYS["sweep"],
            "properties": dict.fromkeys(paths, values),
            "additionalProperties": values,
        },
    }
