"""What chips did -> a trace in the format of Chrome, which Perfetto reads too.

A chip is a process and a lane of it a thread. Times are whole nanoseconds, written in microseconds as the format wants.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from simulator.des.chips import Event

# In the order in which a viewer shows them; others follow in that of the alphabet.
_LANES = ("step", "core", "hbm", "links")


def chrome_trace(events: Sequence[Event]) -> str:
    """The events as JSON, one a line; the same events are the same bytes, in whatever order they come."""
    lanes = _lanes(events)
    lines = [*_names(events, lanes), *_complete(events, lanes)]
    body = ",\n".join(json.dumps(line, sort_keys=True, allow_nan=False) for line in lines)
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{body}\n]}}\n'


def _lanes(events: Iterable[Event]) -> dict[str, int]:
    """The thread number of every lane."""
    seen = {event.lane for event in events}
    known = [lane for lane in _LANES if lane in seen]
    return {lane: number for number, lane in enumerate([*known, *sorted(seen - set(_LANES))], start=1)}


def _names(events: Iterable[Event], lanes: dict[str, int]) -> Iterator[dict[str, Any]]:
    """What viewers call the processes and threads, and in which order they show them."""
    for chip in sorted({event.chip for event in events}):
        yield _about(chip, 0, "process_name", name=f"chip {chip}")
        yield _about(chip, 0, "process_sort_index", sort_index=chip)
        for lane in sorted({event.lane for event in events if event.chip == chip}, key=lanes.__getitem__):
            yield _about(chip, lanes[lane], "thread_name", name=lane)
            yield _about(chip, lanes[lane], "thread_sort_index", sort_index=lanes[lane])


def _about(chip: int, thread: int, what: str, **told: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": chip, "tid": thread, "name": what, "args": told}


def _complete(events: Iterable[Event], lanes: dict[str, int]) -> list[dict[str, Any]]:
    found = []
    for event in events:
        start, end = round(event.start_s * 1e9), round(event.end_s * 1e9)
        found.append((start, event.chip, lanes[event.lane], end - start, event.name, event.lane))
    return [
        {"ph": "X", "pid": chip, "tid": thread, "ts": _us(start), "dur": _us(length), "name": name, "cat": lane}
        for start, chip, thread, length, name, lane in sorted(found)
    ]


def _us(nanoseconds: int) -> float:
    """Microseconds that are still as many nanoseconds where a viewer multiplies by 1,000 and drops what is left.

    Otherwise an event could seem to start a nanosecond before the one ahead of it on its lane has ended.
    """
    us = nanoseconds / 1000
    return us if int(us * 1000.0) == nanoseconds else math.nextafter(us, math.inf)
