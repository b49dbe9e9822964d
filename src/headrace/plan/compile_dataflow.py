"""Compile for the dataflow executor: partitions that have control flow, or may receive dead values.

Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from headrace.base import errors
from headrace.base.traits import (
    CONST,
    ENTER,
    EXIT,
    KEEPS_REFS,
    MAY_WAIT,
    MERGE,
    NEXT_ITERATION,
    RECEIVE,
    SEND,
    SNAPSHOTS,
    STAGES,
    STORES,
    SWITCH,
    SWITCH_N,
    TAKES_REFS,
)
from headrace.graph.const_value import const_array
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.plan import check
from headrace.plan.aliases import aliases_in, references_in
from headrace.plan.binding import bound_kernel, input_names, returns_value, wants_reference
from headrace.plan.cost_model import MUCH, cost
from headrace.plan.devices import kernel_here, kernel_storing, kernel_there
from headrace.plan.prune import Pruned
from headrace.plan.waiting_order import inline_callbacks
from headrace.run.devices.device import HOST, Device
from headrace.run.exec import flow_nodes as does
from headrace.run.exec.dataflow import POLL_EVERY, DataflowProgram
from headrace.run.exec.flow_nodes import DEAD, Fire, Kind, Node
from headrace.run.exec.kernel import Memos, NodeInfo

_KINDS = {
    SWITCH: Kind.SWITCH,
    SWITCH_N: Kind.SWITCH,
    MERGE: Kind.MERGE,
    ENTER: Kind.ENTER,
    EXIT: Kind.EXIT,
    NEXT_ITERATION: Kind.NEXT,
    SEND: Kind.SEND,
    RECEIVE: Kind.RECEIVE,
}
_HANDED_ON = frozenset((Kind.MERGE, Kind.ENTER, Kind.EXIT, Kind.NEXT))


def compile_dataflow(
    pruned: Pruned,
    args: Sequence[Tensor],
    returns: Sequence[Tensor],
    devices: Mapping[Operation, str],
    memos: Memos,
    functions: Callable[[Operation, str], Any] = lambda op, device: None,
    placed: Mapping[Operation, Device] = MappingProxyType({}),
) -> DataflowProgram:
    """The program of what was pruned; see plan.compile.compile_program."""
    ops = pruned.ops
    fed = {tensor: _argument(index, tensor) for index, tensor in enumerate(args)}
    nodes: dict[Operation, Node] = {}
    references = references_in(ops)
    aliased = aliases_in(ops, references)
    repeats = any(
        NEXT_ITERATION in op.traits for op in ops
    )  # and several times of it may be under way
    may_stay = set() if repeats else inline_callbacks(ops, pruned.controls)
    for op in ops:
        info = NodeInfo(
            op.name,
            op.type,
            devices.get(op, op.device),
            op.attrs,
            op._where,
            memos.setdefault(op.name, {}),
            partial(input_names, op, pruned.controls[op]),
            op in may_stay,
            op.traits,
        )
        info.functions = functions(op, info.device)
        device = placed.get(op, HOST) if placed else None
        if op.spec is None or op.spec.ahead_fn is not None or STAGES in op.traits:
            device = HOST if placed else None  # what it takes of the runtime is the host's
        nodes[op] = _node(len(args) + len(nodes), op, info, references, aliased, device)
    for op in ops:
        node = nodes[op]
        for slot, tensor in enumerate(op.inputs):
            argument = fed.get(tensor)
            if argument is not None:
                argument.users.append((node, slot, 0))
            else:
                nodes[tensor.op].users.append((node, slot, tensor.value_index))
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
            else (nodes[tensor.op], tensor.value_index, tensor.name, tensor in aliased)
        )
    arguments = list(fed.values())
    return DataflowProgram([*arguments, *nodes.values()], arguments, ends, enters)


def _argument(index: int, tensor: Tensor) -> Node:
    info = NodeInfo(tensor.op.name, "_Arg", tensor.op.device, {}, tensor.op.built_at, {})
    return Node(index, info, Kind.ARGUMENT, 1, 0, 1, does.hand_on)


def _node(
    index: int,
    op: Operation,
    info: NodeInfo,
    references: set[Tensor],
    aliased: set[Tensor],
    device: Device | None,
) -> Node:
    spec = op.spec
    kind = next((_KINDS[trait] for trait in op.traits if trait in _KINDS), Kind.NORMAL)
    if CONST not in op.traits and (spec is None or spec.kernel is None):
        raise errors.unimplemented(
            f"node {op.name!r}: headrace has no kernel for op {op.type}",
            node=op.name,
            op_type=op.type,
            built_at=op.built_at,
        )
    fire = _fire(op, kind, info, references, aliased, device)
    node = Node(index, info, kind, len(op.inputs), 0, len(op.outputs), fire)
    if kind is Kind.NORMAL:
        amount = cost(op)
        node.cost += min(amount, MUCH) * POLL_EVERY // MUCH
        node.may_take_long = bool(amount)
    if kind is Kind.ENTER:
        node.frame_name = op["frame_name"].decode()
        node.is_constant = op["is_constant"]
        node.parallel = max(op["parallel_iterations"], 1)
    elif kind is Kind.MERGE:
        node.loop_variable = any(NEXT_ITERATION in tensor.op.traits for tensor in op.inputs)
    elif spec is not None and MAY_WAIT in spec.traits:
        node.blocking = True
        node.store = _store(spec, kind, len(op.outputs))
    return node


def _fire(
    op: Operation,
    kind: Kind,
    info: NodeInfo,
    references: set[Tensor],
    aliased: set[Tensor],
    device: Device | None,
) -> Fire:
    """What the node does.  device: see `_kernel`."""
    if kind in _HANDED_ON:
        return does.hand_on
    if kind is Kind.SWITCH:
        return does.choose if len(op.outputs) == 2 else does.choose_of(len(op.outputs))
    if CONST in op.traits:
        value = const_array(op).view()
        if value.dtype != object:
            value.flags.writeable = False
        return does.always(value)
    spec = op.spec
    assert spec is not None
    kernel = _kernel(op, spec, device)
    single = returns_value(spec)
    on_host = device is None or device is HOST
    if (
        check.enabled
        and on_host
        and kind is Kind.NORMAL
        and MAY_WAIT not in spec.traits
        and not spec.takes_ctx
    ):
        kernel = check.checked_kernel(kernel, op, single)
    if kind is Kind.SEND:
        fire = does.send(kernel, info)
    elif MAY_WAIT in spec.traits:
        fire = does.begin(kernel, info, spec.takes_ctx)
    elif spec.takes_ctx:
        fire = does.compute_in(kernel, info, single, len(op.outputs))
    else:
        fire = does.compute(kernel, single, len(op.outputs))
    if KEEPS_REFS in spec.traits:
        return does.keeping(fire) if op.inputs and op.inputs[0] in references else fire
    if not on_host and STORES not in spec.traits:
        return fire  # it reads them where they are
    snapshots = SNAPSHOTS in spec.traits or MAY_WAIT in spec.traits
    wanted = [TAKES_REFS in spec.traits or each for each in wants_reference(op, spec)]
    loaded = [i for i, t in enumerate(op.inputs) if t in references and not wanted[i]]
    copied = [i for i, t in enumerate(op.inputs) if t in aliased] if snapshots else []
    return does.loading(fire, loaded, copied, snapshots) if loaded or copied else fire


def _kernel(op: Operation, spec: OpSpec, device: Device | None) -> Callable[..., Any]:
    """That of a node.  device: where it computes; None: all nodes compute on the host."""
    if device is None:
        return bound_kernel(op, spec)
    if device is HOST:
        return kernel_here(op, bound_kernel(op, spec))
    return kernel_storing(op, device) if STORES in op.traits else kernel_there(op, device)


def _store(spec: OpSpec, kind: Kind, num_outputs: int) -> Callable[[Any], does.Outputs]:
    """The outputs, of what a node that may wait has waited for."""
    finish, single = spec.finish_fn, returns_value(spec)

    def store(result: Any) -> does.Outputs:
        if kind is Kind.RECEIVE and result[1]:
            return (DEAD,)
        if finish is not None:
            result = finish(result)
        return (result,) if single else list(result) if num_outputs else ()

    return store


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
