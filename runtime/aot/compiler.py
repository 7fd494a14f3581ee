"""Recipes -> compiled programs, each in a child process of its own.

Some options and programs make libtpu abort the process that it is in, so the parent never loads it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from runtime.aot.compiled import Compiled
from runtime.aot.recipe import Recipe
from runtime.aot.store import Store, versions
from runtime.children import run_child
from simulator.errors import RefusedError

TIMEOUT_S = 900.0
"""Of one compilation; the largest so far, 118 unrolled layers, took 52 s on two cores."""
VARIABLES = {
    "JAX_PLATFORMS": "cpu",  # nobody looks for a TPU
    "TPU_SKIP_MDS_QUERY": "1",  # nobody asks a cloud's metadata server what machine this is
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",  # or a second process dies at libtpu's lock file
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def compile_program(
    recipe: Recipe, store: Store, report: Callable[[str], None], timeout_s: float = TIMEOUT_S
) -> Compiled:
    """What the compiler makes of a recipe, from the store where it has been asked before.

    Args:
        recipe: the program.
        store: where results are found and kept.
        report: where progress goes.
        timeout_s: seconds after which the compilation is stopped.

    Raises:
        RefusedError: libtpu is not installed, or the compiler does not know the slice or an option.
        MeasurementError: it failed, aborted, ran out of memory or took too long; nothing is kept then.
    """
    if (found := store.find(recipe)) is not None:
        return found
    refuse_without_libtpu()
    store.folder.mkdir(parents=True, exist_ok=True)
    text = store.text_file(recipe)
    request = {
        "task": "compile",
        "devices": 1,
        "recipe": recipe.to_json(),
        "hlo": str(text.absolute()),
        "versions": versions(),
    }
    try:
        answer = run_child(request, report, timeout_s, does="compiling", variables=VARIABLES)
    finally:
        text.with_name(f"{text.name}.unfinished").unlink(missing_ok=True)
    compiled = Compiled.of(answer)
    store.keep(recipe, compiled)
    return compiled


def refuse_without_libtpu() -> None:
    """Refuse to compile where the compiler is not installed.

    Raises:
        RefusedError: libtpu cannot be found; it is looked for and not loaded.
    """
    if importlib.util.find_spec("libtpu") is None:
        raise RefusedError(
            "the TPU compiler is not installed: it comes with the extra 'tpu' (pip install sps-planner[tpu])"
        )
