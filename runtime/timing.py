"""Times that can be trusted on a shared machine.

A neighbour makes times exactly twice as long in bursts that the kernel's steal counter does not show. What shows it:
busy time of the whole machine (/proc/stat) minus the time of this process. So the programs are visited round-robin,
windows with foreign load are dropped, medians are taken, and one program is timed under two names: the gap between the
two is the noise floor, below which no difference is claimed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from simulator.spec.probe import Timing

Run = Callable[[int], int]
"""Does about n units of work, waits for the device, and returns how many units were done."""

FOREIGN_LIMIT = 0.06
"""Share of the machine that other processes may use in a window that is kept."""
CONTROL = "control"


def machine_busy_s() -> float | None:
    """CPU seconds that the whole machine has spent so far; None where the system does not say."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    ticks = [int(word) for word in words]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


@dataclass
class _Windows:
    """Seconds per repetition of the windows of one program."""

    quiet: list[float] = field(default_factory=list)
    every: list[float] = field(default_factory=list)

    def timing(self) -> Timing:
        # Where hardly any window was quiet, the noisy ones are all there is, and the spread says so.
        kept = self.quiet if len(self.quiet) >= 3 else self.every
        low, median, high = (float(q) for q in np.quantile(kept, [0.05, 0.5, 0.95]))
        return Timing(median=median, low=low, high=high, windows=len(kept), dropped=len(self.every) - len(kept))


@dataclass(frozen=True)
class Session:
    """The timings of one session and its noise floor: the relative gap between one program timed under two names."""

    timings: dict[str, Timing]
    noise_floor: float
    foreign_load: float


def interleaved(
    programs: Mapping[str, Run],
    *,
    visits: int,
    window_s: float,
    budget_s: float,
    report: Callable[[str], None] = lambda _: None,
) -> Session:
    """Time every program in ``visits`` quiet windows of about ``window_s`` seconds, round-robin.

    Every program is run twice before, which warms it up and shows how many units fill a window. Where windows are
    dropped, others are tried until ``budget_s`` seconds are spent; every program is visited twice at least.
    """
    if not programs:
        return Session({}, 0.0, 0.0)
    names = [*programs, CONTROL]
    runs = {**programs, CONTROL: programs[names[0]]}
    repetitions: dict[str, int] = {}
    for index, name in enumerate(names):
        report(f"warm-up {index + 1}/{len(names)}: {name}")
        repetitions[name] = _repetitions(runs[name], window_s)
    windows = {name: _Windows() for name in names}
    foreign: list[float] = []
    started, visit = time.perf_counter(), 0
    while wanting := [name for name in names if len(windows[name].quiet) < visits]:
        if visit >= 2 and time.perf_counter() - started > budget_s:
            break
        visit += 1
        report(f"visit {visit}: {len(wanting)} of {len(names)} programs want a quiet window")
        for name in wanting:
            seconds, load = _window(runs[name], repetitions[name])
            foreign.append(load)
            windows[name].every.append(seconds)
            if load < FOREIGN_LIMIT:
                windows[name].quiet.append(seconds)
    timings = {name: windows[name].timing() for name in names}
    twin, first = timings.pop(CONTROL), timings[names[0]]
    return Session(timings, abs(twin.median / first.median - 1), float(np.median(foreign)))


def _repetitions(run: Run, window_s: float) -> int:
    run(1)
    started = time.perf_counter()
    done = run(2)
    once = max((time.perf_counter() - started) / done, 1e-7)
    return max(2, min(100_000, round(window_s / once)))


def _window(run: Run, repetitions: int) -> tuple[float, float]:
    """Seconds per repetition, and the share of the machine that others used meanwhile."""
    busy, own = machine_busy_s(), time.process_time()
    started = time.perf_counter()
    done = run(repetitions)
    wall = time.perf_counter() - started
    busy_after = machine_busy_s()
    if busy is None or busy_after is None:
        return wall / done, 0.0
    foreign = (busy_after - busy) - (time.process_time() - own)
    return wall / done, max(0.0, foreign) / (wall * (os.cpu_count() or 1))
