"""Safetensors files: tensors mapped from disk, checked before any of them is read; and a writer.

A file is a length (u64, little endian), that many bytes of JSON, and the data. The JSON names each tensor's type, shape
and place in the data; the tensors lie side by side and fill it (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import functools
import json
import math
import mmap
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from simulator.errors import ConfigError, Problem

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
"""The types that are read, by the name that a file gives them."""

MAX_HEADER_BYTES = 100_000_000
MAX_AXES = 8
MAX_SIZE = 2**60
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies: ``start`` counts from the beginning of the file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True, eq=False)
class TensorFile:
    """A file of which all was checked but the values. It stays open until its last tensor is gone."""

    path: Path
    entries: Mapping[str, Entry]
    _mapped: mmap.mmap

    @classmethod
    def open(cls, path: Path) -> TensorFile:
        """Map ``path`` and read its header.

        Raises:
            ConfigError: everything that is wrong with the file, each tensor by its name.
        """
        mapped = _map(path)
        header, data_start = _header(path, mapped)
        problems: list[Problem] = []
        entries = dict(_entries(path, header, data_start, problems))
        if not problems:
            problems += _misplaced(path, entries, data_start, len(mapped))
        if problems:
            raise ConfigError(tuple(problems))
        return cls(path, entries, mapped)

    def __getitem__(self, name: str) -> Array:
        """A tensor as it lies in the file: read-only, and read from disk where it is looked at."""
        entry = self.entries[name]
        tensor: Array = np.ndarray(entry.shape, entry.dtype, self._mapped, entry.start)
        return tensor

    def forget(self) -> None:
        """Keep nothing in memory of what was read, where the system can be told so; it can be read again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def write(path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write ``tensors``, NumPy or JAX arrays, whole or not at all; one after the other is brought to the host."""
    made: dict[str, Made] = {name: (t.dtype, t.shape, functools.partial(np.asarray, t)) for name, t in tensors.items()}
    write_made(path, made, metadata)


Made = tuple[Any, tuple[int, ...], Callable[[], Any]]
"""Type and shape of a tensor, and what makes it when its turn comes."""


def write_made(path: Path, tensors: Mapping[str, Made], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors that are made one after the other, so that one at a time is in memory; whole or not at all.

    Raises:
        ConfigError: the file cannot be written.
    """
    header = _header_of(tensors, metadata)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(len(header).to_bytes(_LENGTH_BYTES, "little") + header)
            for dtype, shape, make in tensors.values():
                array = np.ascontiguousarray(make(), dtype=dtype)
                if array.size != math.prod(shape):
                    raise ValueError(f"{array.shape} was made where {shape} was announced")
                file.write(array.reshape(-1).view(np.uint8).data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        raise _config_error(path, "", "", f"a file that can be written; {error.strerror}") from None
    finally:
        with suppress(OSError):
            Path(temporary).unlink()


def read_json(text: bytes, path: Path, accepts: str) -> dict[str, Any]:
    """A JSON object without repeated keys.

    Raises:
        ConfigError: anything else.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            (twice, times), *_ = Counter(key for key, _ in pairs).most_common(1)
            raise _config_error(path, twice, f"the same name {times} times", "every name once")
        return found

    try:
        data = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise _config_error(path, "", f"no JSON: {error}", accepts) from None
    if not isinstance(data, dict):
        raise _config_error(path, "", f"{str(data)[:80]}, no JSON object", accepts)
    return data


def counted(data: Any) -> tuple[int, ...] | None:
    """A list of whole numbers of at least 0 that 63 bits hold, or None where ``data`` is none."""
    whole = isinstance(data, list) and all(type(item) is int and 0 <= item < 2**63 for item in data)
    return tuple(data) if whole else None


def _config_error(path: Path, tensor: str, found: str, accepts: str) -> ConfigError:
    return ConfigError((Problem(str(path), 0, 0, tensor, found, accepts),))


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise _config_error(path, "", "an empty file", "a safetensors file")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise _config_error(path, "", words, "a safetensors file that can be read") from None


def _header(path: Path, mapped: mmap.mmap) -> tuple[dict[str, Any], int]:
    """The JSON of the header, and where the data starts."""
    size = len(mapped)
    length = int.from_bytes(mapped[:_LENGTH_BYTES], "little")
    most = min(size - _LENGTH_BYTES, MAX_HEADER_BYTES)
    if length > most or most < 0:
        found = f"a header of {length:,} bytes in a file of {size:,}"
        raise _config_error(path, "", found, "a safetensors file, whole; its header is longer than the file may hold")
    start = _LENGTH_BYTES + length
    return read_json(mapped[_LENGTH_BYTES:start], path, "a safetensors file, whose header is JSON"), start


def _entries(
    path: Path, header: Mapping[str, Any], data_start: int, problems: list[Problem]
) -> Iterator[tuple[str, Entry]]:
    """Every tensor that the header describes well; the others go to ``problems``."""
    for name, said in header.items():
        if name == _METADATA:
            continue
        complaint = _complaint(said)
        if complaint:
            problems.append(Problem(str(path), 0, 0, name, *complaint))
        else:
            start = said["data_offsets"][0] + data_start
            yield name, Entry(DTYPES[said["dtype"]], tuple(said["shape"]), start)


def _complaint(said: Any) -> tuple[str, str] | None:
    """What is wrong with one tensor's description: found and accepted."""
    if not isinstance(said, dict) or set(said) != _KEYS:
        return shown(said), f"the keys {', '.join(sorted(_KEYS))}"
    dtype, shape, offsets = said["dtype"], counted(said["shape"]), counted(said["data_offsets"])
    if not isinstance(dtype, str) or dtype not in DTYPES:
        return f"dtype {shown(dtype)}", f"one of {', '.join(DTYPES)}"
    if shape is None or len(shape) > MAX_AXES or math.prod(size or 1 for size in shape) >= MAX_SIZE:
        return f"shape {shown(said['shape'])}", f"at most {MAX_AXES} whole numbers, of a product below 2^60"
    if offsets is None or len(offsets) != 2:
        return f"data_offsets {shown(said['data_offsets'])}", "two whole numbers"
    size = math.prod(shape) * DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != size:
        taken = f"{offsets[1] - offsets[0]:,} bytes at {offsets[0]:,}"
        return taken, f"{size:,} bytes, as {dtype} of shape {list(shape)} takes"
    return None


def _misplaced(path: Path, entries: Mapping[str, Entry], data_start: int, size: int) -> Iterator[Problem]:
    """Tensors that lie in each other or apart, and data that is missing or left over."""
    end, before = data_start, ""
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, _bytes(item[1]))):
        if entry.start != end:
            kind = "inside" if entry.start < end else "with a gap behind"
            neighbour = before or "the header"
            accepts = "tensors side by side, without gap or overlap"
            yield Problem(str(path), 0, 0, name, f"a place {kind} {neighbour}", accepts)
        end, before = max(end, entry.start + _bytes(entry)), name
    if end > size:
        found, accepts = f"{size:,} bytes", f"{end:,} bytes, as its header says: the file is truncated"
        yield Problem(str(path), 0, 0, before, found, accepts)
    elif end < size:
        yield Problem(str(path), 0, 0, "", f"{size:,} bytes", f"{end:,} bytes, as its header says")


def _bytes(entry: Entry) -> int:
    return math.prod(entry.shape) * entry.dtype.itemsize


def shown(data: Any) -> str:
    """``data`` in a message."""
    text = json.dumps(data, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _header_of(tensors: Mapping[str, Made], metadata: Mapping[str, str] | None) -> bytes:
    names = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    place = 0
    for name, (dtype, shape, _) in tensors.items():
        size = math.prod(shape) * np.dtype(dtype).itemsize
        offsets = [place, place + size]
        header[name] = {"dtype": names[np.dtype(dtype)], "shape": list(shape), "data_offsets": offsets}
        place += size
    text = json.dumps(header).encode()
    # The data starts at a multiple of 8, so that mapped tensors are aligned.
    return text + b" " * (-len(text) % 8)
