"""What a master knows of a plan: its parts, and whom to ask for them.

Called by: serve.master.master_session, serve.master.partials, serve.master.callables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from headrace.codec import protos as pb
from headrace.plan.relay import Stages
from headrace.run.exec import keys
from headrace.serve.rpc import messages as m

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool]
"""Names of feeds, fetches and targets, and whether every node runs as the user wrote it."""


@dataclass(slots=True)
class PartitionHandle:
    """A registered partition: whom to ask, under which handle, and the keys of feeds and fetches
    by tensor name.

    taken, given: keys of its last feeds and fetches, which no client knows, see plan.relay.
    """

    task: str
    graph_handle: str
    feeds: dict[str, str]
    fetches: dict[str, str]
    taken: Sequence[str] = ()
    given: Sequence[str] = ()

    @property
    def makes(self) -> list[str]:
        """The tensors that are asked of it."""
        return [*self.fetches, *map(keys.tensor_name, self.given)]


class Ask(NamedTuple):
    """What a part of a plan is asked to do in every step.

    number: among all parts.  taken, given: how many of the values of the stage before it are fed to it, as the last of
    its feeds, and how many of its values, the last ones, are fed to the next stage.  parts: itself, as what is
    outstanding.
    """

    number: int
    task: str
    graph_handle: str
    taken: int
    given: int
    parts: Sequence[PartitionHandle]


Stage = tuple[Ask | None, Sequence[Ask]]
"""Parts that run together; before them the part itself, if it is alone."""


@dataclass(slots=True, eq=False)
class Plan:
    """created: whether its session was created on the tasks (it has something of its own there).

    ends_itself: every task that takes part forgets a step when its partition has run.
    linked: small values pass over the connections on which the parts are asked for.  apart: they exchange nothing.
    stages: which parts run together, by index, and that each of these groups feeds the next, see plan.relay; None: all.
    asks: what its parts are asked, stage by stage.
    starts: the incarnations of those tasks.  stale: not to be used for another step: one of them has
    been restarted since, or nobody used it for long.  used, pins: see serve.master.lru.
    """

    parts: list[PartitionHandle]
    created: bool = False
    ends_itself: bool = False
    linked: bool = False
    stages: Stages | None = None
    starts: dict[str, int] = field(default_factory=dict)
    stale: bool = False
    used: bool = True
    pins: int = 0
    apart: bool = False
    asks: list[Stage] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        asks = [
            Ask(index, part.task, part.graph_handle, len(part.taken), len(part.given), (part,))
            for index, part in enumerate(self.parts)
        ]
        for indices in [range(len(asks))] if self.stages is None else self.stages:
            stage = [asks[index] for index in indices]
            if stage:
                self.asks.append((stage[0] if len(stage) == 1 else None, stage))

    def wanted(self, part: PartitionHandle) -> list[str]:
        """The keys of all fetches of a part."""
        return [*part.fetches.values(), *part.given]


class BoundPlan:
    """A plan, bound to the order in which feeds and fetches were named.

    feeds: of each part, the indices of its own among those of the step.
    """

    __slots__ = ("_places", "_whole", "feeds", "plan")

    def __init__(self, plan: Plan, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        self.plan = plan
        fed = {name: index for index, name in enumerate(feeds)}
        made = {
            name: (index, place)
            for index, part in enumerate(plan.parts)
            for place, name in enumerate(part.fetches)
        }
        self.feeds = [[fed[name] for name in part.feeds] for part in plan.parts]
        self._places = [made[name] for name in fetches]
        self._whole = self._one_reply()

    def _one_reply(self) -> int:
        """The index of the part whose reply has the fetches as they were named, and nothing else; -1: there is none."""
        index = self._places[0][0] if self._places else 0
        if index >= len(self.plan.parts):
            return -1
        count = len(self.plan.parts[index].fetches)
        return index if self._places == [(index, place) for place in range(count)] else -1

    @property
    def is_whole(self) -> bool:
        """Whether one part's reply has the fetches as they were named, and nothing else."""
        return self._whole >= 0

    def fetches(self, values: Sequence[list[Any]]) -> list[Any]:
        """The fetches, of the values that the parts have given."""
        if self._whole >= 0:
            return values[self._whole]
        return [values[part][place] for part, place in self._places]

    def direct(self) -> pb.DirectStep:
        """What a client needs to know to ask for the plan's parts by itself: which, and what goes where."""
        parts = self.plan.parts
        firsts = [0, *accumulate(len(part.fetches) for part in parts)]
        return pb.DirectStep(
            part=[
                pb.DirectPart(
                    task=part.task,
                    start=self.plan.starts[part.task],
                    graph_handle=part.graph_handle,
                    feed=feeds,
                    gives=len(part.fetches),
                )
                for part, feeds in zip(parts, self.feeds, strict=True)
            ],
            fetch=[firsts[part] + place for part, place in self._places],
        )


class PreparedSignature:
    """Feeds, fetches and targets that have been named once: later requests say the number."""

    __slots__ = ("feeds", "fetches", "bound", "given", "number", "pins", "targets", "used")

    def __init__(self, number: int, request: m.RunStepRequest) -> None:
        self.number = number
        self.used = True
        self.pins = 0
        self.feeds = tuple(tensor_name(name) for name, _ in request.feeds)
        self.fetches = tuple(tensor_name(name) for name in request.fetches)
        self.given = list(request.fetches)
        self.targets = tuple(request.targets)
        self.bound: BoundPlan | None = None  # for steps that are not traced, once it is made

    def bind(self, plan: Plan) -> BoundPlan:
        """Have steps that are not traced follow `plan`."""
        bound = self.bound
        if bound is None or bound.plan is not plan:
            bound = self.bound = BoundPlan(plan, self.feeds, self.fetches)
        return bound

    def signature(self, exact: bool) -> Signature:
        """What a plan is made for."""
        return self.feeds, self.fetches, self.targets, exact


def tensor_name(name: str) -> str:
    """With its output number: ``x`` is ``x:0``."""
    return name if ":" in name else f"{name}:0"
