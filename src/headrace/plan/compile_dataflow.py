"""Compile for the dataflow executor: partitions that have control flow, or may receive dead values.

Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.graph.const_value import const_array
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan import check
from headrace.plan.binding import bound_kernel, input_names, returns_value, wants_reference
from headrace.plan.live import live_tensors
from headrace.plan.prune import Pruned
from headrace.run.dataflow import DataflowProgram, Kind, Node
from headrace.run.kernel import Memos, NodeInfo

_KINDS = {
    "Switch": Kind.SWITCH,
    "Merge": Kind.MERGE,
    "Enter": Kind.ENTER,
    "Exit": Kind.EXIT,
    "NextIteration": Kind.NEXT,
    "_Send": Kind.SEND,
    "_HostSend": Kind.SEND,
}
_KINDS.update({f"Ref{name}": kind for name, kind in list(_KINDS.items())[:5]})
_KINDS["_SwitchN"] = Kind.SWITCH


def compile_dataflow(
    pruned: Pruned,
    args: Sequence[Tensor],
    returns: Sequence[Tensor],
    devices: Mapping[Operation, str],
    memos: Memos,
    xp: Any,
) -> DataflowProgram:
    """The program of what was pruned; see plan.compile.compile_program."""
    ops = pruned.ops
    fed = {tensor: _argument(index, tensor) for index, tensor in enumerate(args)}
    nodes: dict[Operation, Node] = {}
    live = live_tensors(ops)
    for op in ops:
        info = NodeInfo(
            op.name, op.type, devices.get(op, op.device), op.attrs, op.built_at,
            memos.setdefault(op.name, {}), input_names(op, pruned.controls[op]),
        )  # fmt: skip
        node = nodes[op] = _node(len(args) + len(nodes), op, info, xp)
        node.live = tuple([tensor in live for tensor in op.inputs])
    for op in ops:
        node = nodes[op]
        for slot, tensor in enumerate(op.inputs):
            argument = fed.get(tensor)
            if argument is not None:
                argument.users[0].append((node, slot))
            else:
                nodes[tensor.op].users[tensor.value_index].append((node, slot))
        for control in pruned.controls[op]:
            source = nodes.get(control)
            if source is not None:
                source.control_users.append(node)
                node.controls += 1
    enters = _frames(ops, nodes)
    ends = []
    for tensor in returns:
        argument = fed.get(tensor)
        ends.append(
            (argument, 0, tensor.name, False)
            if argument is not None
            else (nodes[tensor.op], tensor.value_index, tensor.name, tensor in live)
        )
    arguments = list(fed.values())
    return DataflowProgram([*arguments, *nodes.values()], arguments, ends, enters)


def _argument(index: int, tensor: Tensor) -> Node:
    info = NodeInfo(tensor.op.name, "_Arg", tensor.op.device, {}, tensor.op.built_at, {})
    return Node(index, info, Kind.ARGUMENT, 1, 0, 1, users=[[]])


def _node(index: int, op: Operation, info: NodeInfo, xp: Any) -> Node:
    spec = op.spec
    node = Node(index, info, _KINDS.get(op.type, Kind.NORMAL), len(op.inputs), 0, len(op.outputs))
    node.users = [[] for _ in op.outputs]
    if op.type == "Const":
        value = const_array(op).view()
        if value.dtype != object:
            value.flags.writeable = False
        node.constant = value
        return node
    if spec is None or spec.kernel is None:
        raise errors.unimplemented(
            f"node {op.name!r}: headrace has no kernel for op {op.type}",
            node=op.name, op_type=op.type, built_at=op.built_at,
        )  # fmt: skip
    if node.kind in (Kind.ENTER,):
        node.frame_name = op["frame_name"].decode()
        node.is_constant = op["is_constant"]
    node.single = returns_value(spec)
    if node.kind in (Kind.NORMAL, Kind.SEND):
        kernel = bound_kernel(op, spec, xp)
        if check.enabled and not spec.blocking and node.kind is Kind.NORMAL and not spec.takes_ctx:
            kernel = check.checked_kernel(kernel, op, node.single)
        node.call = kernel
        node.takes_ctx = spec.takes_ctx
        node.blocking = spec.blocking
        node.finish = spec.finish
    node.wants_reference = tuple(wants_reference(op, spec))
    node.keeps_refs = spec.keeps_refs
    node.takes_refs = spec.takes_refs
    node.snapshots = spec.snapshots or spec.blocking
    return node


def _frames(ops: Sequence[Operation], nodes: Mapping[Operation, Node]) -> dict[str, int]:
    """Count the Enters of each frame, and tell each Exit which frame it leaves."""
    enters: dict[str, int] = {}
    frame_of: dict[Operation, tuple[str, ...]] = {}
    for op in ops:
        sources = [t.op for t in op.inputs] + list(op.control_inputs)
        known = [frame_of[source] for source in sources if source in frame_of]
        frame = max(known, key=len, default=())
        node = nodes[op]
        if node.kind is Kind.ENTER:
            frame = (*frame, node.frame_name)
            enters[node.frame_name] = enters.get(node.frame_name, 0) + 1
        elif node.kind is Kind.EXIT:
            if not frame:
                raise errors.invalid_argument(
                    f"Exit node {op.name!r} is in no loop: nothing it depends on is an Enter",
                    node=op.name,
                )
            node.frame_name = frame[-1]
            frame = frame[:-1]
        frame_of[op] = frame
    return enters
