"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[str, typer.Argument(metavar="FILE", help="A scenario YAML.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one key, for example decoding.lookahead=4. A swept key is then fixed. May be repeated.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help='Print {"records": [...]} on stdout and nothing else.', show_default=False)
]
OutFolder = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder for the results.")]
TargetWeights = Annotated[
    Path | None,
    typer.Option("--target-weights", metavar="DIR", help="Folder with the target's safetensors. Random unless given."),
]
DraftWeights = Annotated[
    Path | None,
    typer.Option("--draft-weights", metavar="DIR", help="Folder with the draft's safetensors. Random unless given."),
]
