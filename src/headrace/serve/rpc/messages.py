"""Requests and replies that carry tensors, as the services see them: values are arrays.

Everything else that a service takes or returns is the protobuf message itself.  Bytes are the
transports' business (`serve.rpc.methods`).

Leases: who decodes a request from bytes sets its `takes_leases`.  Values of the reply may then be
`run.state.variable.Lease`s, to be encoded as their arrays and given back by `release`, when the bytes are
on their way and when they never will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.codec import protos as pb
from headrace.run.state import variable

Named = list[tuple[str, Any]]
"""(name, value) pairs."""


class Reply:
    """A reply with values."""

    __slots__ = ()

    def values(self) -> Iterable[Any]:
        """All of them."""
        raise NotImplementedError


def release(reply: Any) -> None:
    """Give back what `reply`, of whatever kind, has on lease.  Any thread, any number of times."""
    if isinstance(reply, Reply):
        for value in reply.values():
            if value.__class__ is variable.Lease:
                value.release()


def forget_values(request: RunGraphRequest) -> None:
    """Let go of what was fed: it may lie in memory that its sender waits for."""
    request.send = []


@dataclass(slots=True)
class RunStepRequest:
    """One step of a session.  `feeds` by tensor name; `fetches` and `targets` are names."""

    session_handle: str
    feeds: Named
    fetches: list[str]
    targets: list[str]
    options: pb.RunOptions | None = None
    partial_run_handle: str = ""
    store_errors_in_response_body: bool = True
    request_id: int = 0
    takes_leases: bool = False


@dataclass(slots=True)
class RunStepReply(Reply):
    """Values of the fetches by name, and the metadata if it was asked for.

    signature: a number for the request's names, for RunKnown; 0 for none.  direct: the task that may be asked for the
    step by RunPart.  starts: incarnations of the tasks that took part, if the client is to know them.
    """

    tensors: Named
    metadata: pb.RunMetadata | None = None
    signature: int = 0
    direct: pb.DirectStep | None = None
    starts: Mapping[str, int] = field(default_factory=dict)

    def values(self) -> Iterable[Any]:
        """See `Reply`."""
        return [value for _, value in self.tensors]


@dataclass(slots=True)
class RunGraphRequest:
    """One partition of a step: `send` and `recv_keys` are rendezvous keys of feeds and fetches.

    ends_step: nobody asks the task for anything of the step after this.
    close_reason: why queues that it closes are closed, a serialized ErrorDetail; empty: nothing has failed.
    """

    graph_handle: str
    step_id: int
    send: Named
    recv_keys: list[str]
    session_handle: str = ""
    record_timeline: bool = False
    create_worker_session_called: bool = False
    is_partial: bool = False
    is_last_partial_run: bool = False
    store_errors_in_response_body: bool = True
    request_id: int = 0
    record_partition_graphs: bool = False
    takes_leases: bool = False
    ends_step: bool = False
    close_reason: bytes = b""


@dataclass(slots=True)
class RunGraphReply(Reply):
    """Values of the fetches by rendezvous key; step statistics and graphs if they were asked for."""

    recv: Named
    step_stats: pb.StepStats | None = None
    partition_graphs: Sequence[pb.GraphDef] = ()

    def values(self) -> Iterable[Any]:
        """See `Reply`."""
        return [value for _, value in self.recv]


@dataclass(slots=True)
class RecvTensorRequest:
    """Ask the task that produces `rendezvous_key` for its value in a step."""

    step_id: int
    rendezvous_key: str
    request_id: int = 0
    takes_leases: bool = False


@dataclass(slots=True)
class RecvTensorReply(Reply):
    """The value; `is_dead` for the untaken side of a Switch."""

    value: Any
    is_dead: bool = False
    send_start_micros: int = 0

    def values(self) -> Iterable[Any]:
        """See `Reply`."""
        return (self.value,)


@dataclass(slots=True)
class SendTensorRequest:
    """A value for a partition of the receiving task, which need not have been started yet.

    taken: over a step channel, how many values of the call its sender has taken until now.
    """

    step_id: int
    rendezvous_key: str
    value: Any
    is_dead: bool = False
    taken: int = 0


@dataclass(slots=True)
class RunKnownRequest:
    """Run a step that an earlier RunStep gave a number for; `feeds` in the order of then."""

    session_handle: str
    signature: int
    feeds: list[Any]
    takes_leases: bool = False


DIRECT: Final = 1
DIRECT_TOO: Final = 2


class RunPartRequest(NamedTuple):
    """Run a partition that ends its step on the task; `feeds` in the order of its registration.

    feeds: is emptied by whoever runs it: what was fed may lie in memory that its sender waits for.
    direct: whether the client of its session asks for it by itself: `DIRECT`, or for one more part of a step that is
    counted elsewhere, `DIRECT_TOO`.
    """

    graph_handle: str
    step_id: int
    feeds: list[Any]
    direct: int = 0


class ValuesReply(list[Any], Reply):
    """Values of all fetches, in order.  A list, since one is made for every step and every part."""

    __slots__ = ()

    def values(self) -> Iterable[Any]:
        """See `Reply`."""
        return self


@dataclass(slots=True)
class RunCallableRequest:
    """Run a callable of a session; `feeds` in the order in which it was made with them."""

    session_handle: str
    handle: int
    feeds: list[Any]
    request_id: int = 0
    takes_leases: bool = False


@dataclass(slots=True)
class RunCallableReply(Reply):
    """Values of the fetches in order, and the metadata if its options ask for them.  starts: as of `RunStepReply`."""

    fetches: list[Any]
    metadata: pb.RunMetadata | None = None
    starts: Mapping[str, int] = field(default_factory=dict)

    def values(self) -> Iterable[Any]:
        """See `Reply`."""
        return self.fetches
