"""However a folder of weights is damaged, loading it gives an error that a person can read, or its weights.

The format has no checksum: bytes changed inside the values make other values, and those alone.

`pytest tests/laws/test_fuzz_weights.py --fuzz-examples 5000` looks longer.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest

from runtime.loading import load
from runtime.mesh import chip_mesh
from runtime.transformer import Decoder
from simulator.errors import ConfigError
from tests.llama_folders import config, folder_of, random_tensors, small

SPEC = small(layers=1, d_model=8, heads=2, kv_heads=1, head_dim=4, d_ff=12, vocabulary=10)
FILES = ("config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors")


def damaged(rng: np.random.Generator, content: bytes) -> tuple[bytes, list[int]]:
    """The content cut off, or with some bytes changed; and where it was changed."""
    if rng.random() < 0.3:
        return content[: rng.integers(len(content))], []
    # Headers and their lengths are short: they get half of the damage, or nearly all of it would fall on values.
    near = min(len(content), 900) if rng.random() < 0.6 else len(content)
    places = [int(place) for place in rng.integers(near, size=rng.integers(1, 5))]
    changed = bytearray(content)
    for place in places:
        changed[place] = rng.choice(list(b'0123456789"{}[],:.-e') if rng.random() < 0.5 else 256)
    return bytes(changed), [place for place in places if changed[place] != content[place]]


def bits(model: Decoder) -> list[np.ndarray]:
    """Every weight as integers, so that one that is no number compares."""
    return [np.asarray(leaf).view(np.uint32) for leaf in jax.tree.leaves(model)]


def test_damage_is_explained_or_stays_where_it_was_done(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    sound = random_tensors(SPEC)
    folder_of(tmp_path, sound, config(SPEC), shards=2)
    contents = {name: (tmp_path / name).read_bytes() for name in FILES}
    starts = {FILES[2]: 8 + int.from_bytes(contents[FILES[2]][:8], "little")}  # of the values
    mesh, outcomes = chip_mesh(1, 1), Counter[str]()
    whole = bits(load(SPEC, tmp_path, mesh, 1))
    rng = np.random.default_rng(0)
    for _ in range(request.config.getoption("--fuzz-examples")):
        name = FILES[rng.integers(len(FILES))]
        content, places = damaged(rng, contents[name])
        (tmp_path / name).write_bytes(content)
        explained = ""
        loaded = whole
        try:
            loaded = bits(load(SPEC, tmp_path, mesh, 1))
        except ConfigError as error:
            explained = str(error)
        if explained:
            assert re.search(r"accepts  \S", explained)
            assert str(tmp_path) in explained
            outcomes["explained"] += 1
        else:
            changed = sum(int((got != wanted).sum()) for got, wanted in zip(loaded, whole, strict=True))
            start = starts.get(name, len(content))
            assert changed <= len({place // 4 for place in places if place >= start})
            outcomes["identical" if not changed else "values changed"] += 1
        (tmp_path / name).write_bytes(contents[name])
    assert min(outcomes[kind] for kind in ("explained", "identical", "values changed")) > 5, outcomes


def test_a_file_cut_off_anywhere_is_explained(tmp_path: Path) -> None:
    folder_of(tmp_path, random_tensors(SPEC))
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    for size in {*range(0, len(content), 61), len(content) - 1}:
        path.write_bytes(content[:size])
        with pytest.raises(ConfigError):
            load(SPEC, tmp_path, chip_mesh(1, 1), 1)
