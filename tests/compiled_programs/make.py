"""Small programs as the TPU compiler makes them -> the files beside this one, which the tests read without a compiler.

Each is a step of a model of two layers on a v4:2x2x1, sharded as Megatron does, and right but for one thing:

    right            nothing is wrong
    scanned          the layers are a loop, in which weights of both are fetched for each
    rounds           the step in a loop that the data ends
    one_row          one sequence: its products become vector code
    three_reduces    the norm of each layer is summed over the chips too
    gathered         a norm's scale lies on the chips in parts
    permuted         the residual stream goes to the next chip and back
    restacked        the cache goes through a scan and comes out as another buffer

    PYTHONPATH=. python tests/compiled_programs/make.py [FOLDER]      # needs jax and libtpu, and no TPU

Paths of source files are cut to their names: they would say where this ran.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

VARIABLES = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
}
HERE = Path(__file__).parent
TOPOLOGY, CHIPS = "v4:2x2x1", 4
LAYERS, WIDTH, HEADS, HEAD_DIM, FEED_FORWARD, VOCABULARY, POSITIONS = 2, 2048, 16, 128, 8192, 8192, 1024
NAMES = ("right", "scanned", "rounds", "one_row", "three_reduces", "gathered", "permuted", "restacked")


def main() -> None:
    """Write every file anew, here or into the folder that is named."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else HERE
    os.environ.update(VARIABLES)
    jax.config.update("jax_platforms", "cpu")
    for name in NAMES:
        text = compiled(name)
        (folder / f"{name}.hlo.gz").write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
        sys.stdout.write(f"{name}: {len(text)} letters\n")


def compiled(name: str) -> str:
    """The text of one program."""
    described = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY, chip_config_name="megacore")
    mesh = Mesh(np.array(described.devices), ("x",))
    shapes, specs = arguments(name)

    def placed(shape: Any, spec: Any) -> Any:
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=NamedSharding(mesh, spec))

    structs = jax.tree.map(placed, shapes, specs)
    body = Program(name)

    def step(target: Any, target_cache: Any, tokens: Any, cursor: Any) -> Any:
        out = PartitionSpec(None, "x"), specs[1]
        return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)(
            target, target_cache, tokens, cursor
        )

    donated = () if name == "restacked" else (1,)
    text: str = jax.jit(step, donate_argnums=donated).lower(*structs).compile().as_text()
    return re.sub(r'"[^"\n]*/([^/"\n]+\.py)"', r'"\1"', text)


def arguments(name: str) -> tuple[Any, Any]:
    """Shapes of target, target_cache, tokens and cursor, and their PartitionSpecs."""
    batch = 1 if name == "one_row" else 2
    inner = HEADS * HEAD_DIM
    matrices = {
        "norm": ((WIDTH,), ("x",) if name == "gathered" else (None,)),
        "qkv": ((WIDTH, 3 * inner), (None, "x")),
        "output": ((inner, WIDTH), ("x", None)),
        "up": ((WIDTH, FEED_FORWARD), (None, "x")),
        "down": ((FEED_FORWARD, WIDTH), ("x", None)),
    }
    cache = (batch, HEADS, POSITIONS, HEAD_DIM), (None, "x", None, None)
    stacked = name in ("scanned", "restacked")

    def bf16(shape: tuple[int, ...]) -> Any:
        return jax.ShapeDtypeStruct((LAYERS, *shape) if stacked else shape, jnp.bfloat16)

    def spec(axes: tuple[Any, ...]) -> Any:
        return PartitionSpec(*((None, *axes) if stacked else axes))

    layer = {key: bf16(shape) for key, (shape, _) in matrices.items()}
    layer_spec = {key: spec(axes) for key, (_, axes) in matrices.items()}
    times = 1 if stacked else LAYERS
    target = {"head": jax.ShapeDtypeStruct((WIDTH, VOCABULARY), jnp.bfloat16), "layers": [layer] * times}
    buffers = {key: [bf16(cache[0])] * times for key in ("keys", "values")}
    tokens = jax.ShapeDtypeStruct((batch, WIDTH), jnp.bfloat16)
    shapes = target, buffers, tokens, jax.ShapeDtypeStruct((), jnp.int32)
    specs = (
        {"head": PartitionSpec(None, "x"), "layers": [layer_spec] * times},
        {key: [spec(cache[1])] * times for key in buffers},
        PartitionSpec(),
        PartitionSpec(),
    )
    return shapes, specs


