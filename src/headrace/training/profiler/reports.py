"""Profiles as text, a line a node, and where it goes.

Called by: training.profiler.  Threads: any.
Source: TF 1.15 behaviour; tests compare lines with 2.21's
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headrace.base import errors
from headrace.training.profiler.options import LEAST
from headrace.training.profiler.views import FIELD, Tree

__all__: list[str] = []

_COLUMNS: Final = {
    "bytes": ("requested bytes", "memory that the operation asked for."),
    "peak_bytes": ("peak bytes", "most memory that the operation held at once."),
    "residual_bytes": ("residual bytes", "memory that is held after the operation."),
    "output_bytes": ("output bytes", "memory of the outputs."),
    "micros": ("total execution time", "time on accelerators and CPUs."),
    "accelerator_micros": ("accelerator execution time", "time on accelerators."),
    "cpu_micros": ("cpu execution time", "time on CPUs."),
    "params": ("# parameters", "numbers in variables and placeholders."),
    "float_ops": ("# float_ops", "floating point operations."),
    "occurrence": ("op occurrence (run|defined)", "how often it ran, and stands in the graph."),
    "device": ("assigned devices", "devices it was placed on."),
    "op_types": ("op types", "the op, its devices and what programs call it."),
    "input_shapes": ("input shapes", "shapes of the inputs."),
}


def number(value: int) -> str:
    """1.23k, 4.56m."""
    for limit, divisor, unit in ((1000, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "m")):
        if value < limit:
            return str(value) if divisor == 1 else f"{value / divisor:.2f}{unit}"
    return f"{value / 1e9:.2f}b"


def memory(value: int) -> str:
    """1.23KB, 4.56MB."""
    for limit, divisor, unit in ((1000, 1, "B"), (1e6, 1e3, "KB"), (1e9, 1e6, "MB")):
        if value < limit:
            return f"{value}B" if divisor == 1 else f"{value / divisor:.2f}{unit}"
    return f"{value / 1e9:.2f}GB"


def duration(micros: int) -> str:
    """7us, 1.23ms."""
    if micros < 1000:
        return f"{micros}us"
    return f"{micros / 1e3:.2f}ms" if micros < 1e6 else f"{micros / 1e6:.2f}sec"


def _shown_value(what: str, value: int) -> str:
    if what.endswith("bytes"):
        return memory(value)
    if what.endswith("micros"):
        return duration(value)
    return number(value)


_UNITS: Final = {"params": " params", "float_ops": " flops"}


def _selected(options: Mapping[str, Any]) -> list[str]:
    chosen = set(options["select"])
    if "micros" in chosen:
        chosen |= {"accelerator_micros", "cpu_micros"}
    return [each for each in _COLUMNS if each in chosen]


def _line(tree: Tree, options: Mapping[str, Any]) -> str:
    parts = []
    for what in _selected(options):
        if what in FIELD:
            total = _shown_value(what, tree.total.values[FIELD[what]])
            own = _shown_value(what, tree.own.values[FIELD[what]]) if tree.accounted else "--"
            if what == "params" and len(tree.nodes) == 1 and tree.nodes[0].shape is not None:
                parts.append("x".join(str(each) for each in tree.nodes[0].shape))
            parts.append(f"{own}/{total}{_UNITS.get(what, '')}")
        elif what == "op_types":
            parts.append("|".join(sorted(tree.types)))
        elif what == "device":
            devices = {each for node in tree.nodes for each in node.devices}
            parts += ["|".join(sorted(devices))] if devices else []
        elif what == "input_shapes":
            shapes = [
                f"{at}:{'x'.join(str(size) for size in sizes or [1])}"
                for node in tree.nodes[:1]
                for at, sizes in enumerate(node.input_shapes)
                if sizes is not None
            ]
            parts.append(f"input_shapes: {'|'.join(shapes)}")
        elif what == "occurrence":
            runs = tree.total.values["run_count"]
            parts.append(f"{runs}|{tree.total.nodes}")
    return f"{tree.name} ({', '.join(parts)})"


def _lines(tree: Tree, options: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    yield " " * indent + _line(tree, options)
    for child in tree.shown:
        yield from _lines(child, options, indent + 2)


def _row(tree: Tree, root: Tree, options: Mapping[str, Any]) -> str:
    """An op type: what it costs, which share is left from here on, and which is its own."""
    parts = []
    for what in _selected(options):
        if what in FIELD:
            key = FIELD[what]
            whole = root.total.values[key]
            own, rest = tree.own.values[key], tree.total.values[key]
            unit = {"params": " params", "float_ops": " float_ops"}.get(what, "")
            shares = f"{_percent(rest, whole)}, {_percent(own, whole)}"
            parts.append(f"{_shown_value(what, own)}{unit} ({shares})")
        elif what == "op_types":
            parts.append("|".join(sorted(tree.types)))
        elif what == "device":
            parts.append("|".join(sorted({each for node in tree.nodes for each in node.devices})))
        elif what == "occurrence":
            parts.append(f"{tree.total.values['run_count']}|{len(tree.nodes)}")
    return f"{tree.name:<25}{', '.join(parts)}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


def _rows(root: Tree, options: Mapping[str, Any]) -> Iterator[str]:
    at = root
    while at.shown:
        at = at.shown[0]
        yield _row(at, root, options)


def text(root: Tree, options: Mapping[str, Any], command: str, help_text: str) -> str:
    """The report."""
    selected = _selected(options)
    legend = " | ".join(["node name", *(_COLUMNS[each][0] for each in selected)])
    about = [f"{each}: {_COLUMNS[each][1]}" for each in selected]
    body = _rows(root, options) if command == "op" else _lines(root, options)
    return "\n".join([f"{command}: {help_text}", *about, "", "Profile:", legend, *body, ""])


def _said_options(options: Mapping[str, Any]) -> str:
    rows = {"max_depth": options["max_depth"]}
    rows |= {f"min_{each}": options[f"min_{each}"] for each in LEAST}
    rows |= {"step": options["step"], "order_by": options["order_by"]}
    for each in "account_type start_name trim_name show_name hide_name".split():
        rows[f"{each}_regexes"] = ",".join(options[f"{each}_regexes"])
    rows["account_displayed_op_only"] = str(options["account_displayed_op_only"]).lower()
    rows["select"] = ",".join(sorted(options["select"]))
    rows["output"] = options["output"]
    return "\n".join(f"{'-' + key:<28}{value}" for key, value in rows.items())


def write(report: str, options: Mapping[str, Any]) -> None:
    """Where `output` says.

    Raises InvalidArgumentError for a kind of output that is not known, UnimplementedError for pprof.
    """
    kind, _, where = options["output"].partition(":outfile=")
    if kind == "none":
        return
    if kind == "file" and where:
        with open(where, "w", encoding="utf-8") as file:
            file.write(report)
    elif kind == "stdout":
        print(
            f"\n=========================Options=============================\n{_said_options(options)}\n"
            f"\n==================Model Analysis Report======================\n\nDoc:\n{report}"
            "\n======================End of Report=========================="
        )
    elif kind == "pprof":
        raise errors.UnimplementedError(
            None, None, "pprof output is not offered; with_file_output writes the same tree as text"
        )
    elif kind != "timeline" or not where:
        raise errors.InvalidArgumentError(
            None, None, f"Unknown output: {options['output']}; see tf.profiler.ProfileOptionBuilder"
        )
