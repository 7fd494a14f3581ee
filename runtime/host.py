"""What machine this is, and which types of number it computes fast in."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from simulator.spec.hardware import HardwareProfile
from simulator.spec.probe import HostDescription

_FLAGS = ("amx_bf16", "amx_tile", "avx512_bf16", "avx512f", "avx2", "avx512_fp16")


def cpu_flags() -> tuple[str, ...]:
    """Those of the processor's flags that decide how fast it multiplies matrices; empty where the system is silent."""
    words = set(_cpuinfo("flags").split())
    return tuple(flag for flag in _FLAGS if flag in words)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def missing_flag(profile: HardwareProfile, dtype: str) -> str:
    """The processor flag that ``dtype`` needs on ``profile`` and this host does not have; empty where all is well."""
    rate = profile.peaks.matmul.get(dtype)  # type: ignore[call-overload]
    needed = rate.needs_cpu_flag if rate is not None else None
    return needed if needed is not None and needed not in cpu_flags() else ""


def describe_host() -> HostDescription:
    """The host and its first device. Starts JAX."""
    import jax

    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    return HostDescription(
        platform=device.platform,
        device=device.device_kind,
        processor=_cpuinfo("model name") or platform.processor() or platform.machine(),
        cores=cores(),
        cpu_flags=cpu_flags(),
        memory_bytes=int(stats.get("bytes_limit", 0)) or host_memory(),
        versions={"python": platform.python_version()} | {n: metadata.version(n) for n in ("jax", "jaxlib", "flax")},
    )


def _cpuinfo(key: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def host_memory() -> int:
    """Bytes of memory of this host; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
