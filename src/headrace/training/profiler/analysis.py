"""`tf.profiler`: profile, Profiler, advise, write_op_log.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; tests compare with 2.21
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.training.profiler import reports, views
from headrace.training.profiler.nodes import Node, nodes_of, op_log_of
from headrace.training.profiler.options import ProfileOptionBuilder, completed

__all__ = ["Profiler", "advise", "profile", "write_op_log"]

_VIEWS: Final[dict[str, tuple[Callable[[Mapping[str, Node]], views.Tree], Any, str]]] = {
    "scope": (views.by_scope, views.graph_message, "nodes by the scopes of their names."),
    "graph": (views.by_inputs, views.graph_message, "nodes, and beneath each what feeds it."),
    "op": (views.by_type, views.multi_message, "op types."),
    "code": (views.by_line, views.multi_message, "lines of Python that built the nodes."),
}
_MOST_EXPENSIVE: Final = 3
"""So many op types `advise` names."""


class Profiler:
    """Profiles of a graph and of the steps that are added to it."""

    def __init__(self, graph: Any = None, op_log: Any = None) -> None:
        """graph: the default one if None.  op_log: an OpLogProto with more operations and types of nodes."""
        self._graph = scopes.get_default_graph() if graph is None else graph
        self._op_log = pb.OpLogProto() if op_log is None else op_log
        self._steps: dict[int, Any] = {}

    def add_step(self, step: int, run_meta: Any) -> None:
        """The RunMetadata of a step that was traced in full."""
        self._steps[step] = run_meta

    def _profiled(self, command: str, options: Any) -> Any:
        """Raises InvalidArgumentError for options that are not known."""
        chosen = completed(options)
        build, message, about = _VIEWS[command]
        nodes = nodes_of(self._graph, self._op_log, self._steps, chosen["step"])
        root = views.started(build(nodes), chosen["start_name_regexes"])
        views.count(root, chosen)
        if command == "op":
            views.in_a_row(root, chosen)
        else:
            (root,) = views.choose(root, chosen)
        kind, _, where = chosen["output"].partition(":outfile=")
        if kind == "timeline":
            self._write_timeline(where, chosen["step"])
        reports.write(reports.text(root, chosen, command, about), chosen)
        return message(root)

    def _write_timeline(self, where: str, step: int) -> None:
        from headrace.training.timeline import Timeline

        if not self._steps:
            raise errors.InvalidArgumentError(
                None,
                None,
                "A timeline needs a traced step: add_step, or run_meta of tf.profiler.profile",
            )
        metadata = self._steps[step if step >= 0 else max(self._steps)]
        with open(where, "w", encoding="utf-8") as file:
            file.write(Timeline(metadata.step_stats).generate_chrome_trace_format())

    def profile_python(self, options: Any) -> Any:
        """By lines of Python: a MultiGraphNodeProto."""
        return self._profiled("code", options)

    def profile_operations(self, options: Any) -> Any:
        """By op types: a MultiGraphNodeProto."""
        return self._profiled("op", options)

    def profile_name_scope(self, options: Any) -> Any:
        """By scopes: a GraphNodeProto."""
        return self._profiled("scope", options)

    def profile_graph(self, options: Any) -> Any:
        """By what feeds what: a GraphNodeProto."""
        return self._profiled("graph", options)

    def advise(self, options: Any) -> Any:
        """What stands out in the steps: an AdviceProto.  options: a dict of the checkers wanted; None for all."""
        nodes = nodes_of(self._graph, self._op_log, self._steps, -1)
        made = pb.AdviceProto()
        wanted = _CHECKERS if options is None else {key: _CHECKERS[key] for key in options}
        for name, check in wanted.items():
            made.checkers[name].reports.extend(check(nodes))
        return made

    def serialize_to_string(self) -> bytes:
        """A ProfileProto of the graph and its steps."""
        made = pb.ProfileProto(has_trace=True)
        nodes = nodes_of(self._graph, self._op_log, self._steps, -1)
        numbers = {name: at for at, name in enumerate(nodes)}
        for name, node in nodes.items():
            found = made.nodes[numbers[name]]
            found.name, found.op, found.id = name, node.op, numbers[name]
            found.float_ops = node.costs.values["float_ops"]
            found.op_types.extend(node.types)
            found.shape.extend(node.shape or ())
            for at, each in enumerate(node.inputs):
                found.inputs[at] = numbers[each]
        made.steps.extend(sorted(self._steps))
        data: bytes = made.SerializeToString()
        return data


def profile(
    graph: Any = None,
    run_meta: Any = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: Any = None,
) -> Any:
    """A report of a graph, printed as the options say, and its message.

    graph: the default one if None.  run_meta: of a traced step.  cmd: "scope" or "graph" (a GraphNodeProto), "op" or
    "code" (a MultiGraphNodeProto).  options: of a ProfileOptionBuilder.
    Raises InvalidArgumentError for options that are not known.
    """
    if cmd not in _VIEWS:
        raise errors.InvalidArgumentError(
            None, None, f"unknown cmd: {cmd}; it is one of {', '.join(_VIEWS)}"
        )
    profiler = Profiler(graph, op_log)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    return profiler._profiled(cmd, options or ProfileOptionBuilder().build())


def advise(graph: Any = None, run_meta: Any = None, options: Any = None) -> Any:
    """What stands out in a traced step: an AdviceProto.  options: a dict of the checkers wanted; None for all."""
    profiler = Profiler(graph)
    if run_meta is not None:
        profiler.add_step(0, run_meta)
    return profiler.advise(options)


def write_op_log(
    graph: Any, log_dir: str, op_log: Any = None, run_meta: Any = None, add_trace: bool = True
) -> None:
    """Writes an OpLogProto of the graph, with `op_log`'s entries, into log_dir/tfprof_log."""
    graph = scopes.get_default_graph() if graph is None else graph
    made = op_log_of(graph, add_trace)
    given = {entry.name: entry for entry in (op_log.log_entries if op_log else ())}
    for entry in made.log_entries:
        more = given.pop(entry.name, None)
        if more is not None:
            entry.MergeFrom(more)
    made.log_entries.extend(given.values())
    os.makedirs(log_dir, exist_ok=True)
    with open(os.path.join(log_dir, "tfprof_log"), "wb") as file:
        file.write(made.SerializeToString())


