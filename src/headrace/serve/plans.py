"""What a master knows of a plan: its parts, and whom to ask for them.

Called by: serve.master_session, serve.partials, serve.callables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.codec import protos as pb
from headrace.run import keys
from headrace.run.variable import Lease
from headrace.serve import messages as m

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool]
"""Names of feeds, fetches and targets, and whether every node runs as the user wrote it."""


@dataclass(slots=True)
class Part:
    """A registered partition: whom to ask, under which handle, and the keys of feeds and fetches
    by tensor name.

    relayed: keys of its last feeds or fetches, which no client knows.
    """

    task: str
    graph_handle: str
    feeds: dict[str, str]
    fetches: dict[str, str]
    relayed: Sequence[str] = ()

    @property
    def makes(self) -> list[str]:
        """The tensors that are asked of it."""
        return [*self.fetches, *map(keys.tensor_name, self.relayed)]


@dataclass(slots=True, eq=False)
class Plan:
    """created: whether its session was created on the tasks (it has something of its own there).

    ends_itself: every task that takes part forgets a step when its partition has run.
    linked: small values pass over the connections on which the parts are asked for.
    relay: the first part's values become feeds of the second, see plan.relay; their indices.
    starts: the incarnations of those tasks.  stale: not to be used for another step: one of them has
    been restarted since, or nobody used it for long.  used, pins: see serve.kept.
    """

    parts: list[Part]
    created: bool = False
    ends_itself: bool = False
    linked: bool = False
    relay: tuple[int, int] | None = None
    starts: dict[str, int] = field(default_factory=dict)
    stale: bool = False
    used: bool = True
    pins: int = 0

    def wanted(self, part: Part) -> list[str]:
        """The keys of all fetches of a part."""
        makes = self.relay is not None and self.parts[self.relay[0]] is part
        return [*part.fetches.values(), *(part.relayed if makes else ())]

    def pass_on(self, made: m.RunGraphReply, request: m.RunGraphRequest) -> None:
        """Feed what is relayed."""
        keys = set(self.parts[0].relayed)
        request.send += [(key, _own(value)) for key, value in made.recv if key in keys]


def _own(value: Any) -> Any:
    return value.detach() if isinstance(value, Lease) else value


class Fitted:
    """A plan, fitted to the order in which feeds and fetches were named."""

    __slots__ = ("_as_they_are", "_asks", "_places", "_relayed", "plan")

    def __init__(self, plan: Plan, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        self.plan = plan
        fed = {name: index for index, name in enumerate(feeds)}
        made = {
            name: (index, place)
            for index, part in enumerate(plan.parts)
            for place, name in enumerate(part.fetches)
        }
        self._asks = [
            (part.graph_handle, [fed[name] for name in part.feeds]) for part in plan.parts
        ]
        self._places = [made[name] for name in fetches]
        self._relayed = 0 if plan.relay is None else len(plan.parts[plan.relay[0]].relayed)
        self._as_they_are = len(plan.parts) == 1 and self._places == list(made.values())

    def requests(
        self, step_id: int, feeds: Sequence[Any], takes_leases: bool
    ) -> list[m.RunPartRequest]:
        """What the parts are asked to do in a step."""
        requests = []
        for handle, taken in self._asks:
            fed = [feeds[index] for index in taken] if taken else []
            requests.append(m.RunPartRequest(handle, step_id, fed, takes_leases))
        return requests

    def pass_on(self, made: m.ValuesReply, request: m.RunPartRequest) -> None:
        """Feed what is relayed: the last values of the first part."""
        for value in made.fetches[-self._relayed :]:
            request.feeds.append(value.detach() if value.__class__ is Lease else value)

    def reply(self, replies: Sequence[m.ValuesReply]) -> m.ValuesReply:
        """The fetches, of what the parts have replied."""
        if self._as_they_are:
            return replies[0]
        return m.ValuesReply([replies[part].fetches[place] for part, place in self._places])

    def direct(self) -> pb.DirectStep:
        """What a client needs to know to ask the plan's one part for it by itself: which, and what goes where."""
        return pb.DirectStep(
            graph_handle=self._asks[0][0], feed=self._asks[0][1],
            fetch=[place for _, place in self._places],
        )  # fmt: skip


class Known:
    """Feeds, fetches and targets that have been named once: later requests say the number."""

    __slots__ = ("feeds", "fetches", "fitted", "given", "number", "pins", "targets", "used")

    def __init__(self, number: int, request: m.RunStepRequest) -> None:
        self.number = number
        self.used = True
        self.pins = 0
        self.feeds = tuple(tensor_name(name) for name, _ in request.feeds)
        self.fetches = tuple(tensor_name(name) for name in request.fetches)
        self.given = list(request.fetches)
        self.targets = tuple(request.targets)
        self.fitted: Fitted | None = None  # for steps that are not traced, once it is made

    def fit(self, plan: Plan) -> Fitted:
        """Have steps that are not traced follow `plan`."""
        fitted = self.fitted
        if fitted is None or fitted.plan is not plan:
            fitted = self.fitted = Fitted(plan, self.feeds, self.fetches)
        return fitted

    def signature(self, exact: bool) -> Signature:
        """What a plan is made for."""
        return self.feeds, self.fetches, self.targets, exact


def tensor_name(name: str) -> str:
    """With its output number: ``x`` is ``x:0``."""
    return name if ":" in name else f"{name}:0"
