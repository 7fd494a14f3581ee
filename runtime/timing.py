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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from simulator.spec.probe import Timing

Run = Callable[[int], float]
"""Does about n units of work, waits for the device, and returns the seconds of one unit."""

FOREIGN_LIMIT = 0.06
"""Share of the machine that other processes may use in a window that is kept."""
CLOCK_TICKS = 2
"""Ticks of the machine's busy time by which a window may be off through rounding alone."""
CONTROL = "control"
MIN_QUIET = 3
"""Quiet windows below which the others are used too."""


def machine_busy_s() -> float | None:
    """CPU seconds that the whole machine has spent so far; None where the system does not say."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    ticks = [int(word) for word in words]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


@dataclass
class Windows:
    """Seconds per unit of the windows of one program, by visit."""

    quiet: dict[int, float] = field(default_factory=dict)
    every: dict[int, float] = field(default_factory=dict)

    def add(self, visit: int, seconds: float, foreign: float) -> None:
        """One more window."""
        self.every[visit] = seconds
        if foreign < FOREIGN_LIMIT:
            self.quiet[visit] = seconds

    def timing(self) -> Timing:
        """Median and spread of the quiet windows; of all where hardly any was quiet, and the spread says so."""
        kept = self.quiet if len(self.quiet) >= MIN_QUIET else self.every
        return _timing(list(kept.values()), len(self.every) - len(kept))

    def beyond(self, part: Windows) -> Timing:
        """What this takes beyond ``part``: the differences within visits, so that drift cancels. May be negative."""
        shared = self.quiet.keys() & part.quiet.keys()
        quiet = len(shared) >= MIN_QUIET
        mine, other = (self.quiet, part.quiet) if quiet else (self.every, part.every)
        visits = sorted(mine.keys() & other.keys())
        return _timing([mine[visit] - other[visit] for visit in visits], len(self.every) - len(visits))


def _timing(kept: list[float], dropped: int) -> Timing:
    low, median, high = (float(q) for q in np.quantile(kept, [0.05, 0.5, 0.95]))
    return Timing(median=median, low=low, high=high, windows=len(kept), dropped=dropped)


@dataclass(frozen=True)
class Session:
    """The timings of one session and its noise floor: the relative gap between one program timed under two names."""

    windows: dict[str, Windows]
    noise_floor: float
    foreign_load: float

    def timing(self, name: str) -> Timing:
        """Median and spread of one program."""
        return self.windows[name].timing()

    def beyond(self, whole: str, part: str) -> Timing:
        """What the program ``whole`` takes beyond the program ``part``."""
        return self.windows[whole].beyond(self.windows[part])


def build_all(builders: Mapping[str, Callable[[], Run]], report: Callable[[str], None]) -> dict[str, Run]:
    """Build programs, as many at a time as there are cores: compilation mostly waits for one core each."""
    with ThreadPoolExecutor(max_workers=max(1, min(4, os.cpu_count() or 1))) as pool:
        futures = {name: pool.submit(build) for name, build in builders.items()}
        runs = {}
        for index, (name, future) in enumerate(futures.items()):
            report(f"compiling {index + 1}/{len(futures)}: {name}")
            runs[name] = future.result()
    return runs


def interleaved(
    programs: Mapping[str, Run],
    *,
    beyond: Mapping[str, str] | None = None,
    visits: int,
    window_s: float,
    budget_s: float,
    least: int = 2,
    report: Callable[[str], None] = lambda _: None,
    warmed_up: Callable[[], None] = lambda: None,
) -> Session:
    """Time every program in ``visits`` quiet windows of about ``window_s`` seconds, round-robin.

    A window has at least ``least`` units: the first ones of a call find the machine as another program left it.

    Every program is run twice before, which warms it up and shows how many units fill a window. Where windows are
    dropped, others are tried until ``budget_s`` seconds are spent; every program is visited twice at least. A program
    in ``beyond`` is wanted for its difference to another, so the two are visited together. ``warmed_up`` is called
    between warm-up and timing.
    """
    if not programs:
        return Session({}, 0.0, 0.0)
    names = [*programs, CONTROL]
    runs = {**programs, CONTROL: programs[names[0]]}
    repetitions: dict[str, int] = {}
    for index, name in enumerate(names):
        report(f"warm-up {index + 1}/{len(names)}: {name}")
        repetitions[name] = _repetitions(runs[name], window_s, least)
    windows = {name: Windows() for name in names}
    foreign: list[float] = []
    warmed_up()
    started, visit = time.perf_counter(), 0
    while wanting := _wanting(names, windows, visits, beyond or {}):
        if visit >= 2 and time.perf_counter() - started > budget_s:
            break
        visit += 1
        report(f"visit {visit}: {len(wanting)} of {len(names)} programs want a quiet window")
        for name in wanting:
            seconds, load = _window(runs[name], repetitions[name])
            foreign.append(load)
            windows[name].add(visit, seconds, load)
    twin, first = windows.pop(CONTROL).timing(), windows[names[0]].timing()
    return Session(windows, abs(twin.median / first.median - 1), float(np.median(foreign)))


def _wanting(names: list[str], windows: dict[str, Windows], visits: int, beyond: Mapping[str, str]) -> list[str]:
    """Programs with too few quiet windows, or too few in the same visits as the program they are set against."""
    alone = {name for name in names if len(windows[name].quiet) < visits}
    for whole, part in beyond.items():
        if len(windows[whole].quiet.keys() & windows[part].quiet.keys()) < visits:
            alone |= {whole, part}
    return [name for name in names if name in alone]


def _repetitions(run: Run, window_s: float, least: int) -> int:
    run(1)
    once = max(run(2), 1e-7)
    return max(least, min(100_000, round(window_s / once)))


def _window(run: Run, repetitions: int) -> tuple[float, float]:
    """Seconds of one unit, and the share of the machine that others used meanwhile."""
    busy, own = machine_busy_s(), time.process_time()
    started = time.perf_counter()
    seconds = run(repetitions)
    wall = time.perf_counter() - started
    busy_after = machine_busy_s()
    if busy is None or busy_after is None:
        return seconds, 0.0
    foreign = (busy_after - busy) - (time.process_time() - own)
    if foreign <= CLOCK_TICKS / os.sysconf("SC_CLK_TCK"):  # the machine's clock counts in ticks of 10 ms
        foreign = 0.0
    return seconds, max(0.0, foreign) / (wall * (os.cpu_count() or 1))
