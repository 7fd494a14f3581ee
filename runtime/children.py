"""Work in a process of its own: JAX fixes the number of devices when it starts.

A request and its answer are files in a temporary folder; the answer is written under another name and renamed, so a
killed child leaves none. Each line that the child prints is progress.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simulator.errors import MeasurementError, RefusedError

_HOME = Path(__file__).resolve().parent.parent
_TAIL = 15


def run_child(
    request: Mapping[str, Any],
    report: Callable[[str], None],
    timeout_s: float,
    *,
    does: str = "measuring",
    variables: Mapping[str, str] | None = None,
) -> Any:
    """Run ``python -m runtime child`` on ``request`` and return its answer.

    Args:
        request: what ``runtime.cli`` reads.
        report: where progress goes.
        timeout_s: seconds after which the child is killed.
        does: what the child is called in errors.
        variables: environment variables of the child beside the parent's own.

    Raises:
        RefusedError: the child refused.
        MeasurementError: the child failed, was killed, or took longer than ``timeout_s``; with its last words.
    """
    with tempfile.TemporaryDirectory(prefix="sps-") as folder:
        asked, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        asked.write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-m", "runtime", "child", str(asked), str(answer)]
        words: deque[str] = deque(maxlen=_TAIL)
        started = time.monotonic()
        code = _watch(command, report, words, timeout_s, variables or {})
        timer_left = time.monotonic() - started < timeout_s
        if code == RefusedError.exit_code:
            raise RefusedError("\n".join(words))
        if code != 0 or not answer.is_file():
            said = "\n    ".join(words)
            if code < 0 and not timer_left:
                raise MeasurementError(f"the {does} process did not end within {timeout_s:g} s and was stopped")
            raise MeasurementError(f"the {does} process {_ended(code)}\n    {said}")
        return json.loads(answer.read_text(encoding="utf-8"))


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"


def _watch(
    command: list[str],
    report: Callable[[str], None],
    words: deque[str],
    timeout_s: float,
    variables: Mapping[str, str],
) -> int:
    path = {"PYTHONPATH": os.pathsep.join([str(_HOME), os.environ.get("PYTHONPATH", "")])}
    environment = os.environ | path | dict(variables)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, errors="replace"
    ) as child:
        # A timer in the child itself would not fire inside a long compilation.

        timer = threading.Timer(timeout_s, child.kill)
        timer.start()
        try:
            for line in child.stdout or ():
                if line.startswith(PROGRESS):
                    report(line[len(PROGRESS) :].strip())
                else:
                    words.append(line.rstrip())
            return child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            timer.cancel()


PROGRESS = "progress: "
"""What a child's line starts with when it is meant for people; anything else it prints is kept for its obituary."""


def say(text: str) -> None:
    """Progress, from inside a child."""
    sys.stdout.write(f"{PROGRESS}{text}\n")
    sys.stdout.flush()


def write_answer(path: Path, answer: Any) -> None:
    """Write a child's answer, whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(answer), encoding="utf-8")
    unfinished.replace(path)