class Program:
    """The step of one chip; its tokens are embedded already."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, target: Any, target_cache: Any, tokens: Any, cursor: Any) -> Any:
        """Logits of this chip's part of the vocabulary, and the cache."""
        run = self.rounds if self.name == "rounds" else self.step
        return run(target, target_cache, tokens, cursor)

    def step(self, target: Any, cache: Any, x: Any, cursor: Any) -> Any:
        """One forward pass."""
        run = self.scanned if self.name in ("scanned", "restacked") else self.unrolled
        x, cache = run(target, cache, x, cursor)
        with jax.named_scope("head"):
            return x @ target["head"], cache

    def rounds(self, target: Any, cache: Any, x: Any, cursor: Any) -> Any:
        """Forward passes until the cache is full; how far each one comes depends on what it finds."""

        def one(carried: Any) -> Any:
            x, cache, at, logits = carried
            logits, cache = self.step(target, cache, x, at)
            return (x + logits[:, :WIDTH]).astype(x.dtype), cache, at + 1 + jnp.argmax(logits[0, :4]), logits

        empty = jnp.zeros((len(x), VOCABULARY // CHIPS), jnp.bfloat16)
        _, cache, _, logits = lax.while_loop(lambda c: c[2] < POSITIONS - 8, one, (x, cache, cursor, empty))
        return logits, cache

    def unrolled(self, target: Any, cache: Any, x: Any, cursor: Any) -> Any:
        """Layer after layer."""
        added = []
        for weights, keys, values in zip(target["layers"], cache["keys"], cache["values"], strict=True):
            with jax.named_scope("layer"):
                x, k, v = self.layer(x, weights, keys, values, cursor)
            added.append((k, v))
        x, cursor = lax.optimization_barrier((x, cursor))
        keys, values = (
            [append(buffer, new[place], cursor) for buffer, new in zip(cache[key], added, strict=True)]
            for place, key in enumerate(("keys", "values"))
        )
        return x, {"keys": keys, "values": values}

    def scanned(self, target: Any, cache: Any, x: Any, cursor: Any) -> Any:
        """The layers as a loop."""
        restacks = self.name == "restacked"

        def body(x: Any, part: Any) -> Any:
            _, keys, values = part
            with jax.named_scope("layer"):
                x, k, v = self.layer(x, *part, cursor)
            return x, (append(keys, k, cursor), append(values, v, cursor)) if restacks else (k, v)

        x, (keys, values) = lax.scan(body, x, (target["layers"][0], cache["keys"][0], cache["values"][0]))
        if not restacks:
            x, cursor = lax.optimization_barrier((x, cursor))
            keys = append(cache["keys"][0], keys, cursor, (0,))
            values = append(cache["values"][0], values, cursor, (0,))
        return x, {"keys": [keys], "values": [values]}

    def layer(self, x: Any, weights: Any, keys: Any, values: Any, cursor: Any) -> Any:
        """Attention and feed-forward, each ending in an all-reduce; and the new keys and values."""
        with jax.named_scope("qkv"):
            # Nothing but the barrier keeps the layout of the heads from leaking into the weight.
            qkv = lax.optimization_barrier(self.normed(x, weights["norm"]) @ weights["qkv"])
        q, k, v = jnp.moveaxis(qkv.reshape(len(x), 3, HEADS // CHIPS, 1, HEAD_DIM), 1, 0)
        with jax.named_scope("attention"):
            mixed = attend(q, k, v, keys, values, cursor)
        with jax.named_scope("output"):
            x = x + lax.psum(mixed.reshape(len(x), -1) @ weights["output"], "x")
        with jax.named_scope("up"):
            hidden = jax.nn.gelu(x @ weights["up"])
        with jax.named_scope("down"):
            return x + lax.psum(hidden @ weights["down"], "x"), k, v

    def normed(self, x: Any, scale: Any) -> Any:
        """A norm, with what may be wrong about it."""
        if self.name == "gathered":
            scale = lax.all_gather(scale, "x", tiled=True)
        if self.name == "permuted":
            x = lax.ppermute(x, "x", [(chip, (chip + 1) % CHIPS) for chip in range(CHIPS)])
        square = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
        if self.name == "three_reduces":
            square = lax.psum(square, "x") / CHIPS
        return (x * lax.rsqrt(square + 1e-6)).astype(jnp.bfloat16) * scale


def attend(q: Any, k: Any, v: Any, keys: Any, values: Any, cursor: Any) -> Any:
    """Attention of one token to the old cache and to itself; one row alone would be a product for the vector unit."""
    second_row = ((0, 0), (0, 0), (0, 1), (0, 0))
    old = jnp.einsum("bnth,bnsh->bnts", jnp.pad(q, second_row), keys, preferred_element_type=jnp.float32)[:, :, :1]
    new = jnp.einsum("bnth,bnth->bnt", q, k, preferred_element_type=jnp.float32)[..., None]
    seen = jnp.arange(POSITIONS) < cursor
    share = jax.nn.softmax(jnp.concatenate([jnp.where(seen, old, -1e9), new], axis=-1)).astype(jnp.bfloat16)
    mixed = jnp.einsum("bnts,bnsh->bnth", jnp.pad(share[..., :-1], second_row), values)[:, :, :1]
    return mixed + share[..., -1:] * v


def append(buffer: Any, new: Any, cursor: Any, start: tuple[int, ...] = ()) -> Any:
    """The buffer with a token's keys or values of every sequence at the cursor."""
    for row in range(new.shape[-4]):
        part = lax.slice_in_dim(new, row, row + 1, axis=new.ndim - 4)
        buffer = lax.dynamic_update_slice(buffer, part, (*start, row, 0, cursor, 0))
    return buffer


if __name__ == "__main__":
    main()
