"""Run a row on every subject in turn (headrace, TensorFlow, its floors), several times, each time in new processes.

Called by: __main__.
Threads: none.  Whatever ends it (an error, Ctrl-C), the processes that it started are ended first.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks.child import FLOOR, Arguments
from benchmarks.libraries import HEADRACE, LIBRARIES, TENSORFLOW, Library
from benchmarks.processes import ProcessFailed, Servers, cluster, process
from benchmarks.row import Row


@dataclass(frozen=True)
class Effort:
    """How thoroughly to measure.  most: of arguments of rows that make them large, where that does not matter."""

    runs: int
    seconds: float  # of timing in a run, warm-up not counted
    within_s: float  # for a run to end
    most: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """For the table's caption."""
        many = "one run" if self.runs == 1 else f"medians of {self.runs} runs"
        return f"{many} of {self.seconds:g} s"


FULL = Effort(runs=5, seconds=1.0, within_s=300.0)
QUICK = Effort(runs=1, seconds=0.0, within_s=120.0, most={"nbytes": 1_000_000, "many": 100})


@dataclass
class Outcome:
    """What came of a row: figures in the row's unit, by subject and in the order of the runs."""

    row: Row
    figures: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, subject: str) -> float | None:
        """None if the subject was not run or has failed."""
        figures = self.figures.get(subject)
        return statistics.median(figures) if figures and subject not in self.failures else None

    @property
    def ratio(self) -> float | None:
        """How many times better headrace's median is than TensorFlow's."""
        ours, theirs = self.median(HEADRACE.name), self.median(TENSORFLOW.name)
        return None if ours is None or theirs is None else self.row.ratio(ours, theirs)

    @property
    def ratios(self) -> list[float]:
        """The same of each pair of neighbouring runs: how much the machine let them vary."""
        if self.ratio is None:
            return []
        pairs = zip(self.figures[HEADRACE.name], self.figures[TENSORFLOW.name], strict=True)
        return [self.row.ratio(ours, theirs) for ours, theirs in pairs]

    @property
    def floors(self) -> list[tuple[str, float]]:
        """(what, median) of the row's floors that were measured."""
        medians = [(f.text, self.median(floor_name(n))) for n, f in enumerate(self.row.floors)]
        return [(text, figure) for text, figure in medians if figure is not None]


def floor_name(index: int) -> str:
    """The subject that is the row's floor of that index."""
    return f"{FLOOR}{index}"


def run(row: Row, libraries: Sequence[Library], effort: Effort) -> Outcome:
    """Measure a row; a subject that fails is not run again, and the others are."""
    outcome = Outcome(row)
    subjects = [
        library.name for library in libraries if row.tensorflow or library is not TENSORFLOW
    ]
    subjects += [floor_name(index) for index in range(len(row.floors))]
    for _ in range(min(effort.runs, row.most_runs or effort.runs)):
        for subject in subjects:
            if subject in outcome.failures:
                continue
            try:
                figure = run_once(row, subject, effort)
            except ProcessFailed as failed:
                outcome.failures[subject] = str(failed)
            else:
                outcome.figures.setdefault(subject, []).append(figure)
    return outcome


def run_once(row: Row, subject: str, effort: Effort) -> float:
    """One run in a new process, with new servers where the row has a cluster.  Raises ProcessFailed."""
    return float(_run(row, subject, effort, row.smaller(effort.most)))


def run_series(
    row: Row, subject: str, effort: Effort, arguments: Sequence[Arguments]
) -> list[float]:
    """As `run_once`, with other arguments than the row takes by itself, one set after the other in that process."""
    return [float(figure) for figure in _run(row, subject, effort, arguments)]


def _run(row: Row, subject: str, effort: Effort, arguments: Any) -> Any:
    library = LIBRARIES.get(subject)
    with ExitStack() as stack:
        servers = Servers({}, {})
        if library is not None and row.cluster:
            servers = stack.enter_context(cluster(library, row.cluster))
        command = [
            *((library or HEADRACE).python(row.estimator), "-m", "benchmarks.child"),
            *(row.name, subject, str(effort.seconds), json.dumps(servers), json.dumps(arguments)),
        ]
        child = stack.enter_context(process(command))
        return json.loads(child.first_line(effort.within_s))
