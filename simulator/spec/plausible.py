"""Figures of a profile that no accelerator has: a sparse rate for a dense one, bits for bytes, a rate for another chip.

Not one of them is a mistake in the file that reading it could refuse, since the next chip may be the first; so they are
doubts, told as such. A host's processor, whose devices share its memory, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.spec.hardware import HardwareProfile
from simulator.spec.topology import MeshTopology, SharedMemoryTopology

_RIDGE = (50.0, 1500.0)
_READ_S = (0.010, 0.060)
_TOLERANCE = 0.05


def doubts(profile: HardwareProfile) -> list[str]:
    """What is unlikely in ``profile``, in words; empty where nothing is."""
    topology, per_s = profile.topology, profile.peaks.hbm_bandwidth.value_bytes_per_s
    if isinstance(topology, SharedMemoryTopology):
        return []
    found = list(_rates(profile))
    read_s = profile.peaks.hbm_capacity.value_bytes / per_s
    if not _READ_S[0] <= read_s <= _READ_S[1]:
        found.append(f"all of hbm_capacity is read in {1e3 * read_s:.3g} ms; it takes 10 to 60 ms on every chip known")
    link = topology.link_bandwidth.value_bytes_per_s * (7 if isinstance(topology, MeshTopology) else 1)
    if link >= per_s:
        found.append("the links are as fast as the memory, or faster: are they given in bits?")
    return found


def _rates(profile: HardwareProfile) -> Iterator[str]:
    rates = {kind: rate.value_flop_per_s for kind, rate in profile.peaks.matmul.items()}
    dense = rates.get("bfloat16") or rates.get("float16")
    if dense is None:
        return
    ridge = dense / profile.peaks.hbm_bandwidth.value_bytes_per_s
    if not _RIDGE[0] <= ridge <= _RIDGE[1]:
        yield f"{ridge:.3g} FLOP in 16 bits for each byte of memory; it is 50 to 1,500 on every chip known"
    for kind, factors in (("fp8", (1, 2)), ("int8", (1, 2, 4))):
        if kind in rates and all(abs(rates[kind] / (factor * dense) - 1) > _TOLERANCE for factor in factors):
            known = " or ".join(map(str, factors))
            yield f"{kind} is {rates[kind] / dense:.3g} times the rate in 16 bits, not {known}: is one of them sparse?"
