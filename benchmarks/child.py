"""One measurement in a process of its own: `python -m benchmarks.child ROW SUBJECT SECONDS [SERVERS [ARGUMENTS]]`.

SUBJECT is the name of a library or `floor N`; SERVERS is JSON, [{job: [host:port, ...]}, {job: [pid, ...]}]; ARGUMENTS
is JSON, of the row's function where it takes any, or a list of such: then the row is measured with each of them in
turn, in a new graph, on servers that have forgotten the one before.
Writes the figure, or the list of them, as JSON on a line of its own to stdout; what the libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.libraries import LIBRARIES
from benchmarks.lifeline import end_with_stdin
from benchmarks.row import Bench, Row
from benchmarks.rows import TABLE

FLOOR = "floor "

Arguments = Mapping[str, Any] | None


def measure(row: Row, subject: str, bench: Bench, arguments: Arguments = None) -> float:
    """The row's figure for a library or one of its floors.  Raises whatever the row raises."""
    times = 1
    if subject.startswith(FLOOR):
        floor = row.floors[int(subject.removeprefix(FLOOR))]
        floor.measure(bench)
        times = floor.times
    else:
        library = LIBRARIES[subject]
        row.function(library if row.of_package else library.load(), bench, **(arguments or {}))
    if bench.figure is None:
        raise RuntimeError(f"{row.name} ended without bench.time or bench.record")
    return times * bench.figure


def measure_each(
    row: Row, subject: str, seconds: float, servers: Any, arguments: Iterable[Arguments]
) -> list[float]:
    """The row's figures for a library, with these arguments one after the other."""
    tf = LIBRARIES[subject].load()
    figures = []
    for each in arguments:
        with tf.Graph().as_default():
            figures.append(measure(row, subject, Bench(seconds, *servers), each))
        for job in servers[0]:
            tf.Session.reset(Bench(seconds, *servers).target(job))
    return figures


def main(
    name: str, subject: str, seconds: str, servers: str = "[{}, {}]", arguments: str = "{}"
) -> None:
    """As the module says."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    end_with_stdin()
    row, given, of_cluster = TABLE[name], json.loads(arguments), json.loads(servers)
    figure: float | list[float]
    if isinstance(given, list):
        figure = measure_each(row, subject, float(seconds), of_cluster, given)
    else:
        figure = measure(row, subject, Bench(float(seconds), *of_cluster), given)
    answer.write(json.dumps(figure) + "\n")
    answer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
