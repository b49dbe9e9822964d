"""One measurement in a process of its own: `python -m benchmarks.child ROW SUBJECT SECONDS [SERVERS [ARGUMENTS]]`.

SUBJECT is the name of a library or `floor N`; SERVERS is JSON, [{job: [host:port, ...]}, {job: [pid, ...]}]; ARGUMENTS
is JSON, of the row's function where it takes any.
Writes the figure as JSON on a line of its own to stdout; what the libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
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


def main(
    name: str, subject: str, seconds: str, servers: str = "[{}, {}]", arguments: str = "{}"
) -> None:
    """As the module says."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    end_with_stdin()
    bench = Bench(float(seconds), *json.loads(servers))
    figure = measure(TABLE[name], subject, bench, json.loads(arguments))
    answer.write(json.dumps(figure) + "\n")
    answer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
