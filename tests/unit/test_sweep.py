"""Is every point computed once, kept whole, and the same bytes whoever computed it, in whatever order?"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import ConfigError, Problem, UnfinishedError
from simulator.files import write
from simulator.sweep import Local, Progress, Store, Task, executor_of, run, task_of
from simulator.sweep.executors import Batch, Lost
from simulator.sweep.tasks import code_version, compute
from tests.sweep_work import BAD, deadly, fragile, gain, grid, results

COUNT = 300


class Shuffled(Local):
    """Batches in another order, as a cluster would finish them; the first of them lost now and then."""

    def __init__(self, seed: int, lose: int = 0) -> None:
        super().__init__(1)
        self.calls: list[Batch] = []
        self._random, self._lose = random.Random(seed), lose

    def outcomes(self, call: Callable[[Batch], Any], batches: Sequence[Batch]) -> Generator[Any]:
        order = list(batches)
        self._random.shuffle(order)
        yield None
        for batch in order:
            self.calls.append(batch)
            self._lose -= 1
            yield Lost(batch, "its worker died") if self._lose >= 0 else call(batch)


def computed(folder: Path, executor: Local, tasks: list[Task] | None = None, batch: int = 7) -> str:
    tasks = grid(COUNT) if tasks is None else tasks
    with executor, Store(folder, shard=40) as store:
        run(tasks, gain, store, executor, batch=batch)
        return results(tasks, store)


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def keys(folder: Path) -> list[str]:
    return [json.loads(line)["key"] for file in shards(folder) for line in file.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return computed(tmp_path_factory.mktemp("undisturbed"), Local(1))


class TestRun:
    def test_results_are_what_the_function_returns_in_the_order_asked(self, undisturbed: str) -> None:
        lines = [json.loads(line) for line in undisturbed.splitlines()]
        assert [line["key"] for line in lines] == [task.key for task in grid(COUNT)]
        assert [line["result"] for line in lines] == [gain(task.payload) for task in grid(COUNT)]

    @pytest.mark.parametrize("batch", [1, 50, 1000])
    @pytest.mark.parametrize("seed", range(3))
    def test_neither_order_nor_batches_change_a_byte(
        self, undisturbed: str, tmp_path: Path, seed: int, batch: int
    ) -> None:
        assert computed(tmp_path, Shuffled(seed), batch=batch) == undisturbed

    def test_nor_does_the_number_of_processes(self, undisturbed: str, tmp_path: Path) -> None:
        assert computed(tmp_path, Local(2)) == undisturbed
        assert sorted(keys(tmp_path)) == sorted(task.key for task in grid(COUNT))

    def test_what_is_there_is_not_computed_again(self, undisturbed: str, tmp_path: Path) -> None:
        computed(tmp_path, Local(1), grid(COUNT)[50:200])
        again = Shuffled(0)
        assert computed(tmp_path, again) == undisturbed
        assert sum(map(len, again.calls)) == COUNT - 150
        assert len(keys(tmp_path)) == len(set(keys(tmp_path))) == COUNT

    def test_the_same_point_twice_is_computed_once(self, tmp_path: Path) -> None:
        once = Shuffled(0)
        text = computed(tmp_path, once, [*grid(5), *grid(5)])
        assert sum(map(len, once.calls)) == 5
        assert text.splitlines()[:5] == text.splitlines()[5:]

    def test_a_stop_keeps_what_had_come(self, undisturbed: str, tmp_path: Path) -> None:
        def stop(progress: Progress) -> None:
            if progress.done > 100:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), Store(tmp_path) as store:
            run(grid(COUNT), gain, store, Shuffled(1), stop, batch=10)
        assert len(keys(tmp_path)) == 110
        assert computed(tmp_path, Local(1)) == undisturbed

    def test_progress_counts_what_was_there_apart(self, tmp_path: Path) -> None:
        computed(tmp_path, Local(1), grid(COUNT)[:100])
        told: list[Progress] = []
        with Store(tmp_path) as store:
            outcome = run(grid(COUNT), gain, store, Local(1), told.append, batch=100)
        assert [(p.done, p.total, p.reused, p.failed) for p in told] == [(n, 300, 100, 0) for n in (100, 200, 300)]
        assert (told[0].left_s, told[-1].left_s) == (None, 0.0)
        assert (outcome.points, outcome.reused, outcome.computed) == (300, 100, 200)


class TestFailures:
    def test_a_failing_point_is_told_by_its_key_and_the_others_are_kept(self, tmp_path: Path) -> None:
        tasks = grid(COUNT, fragile)
        bad = [task.key for task in tasks if task.payload["lookahead"] == BAD]
        with Store(tmp_path) as store:
            outcome = run(tasks, fragile, store, Shuffled(3))
            assert len(store) == COUNT - len(bad)
        assert outcome.failures == dict.fromkeys(bad, "ValueError: no such lookahead")
        assert list(outcome.failures) == bad

    def test_what_is_no_json_is_a_failure(self, tmp_path: Path) -> None:
        tasks = [task_of(float, word, word) for word in ("1.5", "nan")]
        with Store(tmp_path) as store:
            outcome = run(tasks, float, store, Local(1))
        assert list(outcome.failures) == [tasks[1].key]

    def test_of_a_lost_batch_every_point_is_tried_alone(self, undisturbed: str, tmp_path: Path) -> None:
        executor = Shuffled(0, lose=2)
        assert computed(tmp_path, executor, batch=10) == undisturbed
        assert [len(batch) for batch in executor.calls] == [10] * 30 + [1] * 20

    def test_what_is_lost_alone_too_is_a_failure(self, tmp_path: Path) -> None:
        with Store(tmp_path) as store:
            outcome = run(grid(20), gain, store, Shuffled(0, lose=4), batch=10)
        assert list(outcome.failures.values()) == ["its worker died"] * 2
        assert outcome.computed == 18

    def test_processes_that_die_again_and_again_end_the_run_and_lose_nothing_kept(self, tmp_path: Path) -> None:
        tasks = grid(20, deadly)
        with pytest.raises(UnfinishedError, match="worker processes died 4 times"), Store(tmp_path) as store:
            run(tasks, deadly, store, Local(2), batch=5)
        assert tasks[BAD].key not in keys(tmp_path)
        assert keys(tmp_path) == sorted({task.key for task in tasks} & set(keys(tmp_path)))

    def test_a_worker_with_other_code_refuses(self) -> None:
        assert compute(gain, code_version(), []) == []
        with pytest.raises(UnfinishedError, match="install the same on both"):
            compute(gain, "0.0.1+0", [])


class TestStore:
    @pytest.mark.parametrize(
        "damage", [lambda b: b[: len(b) // 2], lambda b: b[:-1], lambda b: b[:0], lambda b: b + b"x"]
    )
    def test_a_shard_cut_short_is_computed_again(
        self, undisturbed: str, tmp_path: Path, damage: Callable[[bytes], bytes]
    ) -> None:
        computed(tmp_path, Local(1))
        victim = shards(tmp_path)[2]
        held = len(victim.read_text("utf-8").splitlines())
        victim.write_bytes(damage(victim.read_bytes()))
        again = Shuffled(0)
        with Store(tmp_path) as store:
            assert store.damaged == 1
        assert computed(tmp_path, again) == undisturbed
        assert sum(map(len, again.calls)) == held

    def test_what_a_killed_process_had_begun_is_swept_away(self, tmp_path: Path) -> None:
        begun = tmp_path / ".abc.jsonl.xyz.part"
        begun.write_text('{"key":', encoding="utf-8")
        with Store(tmp_path) as store:
            assert (len(store), store.damaged) == (0, 0)
        assert not begun.exists()

    def test_many_points_are_few_files_named_by_their_content(self, tmp_path: Path) -> None:
        for folder in ("a", "b"):
            with Store(tmp_path / folder, shard=100) as store:
                for number in range(1050):
                    store.keep(f"{number:032d}", str(number))
        names = [[file.name for file in shards(tmp_path / folder)] for folder in ("a", "b")]
        assert names[0] == names[1]
        assert len(names[0]) == 11

    def test_a_result_comes_back_as_it_went_in(self, tmp_path: Path) -> None:
        odd = ['{"a":"\\",\\"result\\":}"}', '"\\u2028\\n"', "[]", "1.0"]
        with Store(tmp_path) as store:
            for number, text in enumerate(odd):
                store.keep(f"{number:032d}", text)
        with Store(tmp_path) as store:
            assert [store[f"{number:032d}"] for number in range(len(odd))] == odd

    def test_a_full_disk_stops_the_run_and_keeps_what_is_written(
        self, undisturbed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(path: Path, _text: str) -> Path:
            if len(shards(tmp_path)) == 3:
                raise ConfigError((Problem(str(path), 0, 0, "", "", "a file that can be written; no space left"),))
            return write(path, _text)

        with monkeypatch.context() as patched:
            patched.setattr("simulator.sweep.store.write", full)
            with pytest.raises(UnfinishedError, match="a file that can be written; no space left"):
                computed(tmp_path, Local(1))
        assert len(keys(tmp_path)) == 120
        assert computed(tmp_path, Local(1)) == undisturbed

    def test_two_processes_do_not_write_to_one_folder(self, tmp_path: Path) -> None:
        with Store(tmp_path), pytest.raises(ConfigError, match="no other process is writing"), Store(tmp_path):
            pass
        with Store(tmp_path):
            pass


class TestKeys:
    def test_the_key_is_of_function_code_and_question(self) -> None:
        key = task_of(gain, [1], None).key
        assert key == task_of(gain, [1], "another payload").key
        assert len({key, task_of(fragile, [1], None).key, task_of(gain, [2], None).key}) == 3

    @pytest.mark.parametrize("work", [lambda x: x, str.upper])
    def test_a_function_that_no_worker_could_import_has_none(self, work: Callable[[Any], Any]) -> None:
        with pytest.raises(ValueError, match="at the top of a module"):
            task_of(work, [1], None)

    def test_other_code_has_other_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = task_of(gain, [1], None).key
        monkeypatch.setattr("simulator.sweep.tasks.code_version", lambda: "0.1.0+other")
        assert task_of(gain, [1], None).key != before


class TestExecutorOf:
    @pytest.mark.parametrize("words", ["locally", "dask", "dask://", "dask://host", "dask://:8786", "ray://host:1", ""])
    def test_what_is_no_executor_is_told_with_what_is(self, words: str) -> None:
        with pytest.raises(ConfigError, match="local, or dask://HOST:PORT"):
            executor_of(words)

    def test_the_number_of_jobs_is_for_this_machine(self) -> None:
        with pytest.raises(ConfigError, match="--jobs"):
            executor_of("dask://localhost:8786", jobs=2)

    def test_without_dask_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
        with pytest.raises(ConfigError, match=r"the extra \[dask\] is not installed"):
            executor_of("dask://localhost:8786")
