"""A model loaded from a folder against Llama's formulas in float64 NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.testing as npt
import pytest
from jax.sharding import PartitionSpec

from runtime.arithmetic import rotary_frequencies
from runtime.loading import load
from runtime.mesh import chip_mesh, on_chips, weight_specs
from runtime.transformer import Decoder
from simulator.spec.model import ModelSpec, RotaryScaling
from tests.llama_folders import LLAMA3, config, folder_of, frequencies, logits, random_tensors, small
from tests.tiny_models import prompts

SAME = PartitionSpec()
SCALING = RotaryScaling(**LLAMA3)

SHAPES: dict[str, dict[str, Any]] = {
    "grouped": {"heads": 8, "kv_heads": 2},
    "multi-head, tied": {"heads": 4, "kv_heads": 4, "tied_embeddings": True},
    "nothing divides": {"heads": 6, "kv_heads": 3, "d_ff": 50, "vocabulary": 101},
    "stretched for long contexts": {"head_dim": 16, "rotary_scaling": SCALING},
}


def computed(model: Decoder, mesh: jax.sharding.Mesh, tokens: jax.Array) -> np.ndarray[Any, Any]:
    """Logits of a prefill of all but the last tokens, and of a step of these."""

    def both(model: Decoder, tokens: jax.Array) -> jax.Array:
        empty, zero = model.empty_cache(len(tokens), 64), jnp.zeros((len(tokens),), jnp.int32)
        first, cache = model(tokens[:, :-3], empty, zero, fresh=True)
        second, _ = model(tokens[:, -3:], cache, zero + tokens.shape[1] - 3)
        return jnp.concatenate([first, second], axis=1)

    run = on_chips(both, mesh, (weight_specs(model), SAME), SAME)
    return np.asarray(jax.jit(run)(model, tokens))


def assert_logits(spec: ModelSpec, path: Path, tensors: dict[str, Any], chips: int, **options: Any) -> None:
    mesh, tokens = chip_mesh(chips, chips), prompts(2, 40, spec.vocabulary)
    got = computed(load(spec, path, mesh, chips, **options), mesh, tokens)
    for sequence, tokens_of_it in zip(got, np.asarray(tokens), strict=True):
        npt.assert_allclose(sequence, logits(spec, tensors, tokens_of_it), atol=1e-4)


@pytest.mark.parametrize("chips", [1, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_the_formulas(shape: str, chips: int, tmp_path: Path) -> None:
    spec = small(**SHAPES[shape])
    tensors = random_tensors(spec)
    assert_logits(spec, folder_of(tmp_path, tensors, config(spec), shards=3), tensors, chips)


@pytest.mark.parametrize("stored", ["bfloat16", "float16"])
@pytest.mark.parametrize("tied", [False, True])
def test_half_precision_weights_are_widened_exactly(stored: str, tied: bool, tmp_path: Path) -> None:
    spec = small(tied_embeddings=tied)
    tensors = random_tensors(spec, stored=stored)
    assert_logits(spec, folder_of(tmp_path, tensors), tensors, 4)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("chips", [1, 4])
def test_a_bfloat16_model_agrees_to_its_rounding(tied: bool, chips: int, tmp_path: Path) -> None:
    # 8 bits of mantissa, rounded some ten times: logits of spread 1 agree to some 2^-4.
    spec = small(tied_embeddings=tied, weight_dtype="bfloat16")
    tensors = random_tensors(spec, stored="bfloat16")
    mesh, tokens = chip_mesh(chips, chips), prompts(1, 24, spec.vocabulary)
    got = computed(load(spec, folder_of(tmp_path, tensors), mesh, chips), mesh, tokens)
    npt.assert_allclose(got[0], logits(spec, tensors, np.asarray(tokens[0])), atol=0.15)


def test_the_formulas_see_the_numbers_of_the_configuration(tmp_path: Path) -> None:
    # A parity that holds whatever the base, the scaling and the epsilon are would say nothing of them.
    spec, tokens = small(head_dim=16, rotary_scaling=SCALING), np.arange(40)
    tensors = random_tensors(spec)
    wanted = logits(spec, tensors, tokens)
    for changes in ({"rotary_base": 10_000.0}, {"norm_epsilon": 1e-6}, {"rotary_scaling": None}):
        other = logits(spec.model_copy(update=changes), tensors, tokens)
        assert np.abs(other - wanted).max() > 1e-3, changes


@pytest.mark.parametrize("scaling", [None, SCALING, RotaryScaling(**(LLAMA3 | {"original_positions": 8192}))])
@pytest.mark.parametrize(("base", "head_dim"), [(10_000.0, 64), (500_000.0, 128)])
def test_frequencies_are_those_of_the_formulas(base: float, head_dim: int, scaling: RotaryScaling | None) -> None:
    spec = small(rotary_base=base, head_dim=head_dim, rotary_scaling=scaling)
    npt.assert_allclose(rotary_frequencies(head_dim, base, scaling), frequencies(spec), rtol=1e-6)
