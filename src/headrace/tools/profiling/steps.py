"""Traced steps, and where the time of each went: every moment of it belongs to one thing.

At a moment at which something computes, that is what the step does; else, if an operation waits for a queue, that; else
another wait; else a value is on its way; else nothing of it is under way on any task, and it is being asked for and
answered.  What happens at once shares the moment.
Called by: recording, advice, command, tools.dashboard.  Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from headrace.base.traits import (
    DEQUEUES,
    ENQUEUES,
    LIGHT,
    MAY_WAIT,
    RECEIVE,
    SEND,
    STATEFUL,
    UPDATES,
    VARIABLE,
)
from headrace.codec import protos as pb
from headrace.graph.registry import OPS
from headrace.run.exec.keys import task_of
from headrace.training.timeline import Span, node_of, read_step

SOURCE = "_SOURCE"
WAIT_NS = 300_000
"""What may wait and has not taken so long has not waited."""


class Doing(IntEnum):
    """What a moment of a step belongs to; of several the first."""

    COMPUTING = 0
    ENQUEUING = 1
    DEQUEUING = 2
    WAITING = 3
    MOVING = 4
    BETWEEN = 5


class Part(NamedTuple):
    """Something that takes time in a step.

    task: where.  what: an op type, a queue, or the task that a value comes from.  node: "" where that does not matter.
    """

    doing: Doing
    task: str
    what: str
    node: str


@dataclass(frozen=True)
class Step:
    """A traced step; times are nanoseconds of Unix time."""

    number: int
    stats: pb.StepStats
    spans: tuple[Span, ...]
    begin_ns: int
    end_ns: int

    @classmethod
    def of(cls, logged: tuple[int, pb.StepStats]) -> Step:
        """From what tasks have logged of it."""
        number, stats = logged
        spans = tuple(span for row in read_step(stats) for span in row.spans if span.name != SOURCE)
        begin_ns = min((span.start_ns for span in spans), default=0)
        end_ns = max((span.end_ns for span in spans), default=0)
        return cls(number, stats, spans, begin_ns, end_ns)

    @property
    def took_ns(self) -> int:
        """From its first node's beginning to its last one's end."""
        return self.end_ns - self.begin_ns

    @cached_property
    def nodes(self) -> frozenset[tuple[str, str]]:
        """What it ran, and where: the same for all steps of a kind."""
        return frozenset((span.device, span.name) for span in self.spans if span.transfer is None)

    @property
    def name(self) -> str:
        """The node that was ready last, by which people know a step: it is mostly what was fetched."""
        own = [span for span in self.spans if span.transfer is None]
        named = [span for span in own if not {SEND, RECEIVE} & traits_of(span.op)]
        return max(named or own or self.spans, key=lambda span: span.end_ns).name

    def parts(self) -> dict[Part, int]:
        """Nanoseconds that belong to each thing; together, all that it took."""
        edges: list[tuple[int, bool, Part]] = []
        for span in self.spans:
            if span.end_ns > span.start_ns:
                part = part_of(span)
                edges += ((span.start_ns, True, part), (span.end_ns, False, part))
        edges.sort(key=lambda edge: (edge[0], edge[1]))
        found: dict[Part, float] = defaultdict(float)
        active: Counter[Part] = Counter()
        last_ns = self.begin_ns
        for at_ns, begins, part in edges:
            if at_ns > last_ns:
                _share(found, active, at_ns - last_ns)
                last_ns = at_ns
            active[part] += 1 if begins else -1
            if not active[part]:
                del active[part]
        return {part: round(ns) for part, ns in found.items()}


def _share(found: dict[Part, float], active: Counter[Part], ns: int) -> None:
    if not active:
        found[Part(Doing.BETWEEN, "", "", "")] += ns
        return
    first = min(part.doing for part in active)
    sharing = [part for part in active if part.doing is first]
    for part in sharing:
        found[part] += ns / len(sharing)


def traits_of(op: str) -> frozenset[object]:
    """Of an op type; none of one that is not known."""
    spec = OPS.get(op)
    return frozenset() if spec is None else frozenset(spec.traits)


def part_of(span: Span) -> Part:
    """What a span's time belongs to."""
    task = task_of(span.device)
    if span.transfer is not None:
        return Part(
            Doing.MOVING, task_of(span.transfer.destination), task_of(span.transfer.source), ""
        )
    traits = traits_of(span.op)
    if span.duration_ns < WAIT_NS and MAY_WAIT in traits and RECEIVE not in traits:
        return Part(Doing.COMPUTING, task, span.op, span.name)
    if RECEIVE in traits or SEND in traits:
        return Part(Doing.MOVING, task, task, "")
    if ENQUEUES in traits or DEQUEUES in traits:
        doing = Doing.ENQUEUING if ENQUEUES in traits else Doing.DEQUEUING
        return Part(doing, task, node_of(span.inputs[0]) if span.inputs else "", span.name)
    if MAY_WAIT in traits:
        return Part(Doing.WAITING, task, span.op, span.name)
    return Part(Doing.COMPUTING, task, span.op, span.name)


def stays(op: str) -> bool:
    """Whether it is to be where the state is: it reads or changes that, or lets less of it leave."""
    return not {STATEFUL, UPDATES, VARIABLE, LIGHT}.isdisjoint(traits_of(op))


@dataclass(frozen=True)
class Kind:
    """Steps that ran the same nodes in the same places."""

    steps: Sequence[Step]

    @property
    def name(self) -> str:
        """Its first step's."""
        return self.steps[0].name

    @property
    def mean_ns(self) -> float:
        """Of one step."""
        return sum(step.took_ns for step in self.steps) / len(self.steps)

    @property
    def total_ns(self) -> int:
        """Of all of them."""
        return sum(step.took_ns for step in self.steps)

    def parts(self) -> dict[Part, float]:
        """Nanoseconds of a step that belong to each thing, on average."""
        found: dict[Part, float] = defaultdict(float)
        for step in self.steps:
            for part, ns in step.parts().items():
                found[part] += ns / len(self.steps)
        return dict(found)

    def moved(self) -> dict[tuple[str, str], tuple[float, float]]:
        """By source and destination task: values and bytes a step."""
        found: dict[tuple[str, str], tuple[float, float]] = {}
        for step in self.steps:
            for span in step.spans:
                if span.transfer is not None:
                    key = task_of(span.transfer.source), task_of(span.transfer.destination)
                    count, size = found.get(key, (0.0, 0.0))
                    found[key] = count + 1, size + span.transfer.num_bytes
        number = len(self.steps)
        return {key: (count / number, size / number) for key, (count, size) in found.items()}

    def between_ns(self) -> float | None:
        """From one step's end to the next one's beginning, on average; None if they overlap, or there is one."""
        ordered = sorted(self.steps, key=lambda step: step.begin_ns)
        gaps = [b.begin_ns - a.end_ns for a, b in pairwise(ordered)]
        if not gaps or min(gaps) < 0:
            return None
        return sum(gaps) / len(gaps)


def kinds(steps: Iterable[Step]) -> list[Kind]:
    """Steps by what they ran, those with the most time first."""
    found: dict[frozenset[tuple[str, str]], list[Step]] = {}
    for step in steps:
        if step.spans:
            found.setdefault(step.nodes, []).append(step)
    return sorted(map(Kind, found.values()), key=lambda kind: -kind.total_ns)
