"""`python -m benchmarks.scaling`: how cost grows with clients, bytes and nodes, as plots and a table in README.md.

The rows are those of the table, with other arguments.  Needs matplotlib (the extra `plots`; `make bench-scaling`
installs it).
Exit code: 0, 1 if a measurement failed (nothing is written then), 2 on wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine, report
from benchmarks.compare import FULL, QUICK, Effort, run_once
from benchmarks.libraries import LIBRARIES, Library
from benchmarks.processes import ProcessFailed
from benchmarks.report import shown
from benchmarks.row import TIMES, Row, Unit
from benchmarks.rows import TABLE

BEGIN = "<!-- scaling: written by make bench-scaling -->"
END = "<!-- end of scaling -->"
RUNS = 3
COLORS = {"headrace": "#1b7837", "TensorFlow": "#e08214"}


@dataclass(frozen=True)
class Series:
    """A row over the values of one of its arguments."""

    row: Row
    title: str
    argument: str
    values: Sequence[int]


@dataclass(frozen=True)
class Plot:
    """A picture: its rows side by side."""

    name: str
    title: str
    series: Sequence[Series]

    @property
    def file(self) -> str:
        """Beside README.md."""
        return f"scaling-{self.name}.svg"


Medians = dict[tuple[str, int, str], float]
"""By row, value of its argument, library."""


def plots(clients: Sequence[int], sizes: Sequence[int], nodes: Sequence[int]) -> list[Plot]:
    """What is measured.  clients: how many; sizes: in bytes; nodes: how many."""
    by_clients = [
        ("sessions_on_one_variable", "sessions updating one variable", clients),
        ("producers_and_consumers", "producers and consumers on one queue",
         [count for count in clients if count % 2 == 0] or [2]),
    ]  # fmt: skip
    by_size = [
        ("ps_to_worker_1mb", "from ps to worker"), ("fetch_1mb", "fetch"), ("feed_1mb", "feed"),
    ]  # fmt: skip
    by_nodes = [("build_graph", "build"), ("first_run", "first run"), ("chain", "run again")]
    return [
        Plot("clients", "Steps a second of all clients together",
             [Series(TABLE[name], title, "clients", values) for name, title, values in by_clients]),
        Plot("bytes", "Time of a step by the size of its tensor",
             [Series(TABLE[name], title, "nbytes", sizes) for name, title in by_size]),
        Plot("nodes", "Time by the nodes of the graph",
             [Series(TABLE[name], title, "nodes", nodes) for name, title in by_nodes]),
    ]  # fmt: skip


def measure(plot: Plot, libraries: Sequence[Library], effort: Effort) -> Medians:
    """Medians of runs in turn, printed as they come.  Raises ProcessFailed."""
    medians: Medians = {}
    for series in plot.series:
        for value in series.values:
            figures: dict[str, list[float]] = {library.name: [] for library in libraries}
            for _ in range(effort.runs):
                for library in libraries:
                    arguments = {series.argument: value}
                    figure = run_once(series.row, library.name, effort, arguments)
                    figures[library.name].append(figure)
            texts = []
            for name, found in figures.items():
                medians[series.row.name, value, name] = median = statistics.median(found)
                texts.append(f"{name} {shown(median, series.row.unit)}")
            what = f"{series.title}, {argument_text(series, value)}"
            print(f"{what:<50} {', '.join(texts)}", flush=True)
    return medians


def argument_text(series: Series, value: int) -> str:
    """`4 MB`, `8 clients`."""
    if series.argument == "nbytes":
        return shown(value, Unit.BYTES)
    return f"{value:,} {series.argument[:-1]}{'s' * (value != 1)}"


def draw(plot: Plot, medians: Medians, libraries: Sequence[Library], path: Path) -> None:
    """Write the plot as SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = plot.name  # the same figures make the same file
    from matplotlib import pyplot

    count = len(plot.series)
    figure, axes = pyplot.subplots(1, count, figsize=(4.5 * count, 3.6), squeeze=False)
    for axis, series in zip(axes[0], plot.series, strict=True):
        for library in libraries:
            found = [medians[series.row.name, value, library.name] for value in series.values]
            color = COLORS[library.name]
            axis.plot(series.values, found, marker="o", label=library.name, color=color)
        axis.set_title(series.title)
        axis.set_xlabel("bytes" if series.argument == "nbytes" else series.argument)
        axis.set_ylabel("s" if series.row.unit is Unit.SECONDS else "steps/s")
        axis.set_xscale("log", base=2)
        if series.row.unit is Unit.SECONDS:
            axis.set_yscale("log")
        else:
            axis.set_xticks(series.values, [str(value) for value in series.values])
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle(plot.title)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def markdown(
    found: Iterable[tuple[Plot, Medians]], libraries: Sequence[Library], about: Sequence[str]
) -> str:
    """The section: a picture and its figures for each plot."""
    lines = [f"Measured on {datetime.date.today().isoformat()}.", ""]
    lines += [*(f"- {fact}" for fact in about), ""]
    names = [library.name for library in libraries]
    for plot, medians in found:
        lines += [f"### {plot.title}", "", f"![{plot.title}]({plot.file})", ""]
        heads = [*names, "ratio"] if len(names) > 1 else names
        lines += ["| row | | " + " | ".join(heads) + " |", "|---|--:|" + "--:|" * len(heads)]
        for series in plot.series:
            for value in series.values:
                got = [medians[series.row.name, value, name] for name in names]
                cells = [shown(figure, series.row.unit) for figure in got]
                if len(got) > 1:
                    cells.append(f"{report.three_digits(series.row.ratio(got[0], got[1]))}{TIMES}")
                row = (series.title, argument_text(series, value), *cells)
                lines.append("| " + " | ".join(row) + " |")
        lines.append("")
    return "\n".join(lines)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parsed; ends the process on an error, as argparse does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    add = parser.add_argument
    sizes = [*(4**power for power in range(1, 14, 2)), 1 << 28]
    add("--clients", type=positive, nargs="+", default=[1, 2, 4, 8], metavar="N")
    add("--bytes", type=elements, nargs="+", default=sizes, metavar="N", help="multiples of 4")
    add("--nodes", type=positive, nargs="+", default=[10, 100, 1000, 10_000], metavar="N")
    add("--runs", type=positive, default=RUNS, metavar="N")
    add("--quick", action="store_true", help="a few calls each: does it work?")
    add("--only", choices=list(LIBRARIES), help="leave the other library out")
    add("--readme", type=Path, default=report.README, help="whose section to write; plots beside")
    return parser.parse_args(argv)


def positive(text: str) -> int:
    """A number from 1.  Raises ValueError."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def elements(text: str) -> int:
    """Bytes of so many float32.  Raises ValueError."""
    if (number := positive(text)) % 4:
        raise ValueError(text)
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """As the module says."""
    args = arguments(argv)
    libraries = [lib for lib in LIBRARIES.values() if args.only in (None, lib.name)]
    try:
        about = [machine.hardware(), *map(machine.versions, libraries)]
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    if warning := machine.busy():
        print(warning)
    effort = QUICK if args.quick else Effort(args.runs, FULL.seconds, FULL.within_s)
    wanted = plots(args.clients, args.bytes, args.nodes)
    try:
        found = [(plot, measure(plot, libraries, effort)) for plot in wanted]
    except ProcessFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    for plot, medians in found:
        draw(plot, medians, libraries, args.readme.with_name(plot.file))
    report.write(markdown(found, libraries, about), args.readme, BEGIN, END)
    print(f"\nwritten to {args.readme.name}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