# -- what stands out ----------------------------------------------------------------------------


def _expensive(nodes: Mapping[str, Node]) -> list[str]:
    """The op types that took most of the time."""
    spent: dict[str, list[int]] = {}
    for node in nodes.values():
        values = node.costs.values
        times = spent.setdefault(node.op, [0, 0, 0])
        for at, key in enumerate(("exec_micros", "cpu_exec_micros", "accelerator_exec_micros")):
            times[at] += values[key]
    whole = sum(times[0] for times in spent.values())
    if not whole:
        return []
    most = sorted(spent.items(), key=lambda pair: -pair[1][0])[:_MOST_EXPENSIVE]
    return [
        f"top {at} operation type: {kind}, cpu: {reports.duration(cpu)}, accelerator: {reports.duration(other)}, "
        f"total: {reports.duration(total)} ({100 * total / whole:.2f}%)"
        for at, (kind, (total, cpu, other)) in enumerate(most, 1)
        if total
    ]


def _idle_accelerators(nodes: Mapping[str, Node]) -> list[str]:
    """Accelerators that worked less than half of the time."""
    busy = sum(node.costs.values["accelerator_exec_micros"] for node in nodes.values())
    whole = sum(node.costs.values["exec_micros"] for node in nodes.values())
    if not busy or busy * 2 >= whole:
        return []
    return [f"accelerators have {100 * busy / whole:.2f}% of the time of operations"]


def _operations(nodes: Mapping[str, Node]) -> list[str]:
    """Operations whose order of dimensions is a slow one for their device."""
    for node in nodes.values():
        if node.data_format == "NHWC" and any("gpu" in each.lower() for each in node.devices):
            return ["Found operation using NHWC data_format on GPU. Maybe NCHW is faster."]
    return []


_CHECKERS: Final[dict[str, Callable[[Mapping[str, Node]], list[str]]]] = {
    "AcceleratorUtilizationChecker": _idle_accelerators,
    "ExpensiveOperationChecker": _expensive,
    "OperationChecker": _operations,
}
