"""One step on X chips, layer by layer: HBM channels, links, barriers, prefetch, jitter.

Every chip has one HBM channel and one set of links, as SimPy resources. A span (see `cost/schedule.py`) streams its
weights and reads the cache over the channel, computes, waits for the others, and takes part in the collective.
Without jitter and prefetch a step takes exactly its closed form. With them:

- exponential jitter of mean m a span and chip makes every barrier wait for the slowest of X: ``m H_X`` more a
  barrier, with H_X the harmonic number (Renyi 1953), so ``2 L m H_X`` a step;
- the next span's weights may stream while the collective runs, as far as on-chip memory holds them: each collective
  hides ``min(prefetchable, collective)``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from simulator.cost.schedule import Span

Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Event:
    """Something that took time: on which chip, what, from when to when, in seconds."""

    chip: int
    lane: str
    name: str
    start_s: float
    end_s: float


@dataclass
class Chip:
    """One chip: its channel to memory and its links to the others."""

    index: int
    hbm: simpy.Resource
    links: simpy.Resource


@dataclass
class Chips:
    """X chips in one simulation; steps of several models may run on them at the same time and collide."""

    env: simpy.Environment
    count: int
    on_chip_bytes: float = 0.0
    """How many bytes of weights a chip may hold ahead of their use; 0 for no prefetch."""
    jitter_s: float = 0.0
    """Mean of the exponential time that each span of each chip takes longer."""
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chips = [
            Chip(i, simpy.Resource(self.env, capacity=1), simpy.Resource(self.env, capacity=1))
            for i in range(self.count)
        ]

    def run_step(self, spans: Sequence[Span], on: Sequence[int] | None = None) -> Process:
        """The process of one step on the chips with the indices ``on``, or on all; it ends with the last of them."""
        chips = self.chips if on is None else [self.chips[index] for index in on]
        barriers = [_Barrier(self.env, len(chips)) for _ in spans]
        yield self.env.all_of([self.env.process(self._chip(chip, spans, barriers)) for chip in chips])

    def _chip(self, chip: Chip, spans: Sequence[Span], barriers: Sequence[_Barrier]) -> Process:
        ahead_s = 0.0
        for span, following, barrier in zip(spans, [*spans[1:], None], barriers, strict=True):
            yield from self._hold(chip, chip.hbm, "hbm", f"{span.name} weights", max(span.weights_s - ahead_s, 0.0))
            yield from self._hold(chip, chip.hbm, "hbm", f"{span.name} kv", span.kv_s)
            yield from self._pass(chip, "core", span.name, span.compute_s + span.overhead_s)
            if span.collective_s <= 0:
                ahead_s = 0.0
                continue
            yield from self._pass(chip, "core", "jitter", self._late())
            yield barrier.arrive()
            ahead = _Prefetch(self, chip, following) if following is not None else None
            yield from self._hold(chip, chip.links, "links", f"{span.name} collective", span.collective_s)
            ahead_s = ahead.stop() if ahead is not None else 0.0

    def _late(self) -> float:
        return float(self.rng.exponential(self.jitter_s)) if self.jitter_s > 0 else 0.0

    def _hold(self, chip: Chip, resource: simpy.Resource, lane: str, name: str, seconds: float) -> Process:
        if seconds <= 0:
            return
        with resource.request() as turn:
            yield turn
            yield from self._pass(chip, lane, name, seconds)

    def _pass(self, chip: Chip, lane: str, name: str, seconds: float) -> Process:
        if seconds <= 0:
            return
        start = self.env.now
        yield self.env.timeout(seconds)
        self.events.append(Event(chip.index, lane, name, start, self.env.now))


class _Barrier:
    """Everyone waits for the last to arrive."""

    def __init__(self, env: simpy.Environment, count: int) -> None:
        self._waiting, self._open = count, env.event()

    def arrive(self) -> simpy.Event:
        self._waiting -= 1
        if self._waiting == 0:
            self._open.succeed()
        return self._open


class _Prefetch:
    """The next span's weights streaming while the collective runs."""

    def __init__(self, chips: Chips, chip: Chip, following: Span) -> None:
        self._env, self._chips, self._chip, self._name = chips.env, chips, chip, f"{following.name} weights ahead"
        share = min(1.0, chips.on_chip_bytes / following.weights_bytes) if following.weights_bytes else 0.0
        self._limit_s = following.weights_s * share
        self._started: float | None = None
        self._done_s = 0.0
        self._process = chips.env.process(self._stream()) if self._limit_s > 0 else None

    def _stream(self) -> Process:
        with self._chip.hbm.request() as turn:
            try:
                yield turn
                self._started = self._env.now
                yield self._env.timeout(self._limit_s)
            except simpy.Interrupt:
                pass
            self._finish()

    def _finish(self) -> None:
        if self._started is not None:
            self._done_s = min(self._env.now - self._started, self._limit_s)
            self._chips.events.append(Event(self._chip.index, "hbm", self._name, self._started, self._env.now))

    def stop(self) -> float:
        """Seconds of streaming that are already done; whatever is left streams in its turn."""
        if self._process is None:
            return 0.0
        if self._process.is_alive:
            done = 0.0 if self._started is None else min(self._env.now - self._started, self._limit_s)
            self._process.interrupt()
            return done
        return self._done_s


def step_time(
    spans: Sequence[Span],
    count: int,
    *,
    on_chip_bytes: float = 0.0,
    jitter_s: float = 0.0,
    seed: int = 0,
) -> tuple[float, list[Event]]:
    """Seconds of one step on ``count`` chips, and what every chip did meanwhile."""
    env = simpy.Environment()
    chips = Chips(env, count, on_chip_bytes, jitter_s, np.random.default_rng(seed))
    env.process(chips.run_step(spans))
    env.run()
    return float(env.now), chips.events
