"""What is known of each node of a graph, before it is shown: costs, types, inputs, where it was built.

Called by: training.profiler.  Threads: as graph.
Source: TF 1.15 behaviour
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.graph.collections import GraphKeys
from headrace.training.profiler.options import TRAINABLE
from headrace.training.profiler.statistics import FLOPS, get_stats_for_node_def

__all__: list[str] = []

COSTS: Final = (
    "run_count exec_micros accelerator_exec_micros cpu_exec_micros requested_bytes peak_bytes residual_bytes "
    "output_bytes parameters float_ops"
).split()
"""Fields of the reports' messages; each has a total."""


@dataclass
class Costs:
    """Numbers by field, and of how many nodes they are."""

    values: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COSTS, 0))
    nodes: int = 0

    def add(self, other: Costs) -> None:
        """Both together."""
        for key, value in other.values.items():
            self.values[key] += value
        self.nodes += other.nodes


@dataclass
class Node:
    """One operation.  types: its op, device, and what programs call it.  trace: (file, line, function, text)."""

    name: str
    op: str
    inputs: list[str]
    types: list[str]
    shape: list[int] | None
    input_shapes: list[list[int] | None]
    costs: Costs
    devices: list[str]
    trace: list[Any]
    data_format: str


def nodes_of(graph: Any, op_log: Any, steps: Mapping[int, Any], step: int) -> dict[str, Node]:
    """Name -> node.  steps: RunMetadata by number; step: which of them, -1 for the mean of all.

    Raises InvalidArgumentError for a step that was not added.
    """
    logged = {entry.name: entry for entry in op_log.log_entries}
    trained = {each.op.name for each in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    found = {}
    for op in graph.get_operations():
        entry = logged.get(op.name)
        shape = _own_shape(op)
        costs = Costs(nodes=1)
        costs.values["parameters"] = 0 if shape is None else math.prod(shape)
        costs.values["float_ops"] = entry.float_ops if entry and entry.float_ops else _flops(op)
        types = [op.type, *([op.device] if op.device else [])]
        types += [TRAINABLE] if op.name in trained else []
        types += [each for each in (entry.types if entry else ()) if each not in types]
        sizes = [_sizes(each.shape) for each in op.inputs]
        devices = [op.device] if op.device else []
        inputs = [each.op.name for each in op.inputs]
        trace = op.traceback
        found[op.name] = Node(
            op.name, op.type, inputs, types, shape, sizes, costs, devices, trace, _data_format(op)
        )
    _add_steps(found, steps, step)
    return found


def _own_shape(op: Any) -> list[int] | None:
    """What its attr says, which is a variable's or a placeholder's."""
    try:
        shape = op.get_attr("shape")
    except ValueError:
        return None
    if not hasattr(shape, "dim") or shape.unknown_rank:
        return None
    sizes = [each.size for each in shape.dim]
    return None if any(each < 0 for each in sizes) else sizes


def _data_format(op: Any) -> str:
    try:
        found = op.get_attr("data_format")
    except ValueError:
        return ""
    return found.decode() if isinstance(found, bytes) else str(found)


def _sizes(shape: Any) -> list[int] | None:
    if not shape.is_fully_defined():
        return None
    found: list[int] = shape.as_list()
    return found


def _flops(op: Any) -> int:
    try:
        value = get_stats_for_node_def(op.graph, op.node_def, FLOPS).value
    except ValueError:  # shapes are not known
        return 0
    return int(value or 0)


def _add_steps(nodes: dict[str, Node], steps: Mapping[int, Any], step: int) -> None:
    if step >= 0 and step not in steps:
        raise errors.InvalidArgumentError(
            None, None, f"step {step} was not added; there are {sorted(steps)}: Profiler.add_step"
        )
    chosen = list(steps.values()) if step < 0 else [steps[step]]
    for metadata in chosen:
        for device in metadata.step_stats.dev_stats:
            for stats in device.node_stats:
                node = nodes.get(stats.node_name)
                if node is not None:
                    _add_stats(node, device.device, stats)
    if len(chosen) > 1:
        for node in nodes.values():
            for key in COSTS:
                if key not in ("run_count", "parameters", "float_ops"):
                    node.costs.values[key] //= len(chosen)


def _add_stats(node: Node, device: str, stats: Any) -> None:
    values = node.costs.values
    if device not in node.devices:
        node.devices.append(device)
        node.types.append(device)
    micros = max(stats.op_end_rel_micros, 1)
    values["run_count"] += 1
    values["exec_micros"] += micros
    of_host = "cpu" in device.lower()
    values["cpu_exec_micros" if of_host else "accelerator_exec_micros"] += micros
    for memory in stats.memory:
        values["requested_bytes"] += memory.total_bytes
        values["peak_bytes"] += memory.peak_bytes
        values["residual_bytes"] += memory.live_bytes
    for output in stats.output:
        description = output.tensor_description.allocation_description
        values["output_bytes"] += description.requested_bytes


def op_log_of(graph: Any, add_trace: bool = True) -> Any:
    """OpLogProto: operations, types and, with `add_trace`, the lines that built each node."""
    log = pb.OpLogProto()
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        return numbers.setdefault(text, len(numbers))

    trained = {each.op.name for each in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    for op in graph.get_operations():
        flops = _flops(op)
        if not (flops or add_trace or op.name in trained):
            continue
        entry = log.log_entries.add(name=op.name, float_ops=flops)
        if op.name in trained:
            entry.types.append(TRAINABLE)
        for file, line, function, text in op.traceback if add_trace else ():
            entry.code_def.traces.add(
                file_id=number(file),
                lineno=line or 0,
                function_id=number(function or ""),
                line_id=number(text or ""),
            )
    for text, at in numbers.items():
        log.id_to_string[at] = text
    return log
