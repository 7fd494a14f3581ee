"""Files written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError, Problem


def to_json(data: Any) -> str:
    """Plain data as JSON text with sorted keys."""
    return json.dumps(data, sort_keys=True, indent=1, allow_nan=False)


def write(path: Path, text: str) -> Path:
    """Write ``text`` through a temporary name, so that nobody ever reads half a file.

    Raises:
        ConfigError: the folder cannot be made or written.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # mkstemp makes private files; results are as readable as any file of the user's.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise ConfigError(
            (Problem(str(path), 0, 0, "", "", f"a file that can be written; {error.strerror}"),)
        ) from None
    finally:
        with suppress(OSError):
            Path(temporary).unlink()
    return path


def settle(texts: Mapping[Path, str], arguments: Collection[str]) -> list[Path]:
    """What scripts do with files that they generate: `--write` writes them, `--check` names the stale ones."""
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    if "--write" in arguments:
        for path in stale:
            write(path, texts[path])
        return []
    return stale if "--check" in arguments else []


def ready(folder: Path) -> Path:
    """``folder``, made if need be and tried: minutes of measuring must not end in a folder that cannot be written.

    Raises:
        ConfigError: it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, trial = tempfile.mkstemp(dir=folder, prefix=".sps.", suffix=".part")
        os.close(handle)
        Path(trial).unlink()
    except OSError as error:
        accepts = f"a folder that can be written; {error.strerror}"
        raise ConfigError((Problem(str(folder), 0, 0, "", "", accepts),)) from None
    return folder


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
