"""One pure function over many content-addressed points: anywhere, in any order, interrupted or not, the same bytes.

tasks.py       a point and its key; a batch of points computed, in whatever process
store.py       what is done, on disk: shards that are written once, whole, and checked when they are read
executors.py   where batches are computed: this process, processes of this machine
cluster.py     ... or an existing Dask cluster
running.py     run(): what is not in the store yet is computed and kept
points.py      the points of a scenario as tasks
outputs.py     what is known of them -> sweep.jsonl, sweep.csv, the best ones

Whoever has other points than those of a scenario makes tasks of them and a function at the top of a module::

    tasks = [task_of(work, identity, payload) for ...]
    with executor_of("local", jobs=2) as executor, Store(folder) as store:
        outcome = run(tasks, work, store, executor)
        results = [json.loads(store[task.key]) for task in tasks if task.key not in outcome.failures]
"""

from simulator.sweep.executors import Executor, Local, executor_of
from simulator.sweep.running import Outcome, Progress, run
from simulator.sweep.store import Store
from simulator.sweep.tasks import Task, task_of

__all__ = ["Executor", "Local", "Outcome", "Progress", "Store", "Task", "executor_of", "run", "task_of"]
