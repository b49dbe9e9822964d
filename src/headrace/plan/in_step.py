"""Steps of replicas in step: read, compute, hand over, wait for a token, keep it; in stages, one after the other.

As in `plan.round_trip` nobody talks to anybody but the master, which gives every stage what the one before it made:

    BEFORE  other tasks read variables
    OWN     the master's own task computes
    AFTER   other tasks take what it made; the one with the tokens waits for one, if that needs nothing but itself
    LAST    it waits for one, if it has to know that others have taken theirs
    TAIL    the own task keeps the token

Only where that keeps nobody from beginning earlier: one node alone waits for others, once its task has all that it is
sent, and whatever comes after on the own task needs what it waits for.
Called by: plan.relay.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headrace.base.traits import AT_ONCE, CONST, DEQUEUES, HANDLE, LIGHT, RECEIVE, SEND, UPDATES
from headrace.codec import protos as pb
from headrace.graph.registry import traits_of
from headrace.plan.partition import Partition
from headrace.plan.round_trip import (
    MOST,
    constants_sent,
    end_at_master,
    half,
    is_found_again,
    is_transfer,
    key_of,
    may_wait,
    receive_as_constants,
    remove,
    sources,
    waits_before_it_sends,
)

BEFORE: Final = 0
OWN: Final = 1
AFTER: Final = 2
LAST: Final = 3
TAIL: Final = 4
_NEVER: Final = 5

_MOVES = frozenset((AT_ONCE, HANDLE, LIGHT, RECEIVE))
"""What may as well be done when it is needed."""
_EARLY = frozenset((AT_ONCE, HANDLE))
"""What other tasks may do before."""
_LATE = frozenset((AT_ONCE, HANDLE, LIGHT, UPDATES))
"""What they may do after, since it is not worth beginning earlier."""

_THEN = (BEFORE, AFTER, LAST, _NEVER, _NEVER, _NEVER)
"""By the stage that sends: when others than the own task receive it.  (What they send each other before is refused.)"""

Node = pb.NodeDef
At = dict[str, int]
"""Stages of nodes by their names."""


class _Sent(NamedTuple):
    """constants: by key, what the own task sends that is one.  order: keys of what only says what comes first."""

    constants: Mapping[str, Node]
    order: Mapping[str, tuple[str, str]]

    def is_value(self, node: Node, what: object) -> bool:
        """Whether it sends or receives something that depends on a step."""
        if what not in traits_of(node.op) or node.attr["client_terminated"].b:
            return False
        key = key_of(node)
        return key not in self.constants and key not in self.order


def in_step(
    parts: Sequence[Partition], own_task: str
) -> tuple[list[Partition], list[list[int]]] | None:
    """As `round_trip`, of steps that wait for a token; None if this is not one."""
    own = next((part for part in parts if part.task == own_task), None)
    if own is None or not own.sends:
        return None
    waiting = [
        (part, node)
        for part in parts
        if part is not own
        for node in part.graph_def.node
        if may_wait(node)
    ]
    if len(waiting) != 1 or DEQUEUES not in traits_of(waiting[0][1].op):
        return None
    order = {key: names for part in parts for key, names in _order_only(part.graph_def).items()}
    sent = _Sent(constants_sent(own.graph_def), order)
    stages = _stages(parts, own, sent)
    if stages is None or not _holds(parts, own, stages, sent, *waiting[0]):
        return None

    for part in parts:
        if part is not own:
            receive_as_constants(part, own, sent.constants)
    for part in parts:
        _forget(part, order)
        end_at_master(part.graph_def)
    cut = _pieces(parts, own, stages)
    numbers = iter(range(sum(map(len, cut))))
    made = [piece for stage in cut for piece in stage]
    return made, [[next(numbers) for _ in stage] for stage in cut if stage]


def _pieces(
    parts: Sequence[Partition], own: Partition, stages: Sequence[At]
) -> list[list[Partition]]:
    """Stage by stage."""
    cut: list[list[Partition]] = [[] for _ in range(TAIL + 1)]
    for part, at in zip(parts, stages, strict=True):
        for stage in (OWN, TAIL) if part is own else (BEFORE, AFTER, LAST):
            piece = half(part, {name for name in at if at[name] == stage}, True)
            if piece is not None:
                cut[stage].append(piece)
    for piece in cut[OWN]:
        piece.taken = [key for before in cut[BEFORE] for key in before.given]
        piece.given = [key for after in cut[AFTER] for key in after.taken]
    for piece in cut[TAIL]:
        piece.taken = [key for last in cut[LAST] or cut[AFTER] for key in last.given]
    return cut


def _stages(parts: Sequence[Partition], own: Partition, sent: _Sent) -> list[At] | None:
    """Of each part: as early as can be, and what may as well be done later, when it is needed.  None: in no order."""
    when: dict[str, int] = {}
    stages: list[At] = [{} for _ in parts]
    changed = True
    while changed:  # five times at most, since stages only grow
        changed = False
        for part, at in zip(parts, stages, strict=True):
            first = OWN if part is own else BEFORE
            for node in part.graph_def.node:
                stage = first
                for name in sources(node):
                    if name not in at:
                        return None
                    stage = max(stage, at[name])
                if is_transfer(node, RECEIVE) and (key := key_of(node)) not in sent.constants:
                    stage = max(stage, _received(when.get(key), part is own))
                elif is_transfer(node, SEND):
                    when[key_of(node)] = stage
                changed = changed or at.get(node.name) != stage
                at[node.name] = stage
    for part, at in zip(parts, stages, strict=True):
        for node in part.graph_def.node:
            if at[node.name] == _NEVER or _sent_too_early(node, when, sent, part is own):
                return None
        _move(part.graph_def, at, sent)
    return stages


def _received(when: int | None, by_own: bool) -> int:
    """The stage that has what was sent in another (None: it is not known yet in which)."""
    if by_own:
        return OWN if when is None or when == BEFORE else TAIL
    return BEFORE if when is None else _THEN[when]


def _sent_too_early(node: Node, when: Mapping[str, int], sent: _Sent, by_own: bool) -> bool:
    """Whether another task receives it from one that sends it at once."""
    if by_own or not is_transfer(node, RECEIVE) or (key := key_of(node)) in sent.constants:
        return False
    return when[key] == BEFORE


def _move(graph: pb.GraphDef, at: At, sent: _Sent) -> None:
    used: At = {}
    for node in reversed(graph.node):
        stage = at[node.name]
        moves = not _MOVES.isdisjoint(traits_of(node.op))
        if moves and not (is_transfer(node, RECEIVE) and key_of(node) not in sent.constants):
            stage = at[node.name] = used.get(node.name, stage)
        for name in sources(node):
            used[name] = min(used.get(name, TAIL), stage)


def _holds(
    parts: Sequence[Partition],
    own: Partition,
    stages: Sequence[At],
    sent: _Sent,
    where: Partition,
    waiting: Node,
) -> bool:
    """Whether every stage needs values of the one before it alone, and nobody begins later.  waiting: on `where`."""
    end = max(
        at[name] for part, at in zip(parts, stages, strict=True) if part is not own for name in at
    )
    for part, at in zip(parts, stages, strict=True):
        if not _is_cut_well(part, at, sent):
            return False
        if part is own:
            if any(at[node.name] == TAIL and may_wait(node) for node in part.graph_def.node):
                return False
            continue
        if max(len(part.sends), len(part.receives)) > MOST:
            return False
        for node in part.graph_def.node:
            stage, traits = at[node.name], traits_of(node.op)
            if sent.is_value(node, SEND) and stage not in (BEFORE, end):
                return False
            if node is waiting:
                if stage != end:
                    return False
            elif traits.isdisjoint((SEND, RECEIVE)) and traits.isdisjoint(
                _LATE if stage else _EARLY
            ):
                return False
    if not waits_before_it_sends(own.graph_def, sent.constants):
        return False
    return _wait_is_needed(own, stages[parts.index(own)], where, waiting, sent)


def _is_cut_well(part: Partition, at: At, sent: _Sent) -> bool:
    """Whether no node needs what another stage of its task has made, but what can be found again."""
    known = {node.name: node for node in part.graph_def.node}
    for node in part.graph_def.node:
        for name, source in zip(node.input, sources(node), strict=True):
            if name.startswith("^") or at[source] == at[node.name]:
                continue
            if not is_found_again(known[source], known) or sent.is_value(known[source], RECEIVE):
                return False
    return True


def _wait_is_needed(own: Partition, at: At, where: Partition, waiting: Node, sent: _Sent) -> bool:
    """Whether it comes after all that its task gets, and all that `own` gets after it was there comes after it."""
    after: dict[str, bool] = {}
    before: set[str] = set()
    nodes = {node.name: node for node in where.graph_def.node}
    left = [waiting.name]
    while left:
        for name in sources(nodes[left.pop()]):
            if name not in before:
                before.add(name)
                left.append(name)
    for node in where.graph_def.node:
        after[node.name] = node is waiting or any(after[name] for name in sources(node))
        gets = is_transfer(node, RECEIVE) and key_of(node) not in sent.constants
        if gets and node.name not in before:
            return False
    waited = {key_of(n) for n in where.graph_def.node if is_transfer(n, SEND) and after[n.name]}
    return all(
        key_of(node) in waited
        for node in own.graph_def.node
        if at[node.name] == TAIL and is_transfer(node, RECEIVE)
    )


def _order_only(graph: pb.GraphDef) -> dict[str, tuple[str, str]]:
    """By key, the names of sends that only say that something has run, and of the constants that they send."""
    nodes = {node.name: node for node in graph.node}
    found = {}
    for node in graph.node:
        if is_transfer(node, SEND):
            source = nodes[next(iter(sources(node)))]
            if CONST in traits_of(source.op) and source.input and "/ctrl/_" in source.name:
                found[key_of(node)] = node.name, source.name
    return found


def _forget(part: Partition, order: Mapping[str, tuple[str, str]]) -> None:
    """Remove what only says what comes first."""
    gone: set[str] = set()
    for node in part.graph_def.node:
        if is_transfer(node, SEND) and (key := key_of(node)) in order:
            gone.update(order[key])
        elif is_transfer(node, RECEIVE) and key_of(node) in order:
            gone |= {node.name, f"{node.name}_arrived"}
    part.sends.difference_update(order)
    part.receives.difference_update(order)
    remove(part.graph_def, gone)
