"""A hardware profile to fill in: what a chip that is not in the library must state, every key explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.spec.commented import entries, laid_out
from simulator.spec.hardware import HardwareProfile
from simulator.spec.starter_text import schema_line

_SOURCE = "FILL IN: page or datasheet, and its date"


def _figure(value: str) -> dict[str, Any]:
    return {"value": value, "source": _SOURCE}


_VALUES: dict[str, Any] = {
    "description": "FILL IN: the chip, its memory, and how many of them a server joins by what",
    "peaks": {
        "hbm_bandwidth": _figure("1000 GB/s"),
        "hbm_capacity": _figure("32 GiB"),
        "matmul": {"bfloat16": _figure("200 TFLOP/s")},
    },
    "topology": {"kind": "switch", "link_bandwidth": _figure("100 GB/s")},
}
_NOTES = {
    "peaks.matmul": "A type a key: float32, bfloat16, float16, int8, fp8, int4; datasheets like to give the rate "
    "with sparsity, which is twice this",
    "peaks.hbm_usable": "Such as {value: 30.75 GiB, source: ...}",
    "peaks.on_chip_memory": "Such as {value: 128 MiB, source: ...}",
    "peaks.tile": "Such as {value: 128, source: ...}",
    "topology": "`sps explain topology` lists the keys of every kind; a TPU is a torus",
    "topology.link_bandwidth": "Datasheets like to give both ways together, which is twice this, and bits",
    "topology.hosts": "Such as {chips_per_host: {value: 8, source: ...}, network_bandwidth: {value: 50 GB/s, "
    "source: ...}}",
    "price": "Such as {value: 3.22 USD/h, source: ...}; a scenario may say otherwise, in deployment.price",
    "calibrations": "`sps calibrate` fits one on a machine; without one, times are the datasheet floor",
}


def hardware_template(name: str, folder: Path) -> str:
    """A profile called ``name``, for a file in ``folder``, that loads before it is filled in."""
    lines = entries(HardwareProfile, {"name": name, **_VALUES}, _NOTES)
    return f"{schema_line(folder, 'hardware')}\n{laid_out(lines)}"
