"""Place: every node gets one device of one task.

The rules are TensorFlow 1.15's: what a node's device string leaves open is filled with the first
task that fits, in name order, and its best device; nodes joined by references, resource handles or ``_class`` groups
stay together; a node without inputs goes with its consumers if they are on one device, one that only
looks at metadata with its producer.  The outcome depends on the graph and the device list alone, unless
the session asks for its own task to come first, as TensorFlow 2 has it.  Where there are devices that are no CPUs, a
node goes where it has a kernel (`plan.devices`), and those of its group have.
Called by: client.local, serve.master.master.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from headrace.base import dtypes, errors
from headrace.base.device import DeviceSpec
from headrace.base.traits import OF_SHAPE, STATEFUL
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.devices import may_be_on
from headrace.plan.prune import Pruned
from headrace.run.exec.keys import task_of

_TYPE_ORDER = {"GPU": 0, "CPU": 1}


@lru_cache(maxsize=4096)
def _spec(device: str) -> DeviceSpec:
    return DeviceSpec.from_string(device)


def in_order(devices: Sequence[str], own_task: str | None = None) -> list[str]:
    """Device names in the order of preference: by task, then best type first, then by name.

    own_task: the task that comes before all others.
    """

    def rank(name: str) -> tuple[bool, str, int, str]:
        task = task_of(name)
        return task != own_task, task, _TYPE_ORDER.get(_spec(name).device_type or "", 2), name

    return sorted(devices, key=rank)


class Groups:
    """Nodes of a graph that must be on one device, and where state has been placed already.

    A group is the whole graph's, not that of the nodes of one run: all runs must find a variable
    in the same place.  Grows with the graph.
    """

    def __init__(self, kept: dict[str, str] | None = None) -> None:
        """kept: devices of stateful nodes by name; `place` adds to it."""
        self.kept: dict[str, str] = {} if kept is None else kept
        self.followers: set[Operation] = set()  # users of state: they go where it is
        self.count = 0
        self._leader: dict[Operation, Operation] = {}
        self._members: dict[Operation, list[Operation]] = {}
        self._named: dict[bytes, Operation] = {}  # one member of each ``_class`` group

    def add(self, ops: Sequence[Operation]) -> None:
        """Take in nodes, inputs before their users."""
        for op in ops:
            self._leader[op] = op
        for op in ops:
            self._join_named(op)
            for index, tensor in enumerate(op.inputs):
                if tensor.op in self._leader and _carries_state(op, index):
                    self._join(tensor.op, op)
                    self.followers.add(op)
        self.count += len(ops)

    def of_copies(self, ops: Sequence[Operation], copies: Mapping[Operation, Operation]) -> Groups:
        """The groups of `ops`, among them copies of nodes of this graph, which are in the groups of those."""
        found = Groups(self.kept)
        joined: dict[
            Operation, Operation
        ] = {}  # of members of a group that has copies, one of the copies
        for op, copy in copies.items():
            members = self.members(self.leader(op))
            if len(members) > 1:
                joined.update((each, copy) for each in members)
        found.add(list(joined))
        found.add(ops)
        for op, copy in joined.items():
            if copy in found._leader:
                found._join(op, copy)
        found.followers.update(copies[op] for op in self.followers if op in copies)
        return found

    def _join_named(self, op: Operation) -> None:
        waiting = self._named.get(b"loc:@" + op.name.encode())
        if waiting is not None:
            self._join(op, waiting)
        for group in op.attrs.get("_class", ()):
            if group.startswith(b"loc:@"):
                self._join(self._named.setdefault(group, op), op)
                anchor = op.graph._ops.get(group[5:].decode())
                if anchor is not None and anchor in self._leader:
                    self._join(anchor, op)

    def leader(self, op: Operation) -> Operation:
        """The one that stands for the group of `op`."""
        leader = op
        while self._leader[leader] is not leader:
            leader = self._leader[leader]
        while self._leader[op] is not leader:
            self._leader[op], op = leader, self._leader[op]
        return leader

    def members(self, leader: Operation) -> Sequence[Operation]:
        """Everyone in the group of a leader."""
        return self._members.get(leader) or (leader,)

    def _join(self, a: Operation, b: Operation) -> None:
        first, second = self.leader(a), self.leader(b)
        if first is not second:
            self._leader[second] = first
            joined = self._members.setdefault(first, [first])
            joined.extend(self._members.pop(second, [second]))


def place(
    ops: Sequence[Operation],
    devices: Sequence[str],
    *,
    allow_soft_placement: bool = False,
    own_task: str | None = None,
    groups: Groups | None = None,
    keeps: bool = True,
) -> dict[Operation, str]:
    """The full device name of each of `ops`, out of `devices` (full names, any order).

    With `allow_soft_placement` a device type or index that does not exist gives way to a CPU of the
    same task.  own_task: see `in_order`.  groups: of the graph that `ops` are of; without it they
    are taken to be all of it.  keeps: where state is then is where it stays.

    Raises InvalidArgument naming the node, what it asked for and what there is.
    """
    ordered = in_order(devices, own_task)
    if len(ordered) == 1 and not _wishes(ops, groups is not None):
        return dict.fromkeys(ops, ordered[0])
    if groups is None:
        groups = Groups()
        groups.add(ops)
    placed = _Placer(ops, ordered, allow_soft_placement, groups).place()
    if keeps:
        keep(groups, placed)
    return placed


def keep(groups: Groups, placed: Mapping[Operation, str]) -> None:
    """Have the state among nodes stay where it was placed."""
    groups.kept.update((op.name, where) for op, where in placed.items() if _is_state(op))


def _wishes(ops: Iterable[Operation], others: bool) -> bool:
    """Whether one of them asks for a device; or for that of another, where there are others."""
    for op in ops:  # noqa: SIM110 - by no generator: see `_Placer._matching`
        if op.device or (others and "_class" in op.attrs):
            return True
    return False


def fed_where_used(
    pruned: Pruned, feeds: Iterable[Tensor], devices: Mapping[Operation, str]
) -> Mapping[Operation, str]:
    """`devices`, but what is fed, and is used on one task alone, is there, wherever the user has put it.

    A value that comes from the caller need not pass through another task.  Handles stay: they mean something there.
    """
    runs = set(pruned.ops)
    movable = {
        tensor.op: ""
        for tensor in feeds
        if tensor.op not in runs and tensor._dtype.base_dtype is not dtypes.resource
    }
    elsewhere = set()
    for op in pruned.ops if movable else ():
        for tensor in op.inputs:
            known = movable.get(tensor.op)
            if known is None:
                continue
            if known and task_of(known) != task_of(devices[op]):
                elsewhere.add(tensor.op)
            movable[tensor.op] = known or devices[op]
    moved = {op: device for op, device in movable.items() if device and op not in elsewhere}
    return {**devices, **moved} if moved else devices


def _carries_state(op: Operation, index: int) -> bool:
    """Whether an input is a handle, or a reference that the op asks for."""
    tensor = op.inputs[index]
    if tensor._dtype.base_dtype is dtypes.resource:
        return True
    if not tensor._dtype._is_ref_dtype:
        return False
    spec = op.spec
    if spec is None:
        return True
    # Reference inputs come before any list of plain ones in every op that has them.
    definitions = spec.inputs
    return index < len(definitions) and definitions[index].is_ref


def _is_state(op: Operation) -> bool:
    """Whether what the node makes outlives the step."""
    return STATEFUL in op.traits and bool(op.outputs)


class _Placer:
    def __init__(
        self, ops: Sequence[Operation], devices: list[str], soft: bool, groups: Groups
    ) -> None:
        self._ops = ops
        self._needed = frozenset(ops)
        self._devices = devices
        self._soft = soft
        self._groups = groups
        self._choices: dict[tuple[str, bool], str | None] = {}
        self._plain = all(_spec(device).device_type == "CPU" for device in devices)

    def place(self) -> dict[Operation, str]:
        placed: dict[Operation, str] = {}
        later: list[Operation] = []
        chosen: dict[Operation, str] = {}
        for op in self._ops:
            leader = self._groups.leader(op)
            alone = len(self._groups.members(leader)) == 1
            if alone and (self._is_generator(op) or self._is_metadata(op)):
                later.append(op)
                continue
            if leader not in chosen:
                chosen[leader] = self._choose(self._wanted(leader), op)
            placed[op] = chosen[leader]
        for op in later:
            placed[op] = self._follow(op, _asked(op), placed)
        return placed

    def _wanted(self, leader: Operation) -> DeviceSpec:
        """What the members of a group ask for, taken together."""
        groups = self._groups
        members = groups.members(leader)
        for op in members:
            where = groups.kept.get(op.name)
            if where is not None:
                return _spec(where)
        merged, source = DeviceSpec(), leader
        for op in sorted(members, key=groups.followers.__contains__):
            spec = _asked(op)
            conflict = _conflict(merged, spec)
            if conflict and op in groups.followers:
                continue
            if conflict and not (self._soft and conflict in ("device_type", "device_index")):
                raise errors.invalid_argument(
                    f"nodes {source.name!r} and {op.name!r} must be on one device (they share state or a "
                    f"colocation group), but ask for {source.device!r} and {op.device!r}; "
                    "give both the same device, or only one of them any",
                    node=op.name,
                    op_type=op.type,
                    built_at=op.built_at,
                )
            if op.device:
                source = op
            merged = spec.make_merged_spec(merged)
        return merged

    def _choose(self, spec: DeviceSpec, op: Operation) -> str:
        text = spec.to_string()
        for candidate in (spec, *self._softer(spec)):
            found = self._first(candidate, op)
            if found is not None:
                return found
        if any(spec.matches(_spec(device)) for device in self._devices):
            raise self._no_kernel(text, spec, op)
        raise errors.invalid_argument(
            f"Cannot assign a device for operation {op.name}: {{{{node {op.name}}}}} was explicitly assigned to {text} "
            f"but available devices are [ {', '.join(self._devices)} ]. Could not satisfy explicit device "
            "specification: "
            f"change the device of this {op.type}, or set allow_soft_placement=True in tf.ConfigProto",
            node=op.name,
            op_type=op.type,
            built_at=op.built_at,
        )

    def _no_kernel(self, text: str, spec: DeviceSpec, op: Operation) -> errors.OpError:
        leader = self._groups.leader(op)
        without = next(
            (
                each
                for each in self._groups.members(leader)
                if not any(
                    may_be_on(each, device, True)
                    for device in self._devices
                    if spec.matches(_spec(device))
                )
            ),
            op,
        )
        kind = spec.device_type or "such"
        dtypes_of = ", ".join(
            sorted({t.dtype.base_dtype.name for t in (*without.inputs, *without.outputs)})
        )
        beside = (
            "" if without is op else f" (it shares state or a colocation group with {op.name!r})"
        )
        return errors.invalid_argument(
            f"Cannot assign a device for operation {without.name}: Could not satisfy explicit device specification "
            f"'{text}' because no supported kernel for {kind} devices is available. {without.type} of "
            f"{dtypes_of or 'no tensors'} has one for CPUs alone{beside}: put it on a CPU, or set "
            "allow_soft_placement=True in tf.ConfigProto",
            node=without.name,
            op_type=without.type,
            built_at=without.built_at,
        )

    def _softer(self, spec: DeviceSpec) -> list[DeviceSpec]:
        if not self._soft:
            return []
        return [
            DeviceSpec(spec.job, spec.replica, spec.task, spec.device_type),
            DeviceSpec(spec.job, spec.replica, spec.task),
        ]

    def _first(self, spec: DeviceSpec, op: Operation) -> str | None:
        if not self._plain:
            return self._fitting(spec, op)
        key = (spec.to_string(), self._soft)
        if key not in self._choices:
            self._choices[key] = self._matching(spec)
        return self._choices[key]

    def _matching(self, spec: DeviceSpec) -> str | None:
        # By no generator: what is raised while one that is not at its end goes away, as by Ctrl-C, Python drops.
        for device in self._devices:
            if spec.matches(_spec(device)):
                return device
        return None

    def _fitting(self, spec: DeviceSpec, op: Operation) -> str | None:
        """As `_matching`, of devices that the whole group of a node can be on."""
        members, asked = self._groups.members(self._groups.leader(op)), spec.device_type is not None
        for device in self._devices:
            if spec.matches(_spec(device)) and all(
                may_be_on(each, device, asked) for each in members
            ):
                return device
        return None

    def _is_generator(self, op: Operation) -> bool:
        if op.inputs or len(op.outputs) != 1 or op.outputs[0]._dtype._is_ref_dtype:
            return False
        if op.outputs[0]._dtype.base_dtype is dtypes.resource:
            return False
        return not self._needed.isdisjoint(op.outputs[0]._consumers)  # by no generator, either

    @staticmethod
    def _is_metadata(op: Operation) -> bool:
        return OF_SHAPE in op.traits

    def _follow(self, op: Operation, spec: DeviceSpec, placed: Mapping[Operation, str]) -> str:
        """Where the producer is, or where all consumers are, if the node's own wishes allow it."""
        if op.inputs:
            near = {placed.get(op.inputs[0].op)}
        else:
            users = op.outputs[0]._consumers
            near = {placed.get(user) for user in users if user in self._needed}
        device = near.pop() if len(near) == 1 else None
        if device is not None and spec.matches(_spec(device)) and may_be_on(op, device, True):
            return device
        return self._choose(spec, op)


def _asked(op: Operation) -> DeviceSpec:
    """What the node's device string says.  Raises InvalidArgument, for those nobody has parsed yet."""
    try:
        return _spec(op.device)
    except ValueError as error:
        raise errors.invalid_argument(
            f"node {op.name!r}: {error}", node=op.name, op_type=op.type, built_at=op.built_at
        ) from error


def _conflict(a: DeviceSpec, b: DeviceSpec) -> str | None:
    for part in ("job", "replica", "task", "device_type", "device_index"):
        x, y = getattr(a, part), getattr(b, part)
        if x is not None and y is not None and x != y:
            return part
    return None
