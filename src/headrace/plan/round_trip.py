"""Round trip: tasks whose variables a step reads first and updates last are asked twice, and never wait in between.

The shape of a training step: the master's own partition begins with what other tasks have, and they end with what it
makes.  Each other partition is cut in two, what comes before and what comes after: the master asks for the values of
the first halves, feeds its own partition with them, and the second halves with what that gives.  So no task waits
within a step, nothing is kept for a step between two messages, and values go together, one message each way.
Only where that keeps nobody from beginning earlier: the first halves read, the second ones update, neither may wait,
and whatever may wait on the master's own task does so before anything is sent from it anyway.

A constant that the own partition would send is given to the second half; that one node of a task comes after one of
another needs no message, since one partition comes after the other.
Called by: plan.relay.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from headrace.base.traits import MAY_WAIT
from headrace.codec import protos as pb
from headrace.graph import registry
from headrace.ops.update_rules import DENSE
from headrace.plan.partition import Partition
from headrace.run.keys import key

_MOST = 32
"""Values between two partitions in one message: those of a connection that can be in shared memory."""
_SMALL = 1024
"""Bytes of a constant that is copied instead of sent."""

AT_ONCE = frozenset(
    ("Const", "Identity", "NoOp", "ReadVariableOp", "VarHandleOp", "Variable", "VariableV2")
)
"""What takes no time and waits for nothing, so that it may as well be done later."""
_HOLDERS = frozenset(("VarHandleOp", "Variable", "VariableV2"))
_ARITHMETIC = frozenset(
    """
    Add AddV2 Cast ConcatV2 Equal ExpandDims Fill Gather GatherV2 Greater Less LogicalAnd Maximum Minimum Mul Neg Pow
    RealDiv Reshape Select Shape Sqrt Square StridedSlice Sub Unique UnsortedSegmentSum ZerosLike
    """.split()
)
"""What updates are made of beside those of optimizers: too little to be worth beginning earlier."""
_ASSIGNMENTS = frozenset(
    """
    Assign AssignAdd AssignSub AssignVariableOp AssignAddVariableOp AssignSubVariableOp
    ResourceGather ResourceScatterAdd ResourceScatterUpdate ScatterAdd ScatterSub ScatterUpdate
    """.split()
)

Node = pb.NodeDef


def round_trip(
    parts: Sequence[Partition], own_task: str
) -> tuple[list[Partition], list[list[int]]] | None:
    """Partitions that need not talk to each other, and in which order they run, instead of `parts`; None if they must.

    Of those that run together none needs another.  What they get from those before, and give to those after, has
    become feeds and fetches: `taken` and `given` have the keys.
    """
    own = next((part for part in parts if part.task == own_task), None)
    if own is None or not own.sends or not _only_with(own, parts):
        return None
    constants = _constants_sent(own.graph_def)
    if not _waits_before_it_sends(own.graph_def, constants):
        return None
    cuts = []
    for part in parts:
        if part is not own:
            late = _late(part.graph_def, constants)
            if late is None:
                return None
            cuts.append((part, late))

    for part, _ in cuts:
        _receive_as_constants(part, own, constants)
    order = [key for part, _ in cuts for key in _implied(part.graph_def, own.graph_def)]
    order += [key for part, _ in cuts for key in _implied(own.graph_def, part.graph_def)]
    for part in parts:
        part.sends.difference_update(order)
        part.receives.difference_update(order)
        end_at_master(part.graph_def)
    before = [half for part, late in cuts if (half := _half(part, late, False)) is not None]
    after = [half for part, late in cuts if (half := _half(part, late, True)) is not None]
    own.taken = [key for half in before for key in half.given]
    own.given = [key for half in after for key in half.taken]
    made = [*before, own, *after]
    numbers = list(range(len(made)))
    first, last = len(before), len(before) + 1
    stages = [numbers[:first], numbers[first:last], numbers[last:]]
    return made, [stage for stage in stages if stage]


def _only_with(own: Partition, parts: Sequence[Partition]) -> bool:
    """Whether all that passes between tasks comes from `own` or goes there, and is not too much for a message."""
    sent, received = set(own.sends), set(own.receives)
    for part in parts:
        if part is own:
            continue
        if not (part.sends <= received and part.receives <= sent):
            return False
        if max(len(part.sends), len(part.receives)) > _MOST:
            return False
    return True


def _sources(node: Node) -> Iterable[str]:
    return (name.lstrip("^").partition(":")[0] for name in node.input)


def _is_transfer(node: Node, op: str) -> bool:
    """Whether it is a `_Send` or `_Recv`, as `op` says, that is no feed or fetch."""
    return node.op == op and not node.attr["client_terminated"].b


def _may_wait(node: Node) -> bool:
    spec = registry.OPS.get(node.op)
    return node.op != "_Recv" and (spec is None or MAY_WAIT in spec.traits)


def _waits_before_it_sends(graph: pb.GraphDef, constants: Mapping[str, Node]) -> bool:
    """Whether every node that may wait comes before every node that sends something else than `constants`."""
    before: dict[str, frozenset[str]] = {}  # which of those that may wait a node comes after
    waiting: set[str] = set()
    sends: list[frozenset[str]] = []
    for node in graph.node:
        found: frozenset[str] = frozenset()
        for name in _sources(node):
            if name not in before:
                return False
            found |= before[name]
        if _may_wait(node):
            waiting.add(node.name)
            found |= {node.name}
        before[node.name] = found
        if _is_transfer(node, "_Send") and key_of(node) not in constants:
            sends.append(found)
    return all(found >= waiting for found in sends)


def _late(graph: pb.GraphDef, constants: Mapping[str, Node]) -> set[str] | None:
    """The nodes that belong after the own partition, or None if this one cannot be cut.

    They come after something that is received, other than `constants`, or only they use them.
    """
    known: dict[str, Node] = {}
    users: dict[str, list[str]] = {}
    late: set[str] = set()
    for node in graph.node:
        for name in _sources(node):
            if name not in known:
                return None
            users.setdefault(name, []).append(node.name)
        known[node.name] = node
        received = _is_transfer(node, "_Recv") and key_of(node) not in constants
        if received or not late.isdisjoint(_sources(node)):
            if _is_transfer(node, "_Send"):
                return None
            late.add(node.name)
    for node in reversed(graph.node):
        moves = node.op in AT_ONCE or node.op in _ARITHMETIC or node.op == "_Recv"
        if moves and node.name in users and late.issuperset(users[node.name]):
            late.add(node.name)
    for node in graph.node:
        if node.op in ("_Send", "_Recv"):
            continue
        if node.op not in AT_ONCE and not (node.name in late and _is_light(node.op)):
            return None
        if node.name in late and not all(
            source in late or name.startswith("^") or _is_found_again(known[source], known)
            for name, source in zip(node.input, _sources(node), strict=True)
        ):
            return None
    return late


def _is_light(op: str) -> bool:
    return op in _ARITHMETIC or op in _ASSIGNMENTS or op in DENSE or "SparseApply" in op


def _is_found_again(node: Node, known: dict[str, Node]) -> bool:
    """Whether it can be in both halves: a variable, a look into one by reference, a constant, a feed."""
    if node.op in _HOLDERS or node.op in ("Const", "_Recv"):
        return True
    return node.op == "Identity" and known[next(iter(_sources(node)))].op in _HOLDERS


def _half(part: Partition, late: set[str], after: bool) -> Partition | None:
    """The nodes of `part` before or after the own partition, with what they look into; None if there are none."""
    nodes = {node.name: node for node in part.graph_def.node}
    kept = {name for name in nodes if (name in late) == after}
    left = [name for name in kept if after]
    while left:
        node = nodes[left.pop()]
        for name, source in zip(node.input, _sources(node), strict=True):
            if not name.startswith("^") and source not in kept:
                kept.add(source)
                left.append(source)
    if not kept:
        return None
    half = Partition(part.task)
    half.graph_def.versions.CopyFrom(part.graph_def.versions)
    for node in part.graph_def.node:
        if node.name in kept:
            copied = half.graph_def.node.add()
            copied.CopyFrom(node)
            there = [name for name in node.input if not name.startswith("^") or name[1:] in kept]
            copied.ClearField("input")
            copied.input.extend(there)
    keys = {key_of(node) for node in half.graph_def.node if node.op in ("_Send", "_Recv")}
    half.feeds = {tensor: key for tensor, key in part.feeds.items() if key in keys}
    half.fetches = {tensor: key for tensor, key in part.fetches.items() if key in keys}
    half.taken = sorted(part.receives & keys)
    half.given = sorted(part.sends & keys)
    return half


def _constants_sent(graph: pb.GraphDef) -> dict[str, Node]:
    """By key, the small constants that it sends."""
    nodes = {node.name: node for node in graph.node}
    found = {}
    for node in graph.node:
        if _is_transfer(node, "_Send"):
            source = nodes[next(iter(_sources(node)))]
            if source.op == "Const" and not source.input and source.ByteSize() <= _SMALL:
                found[key_of(node)] = source
    return found


def _receive_as_constants(part: Partition, own: Partition, constants: Mapping[str, Node]) -> None:
    """Have the nodes of `part` that receive one of `constants` be that constant."""
    for node in part.graph_def.node:
        if _is_transfer(node, "_Recv") and (text := key_of(node)) in constants:
            name, device, after = node.name, node.device, list(node.input)
            node.CopyFrom(constants[text])
            node.name, node.device = name, device
            node.input.extend(after)
            part.receives.discard(text)
            own.sends.discard(text)
            _remove(own.graph_def, {send.name for send in own.graph_def.node if _sends(send, text)})


def _sends(node: Node, text: str) -> bool:
    return _is_transfer(node, "_Send") and key_of(node) == text


def _implied(sender: pb.GraphDef, receiver: pb.GraphDef) -> list[str]:
    """Remove what only says that a node of `receiver` comes after one of `sender`; the keys."""
    nodes = {node.name: node for node in sender.node}
    sends = {}
    for node in sender.node:
        if _is_transfer(node, "_Send"):
            source = nodes[next(iter(_sources(node)))]
            if source.op == "Const" and source.input and "/ctrl/_" in source.name:
                sends[key_of(node)] = (node.name, source.name)
    found, gone = [], set()
    for node in receiver.node:
        if _is_transfer(node, "_Recv") and (text := key_of(node)) in sends:
            found.append(text)
            gone |= {node.name, f"{node.name}_arrived"}
    _remove(sender, {name for text in found for name in sends[text]})
    _remove(receiver, gone)
    return found


def _remove(graph: pb.GraphDef, names: set[str]) -> None:
    """Remove nodes that others only come after."""
    if not names:
        return
    left = [node for node in graph.node if node.name not in names]
    for node in left:
        kept = [name for name in node.input if name.removeprefix("^") not in names]
        if len(kept) < len(node.input):
            del node.input[:]
            node.input.extend(kept)
    copies = [pb.NodeDef.FromString(node.SerializeToString()) for node in left]
    del graph.node[:]
    graph.node.extend(copies)


def end_at_master(graph: pb.GraphDef, keys: Container[str] | None = None) -> None:
    """Make feeds and fetches of what it sends and receives, or of what of that has those keys.

    A feed is there before anything runs: that a node comes after it goes without saying, and would have it received.
    """
    fed = set()
    for node in graph.node:
        if node.op in ("_Send", "_Recv") and (keys is None or key_of(node) in keys):
            node.attr["client_terminated"].b = True
            if node.op == "_Recv":
                fed.add(f"^{node.name}")
    for node in graph.node:
        kept = [name for name in node.input if name not in fed]
        if len(kept) < len(node.input):
            del node.input[:]
            node.input.extend(kept)


def key_of(node: Node) -> str:
    """The rendezvous key of a `_Send` or `_Recv`."""
    attr = node.attr
    return key(
        attr["send_device"].s.decode(), attr["send_device_incarnation"].i, attr["recv_device"].s.decode(),
        attr["tensor_name"].s.decode(),
    )  # fmt: skip
