"""Random streams: one seed, a name for each use, so that no two uses share a key."""

from __future__ import annotations

import zlib

import jax

from runtime.shapes import PRNGKey


def stream(seed: int, name: str) -> PRNGKey:
    """The key of the stream ``name`` of ``seed``."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(name.encode()))
