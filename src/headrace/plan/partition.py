"""Partition: a placed, pruned graph → one GraphDef per task, or per device, joined by Send and Recv.

Feeds become client-terminated `_Recv` nodes and fetches client-terminated `_Send` nodes on the
device of the tensor; an edge between devices becomes a `_Send` and a `_Recv`, one pair for all
consumers on a device; a control edge between tasks carries an empty tensor, unless a value goes the same way.  A loop
that is on several tasks has a skeleton on each (plan.loops).
Called by: serve.master.master_session, plan.partial; by device, for who asks to see its graphs: client.local,
serve.worker.registered.  Threads: any.
Source: TensorFlow's wire (DESIGN decision 1); the same nodes and attrs, names of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.base import dtypes, errors
from headrace.base.traits import EXIT, NEXT_ITERATION, SWITCH, SWITCH_N
from headrace.codec import protos as pb
from headrace.graph.attrs import to_proto
from headrace.graph.graph import Operation
from headrace.graph.graphdef import input_name, node_def
from headrace.graph.tensor import Tensor
from headrace.plan import check
from headrace.plan.loops import Frame, LoopFrames
from headrace.plan.prune import Pruned
from headrace.run.exec.keys import key, task_of

_APART = frozenset((SWITCH, SWITCH_N, NEXT_ITERATION, EXIT))
"""Nodes whose outputs may be dead though they have run, or that are in another iteration or frame."""


@dataclass(slots=True)
class Partition:
    """The part of one task, or device: its GraphDef and the rendezvous keys of its feeds and fetches.

    taken, given: keys of feeds that are fetches of other parts, and of such fetches; see plan.relay.
    """

    task: str
    graph_def: pb.GraphDef = field(default_factory=lambda: pb.GraphDef())
    feeds: dict[Tensor, str] = field(default_factory=dict)
    fetches: dict[Tensor, str] = field(default_factory=dict)
    sends: set[str] = field(default_factory=set)
    receives: set[str] = field(default_factory=set)
    taken: Sequence[str] = ()
    given: Sequence[str] = ()


def partition(
    pruned: Pruned,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    devices: Mapping[Operation, str],
    incarnation: Callable[[str], int],
) -> list[Partition]:
    """Partitions by task, in task-name order.

    pruned: what runs.  devices: full device of each of them and of the
    nodes of `feeds`.  incarnation: of a device's task.
    """
    return _Partitioner(pruned, feeds, fetches, devices, incarnation).run()


def shown(
    pruned: Pruned,
    feeds: Sequence[Tensor],
    fetches: Sequence[Tensor],
    devices: Mapping[Operation, str],
    incarnation: int,
) -> list[pb.GraphDef]:
    """What runs on one task, as its owner is shown it: a graph per device, `_Arg` and `_Retval` for feeds and fetches.

    devices, incarnation: see `partition`.
    """
    numbers = (lambda _: incarnation), True
    try:
        parts = _Partitioner(pruned, feeds, fetches, devices, *numbers, str).run()
    except errors.OpError:  # a loop goes from device to device, which only a task can run
        parts = _Partitioner(pruned, feeds, fetches, devices, *numbers).run()
    return [part.graph_def for part in parts]


class _Partitioner:
    def __init__(
        self,
        pruned: Pruned,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        devices: Mapping[Operation, str],
        incarnation: Callable[[str], int],
        arguments: bool = False,
        part_of: Callable[[str], str] = task_of,
    ) -> None:
        """arguments: feeds are `_Arg` nodes, fetches `_Retval`.  part_of: what a partition is all of, of a device."""
        self._arguments = arguments
        self._part_of = part_of
        self._ops = pruned.ops
        self._controls = pruned.controls
        self._feeds = list(dict.fromkeys(feeds))
        self._fetches = list(dict.fromkeys(fetches))
        self._devices = devices
        self._incarnation = incarnation
        self._parts: dict[str, Partition] = {}
        self._fed_name: dict[Tensor, str] = {}
        self._edges: dict[tuple[Tensor, str], str] = {}
        self._control_edges: dict[tuple[Operation, str], str] = {}
        self._values_to: dict[tuple[Operation, str], Tensor] | None = None
        self._count = max(map(_number, self._ops), default=0)
        self._loops = LoopFrames(self._ops)
        self._merges: dict[tuple[Frame, str], str] = {}
        self._shapes: dict[Frame, str] = {}

    def run(self) -> list[Partition]:
        for tensor in self._feeds:
            self._feed(tensor)
        if self._loops:
            for frame, device in self._loops.divided(self._devices, self._part_of):
                self._skeleton(frame, device)
        for op in self._ops:
            self._node(op)
        for tensor in self._fetches:
            self._fetch(tensor)
        parts = [self._parts[task] for task in sorted(self._parts)]
        library = self._ops[0].graph._library if self._ops else None
        if library:
            for part in parts:
                functions = library.needed_by(part.graph_def.node)
                part.graph_def.library.CopyFrom(library.proto(functions))
        if check.enabled:
            check.check_partitions(parts)
        return parts

    def _part(self, device: str) -> Partition:
        task = self._part_of(device)
        part = self._parts.get(task)
        if part is None:
            part = self._parts[task] = Partition(task)
            part.graph_def.versions.producer = 0
        return part

    def _feed(self, tensor: Tensor) -> None:
        device = self._devices[tensor.op]
        part = self._part(device)
        if self._arguments:
            self._fed_name[tensor] = self._argument("_Arg", tensor, self._feeds, device).name
            return
        name = f"_recv_{tensor.op.name}_{tensor.value_index}"
        text = key(device, self._incarnation(device), device, tensor.name)
        self._transfer(
            part, "_Recv", name, tensor, tensor.name, device, device, device, client=True
        )
        self._fed_name[tensor] = name
        part.feeds[tensor] = text

    def _fetch(self, tensor: Tensor) -> None:
        device = self._devices[tensor.op]
        part = self._part(device)
        source = self._fed_name.get(tensor, input_name(tensor))
        if self._arguments:
            self._argument("_Retval", tensor, self._fetches, device).input.append(source)
            return
        name = f"_send_{tensor.op.name}_{tensor.value_index}"
        node = self._transfer(
            part, "_Send", name, tensor, tensor.name, device, device, device, client=True
        )
        node.input.append(source)
        part.fetches[tensor] = key(device, self._incarnation(device), device, tensor.name)

    def _argument(
        self, op: str, tensor: Tensor, among: Sequence[Tensor], device: str
    ) -> pb.NodeDef:
        """A feed or fetch of who runs this by itself; they are numbered in the order of their names."""
        in_order = sorted(among, key=lambda tensor: (tensor.op.name, tensor.value_index))
        number = in_order.index(tensor)
        name = f"{op.lower()}_{tensor.op.name}_{tensor.value_index}_{number}"
        node = self._part(device).graph_def.node.add(name=name, op=op, device=device)
        node.attr["T"].CopyFrom(to_proto(tensor._dtype.base_dtype))
        node.attr["index"].i = number
        return node

    def _node(self, op: Operation) -> None:
        device = self._devices[op]
        part = self._part(device)
        node = node_def(op)
        node.device = device
        del node.input[:]
        for tensor in op.inputs:
            node.input.append(self._input(tensor, device))
        for control in self._controls[op]:
            name = self._control(control, device)
            if f"^{name}" not in node.input:
                node.input.append(f"^{name}")
        part.graph_def.node.append(node)

    def _skeleton(self, frame: Frame, device: str) -> None:
        """The part of a divided loop that tells the task of `device` how long it goes on."""
        condition = self._loops.condition(frame)
        begins = self._begins(frame, device)
        self._count += 1

        def received(merge: str) -> str:
            self._merges[frame, self._part_of(device)] = merge
            return self._input(condition.outputs[0], device)

        name = f"{condition.name}/_{self._count}"
        nodes = self._loops.skeleton(frame, name, device, begins, received)
        self._part(device).graph_def.node.extend(nodes)

    def _begins(self, frame: Frame, device: str) -> str:
        """A small value on the task of `device` that is dead where the loop is not entered."""
        entered = self._loops.entered_with(frame)
        source_device = self._devices[entered.op]
        source = self._shapes.get(frame)
        if source is None:
            part = self._part(source_device)
            self._count += 1
            node = part.graph_def.node.add(
                name=f"{entered.op.name}/_{self._count}_shape",
                op="Shape",
                device=source_device,
                input=[self._fed_name.get(entered, input_name(entered))],
            )
            node.attr["T"].CopyFrom(to_proto(entered._dtype.base_dtype))
            node.attr["out_type"].type = pb.DT_INT32
            source = self._shapes[frame] = node.name
        if self._part_of(source_device) == self._part_of(device):
            return source
        return self._pass(entered.op.name, source, dtypes.int32, source_device, device, frame[:-1])

    def _input(self, tensor: Tensor, device: str) -> str:
        """What a node on `device` calls `tensor`: its name, a feed, or a Recv made for it."""
        fed = self._fed_name.get(tensor)
        source_device = self._devices[tensor.op]
        if self._part_of(source_device) == self._part_of(device):
            return fed if fed is not None else input_name(tensor)
        known = self._edges.get((tensor, device))
        if known is None:
            source = fed if fed is not None else input_name(tensor)
            known = self._edges[tensor, device] = self._edge(tensor, source, source_device, device)
        return known

    def _edge(self, tensor: Tensor, source: str, source_device: str, device: str) -> str:
        if NEXT_ITERATION in tensor.op.traits:
            raise errors.invalid_argument(
                f"{tensor.op.name!r} ({tensor.op.type}), on {source_device}, closes a loop whose Merge is on {device}; "
                "put both on one task",
                node=tensor.op.name,
                op_type=tensor.op.type,
                built_at=tensor.op.built_at,
            )
        frame = () if tensor in self._fed_name else self._loops.of_outputs(tensor.op)
        dtype = tensor._dtype.base_dtype
        return self._pass(tensor.op.name, source, dtype, source_device, device, frame)

    def _pass(
        self,
        name: str,
        source: str,
        dtype: dtypes.DType,
        source_device: str,
        device: str,
        frame: Frame,
    ) -> str:
        """Send `source`, which is in `frame`, to another task; returns the Recv there."""
        self._count += 1
        edge, sender, receiver = (
            f"edge_{self._count}_{name}",
            self._part(source_device),
            self._part(device),
        )
        send = self._raw_transfer(
            sender,
            "_Send",
            f"{name}/_{self._count}",
            dtype,
            edge,
            source_device,
            device,
            source_device,
        )
        send.input.append(source)
        recv = self._raw_transfer(
            receiver, "_Recv", f"{name}/_{self._count}", dtype, edge, source_device, device, device
        )
        merge = self._merges.get((frame, receiver.task))
        if merge is not None:  # in a loop: once per iteration
            recv.input.append(f"^{merge}")
        text = key(source_device, self._incarnation(source_device), device, edge)
        sender.sends.add(text)
        receiver.receives.add(text)
        return recv.name

    def _control(self, op: Operation, device: str) -> str:
        source_device = self._devices[op]
        if self._part_of(source_device) == self._part_of(device):
            return op.name
        known = self._control_edges.get((op, device))
        if known is not None:
            return known
        value = self._value_to(op, device)
        if value is not None:
            return self._input(value, device)
        number = self._count + 1
        trigger = self._part(source_device).graph_def.node.add(
            name=f"{op.name}/ctrl/_{number}",
            op="Const",
            device=source_device,
            input=[f"^{op.name}"],
        )
        trigger.attr["dtype"].type = pb.DT_FLOAT
        trigger.attr["value"].tensor.dtype = pb.DT_FLOAT
        trigger.attr["value"].tensor.tensor_shape.dim.add(size=0)
        frame = self._loops.of_outputs(op)
        received = self._pass(op.name, trigger.name, dtypes.float32, source_device, device, frame)
        arrived = self._part(device).graph_def.node.add(
            name=f"{op.name}/_{number}_arrived", op="Identity", device=device, input=[received]
        )
        arrived.attr["T"].type = pb.DT_FLOAT
        self._control_edges[op, device] = arrived.name
        return arrived.name

    def _value_to(self, op: Operation, device: str) -> Tensor | None:
        """An output of `op` that nodes on `device` want: when it is there, `op` has run, dead if that was dead.

        None where the graphs are to be TensorFlow's, which sends both.
        """
        if self._arguments:
            return None
        if self._values_to is None:
            self._values_to = {
                (tensor.op, self._devices[user]): tensor
                for user in self._ops
                for tensor in user.inputs
                if tensor not in self._fed_name and _APART.isdisjoint(tensor.op.traits)
            }
        return self._values_to.get((op, device))

    def _transfer(
        self,
        part: Partition,
        op: str,
        name: str,
        tensor: Tensor,
        tensor_name: str,
        send_device: str,
        recv_device: str,
        device: str,
        client: bool = False,
    ) -> pb.NodeDef:
        return self._raw_transfer(
            part,
            op,
            name,
            tensor._dtype.base_dtype,
            tensor_name,
            send_device,
            recv_device,
            device,
            client,
        )

    def _raw_transfer(
        self,
        part: Partition,
        op: str,
        name: str,
        dtype: dtypes.DType,
        tensor_name: str,
        send_device: str,
        recv_device: str,
        device: str,
        client: bool = False,
    ) -> pb.NodeDef:
        node = part.graph_def.node.add(name=name, op=op, device=device)
        node.attr["T" if op == "_Send" else "tensor_type"].CopyFrom(to_proto(dtype))
        node.attr["tensor_name"].s = tensor_name.encode()
        node.attr["send_device"].s = send_device.encode()
        incarnation = self._incarnation(send_device)
        node.attr["send_device_incarnation"].i = (
            incarnation - 2**64 if incarnation >= 2**63 else incarnation
        )
        node.attr["recv_device"].s = recv_device.encode()
        node.attr["client_terminated"].b = client
        return node


def _number(op: Operation) -> int:
    """That of a name that looks like one of ours; 0 for others."""
    _, ours, rest = op.name.rpartition("/_")
    digits = rest.partition("_")[0]
    return int(digits) if ours and digits.isdecimal() else 0
