"""The variants in which a program is compiled, to see how far its time depends on what the compiler makes of it."""

from __future__ import annotations

from runtime.aot.compiled import Variant
from runtime.aot.topologies import Topology

EAGER = {
    "xla_tpu_async_copy_bandwidth_scaling_factor": "2",
    "xla_tpu_cmem_max_outstanding_evictions": "0",
}
"""Options for generations with CMEM (v4). The first makes the compiler think that copies into on-chip memory take half
as long, so that it begins with more of them before a matrix is needed instead of reading it from HBM in the product;
at 1 it leaves every QKV matrix of a 70B there. The second keeps what was brought in from being written back: without it
some layers' caches are updated in CMEM and written back whole. Nothing but the schedule depends on either."""


def variants(where: Topology) -> tuple[Variant, ...]:
    """Those of a step on a slice; the first is the compiler's own choice, the last one is quick to compile."""
    eager = (Variant(options=EAGER),) if where.generation.name == "v4" else ()
    return Variant(), *eager, Variant("scanned")
