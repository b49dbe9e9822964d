"""`python -m benchmarks.scaling [PLOT ...]`: how cost grows, as plots and tables in README.md.

    clients    steps a second by the number of clients
    bytes      time of a step between processes by the size of its tensor
    arrays     time of a local step by the size of its arrays, on one thread and on two
    nodes      time to build a graph, of its first run and of later ones, by its nodes
    tasks      time of a step on N parameter servers, a process each: the first, and later ones that read and update

Without a PLOT all of them; each has its own lines in README.md, so they may be measured one by one.
The rows are those of the table, with other arguments.  Needs matplotlib (the extra `plots`; `make bench-scaling`
installs it).
Exit code: 0, 1 if a measurement failed (nothing more is written then), 2 on wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import kernels, machine, report
from benchmarks.compare import QUICK, Effort, run_series
from benchmarks.libraries import LIBRARIES, Library
from benchmarks.processes import ProcessFailed
from benchmarks.report import shown
from benchmarks.row import TIMES, Row, Unit
from benchmarks.rows import TABLE, fanout

RUNS = 3
SECONDS = 0.4  # of timing, for each value of an argument
WITHIN_S = 1800.0  # for all values of a series: one process measures them
CLIENTS = [1, 2, 4, 8]
SIZES = [4, 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26, 1 << 28]
NODES = [10, 100, 1000, 10_000]
THREADS = [1, 2]
TASKS = [1, 2, 4, 8, 16, 32, 64]

GRAY = "#808080"  # seen on white and on black, as the colours of the lines are
COLORS = {"headrace": "#1f9d6b", "TensorFlow": "#e07b14"}
MARKERS = {"headrace": "o", "TensorFlow": "s"}
STYLES = ("-", "--", ":")


@dataclass(frozen=True)
class Series:
    """A row over the values of one of its arguments, `given` others.

    label: what tells it from others beside it; panel: what is measured.  sizes_cluster: the argument says how many
    parameter servers there are.  most: values that a library is measured with, if it cannot do with all.
    """

    row: Row
    panel: str
    argument: str
    values: Sequence[int]
    given: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    sizes_cluster: bool = False
    most: Mapping[str, int] = field(default_factory=dict)

    def measures(self, library: str, value: int) -> bool:
        """Whether this library can be measured with that value."""
        return value <= self.most.get(library, value)

    def run(self, library: str, effort: Effort) -> dict[int, float]:
        """The figure for each value that can be measured.  Raises ProcessFailed."""
        values = [value for value in self.values if self.measures(library, value)]
        given = [{self.argument: value, **self.given} for value in values]
        if not self.sizes_cluster:
            return dict(zip(values, run_series(self.row, library, effort, given), strict=True))
        found = {}
        for value, arguments in zip(values, given, strict=True):
            sized = replace(self.row, cluster={**self.row.cluster, "ps": value})
            (found[value],) = run_series(sized, library, effort, [arguments])
        return found

    @property
    def title(self) -> str:
        """Its name in the table."""
        return f"{self.panel}, {self.label}" if self.label else self.panel


@dataclass(frozen=True)
class Plot:
    """A picture: its panels side by side, each with one series or several."""

    name: str
    title: str
    series: Sequence[Series]

    @property
    def file(self) -> str:
        """Beside README.md."""
        return f"scaling-{self.name}.svg"

    @property
    def panels(self) -> dict[str, list[Series]]:
        """Its series by panel, in order."""
        found: dict[str, list[Series]] = {}
        for series in self.series:
            found.setdefault(series.panel, []).append(series)
        return found

    @property
    def begin(self) -> str:
        """The line of README.md before it."""
        return f"<!-- scaling: {self.name}, written by make bench-scaling -->"

    @property
    def end(self) -> str:
        """The line of README.md behind it."""
        return f"<!-- end of {self.name} -->"


Medians = dict[tuple[str, int, str], float]
"""By title of the series, value of its argument, library."""


def plots(
    clients: Sequence[int], sizes: Sequence[int], nodes: Sequence[int], tasks: Sequence[int]
) -> list[Plot]:
    """What can be measured.  clients: how many; sizes: in bytes; nodes, tasks: how many."""
    sessions, queue = TABLE["sessions_on_one_variable"], TABLE["producers_and_consumers"]
    pairs = [count for count in clients if count % 2 == 0] or [2]
    by_clients = [
        Series(sessions, "a constant of the master", "clients", clients, {"step": "const"}),
        Series(sessions, "a variable of the ps", "clients", clients, {"step": "read"}),
        Series(sessions, "adding to a variable of the ps", "clients", clients),
        Series(queue, "half put into a queue, half take out", "clients", pairs),
    ]
    by_size = [
        Series(TABLE[name], panel, "nbytes", sizes)
        for name, panel in (
            ("ps_to_worker_1mb", "from ps to worker"), ("fetch_1mb", "fetched"), ("feed_1mb", "fed"),
        )
    ]  # fmt: skip
    by_array = [
        Series(
            TABLE[name], panel, "nbytes", sizes, {"threads": count},
            f"{count} thread{'s' * (count != 1)}",
        )
        for name, panel in (
            ("elementwise", "sum(tanh(x) * 2 + exp(-x))"), ("feed_reduce", "fed and summed"),
        )
        for count in THREADS
    ]  # fmt: skip
    by_nodes = [
        Series(TABLE[name], panel, "nodes", nodes)
        for name, panel in (
            ("build_graph", "built"), ("first_run", "run for the first time"), ("chain", "run again"),
        )
    ]  # fmt: skip
    by_tasks = [
        Series(
            TABLE[f"fan_out_{name}_8"], panel, "tasks", tasks, sizes_cluster=True,
            most={"TensorFlow": fanout.MOST_OF_TENSORFLOW},
        )
        for name, panel in (
            ("read", "a scalar of each"), ("update", "each updated"), ("first", "the first step"),
        )
    ]  # fmt: skip
    return [
        Plot("clients", "Steps a second of all clients together", by_clients),
        Plot("bytes", "Time of a step between processes by the size of its tensor", by_size),
        Plot("arrays", "Time of a local step by the size of its arrays", by_array),
        Plot("nodes", "Time by the nodes of the graph", by_nodes),
        Plot("tasks", "Time of a step by the number of parameter servers", by_tasks),
    ]


def measure(plot: Plot, libraries: Sequence[Library], effort: Effort) -> Medians:
    """Medians of runs in turn, printed as they come.  Raises ProcessFailed."""
    medians: Medians = {}
    for series in plot.series:
        runs: dict[str, list[dict[int, float]]] = {library.name: [] for library in libraries}
        for _ in range(effort.runs):
            for name, found in runs.items():
                found.append(series.run(name, effort))
        for value in series.values:
            texts = []
            for name, found in runs.items():
                if not series.measures(name, value):
                    continue
                median = statistics.median(figures[value] for figures in found)
                medians[series.title, value, name] = median
                texts.append(f"{name} {shown(median, series.row.unit)}")
            what = f"{series.title}, {argument_text(series, value)}"
            print(f"{what:<60} {', '.join(texts)}", flush=True)
    return medians


def argument_text(series: Series, value: int) -> str:
    """`4 MiB`, `8 clients`."""
    if series.argument == "nbytes":
        return size_text(value)
    return f"{value:,} {series.argument[:-1]}{'s' * (value != 1)}"


def size_text(nbytes: float) -> str:
    """`4 B`, `256 MiB`."""
    units = ["B", "KiB", "MiB", "GiB"]
    while nbytes >= 1024 and len(units) > 1:
        nbytes /= 1024
        units.pop(0)
    return f"{nbytes:g} {units[0]}"


def time_text(seconds: float) -> str:
    """`100 µs`, for an axis."""
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale * 0.999:
            return f"{seconds / scale:g} {name}"
    return f"{seconds * 1e9:g} ns"


def draw(plot: Plot, medians: Medians, libraries: Sequence[Library], path: Path) -> None:
    """Write the plot, as SVG or what the path's ending says, for light pages and dark ones."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams.update({
        "svg.hashsalt": plot.name,  # the same figures make the same file
        "font.size": 10, "axes.edgecolor": GRAY, "axes.labelcolor": GRAY, "text.color": GRAY,
        "xtick.color": GRAY, "ytick.color": GRAY, "axes.spines.top": False,
        "axes.spines.right": False,
    })  # fmt: skip
    from matplotlib import pyplot

    count = len(plot.panels)
    figure, axes = pyplot.subplots(1, count, figsize=(max(3.7 * count, 10), 3.3), squeeze=False)
    for axis, (title, panel) in zip(axes[0], plot.panels.items(), strict=True):
        for style, series in zip(STYLES, panel, strict=False):
            for library in libraries:
                values = [each for each in series.values if series.measures(library.name, each)]
                found = [medians[series.title, value, library.name] for value in values]
                axis.plot(
                    values, found, style, marker=MARKERS[library.name], markersize=4,
                    color=COLORS[library.name], label=", ".join(filter(None, (library.name, series.label))),
                )  # fmt: skip
        axis.set_title(title, fontsize=10)
        _scale(axis, panel[0])
        axis.grid(alpha=0.25, color=GRAY)
    axes[0][0].set_ylabel("" if plot.series[0].row.unit is Unit.SECONDS else "steps/s")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, metadata=metadata, transparent=True)
    pyplot.close(figure)


