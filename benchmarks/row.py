"""Row: one line of the table, and what its function is given to measure with.

    @row("run(const)", faster=10, floors=[python_call])
    def run_const(tf, bench):
        answer = tf.constant(42.0)
        with tf.Session() as session:
            bench.expect(session.run(answer), 42.0)
            bench.time(lambda: session.run(answer))

The function runs in a process of its own, once with headrace as `tf` and once with TensorFlow, several times in
turn.  Its name is the name on the command line, its docstring the explanation.
Used in the measuring processes (child) and in the one that compares them (compare, report).
"""

from __future__ import annotations

import inspect
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from pathlib import Path

import numpy as np

SAMPLE_S = 1e-4  # calls that take less are timed several at once
FEWEST_SAMPLES = 3
ROUNDS = 5
LOOK_S = 1.0  # a client that failed may leave others waiting for it
TIMES = "×"  # noqa: RUF001


class Unit(Enum):
    """What a row's figure counts."""

    SECONDS = "s"
    BYTES = "B"
    PER_SECOND = "/s"


class WrongResult(Exception):
    """The program under test did not compute what the row says it does."""


class Bench:
    """A row's hands: reach the cluster, check a result, time a step."""

    def __init__(
        self,
        seconds: float,
        addresses: Mapping[str, Sequence[str]] | None = None,
        pids: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """seconds: how long to time; 0 for a few calls.  addresses, pids: of the row's servers, by job."""
        self.seconds = seconds
        self._addresses = addresses or {}
        self._pids = pids or {}
        self._verified = False
        self.figure: float | None = None

    def target(self, job: str, task: int = 0) -> str:
        """For tf.Session: that task of the row's cluster."""
        return f"grpc://{self._addresses[job][task]}"

    def memory(self, job: str, task: int = 0) -> int:
        """Bytes of memory that the server process of that task occupies just now (RSS)."""
        status = Path(f"/proc/{self._pids[job][task]}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def expect(self, got: object, wanted: object, relative: float = 0.0) -> None:
        """Raises WrongResult unless `got` is `wanted`, to within `relative` where they are numbers."""
        if relative:
            same = np.allclose(np.asarray(got), np.asarray(wanted), rtol=relative, atol=0.0)
        else:
            same = np.array_equal(np.asarray(got), np.asarray(wanted))
        if not same:
            raise WrongResult(f"got {got!r}, wanted {wanted!r}")
        self._verified = True

    def time(self, step: Callable[[], object]) -> int:
        """Record the median seconds of a call of `step`, after a warm-up; returns how many calls it made."""
        warm_up = _samples(step, 1, self.seconds / 4)
        batch = max(1, round(SAMPLE_S / statistics.median(warm_up)))
        samples = _samples(step, batch, self.seconds)
        self.record(statistics.median(samples) / batch)
        return len(warm_up) + batch * len(samples)

    def rate(self, steps: Sequence[Callable[[], object]], each_counts: int = 1) -> int:
        """Record the calls per second of all `steps` together, each in a thread of its own.

        The threads make equally many calls; the rounds in which they do are repeated and their median is taken.
        each_counts: what a call counts for, where the figure is of records and a call takes many.
        Returns how many calls each made.  Raises what a step raises.
        """
        each, made = FEWEST_SAMPLES, 0
        rates: list[float] = []
        end = time.perf_counter() + self.seconds
        while not rates or time.perf_counter() < end:
            took_s = _round(steps, each)
            made += each
            if took_s < self.seconds / ROUNDS and not rates:
                each *= 2  # that was the warm-up
            else:
                rates.append(len(steps) * each / took_s)
        self.record(each_counts * statistics.median(rates))
        return made

    def record(self, figure: float) -> None:
        """The row's figure in this process, where it is not the time of a call."""
        if not self._verified:
            raise RuntimeError(
                "a row verifies its result before it measures: call bench.expect first"
            )
        self.figure = figure


def _samples(step: Callable[[], object], batch: int, seconds: float) -> list[float]:
    """Seconds of each `batch` of calls, for as long as `seconds` last."""
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < FEWEST_SAMPLES or time.perf_counter() < end:
        calls = repeat(None, batch)
        start = time.perf_counter()
        for _ in calls:
            step()
        samples.append(time.perf_counter() - start)
    return samples


def _round(steps: Sequence[Callable[[], object]], each: int) -> float:
    """Seconds until every step was called so often, in a thread of its own.  Raises the first failure."""
    start = threading.Barrier(len(steps) + 1)
    failures: list[BaseException] = []

    def client(step: Callable[[], object]) -> None:
        start.wait()
        try:
            for _ in repeat(None, each):
                step()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=client, args=(step,), daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in threads:
        while thread.is_alive() and not failures:
            thread.join(LOOK_S)
    if failures:
        raise failures[0]
    return time.perf_counter() - begin


@dataclass(frozen=True)
class Floor:
    """What this machine needs for the bare necessities of a row; the row's figure is compared to `times` of it."""

    text: str
    measure: Callable[[Bench], None]
    times: int = 1


RowFunction = Callable[..., None]


@dataclass(frozen=True)
class Row:
    """A registered row; see `row` for its fields."""

    function: RowFunction
    title: str
    unit: Unit
    cluster: Mapping[str, int]
    floors: Sequence[Floor]
    faster: float | None
    at_most: float | None
    of_floor: float | None
    of_package: bool
    tensorflow: bool
    moves: str
    estimator: bool = False
    most_runs: int | None = None

    @property
    def name(self) -> str:
        """On the command line, and of the function."""
        return self.function.__name__

    @property
    def area(self) -> str:
        """The file it stands in: local, remote, ..."""
        return self.function.__module__.rpartition(".")[2]

    def ratio(self, ours: float, theirs: float) -> float:
        """How many times better ours is."""
        return ours / theirs if self.unit is Unit.PER_SECOND else theirs / ours

    def smaller(self, most: Mapping[str, int]) -> dict[str, int]:
        """Arguments with which its program is the same, and nothing that `most` names is larger than there."""
        taken = inspect.signature(self.function).parameters
        return {
            name: limit
            for name, limit in most.items()
            if name in taken and taken[name].default > limit
        }


TABLE: dict[str, Row] = {}


def row(
    title: str,
    *,
    unit: Unit = Unit.SECONDS,
    cluster: Mapping[str, int] | None = None,
    floors: Sequence[Floor] = (),
    faster: float | None = None,
    at_most: float | None = None,
    of_floor: float | None = None,
    of_package: bool = False,
    tensorflow: bool = True,
    estimator: bool = False,
    moves: str = "",
    most_runs: int | None = None,
) -> Callable[[RowFunction], RowFunction]:
    """Register the decorated function as a row.

    cluster: {job: tasks}, each a server process of the library under test, new for each run.
    Targets: faster, at least so many times better than TensorFlow; at_most, a figure in `unit`; of_floor, at most so
    many times the first floor.
    of_package: the function is given the Library (libraries.py) instead of its module.
    tensorflow: false where it is left out.  estimator: beside TensorFlow 2.15, the last that has tf.estimator.
    moves: what a step of headrace reads and copies of what it is about, where that is more than a few numbers.
    most_runs: of one that takes long.
    Raises ValueError if the name is taken, naming both places.
    """

    def register(function: RowFunction) -> RowFunction:
        made = Row(
            function,
            title,
            unit,
            cluster or {},
            tuple(floors),
            faster,
            at_most,
            of_floor,
            of_package,
            tensorflow,
            moves,
            estimator,
            most_runs,
        )
        if made.name in TABLE:
            taken = TABLE[made.name].function
            raise ValueError(
                f"two rows are named {made.name}: in {taken.__module__} and in {function.__module__}"
            )
        TABLE[made.name] = made
        return function

    return register
