"""What the TPU compiler thinks that collectives take -> runtime/aot/collective_prices.csv.

No program of ours carries a time of a collective: the compiler estimates none. Told to write a static profile of its
low-level code, it prices every operation by a latency model of transfers over the links, and notes cycles on
collectives too. The model exists for v5p, v5e and v6e; a program that does nothing but one collective mostly survives
it. Where the compiler aborts, the table has no row. Beside them stand the cycles of two matrix products that do nothing
but stream weights from HBM, made without the profile, whose prices of matrices are not to be trusted (libtpu 0.0.52
then has a v5p read 5 TB/s).

    PYTHONPATH=. python docs/tpu/collectives.py        # some minutes; needs jax and libtpu, and no TPU

The compiler is deterministic: the same versions write the same bytes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "runtime" / "aot" / "collective_prices.csv"
COLUMNS = ("generation", "slice", "devices", "kind", "payload_bytes", "cycles")
SLICES = {
    "v5p": ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8"),
    "v5e": ("2x2", "2x4", "4x4", "4x8", "8x8"),
    "v6e": ("2x2", "2x4", "4x4", "4x8", "8x8"),
}
STREAMED = {"v4": "2x2x1", "v5p": "2x2x1", "v5e": "2x2", "v6e": "2x2", "tpu7x": "2x2x1"}
KINDS = ("all-reduce", "all-gather")
MEGACORE = ("v4", "v5p")
PAYLOADS = tuple(1 << power for power in (12, 14, 16, 18, 20, 22, 24))
WIDTH = 8192
ROWS = 16
"""Of a streamed product: enough for the matrix units, too few to be bound by them."""
STREAMED_BYTES = (1 << 28, 1 << 29)


Item = tuple[str, str, int]
"""Slice, kind and bytes."""


def main() -> None:
    """Write the table."""
    rows: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for generation, slices in SLICES.items():
            items = [(name, kind, size) for name in slices for kind in KINDS for size in PAYLOADS]
            rows += measured(generation, items, f"--xla_jf_dump_static_llo_profile_to={folder}")
    for generation, name in STREAMED.items():
        rows += measured(generation, [(name, "stream", size) for size in STREAMED_BYTES], "")
    unfinished = TABLE.with_suffix(".unfinished")
    unfinished.write_text("\n".join([",".join(COLUMNS), *rows, ""]), encoding="utf-8")
    unfinished.replace(TABLE)
    print(f"{TABLE.name}: {len(rows)} rows")


def measured(generation: str, items: list[Item], flags: str) -> list[str]:
    """Rows of the table. A child process goes through the items; where it dies, the next one goes on behind."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
        "LIBTPU_INIT_ARGS": flags,
    }
    rows: list[str] = []
    died: list[Item] = []
    while items:
        command = [sys.executable, __file__, generation, *(",".join(map(str, item)) for item in items)]
        told = subprocess.run(command, env=environment, check=False, capture_output=True, text=True).stdout
        kept = [line for line in told.splitlines() if line.startswith(f"{generation},")]
        rows += kept
        died += items[len(kept) : len(kept) + 1]
        items = items[len(kept) + 1 :]
    print(f"{generation}: {len(rows)} rows; the compiler died of {died or 'none'}", flush=True)
    return rows


def inside_child(generation: str, items: list[Item]) -> None:
    """Print the rows of one generation, each as soon as it is there."""
    for name, kind, size in items:
        mesh = _mesh(generation, name)
        cycles, devices = (stream(mesh, size), 1) if kind == "stream" else (collective(mesh, kind, size), mesh.size)
        print(",".join(map(str, (generation, name, devices, kind, size, cycles))), flush=True)


def collective(mesh, kind: str, size: int) -> int:
    """Cycles of one collective over all devices whose result has ``size`` bytes."""
    import jax
    from jax.sharding import PartitionSpec

    gathers = kind == "all-gather"
    whole, given = PartitionSpec(), PartitionSpec("x") if gathers else PartitionSpec()

    def body(part: jax.Array) -> jax.Array:
        return jax.lax.all_gather(part, "x", tiled=True) if gathers else jax.lax.psum(part, "x")

    # Activations of a step: rows of a model's width. A gather needs a row on every device.
    rows = max(mesh.size if gathers else 1, size // 2 // WIDTH)
    function = jax.shard_map(body, mesh=mesh, in_specs=given, out_specs=whole, check_vma=False)
    return cycles_of(_compiled(function, mesh, ((rows, size // 2 // rows), given)), kind)


def stream(mesh, size: int) -> int:
    """Cycles of a product of a few rows with a matrix of ``size`` bytes, on every device alike."""
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    # Without the time to fill the pipeline, which the compiler adds to every operation that reads HBM itself.
    options = {"xla_tpu_hbm_initial_cycle_penalty": "0"}
    whole = PartitionSpec()
    shapes = ((ROWS, WIDTH), whole), ((WIDTH, size // 2 // WIDTH), whole)
    return cycles_of(_compiled(jnp.dot, mesh, *shapes, options=options), "fusion")


def cycles_of(text: str, opcode: str) -> int:
    """Estimated cycles of the only operation of that kind that has any."""
    lines = [line for line in text.splitlines() if re.search(rf" {opcode}(?:-start)?\(", line)]
    (found,) = [int(hit[1]) for line in lines if (hit := re.search(r'"estimated_cycles":"(\d+)"', line))]
    return found


def _mesh(generation, name):
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh

    config = {"chip_config_name": "megacore"} if generation in MEGACORE else {}
    described = topologies.get_topology_desc(platform="tpu", topology_name=f"{generation}:{name}", **config)
    return Mesh(np.array(described.devices), ("x",))


def _compiled(function, mesh, *arguments, options=None) -> str:
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding

    shapes = [
        jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, spec)) for shape, spec in arguments
    ]
    text: str = jax.jit(function).lower(*shapes).compile(compiler_options=options).as_text()
    return text


if __name__ == "__main__":
    if sys.argv[1:]:
        asked = [item.split(",") for item in sys.argv[2:]]
        inside_child(sys.argv[1], [(name, kind, int(size)) for name, kind, size in asked])
    else:
        main()