def _scale(axis: Any, series: Series) -> None:
    """Its axes: logarithmic, but for a rate."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_xscale("log", base=10 if series.argument == "nodes" else 2)
    ticks = marked(series.values)
    texts = [size_text(value) if series.argument == "nbytes" else f"{value:,}" for value in ticks]
    axis.set_xticks(ticks, texts)
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("" if series.argument == "nbytes" else series.argument)
    if series.row.unit is Unit.SECONDS:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
        axis.yaxis.set_minor_formatter(NullFormatter())
    else:
        axis.set_ylim(bottom=0)
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def marked(values: Sequence[int]) -> list[int]:
    """Those that are named on the axis: both ends, and some between them."""
    found = list(values[:: -(-len(values) // 5)])
    found[-1] = values[-1]
    return found


def markdown(
    plot: Plot, medians: Medians, libraries: Sequence[Library], about: Iterable[str], effort: Effort
) -> str:
    """What stands in README.md: a picture and its figures."""
    lines = [f"![{plot.title}]({plot.file})", ""]
    lines += [f"Measured on {datetime.date.today().isoformat()}: {effort.text}. {'; '.join(about)}.", ""]  # fmt: skip
    lines += ["<details><summary>Figures</summary>", ""]
    names = [library.name for library in libraries]
    heads = [*names, "ratio"] if len(names) > 1 else names
    lines += ["| row | | " + " | ".join(heads) + " |", "|---|--:|" + "--:|" * len(heads)]
    for series in plot.series:
        for value in series.values:
            got = [medians.get((series.title, value, name)) for name in names]
            cells = [report.NONE if each is None else shown(each, series.row.unit) for each in got]
            if len(got) > 1:
                cells.append(ratio_text(series, *got))
            row = (series.title, argument_text(series, value), *cells)
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join([*lines, "", "</details>"])


def ratio_text(series: Series, ours: float | None, theirs: float | None) -> str:
    """How many times better, where both were measured."""
    if ours is None or theirs is None:
        return report.NONE
    return f"{report.three_digits(series.row.ratio(ours, theirs))}{TIMES}"


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parsed; ends the process on an error, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = [plot.name for plot in plots(CLIENTS, SIZES, NODES, TASKS)]
    add("plots", nargs="*", metavar="PLOT", help=f"some of {', '.join(names)}")
    add("--clients", type=positive, nargs="+", default=CLIENTS, metavar="N")
    add("--bytes", type=elements, nargs="+", default=SIZES, metavar="N", help="multiples of 4")
    add("--nodes", type=positive, nargs="+", default=NODES, metavar="N")
    add("--tasks", type=positive, nargs="+", default=TASKS, metavar="N")
    add("--runs", type=positive, default=RUNS, metavar="N")
    add("--quick", action="store_true", help="a few calls each: does it work?")
    add("--only", choices=list(LIBRARIES), help="leave the other library out")
    add("--readme", type=Path, default=report.README, help="whose sections to write; plots beside")
    args = parser.parse_args(argv)
    unknown = [name for name in args.plots if name not in names]
    if unknown:
        parser.error(f"there is no plot {unknown[0]!r}; there are {', '.join(names)}")
    args.plots = args.plots or names
    return args


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
        about += [*map(machine.kernels, libraries), *kernels.about()]
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    if warning := machine.busy():
        print(warning)
    effort = QUICK if args.quick else Effort(args.runs, SECONDS, WITHIN_S)
    for plot in plots(args.clients, args.bytes, args.nodes, args.tasks):
        if plot.name not in args.plots:
            continue
        try:
            medians = measure(plot, libraries, effort)
        except ProcessFailed as failed:
            print(failed, file=sys.stderr)
            return 1
        draw(plot, medians, libraries, args.readme.with_name(plot.file))
        section = markdown(plot, medians, libraries, about, effort)
        report.write(section, args.readme, plot.begin, plot.end)
        print(f"written: {plot.file}, and its section in {args.readme.name}\n", flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
