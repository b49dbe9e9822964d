"""Round trip: tasks whose variables a step reads first and updates last are asked twice, and never wait in between.

The shape of a training step: the master's own partition begins with what other tasks have, and they end with what it
makes.  Each other partition is cut in two, what comes before and what comes after: the master asks for the values of
the first halves, feeds its own partition with them, and the second halves with what that gives.  So no task waits
within a step, nothing is kept for a step between two messages, and values go together, one message each way.
Only where that keeps nobody from beginning earlier: the first halves read, the second ones update, neither may wait,
and whatever may wait on the master's own task does so before anything is sent from it anyway.

A constant that the own partition would send is given to the second half; that one node of a task comes after one of
another needs no message, since one partition comes after the other.
Called by: plan.relay, plan.in_step.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from headrace.base.traits import (
    AT_ONCE,
    CONST,
    IDENTITY,
    LIGHT,
    MAY_WAIT,
    RECEIVE,
    SEND,
    UPDATES,
    VAR_HANDLE,
    VARIABLE,
    Trait,
)
from headrace.codec import protos as pb
from headrace.graph import registry
from headrace.graph.registry import traits_of
from headrace.plan.partition import Partition
from headrace.run.exec.keys import key

MOST = 32
"""Values between two partitions in one message: those of a connection that can be in shared memory."""
_SMALL = 1024
"""Bytes of a constant that is copied instead of sent."""

_MOVES = frozenset((AT_ONCE, LIGHT, RECEIVE))
"""What may as well be done when the own partition is done."""
_LATE = frozenset((LIGHT, UPDATES))
"""What is too little to be worth beginning earlier."""
_FOUND_AGAIN = frozenset((CONST, RECEIVE, VARIABLE, VAR_HANDLE))
_TRANSFERS = frozenset((SEND, RECEIVE))

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
    constants = constants_sent(own.graph_def)
    if not waits_before_it_sends(own.graph_def, constants):
        return None
    cuts = []
    for part in parts:
        if part is not own:
            late = _late(part.graph_def, constants)
            if late is None:
                return None
            cuts.append((part, late))

    for part, _ in cuts:
        receive_as_constants(part, own, constants)
    order = [key for part, _ in cuts for key in _implied(part.graph_def, own.graph_def)]
    order += [key for part, _ in cuts for key in _implied(own.graph_def, part.graph_def)]
    for part in parts:
        part.sends.difference_update(order)
        part.receives.difference_update(order)
        end_at_master(part.graph_def)
    before = [x for part, late in cuts if (x := half(part, late, False)) is not None]
    after = [x for part, late in cuts if (x := half(part, late, True)) is not None]
    own.taken = [key for each in before for key in each.given]
    own.given = [key for each in after for key in each.taken]
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
        if max(len(part.sends), len(part.receives)) > MOST:
            return False
    return True


def sources(node: Node) -> Iterable[str]:
    """Names of the nodes that it takes values from, or waits for."""
    return (name.lstrip("^").partition(":")[0] for name in node.input)


def is_transfer(node: Node, what: Trait) -> bool:
    """Whether it is a SEND or RECEIVE, as `what` says, that is no feed or fetch."""
    return what in traits_of(node.op) and not node.attr["client_terminated"].b


def may_wait(node: Node) -> bool:
    """Whether it may wait for others than the master, which has what it receives."""
    traits = traits_of(node.op)
    return RECEIVE not in traits and (MAY_WAIT in traits or node.op not in registry.OPS)


def waits_before_it_sends(graph: pb.GraphDef, constants: Mapping[str, Node]) -> bool:
    """Whether every node that may wait comes before every node that sends something else than `constants`."""
    before: dict[str, frozenset[str]] = {}  # which of those that may wait a node comes after
    waiting: set[str] = set()
    sends: list[frozenset[str]] = []
    for node in graph.node:
        found: frozenset[str] = frozenset()
        for name in sources(node):
            if name not in before:
                return False
            found |= before[name]
        if may_wait(node):
            waiting.add(node.name)
            found |= {node.name}
        before[node.name] = found
        if is_transfer(node, SEND) and key_of(node) not in constants:
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
        for name in sources(node):
            if name not in known:
                return None
            users.setdefault(name, []).append(node.name)
        known[node.name] = node
        received = is_transfer(node, RECEIVE) and key_of(node) not in constants
        if received or not late.isdisjoint(sources(node)):
            if is_transfer(node, SEND):
                return None
            late.add(node.name)
    for node in reversed(graph.node):
        moves = not _MOVES.isdisjoint(traits_of(node.op))
        if moves and node.name in users and late.issuperset(users[node.name]):
            late.add(node.name)
    for node in graph.node:
        traits = traits_of(node.op)
        if SEND in traits or RECEIVE in traits:
            continue
        if AT_ONCE not in traits and not (node.name in late and not _LATE.isdisjoint(traits)):
            return None
        if node.name in late and not all(
            source in late or name.startswith("^") or is_found_again(known[source], known)
            for name, source in zip(node.input, sources(node), strict=True)
        ):
            return None
    return late


def is_found_again(node: Node, known: dict[str, Node]) -> bool:
    """Whether it can be in both halves: a variable, a look into one by reference, a constant, a feed."""
    traits = traits_of(node.op)
    if IDENTITY in traits:
        traits = traits_of(known[next(iter(sources(node)))].op)
        return VARIABLE in traits or VAR_HANDLE in traits
    return not _FOUND_AGAIN.isdisjoint(traits)


def half(part: Partition, late: set[str], after: bool) -> Partition | None:
    """The nodes of `part` before or after the own partition, with what they look into; None if there are none."""
    nodes = {node.name: node for node in part.graph_def.node}
    kept = {name for name in nodes if (name in late) == after}
    left = [name for name in kept if after]
    while left:
        node = nodes[left.pop()]
        for name, source in zip(node.input, sources(node), strict=True):
            if not name.startswith("^") and source not in kept:
                kept.add(source)
                left.append(source)
    if not kept:
        return None
    found = Partition(part.task)
    found.graph_def.versions.CopyFrom(part.graph_def.versions)
    for node in part.graph_def.node:
        if node.name in kept:
            copied = found.graph_def.node.add()
            copied.CopyFrom(node)
            there = [name for name in node.input if not name.startswith("^") or name[1:] in kept]
            copied.ClearField("input")
            copied.input.extend(there)
    keys = {
        key_of(node)
        for node in found.graph_def.node
        if not _TRANSFERS.isdisjoint(traits_of(node.op))
    }
    found.feeds = {tensor: key for tensor, key in part.feeds.items() if key in keys}
    found.fetches = {tensor: key for tensor, key in part.fetches.items() if key in keys}
    found.taken = sorted(part.receives & keys)
    found.given = sorted(part.sends & keys)
    return found


def constants_sent(graph: pb.GraphDef) -> dict[str, Node]:
    """By key, the small constants that it sends."""
    nodes = {node.name: node for node in graph.node}
    found = {}
    for node in graph.node:
        if is_transfer(node, SEND):
            source = nodes[next(iter(sources(node)))]
            if CONST in traits_of(source.op) and not source.input and source.ByteSize() <= _SMALL:
                found[key_of(node)] = source
    return found


def receive_as_constants(part: Partition, own: Partition, constants: Mapping[str, Node]) -> None:
    """Have the nodes of `part` that receive one of `constants` be that constant."""
    for node in part.graph_def.node:
        if is_transfer(node, RECEIVE) and (text := key_of(node)) in constants:
            name, device, after = node.name, node.device, list(node.input)
            node.CopyFrom(constants[text])
            node.name, node.device = name, device
            node.input.extend(after)
            part.receives.discard(text)
            own.sends.discard(text)
            remove(own.graph_def, {send.name for send in own.graph_def.node if _sends(send, text)})


def _sends(node: Node, text: str) -> bool:
    return is_transfer(node, SEND) and key_of(node) == text


def _implied(sender: pb.GraphDef, receiver: pb.GraphDef) -> list[str]:
    """Remove what only says that a node of `receiver` comes after one of `sender`; the keys."""
    nodes = {node.name: node for node in sender.node}
    sends = {}
    for node in sender.node:
        if is_transfer(node, SEND):
            source = nodes[next(iter(sources(node)))]
            if CONST in traits_of(source.op) and source.input and "/ctrl/_" in source.name:
                sends[key_of(node)] = (node.name, source.name)
    found, gone = [], set()
    for node in receiver.node:
        if is_transfer(node, RECEIVE) and (text := key_of(node)) in sends:
            found.append(text)
            gone |= {node.name, f"{node.name}_arrived"}
    remove(sender, {name for text in found for name in sends[text]})
    remove(receiver, gone)
    return found


def remove(graph: pb.GraphDef, names: set[str]) -> None:
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
        if not _TRANSFERS.isdisjoint(traits_of(node.op)) and (keys is None or key_of(node) in keys):
            node.attr["client_terminated"].b = True
            if RECEIVE in traits_of(node.op):
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
        attr["send_device"].s.decode(),
        attr["send_device_incarnation"].i,
        attr["recv_device"].s.decode(),
        attr["tensor_name"].s.decode(),
    )
