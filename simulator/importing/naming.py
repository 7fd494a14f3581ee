"""Names of imported models: made of what the file is called, and valid."""

from __future__ import annotations

import re
from pathlib import Path

from simulator.importing.reader import Reader

_SAYS_NOTHING = {"config", "model", "hf_config", "configuration", "-", "stdin"}


def default_name(file: Path, reader: Reader) -> str:
    """From the file, or its folder where the file is called config.json, or the path that the file itself tells."""
    stem = file.stem.removesuffix(".config").rpartition("--")[2]
    told = reader.data.get("_name_or_path")
    if stem.lower() in _SAYS_NOTHING:
        stem = _last(told) if isinstance(told, str) and _last(told) else file.absolute().parent.name
    name = valid(stem)
    reader.report.infer("name", name, "made of the name of the file; --name gives another")
    return name


def valid(words: str) -> str:
    """``words`` as a name: letters, digits and . _ + -, at most 80."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", words).strip("-._+")[:80].lower() or "imported"


def source_of(file: Path, reader: Reader) -> str:
    """Where the shape comes from, in words."""
    told = reader.data.get("_name_or_path")
    of = f" of {told.strip()[:200]}" if isinstance(told, str) and told.strip() else ""
    text = f"configuration{of}, file {file.name[:200]}, read by sps import"
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
