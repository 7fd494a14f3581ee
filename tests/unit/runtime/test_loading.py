"""From a folder to a mesh and back: where weights land, what they become, and how much memory that takes."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing as npt
import pytest

from runtime.arithmetic import Lowering
from runtime.loading import load, save
from runtime.mesh import chip_mesh, place
from runtime.quantised import unpack
from runtime.transformer import Decoder
from simulator.errors import ConfigError, RefusedError
from simulator.spec.model import RotaryScaling
from tests.llama_folders import LLAMA3, folder_of, random_tensors, small
from tests.tiny_models import decoder

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tied_embeddings": True, "rotary_scaling": RotaryScaling(**LLAMA3)},
    "nothing divides": {"heads": 6, "kv_heads": 3, "d_ff": 50, "vocabulary": 101},
    "one KV head": {"heads": 7, "kv_heads": 1, "weight_dtype": "bfloat16"},
    "moved as bits": {"tied_embeddings": True, "weight_dtype": "bfloat16"},
}


def assert_same(one: Decoder, other: Decoder) -> None:
    """The same weights in the same places."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for got, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert (got.dtype, got.sharding) == (wanted.dtype, wanted.sharding)
        npt.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("chips", "degree"), [(1, 1), (4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_saved_is_loaded_where_it_was_placed(shape: str, chips: int, degree: int, tmp_path: Path) -> None:
    model, mesh = decoder(small(**SHAPES[shape]), 0), chip_mesh(chips, degree)
    save(model, tmp_path, positions=128)
    assert_same(load(model.spec, tmp_path, mesh, degree), place(model, mesh, degree))
    assert {file.name for file in tmp_path.iterdir()} == {"config.json", "model.safetensors"}


def test_a_model_whose_embedding_is_kept_as_bits_is_saved_as_numbers(tmp_path: Path) -> None:
    model, mesh = decoder(small(weight_dtype="bfloat16"), 0), chip_mesh(1, 1)
    placed = place(model, mesh, 1)
    save(placed, tmp_path, positions=128)
    assert_same(load(model.spec, tmp_path, mesh, 1), placed)


@pytest.mark.parametrize("chips", [1, 4])
def test_stacked_layers_are_loaded_stacked(chips: int, tmp_path: Path) -> None:
    lowering = replace(Lowering.on("cpu", "float32"), scan_layers=True)
    model, mesh = decoder(small(layers=3), 0, lowering=lowering), chip_mesh(chips, chips)
    save(model, tmp_path, positions=128)
    assert_same(load(model.spec, tmp_path, mesh, chips, lowering=lowering), place(model, mesh, chips))


@pytest.mark.parametrize(
    ("dtype", "group", "chips"), [("int8", None, 1), ("int8", 8, 1), ("int8", 8, 4), ("int4", 8, 1), ("int4", 8, 4)]
)
def test_matrices_are_rounded_to_integers_of_their_scales(
    dtype: str, group: int | None, chips: int, tmp_path: Path
) -> None:
    mesh, types = chip_mesh(chips, chips), {"activation_dtype": "float32", "head_dtype": "float32"}
    wide, spec = small(), small(weight_dtype=dtype, weight_group=group, **types)
    whole, loaded = (
        load(wide, folder_of(tmp_path, random_tensors(wide)), mesh, chips),
        load(spec, tmp_path, mesh, chips),
    )
    for name in ("qkv", "output", "up", "down"):
        exact = np.asarray(getattr(whole.layers[1], name)[...])
        scale = np.asarray(getattr(loaded.layers[1], f"{name}_scale")[...])
        stored = np.asarray(unpack(jnp.asarray(np.asarray(getattr(loaded.layers[1], name)[...]))), np.float32)
        steps = np.repeat(scale, len(exact) // len(scale), axis=0)
        assert (np.abs(stored * steps - exact) <= 0.5001 * steps).all()
    npt.assert_array_equal(loaded.head[...], whole.head[...])


@pytest.mark.parametrize("stored", ["float32", "bfloat16", "float16"])
def test_weights_are_rounded_to_the_type_of_the_model(stored: str, tmp_path: Path) -> None:
    spec = small(weight_dtype="bfloat16")
    tensors = random_tensors(spec, stored=stored)
    loaded = load(spec, folder_of(tmp_path, tensors), chip_mesh(1, 1), 1)
    npt.assert_array_equal(loaded.head[...], jnp.asarray(tensors["lm_head.weight"]).astype(jnp.bfloat16).T)
    down = tensors["model.layers.1.mlp.down_proj.weight"]
    npt.assert_array_equal(loaded.layers[1].down[...], jnp.asarray(down).astype(jnp.bfloat16).T)


@pytest.mark.parametrize("chips", [1, 4])
def test_one_weight_at_a_time_is_in_memory(chips: int, tmp_path: Path) -> None:
    spec = small(layers=12, d_model=128, d_ff=512)
    model = random_tensors(spec)
    size = sum(tensor.nbytes for tensor in model.values())
    folder_of(tmp_path, model, shards=4)
    mesh = chip_mesh(chips, chips)
    load(spec, tmp_path, mesh, chips)  # what JAX keeps for itself
    tracemalloc.start()
    try:
        loaded = load(spec, tmp_path, mesh, chips)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    largest = max(weight.nbytes for weight in jax.tree.leaves(loaded))
    # NumPy reports its memory; a device of this platform may keep it. The largest weight, its part for a device, and
    # descriptions of weights.
    assert peak - kept < 2 * largest + 500_000 < size / 3


def test_the_weights_do_not_change_with_their_file(tmp_path: Path) -> None:
    spec = small(layers=1)
    loaded = load(spec, folder_of(tmp_path, random_tensors(spec)), chip_mesh(1, 1), 1)
    before = [np.array(leaf) for leaf in jax.tree.leaves(loaded)]
    path = tmp_path / "model.safetensors"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 2000)
    for leaf, old in zip(jax.tree.leaves(loaded), before, strict=True):
        npt.assert_array_equal(leaf, old)


@pytest.mark.parametrize(
    "changes",
    [{"feed_forward": "plain"}, {"positions": "none"}, {"weight_dtype": "int8", "activation_dtype": "float32"}],
)
def test_what_other_engines_could_not_read_is_not_saved(changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        save(decoder(small(**changes), 0), tmp_path / "new", positions=128)
    with pytest.raises(RefusedError):
        save(place(decoder(small(), 0), chip_mesh(2, 2), 2), tmp_path / "new", positions=128)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="a folder that can be written"):
        save(decoder(small(), 0), tmp_path / "file", positions=128)
