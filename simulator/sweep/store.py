"""What is done, on disk: shards of results that are written once and whole.

A shard is a file of lines ``{"key": ..., "result": ...}`` and is called by the hash of its content, so that one that
a crash cut short is known for what it is. Which results lie together in a shard depends on the order in which they
came; which results there are does not.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from simulator.errors import ConfigError, Problem, UnfinishedError
from simulator.files import ready, write

SHARD = 500
"""Results in a shard: 20,000 points are 40 files."""
PATIENCE_S = 30.0
"""After so long a shard is written with what there is: no more than this is lost in a crash."""
_LOCK = ".lock"


class Store:
    """Results by key. Open it in a ``with`` statement: only one process may have a folder open at a time."""

    def __init__(self, folder: Path, shard: int = SHARD, patience_s: float = PATIENCE_S) -> None:
        self.folder = folder
        self.damaged = 0
        """Shards that were found cut short or changed, and removed."""
        self._shard, self._patience_s = shard, patience_s
        self._kept: dict[str, str] = {}
        self._waiting: dict[str, str] = {}
        self._since_s = time.monotonic()
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        ready(self.folder)
        self._lock = self._locked()
        for part in self.folder.glob(".*.part"):
            part.unlink()  # what a process that was killed had begun
        for file in sorted(self.folder.glob("*.jsonl")):
            self._read(file)
        self._since_s = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.flush()
        finally:
            if self._lock is not None:
                self._lock.close()

    def __contains__(self, key: str) -> bool:
        return key in self._kept or key in self._waiting

    def __getitem__(self, key: str) -> str:
        """The result of ``key`` as a line of JSON."""
        return self._kept[key] if key in self._kept else self._waiting[key]

    def __len__(self) -> int:
        return len(self._kept) + len(self._waiting)

    def keep(self, key: str, text: str) -> None:
        """Keep one result, a line of JSON; it is on disk at the next :meth:`flush` at the latest."""
        if key in self:
            return
        self._waiting[key] = text
        if len(self._waiting) >= self._shard or time.monotonic() - self._since_s > self._patience_s:
            self.flush()

    def flush(self) -> None:
        """Write what is kept and not yet on disk.

        Raises:
            UnfinishedError: it cannot be written.
        """
        if self._waiting:
            text = "".join(f'{{"key":"{key}","result":{result}}}\n' for key, result in sorted(self._waiting.items()))
            waiting, self._waiting = self._waiting, {}
            try:
                write(self.folder / f"{_name(text.encode())}.jsonl", text)
            except ConfigError as error:
                raise UnfinishedError(f"{self.folder} is not {error.problems[0].accepts}") from None
            self._kept |= waiting
        self._since_s = time.monotonic()

    def _locked(self) -> IO[str]:
        """A lock that the system lets go of when this process ends, however it ends."""
        file = (self.folder / _LOCK).open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            accepts = "a folder that no other process is writing to"
            raise ConfigError((Problem(str(self.folder), 0, 0, "", "", accepts),)) from None
        return file

    def _read(self, file: Path) -> None:
        content = file.read_bytes()
        if _name(content) != file.stem:
            self.damaged += 1
            file.unlink()
            return
        self._kept |= _results(content.decode())


def _name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _results(text: str) -> dict[str, str]:
    return dict(_line(line) for line in text.splitlines())


def _line(line: str) -> tuple[str, str]:
    """Key and result of a line, without reading the result: its bytes stay what they are."""
    head, _, result = line.partition('","result":')
    return head.removeprefix('{"key":"'), result.removesuffix("}")
