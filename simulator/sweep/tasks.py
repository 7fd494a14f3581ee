"""A point and its key; a batch of points computed, in whatever process."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from simulator.errors import UnfinishedError

Work = Callable[[Any], Any]
"""A pure function at the top of a module, from a task's payload to plain data for JSON."""

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Task:
    """One point."""

    key: str
    """What its result is kept under: the same question to the same code has the same key."""
    identity: Any
    """Plain data that tell this point from every other."""
    payload: Any
    """What the work is called with; it travels between processes."""
    label: str = ""
    """The point in words, for messages."""


@dataclass(frozen=True)
class Done:
    """What became of one point."""

    key: str
    text: str
    """The result as JSON; empty where the work failed."""
    failure: str = ""
    """Why it failed."""


def task_of(work: Work, identity: Any, payload: Any, label: str = "") -> Task:
    """A task whose key is the hash of the function's name, this code and ``identity``.

    Args:
        work: what is to be computed of it.
        identity: plain data that tell this point from every other, such as a scenario's hash.
        payload: what ``work`` is called with.
        label: the point in words.

    Raises:
        ValueError: the function stands in a script, in a class or in another function.
    """
    if getattr(work, "__module__", None) in (None, "__main__") or "." in work.__qualname__:
        raise ValueError(f"{work.__qualname__} must stand at the top of a module that a worker can import")
    asked = compact([f"{work.__module__}.{work.__qualname__}", code_version(), identity])
    return Task(hashlib.sha256(asked.encode()).hexdigest()[:32], identity, payload, label)


@functools.cache
def code_version() -> str:
    """The package's version and a hash of its modules, which a version of a working copy does not tell apart."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{file.relative_to(_PACKAGE).as_posix()}\0".encode())
        digest.update(file.read_bytes().replace(b"\r\n", b"\n"))
    try:
        version = metadata.version("sps-planner")
    except metadata.PackageNotFoundError:
        version = "not installed"
    return f"{version}+{digest.hexdigest()[:16]}"


def compact(data: Any) -> str:
    """Plain data as one line of JSON, the same line for the same data.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def compute(work: Work, code: str, batch: Sequence[tuple[str, Any]]) -> list[Done]:
    """The results of some points, each a key and a payload; where one fails, the others are computed all the same.

    Raises:
        UnfinishedError: this process has other code than the one that asks.
    """
    if code != code_version():
        raise UnfinishedError(
            f"a worker has sps-planner {code_version()}, this process {code}; install the same on both and start again"
        )
    return [_one(work, key, payload) for key, payload in batch]


def _one(work: Work, key: str, payload: Any) -> Done:
    try:
        return Done(key, compact(work(payload)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and the other points are not lost
        return Done(key, "", f"{type(error).__name__}: {error}")
