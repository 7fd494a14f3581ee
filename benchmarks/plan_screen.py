"""How fast the planner screens, and what a search of a million points takes with its draws.

    OMP_NUM_THREADS=1 python benchmarks/plan_screen.py

Prints points (draft x tensor parallel degree x lookahead) per second of the screen on one core as the median of five
runs with their range, then seconds and peak memory of one whole search: screen, prior, 500 draws of 200 survivors; and
of searches over batch and context (points: draft x tensor parallel degree x lookahead x batch x context), one after the
other in this process.
"""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

from simulator.plan import plan
from simulator.plan.screen import groups, screen
from simulator.plan.space import drafts_of
from simulator.spec.load import load_scenario

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "plan_chinchilla_draft.yaml"
SPACE = (
    f"plan.drafts.layers={list(range(1, 61))}",
    f"plan.drafts.d_model={list(range(512, 8193, 128))}",
    "plan.drafts.d_ff_ratio=[2, 2.5, 3, 3.5, 4, 5]",
    "plan.drafts.kv_share=[0.25, 0.5, 1.0]",
    "plan.draft_tensor_parallel=[1, 2, 4, 8, 16]",
    "plan.lookahead=[1, 2, 3, 4, 5, 6, 7, 8]",
    "plan.existing=[]",
)
LOADS = [
    ("plan.drafts.d_ff_ratio=[4]", "plan.drafts.kv_share=[1.0]", f"workload.batch={b}", f"workload.prompt_tokens={p}")
    for b in (1, 4, 16)
    for p in (512, 2048, 4096)
]


def main() -> None:
    """Measure and print."""
    (point,) = load_scenario(SCENARIO, SPACE)
    asked = point.scenario.plan
    if asked is None:
        raise SystemExit("no plan")
    rates = []
    drafts = drafts_of(asked.drafts, point.scenario.target)
    known = list(groups(point.scenario, asked, drafts))
    for _ in range(5):
        start = time.perf_counter()
        points = sum(screen(group, drafts, asked).round_s.size for group in known)
        rates.append(points / (time.perf_counter() - start))
    low, middle, high = min(rates), statistics.median(rates), max(rates)
    print(f"screen: {points:,} points, {middle:,.0f} a second on one core [{low:,.0f}, {high:,.0f}]")
    start = time.perf_counter()
    found = plan(point.scenario)
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    drawn = len(found.proposals)
    print(f"search: {found.screened:,} points, {asked.draws} draws of {drawn} in {taken:.1f} s, peak {peak:.2f} GiB")
    loads = [load_scenario(SCENARIO, (*SPACE, *load))[0] for load in LOADS]
    start = time.perf_counter()
    each = [plan(load.scenario) for load in loads]
    taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    total, drawn = sum(one.screened for one in each), sum(len(one.proposals) for one in each)
    print(f"{len(loads)} loads: {total:,} points, {asked.draws} draws of {drawn} in {taken:.1f} s, peak {peak:.2f} GiB")


if __name__ == "__main__":
    main()
