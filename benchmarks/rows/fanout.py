"""Steps of a client on many tasks at once: N parameter servers, a process each, and the worker of the session.

What such a step cannot do without is a message to each of them and one back: the floor sends all, then reads all.
The second floor does the same with frames, which processes of Python take apart and answer with a scalar; the third
goes by way of another process, as steps go through their master that a client does not ask its tasks for by itself.
TensorFlow is left out where its servers would not fit into this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks.floors import framed, relayed, scattered
from benchmarks.row import Bench, RowFunction, row

TASKS = (8, 16, 64)
MOST_OF_TENSORFLOW = 16
READ_OF_FLOOR = 3.0
UPDATE_OF_READ = 1.5


def _variables(tf: Any, tasks: int) -> list[Any]:
    """A scalar on each parameter server: its number."""
    found = []
    for task in range(tasks):
        with tf.device(f"/job:ps/task:{task}"):
            found.append(tf.Variable(float(task)))
    return found


def read(tf: Any, bench: Bench, tasks: int) -> None:
    """Fetch a scalar variable of each parameter server: client → all of them, and back."""
    variables = _variables(tf, tasks)
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(variables), range(tasks))
        bench.time(lambda: session.run(variables))


def update(tf: Any, bench: Bench, tasks: int) -> None:
    """Add 1 to a scalar variable of each parameter server and fetch the new values; no update may be lost."""
    variables = _variables(tf, tasks)
    more = [variable.assign_add(1.0) for variable in variables]
    with tf.Session(bench.target("worker")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(more), range(1, tasks + 1))
        calls = 1 + bench.time(lambda: session.run(more))
        bench.expect(session.run(variables), range(calls, calls + tasks))


def first(tf: Any, bench: Bench, tasks: int) -> None:
    """A new session's first step on servers of which none knows another yet: it initializes a variable of each."""
    variables = _variables(tf, tasks)
    begin = tf.global_variables_initializer()
    start = time.perf_counter()
    with tf.Session(bench.target("worker")) as session:
        session.run(begin)
        took_s = time.perf_counter() - start
        bench.expect(session.run(variables), range(tasks))
    bench.record(took_s)


def _of(measure: Callable[..., None], tasks: int) -> RowFunction:
    """The row of so many tasks."""

    def function(tf: Any, bench: Bench, tasks: int = tasks) -> None:
        measure(tf, bench, tasks)

    function.__name__ = f"fan_out_{measure.__name__}_{tasks}"
    function.__doc__ = measure.__doc__
    return function


for _tasks in TASKS:
    _where: dict[str, Any] = {
        "cluster": {"ps": _tasks, "worker": 1},
        "tensorflow": _tasks <= MOST_OF_TENSORFLOW,
    }
    _floors = [scattered(_tasks), framed(_tasks), relayed(_tasks)]
    row(f"a scalar of each of {_tasks} ps", floors=_floors, of_floor=READ_OF_FLOOR, **_where)(
        _of(read, _tasks)
    )
    row(
        f"each of {_tasks} ps updated", floors=_floors, of_floor=READ_OF_FLOOR * UPDATE_OF_READ, **_where
    )(_of(update, _tasks))  # fmt: skip
    row(f"the first step on {_tasks} ps", faster=1 if _where["tensorflow"] else None, **_where)(
        _of(first, _tasks)
    )
