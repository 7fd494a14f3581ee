"""A folder of compiled programs, found by everything that determines them.

JAX's own persistent cache cannot load a program for a TPU that is not there, so what is kept is what was read of it:
the record and the gzipped text, under the digest of the recipe, the versions of the compiler and the sources that
write the program down.
"""

from __future__ import annotations

import functools
import hashlib
import json
from importlib import metadata
from pathlib import Path

from runtime.aot.compiled import Compiled
from runtime.aot.recipe import Recipe
from runtime.children import write_answer

PACKAGES = ("jax", "jaxlib", "libtpu", "flax")
_RUNTIME = Path(__file__).resolve().parent.parent
_OWN = ("programs.py", "recipe.py", "child.py", "topologies.py", "compiled.py")
"""Files of this package that enter a program or its record; those that only read it do not."""


class Store:
    """Results of compilations in one folder, which is made when the first is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, recipe: Recipe) -> Compiled | None:
        """What was kept of that recipe; None where nothing was, or where a part of it is missing or broken."""
        try:
            data = json.loads(self._record(recipe).read_text(encoding="utf-8"))
            found = Compiled.of(data)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if not found.hlo or (self.folder / found.hlo).is_file() else None

    def keep(self, recipe: Recipe, compiled: Compiled) -> None:
        """Keep a result, whole or not at all; its text lies in the folder already."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_answer(self._record(recipe), compiled.to_json())

    def text_file(self, recipe: Recipe) -> Path:
        """Where the program's text belongs."""
        return self.folder / f"{key(recipe)}.hlo.gz"

    def _record(self, recipe: Recipe) -> Path:
        return self.folder / f"{key(recipe)}.json"


def key(recipe: Recipe) -> str:
    """First 24 hex digits of the SHA-256 of all that determines the program."""
    parts = {"recipe": recipe.to_json(), "versions": versions(), "sources": sources()}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@functools.cache
def versions() -> dict[str, str]:
    """Of the packages that make a program; those that are not installed are left out."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def sources() -> str:
    """Digest of the modules that write a program down."""
    files = [*_RUNTIME.glob("*.py"), *(_RUNTIME / "aot" / name for name in _OWN)]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
