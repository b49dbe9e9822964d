"""`python -m benchmarks.neighbours [WORK ...]`: the same work on servers that people use where they need no graphs.

Every client is a process of its own, with one connection; the servers take turns, several times.  Printed are calls a
second of all clients together, and the processor time of a call in the server and in the client, each the median of
the runs.  With all works, stores and at full length the table is also written to benchmarks/neighbours.md.
Exit code: 0, 1 if a measurement failed, 2 on wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine
from benchmarks.libraries import HEADRACE, TENSORFLOW
from benchmarks.neighbours.stores import STORES, Store
from benchmarks.processes import ROOT, Process, ProcessFailed, process

TABLE = ROOT / "benchmarks" / "neighbours.md"
WITHIN_S = 120.0
CALIBRATION = 50  # calls of each client at first
MANY = 8


class Work(NamedTuple):
    """A row.  clients: what each of them does; counted: what is added up."""

    title: str
    clients: Sequence[str]

    @property
    def adds(self) -> bool:
        """Whether the number counts the calls."""
        return set(self.clients) == {"add"}


WORKS = {
    "read": Work("read a number", ["read"]),
    "read_8": Work(f"the same, {MANY} clients", ["read"] * MANY),
    "add": Work("add to a number", ["add"]),
    "add_8": Work(f"the same, {MANY} clients", ["add"] * MANY),
    "queue": Work("put and get", ["put and get"]),
    "queue_8": Work(
        f"{MANY // 2} put, {MANY // 2} get", ["put"] * (MANY // 2) + ["get"] * (MANY // 2)
    ),
    "large": Work("read 1 MB", ["1 MB"]),
    "large_8": Work(f"the same, {MANY} clients", ["1 MB"] * MANY),
}


class Figures(NamedTuple):
    """rate: calls a second.  server_us, client_us: processor time of a call."""

    rate: float
    server_us: float
    client_us: float


def cpu_s(pid: int) -> float:
    """Seconds of processor of a process's threads that live, to the nanosecond.  Source: Linux's /proc."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            total += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return total / 1e9


def call(clients: Sequence[Process], count: int) -> tuple[float, float, list[int]]:
    """Have each make so many calls: seconds until all have, seconds of processor of all, and the last results."""
    begin = time.perf_counter()
    for client in clients:
        assert client.popen.stdin is not None
        client.popen.stdin.write(f"{count}\n".encode())
        client.popen.stdin.flush()
    answers = [json.loads(client.first_line(WITHIN_S)) for client in clients]
    took_s = time.perf_counter() - begin
    return took_s, sum(cpu for cpu, _ in answers), [result for _, result in answers]


def measure(store: Store, work: Work, seconds: float) -> Figures:
    """One run, on a server of its own.  Raises ProcessFailed."""
    with ExitStack() as stack:
        address, pid = stack.enter_context(store.serve())
        command = [store.python(), "-m", "benchmarks.neighbours.client", store.name, address]
        clients = []
        for kinds in (work.clients[:1], work.clients[1:]):  # the first one begins what all share
            started = [stack.enter_context(process([*command, kind])) for kind in kinds]
            for client in started:
                if (word := client.first_line(WITHIN_S)) != "ready":
                    raise ProcessFailed(f"{store.name}: a client said {word!r}")
            clients += started
        count, made = CALIBRATION, 0
        while True:
            before = cpu_s(pid)
            took_s, client_s, results = call(clients, count)
            server_s = cpu_s(pid) - before
            made += count
            if took_s >= seconds:
                break
            count = max(count * 2, min(count * 20, round(1.2 * count * seconds / took_s)))
        if work.adds and not store.is_floor and max(results) != made * len(clients):
            raise ProcessFailed(f"{store.name} has lost of {made * len(clients)} additions some")
        calls = count * len(clients)
        return Figures(calls / took_s, 1e6 * server_s / calls, 1e6 * client_s / calls)


def median(runs: Sequence[Figures]) -> Figures:
    """Of each figure."""
    return Figures(*(statistics.median(column) for column in zip(*runs, strict=True)))


def shown(figures: Figures | None) -> str:
    """`12,345/s (45 + 51 µs)`."""
    if figures is None:
        return "–"  # noqa: RUF001
    return f"{figures.rate:,.0f}/s ({figures.server_us:.0f} + {figures.client_us:.0f} µs)"


def share(figures: Figures | None) -> str:
    """Of what the processors could do if nothing but the server's and the clients' work were to be done.

    With one client, which waits for each answer, client and server work in turn: on two processors that is half.
    """
    if figures is None:
        return "–"  # noqa: RUF001
    each_us = figures.server_us + figures.client_us
    ceiling = (os.cpu_count() or 1) * 1e6 / each_us
    return f"{figures.rate / ceiling:.0%}"


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parsed and checked; ends the process on an error, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.neighbours", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="of a run")
    parser.add_argument("--only", action="append", choices=list(STORES), help="these stores")
    found = parser.parse_args(argv)
    for name in found.works:
        if name not in WORKS:
            parser.error(f"there is no work {name!r}; there is {', '.join(WORKS)}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """As the module says."""
    args = arguments(argv)
    stores = []
    for store in STORES.values():
        if args.only and store.name not in args.only:
            continue
        if why := store.missing():
            print(f"{store.name} is left out: {why}")
        else:
            stores.append(store)
    about = [machine.hardware()]
    about += [machine.versions(lib) for lib in (HEADRACE, TENSORFLOW) if STORES[lib.name] in stores]
    print("\n".join(about))
    if warning := machine.busy():
        print(warning)
    limited = [store.name for store in stores if store.name == HEADRACE.name or store.is_floor]
    lines = [
        f"| | {' | '.join([*(store.name for store in stores), *(f'{name}, of the ceiling' for name in limited)])} |",
        f"|---|{'--:|' * (len(stores) + len(limited))}",
    ]
    print("\n".join(lines), flush=True)
    failed = False
    for name, work in WORKS.items():
        if args.works and name not in args.works:
            continue
        runs: dict[str, list[Figures]] = {store.name: [] for store in stores}
        for _ in range(args.runs):
            for store in stores:
                try:
                    runs[store.name].append(measure(store, work, args.seconds))
                except ProcessFailed as failure:
                    failed = True
                    print(f"{store.name}, {work.title}: {failure}", file=sys.stderr)
        medians = {each: median(found) if found else None for each, found in runs.items()}
        cells = [*map(shown, medians.values()), *(share(medians[name]) for name in limited)]
        lines.append(f"| {work.title} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if not (args.works or args.only or failed or len(stores) < len(STORES)):
        write(lines, about, args.runs, args.seconds)
    return int(failed)


def write(lines: Sequence[str], about: Sequence[str], runs: int, seconds: float) -> None:
    """The table into its file."""
    today = datetime.date.today().isoformat()
    caption = (
        "Calls a second of all clients together, each a process of its own, and in brackets the processor time of a "
        f"call in the server and in a client; medians of {runs} runs of {seconds:g} s, {today}. The last columns are "
        "rates beside the processors divided by that time.\n`make bench-neighbours` writes this file."
    )
    text = "\n".join(["# Beside its neighbours", "", caption, "", *lines, "", *about, ""])
    TABLE.write_text(text)
    print(f"\nwritten to benchmarks/{TABLE.name}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
