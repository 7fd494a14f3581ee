"""Does a cluster whose workers die, and whose client dies, give the bytes of an undisturbed run on one processor?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from simulator.cli import app
from simulator.errors import UnfinishedError
from simulator.sweep import Local, Store, executor_of, run
from tests.sweep_work import BAD, deadly, fragile, gain, grid, results
from tests.synthetic import ROOT

distributed = pytest.importorskip("distributed", reason="needs Dask: the extra [dask], which make setup installs")

POINTS = 20_000


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A scheduler and two worker processes, each looked after by a process that starts it anew."""
    with started(2) as running:
        yield running


def started(workers: int) -> Any:
    """A cluster on free ports: there may be another one on this machine, which has the usual ones."""
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs="CRITICAL",
    )


def address(cluster: Any) -> str:
    return str(cluster.scheduler_address).replace("tcp://", "dask://")


def client(cluster: Any, folder: Path) -> subprocess.Popen[str]:
    """A client in a process of its own, as `sps sweep` is one."""
    words = (address(cluster), str(folder), str(POINTS))
    command = [sys.executable, "-c", f"from tests.sweep_work import main; main{words}"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def keys(folder: Path) -> list[str]:
    """The keys in all shards, each as often as it is there."""
    files = (folder / "points").glob("*.jsonl")
    return [json.loads(line)["key"] for file in files for line in file.read_text("utf-8").splitlines()]


def shards(folder: Path) -> int:
    return len(list((folder / "points").glob("*.jsonl")))


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_client_cost_no_point_and_no_byte(cluster: Any, tmp_path: Path) -> None:
    tasks, folder = grid(POINTS), tmp_path / "disturbed"
    with Local(1) as here, Store(tmp_path / "undisturbed") as store:
        run(tasks, gain, store, here)
        undisturbed = results(tasks, store)

    first = client(cluster, folder)
    wait_for(lambda: shards(folder) >= 4, first)
    killed = next(iter(cluster.workers.values())).pid
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: shards(folder) >= 10, first)
    first.kill()
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    assert not (folder / "results.jsonl").exists()
    there = keys(folder)
    assert 0 < len(there) < POINTS

    resumed = client(cluster, folder)
    out, err = resumed.communicate()
    assert (resumed.returncode, out) == (0, f"{len(there)} {POINTS - len(there)}\n"), err
    assert sorted(keys(folder)) == sorted(task.key for task in tasks)
    assert (folder / "results.jsonl").read_text("utf-8") == undisturbed
    assert killed not in {nanny.pid for nanny in cluster.workers.values()}


def test_failures_and_results_are_those_of_this_process(cluster: Any, tmp_path: Path) -> None:
    tasks, told = grid(200, fragile), []
    for name, executor in (("here", Local(1)), ("there", executor_of(address(cluster)))):
        with executor, Store(tmp_path / name) as store:
            outcome = run(tasks, fragile, store, executor, batch=10)
            good = [task for task in tasks if task.key not in outcome.failures]
            told.append((outcome, results(good, store)))
    assert told[0] == told[1]
    assert len(told[0][0].failures) == 10


def test_a_point_that_kills_every_worker_is_found_and_the_others_are_kept(cluster: Any, tmp_path: Path) -> None:
    tasks = grid(BAD + 1, deadly)
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as control:
        control.run_on_scheduler(_give_up_at_once)
    with executor_of(address(cluster)) as executor, Store(tmp_path) as store:
        outcome = run(tasks, deadly, store, executor, batch=7)
    assert list(outcome.failures) == [tasks[BAD].key]
    assert "every worker that took it died" in outcome.failures[tasks[BAD].key]
    assert outcome.computed == BAD


def _give_up_at_once(dask_scheduler: Any) -> None:
    """A batch is lost with the first worker that dies of it: four deaths, the default, take half a minute."""
    dask_scheduler.allowed_failures = 0


def test_a_scheduler_that_goes_away_ends_the_run_and_keeps_what_had_come(tmp_path: Path) -> None:
    cluster = started(1)

    def leave(progress: Any) -> None:
        if progress.done == 100:
            cluster.close()

    gone = pytest.raises(UnfinishedError, match=r"the scheduler at .* is gone")
    with gone, executor_of(address(cluster)) as there, Store(tmp_path) as store:
        run(grid(5_000), gain, store, there, leave)
    with Store(tmp_path) as store:
        assert 100 <= len(store) < 5_000


def test_a_plan_there_is_the_plan_here(cluster: Any, tmp_path: Path) -> None:
    file = str(ROOT / "scenarios" / "plan_llama70b_loads.yaml")
    fixed = ("--set", "workload.prompt_tokens=2048")
    one = (*fixed, "--set", "workload.batch=8")
    for settings, names in ((fixed, ("plans.json", "plans.csv")), (one, ("plan.json", "plan.csv", "plan.html"))):
        folders = [tmp_path / names[0] / where for where in ("here", "there")]
        for folder, words in zip(folders, (("--jobs", "1"), ("--executor", address(cluster))), strict=True):
            result = CliRunner().invoke(app, ["plan", file, *settings, "--out", str(folder), *words])
            assert result.exit_code == 0, result.output
        for name in names:
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_the_verb_writes_what_it_writes_here(cluster: Any, tmp_path: Path) -> None:
    file, folders = str(ROOT / "scenarios" / "llama8b_tpu_v5e.yaml"), [tmp_path / "here", tmp_path / "there"]
    for folder, words in zip(folders, (("--jobs", "1"), ("--executor", address(cluster))), strict=True):
        result = CliRunner().invoke(app, ["sweep", file, "--out", str(folder), *words], catch_exceptions=False)
        assert (result.exit_code, "10 computed" in result.stdout) == (0, True)
    for name in ("sweep.jsonl", "sweep.csv"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
