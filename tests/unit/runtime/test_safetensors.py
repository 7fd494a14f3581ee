"""The safetensors reader and writer: what goes in comes out, and every broken file is explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.testing as npt
import pytest

from runtime.safetensors import MAX_HEADER_BYTES, TensorFile, write, write_made
from simulator.errors import ConfigError

SOUND: dict[str, Any] = {
    "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
}


def file_of(path: Path, header: Any, data: bytes = bytes(32), length: int | None = None) -> Path:
    """A file with this header: text as it is, anything else as JSON."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def sound_but(**changes: dict[str, Any]) -> dict[str, Any]:
    return {name: entry | changes.get(name, {}) for name, entry in SOUND.items()}


def said(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        TensorFile.open(path)
    assert caught.value.exit_code == 2
    assert all(str(path) in problem.file for problem in caught.value.problems)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_what_is_written_is_read(dtype: Any, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(0), tmp_path / "x.safetensors"
    tensors = {
        "matrix": rng.normal(size=(3, 5)).astype(dtype),
        "turned": rng.normal(size=(5, 3)).astype(dtype).T,
        "scalar": np.asarray(1.5, dtype),
        "empty": np.zeros((0, 4), dtype),
        "on a device": jnp.arange(7, dtype=dtype),
        "line\nbreak": np.ones(1, dtype),
    }
    write(path, tensors, {"format": "pt"})
    opened = TensorFile.open(path)
    assert set(opened.entries) == set(tensors)
    for name, tensor in tensors.items():
        npt.assert_array_equal(opened[name], np.asarray(tensor))
        assert opened[name].dtype == dtype


def test_a_tensor_outlives_its_file_and_cannot_be_written_to(tmp_path: Path) -> None:
    write(tmp_path / "x", {"a": np.arange(3, dtype=np.float32)})
    tensor = TensorFile.open(tmp_path / "x")["a"]
    (tmp_path / "x").unlink()
    npt.assert_array_equal(tensor, [0, 1, 2])
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1


def test_tensors_need_not_be_aligned_nor_in_order(tmp_path: Path) -> None:
    header = {
        "late": {"dtype": "F32", "shape": [2], "data_offsets": [2, 10]},
        "none": {"dtype": "F32", "shape": [0], "data_offsets": [2, 2]},
        "early": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]},
        "__metadata__": {"any": "thing"},
    }
    text = json.dumps(header).encode()
    text += b" " * (len(text) % 2 + 1)  # an odd start of the data
    data = np.asarray(3, ml_dtypes.bfloat16).tobytes() + np.asarray([1, 2], "<f4").tobytes()
    opened = TensorFile.open(file_of(tmp_path / "x", text, data))
    npt.assert_array_equal(opened["late"].astype(ml_dtypes.bfloat16), [1, 2])
    npt.assert_array_equal(opened["early"].astype(np.float32), [3])
    assert opened["none"].shape == (0,)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"not JSON at all", "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1, 2]", "no JSON object"),
        (b'{"a": 1, "a": 2}', "the same name 2 times"),
        (json.dumps(SOUND).encode()[:-1], "no JSON"),
        ({"a": 7}, "a\n    found    7\n    accepts  the keys"),
        ({"a": {"dtype": "F32", "shape": [8]}}, "accepts  the keys data_offsets, dtype, shape"),
        (sound_but(b={"dtype": "I8"}), 'b\n    found    dtype "I8"\n    accepts  one of F32, F16, BF16'),
        (sound_but(b={"dtype": ["F32"]}), "accepts  one of F32, F16, BF16"),
        (sound_but(a={"shape": [2, -3]}), "found    shape [2, -3]"),
        (sound_but(a={"shape": [2.0, 3]}), "found    shape [2.0, 3]"),
        (sound_but(a={"shape": [True, 6]}), "found    shape [true, 6]"),
        (sound_but(a={"shape": "23"}), 'found    shape "23"'),
        (sound_but(a={"shape": [1] * 9}), "at most 8 whole numbers"),
        (sound_but(a={"shape": [10**4000]}), "at most 8 whole numbers"),
        (sound_but(a={"shape": [0, 2**62], "data_offsets": [0, 0]}), "of a product below 2^60"),
        (sound_but(a={"shape": [3, 3]}), "24 bytes at 0\n    accepts  36 bytes, as F32 of shape [3, 3] takes"),
        (sound_but(b={"data_offsets": [32, 24]}), "-8 bytes at 32"),
        (sound_but(b={"data_offsets": [24]}), "accepts  two whole numbers"),
        (sound_but(b={"data_offsets": [10**30, 10**30 + 8]}), "accepts  two whole numbers"),
        (sound_but(b={"data_offsets": [20, 28]}), "b\n    found    a place inside a"),
        (sound_but(b={"data_offsets": [0, 8]}), "a\n    found    a place inside b"),
        (sound_but(b={"data_offsets": [26, 34]}), "b\n    found    a place with a gap behind a"),
        (sound_but(b={"data_offsets": [2**62, 2**62 + 8]}), "the file is truncated"),
        ({"a": SOUND["a"]}, "bytes, as its header says"),
        ({}, "bytes, as its header says"),
    ],
)
def test_every_broken_header_is_explained(header: Any, words: str, tmp_path: Path) -> None:
    assert words in said(file_of(tmp_path / "x", header))


def test_every_bad_tensor_is_told_at_once(tmp_path: Path) -> None:
    words = said(file_of(tmp_path / "x", sound_but(a={"dtype": "F8_E4M3"}, b={"shape": [5]})))
    assert "F8_E4M3" in words
    assert "10 bytes, as BF16 of shape [5] takes" in words
    assert "2 problems in 1 file" in words


@pytest.mark.parametrize(
    ("length", "data", "words"),
    [
        (2**64 - 1, b"", "a header of 18,446,744,073,709,551,615 bytes"),
        (10**9, b"", "its header is longer than the file may hold"),
        (0, b"", "no JSON"),
        (None, bytes(31), "the file is truncated"),
        (None, b"", "the file is truncated"),
        (None, bytes(33), "bytes, as its header says"),
    ],
)
def test_every_wrong_length_is_explained(length: int | None, data: bytes, words: str, tmp_path: Path) -> None:
    assert words in said(file_of(tmp_path / "x", SOUND, data, length))


@pytest.mark.parametrize(("content", "words"), [(b"", "an empty file"), (b"1234567", "a header of")])
def test_files_that_are_too_short_are_explained(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    assert words in said(tmp_path / "x")


def test_what_is_no_file_is_explained(tmp_path: Path) -> None:
    assert "No such file" in said(tmp_path / "missing")
    assert "directory" in said(tmp_path)


def test_a_header_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:  # sparse: nothing of it is on the disk
        file.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(MAX_HEADER_BYTES + 100)
    assert "its header is longer than the file may hold" in said(tmp_path / "x")


def test_names_that_steer_a_terminal_are_shown_harmless(tmp_path: Path) -> None:
    words = said(file_of(tmp_path / "x", b'{"\\u001b[2J\\ud800": 7}'))
    assert words.encode()
    assert "\x1b" not in words


@pytest.mark.parametrize("broken", [lambda: 1 / 0, lambda: np.zeros(5, np.float32)])
def test_an_interrupted_writer_leaves_the_old_file_and_no_other(broken: Callable[[], Any], tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write(path, {"old": np.ones(2, np.float32)})
    with pytest.raises((ZeroDivisionError, ValueError)):
        write_made(path, {"new": (np.float32, (2,), broken)})
    assert set(TensorFile.open(path).entries) == {"old"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a file that can be written; No such file"):
        write(tmp_path / "missing" / "x", {})
