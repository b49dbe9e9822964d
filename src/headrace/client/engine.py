"""What a session needs from whatever runs its steps: this process, or a cluster's master.

Called by: client.session.  Implemented by: client.local, client.remote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor
from headrace.run.scope import Scope

if TYPE_CHECKING:
    from headrace.run.queues.batch_dequeuer import Gate

StepFunction = Callable[[Sequence[Any], "pb.RunOptions | None", "pb.RunMetadata | None"], list[Any]]
"""(values of the feeds, options, metadata to fill) -> values of the fetches, the caller's own."""

PlainFunction = Callable[[Sequence[Any]], list[Any]]
"""values of the feeds -> values of the fetches, the caller's own."""

CallFunction = Callable[[Sequence[Any], "pb.RunMetadata | None"], list[Any]]
"""(values of the feeds in order, metadata to fill) -> values of the fetches, the caller's own."""

BatchFunction = Callable[["Gate"], int]
"""Runs several steps at once if it can; see run.batch_dequeuer."""

Release = Callable[[], None]


class Step:
    """A `StepFunction`; `plain` is what is left of it without options, where that is less."""

    __slots__ = ("__weakref__", "_run", "plain")

    def __init__(self, run: StepFunction, plain: PlainFunction | None) -> None:
        self._run = run
        self.plain = plain

    def __call__(
        self, values: Sequence[Any], options: pb.RunOptions | None, metadata: pb.RunMetadata | None
    ) -> list[Any]:
        return self._run(values, options, metadata)


class Engine(Protocol):
    """Runs steps of one graph.  All methods may be called from any thread.

    scope: of the session; every wait of its steps is under it.
    """

    scope: Scope

    def step(
        self,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        options: pb.RunOptions | None = None,
    ) -> StepFunction:
        """A function that runs this signature; it stays valid while the graph grows.

        options: of the run that it is made for, whose time limit holds for making it, too.
        """

    def batch_dequeuer(self, target: Operation) -> BatchFunction | None:
        """What runs many steps of `target` at a time, for one thread; None where that could be told."""

    def begin_partial(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> str:
        """Begin a partial run; its handle."""

    def partial_step(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]
    ) -> list[Any]:
        """Feed and fetch some of a partial run, by tensor name."""

    def callable(self, graph: Graph, options: pb.CallableOptions) -> tuple[CallFunction, Release]:
        """A function that runs what `options` name, and one that frees what that takes."""

    @property
    def handle(self) -> str:
        """What the master calls the session; "" if there is none, or not yet."""

    def inspect(self) -> pb.InspectResponse:
        """The steps of this session that wait, on all tasks that can say.

        Raises Unimplemented if the master cannot say, Unavailable or DeadlineExceeded if it does not answer.
        """

    def waits_long(self, waited_s: float) -> None:
        """A step of this session has waited for so long: log it if it waits for servers.  Never blocks or raises."""

    def list_devices(self) -> list[pb.DeviceAttributes]:
        """The devices that steps may use."""

    def close(self) -> None:
        """Cancel what runs, release what is held.  Idempotent."""

    def release(self) -> None:
        """Close without waiting for anybody: the session was garbage."""
