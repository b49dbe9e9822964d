"""Calls between tasks that are made again if the other side seems to be down, or a connection breaks.

Called by: client.remote, serve.worker.remote_rendezvous, serve.connect.routed, serve.master.planner,
serve.master.master_session.  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.rpc.methods import GET_STATUS, SEND_TENSOR, Method
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.transport import Channel

_RECONNECT_WITHIN_S = 1.5  # more than the pause between two attempts to connect
_INSIST_FOR_S = 60.0
_MOST_TIMES = 10


def call_with_retries(
    peer: Peer | Channel, method: Method, request: Any, scope: Scope
) -> Pending[Any]:
    """The reply to a call which is made again, as soon as the other side can be reached, if its connection breaks.

    That goes on behind the caller's back, for a minute at most and ten times, since who is stopping can be reached and
    refuses at once: for requests that may be handled twice, and without which something would stay behind, or wait,
    on a task that lives.
    """
    asked = peer.call(method, request, scope)
    limit: Scope | None = None
    left = _MOST_TIMES

    def answered(reply: Pending[Any]) -> None:
        nonlocal left, limit
        if left and isinstance(reply.error, errors.UnavailableError):
            left -= 1
            limit = limit or Scope(_INSIST_FOR_S)
            peer.call(method, request, limit, wait_for_ready=True).on_done(answered)

    asked.on_done(answered)
    return asked


class RetriedCall(Pending[Any]):
    """The reply to a call.

    A task that was down is believed to be so only after one more attempt to reach it: the
    connection may just not have noticed that it is back.  If only the first reply was lost, a value that
    was sent has arrived, and one that was asked for is lost with the reply.
    """

    __slots__ = ("_asked", "_gave_up", "_lost", "_method", "_peer", "_request", "_scope")

    def __init__(self, peer: Peer, method: Method, request: Any, scope: Scope) -> None:
        self._peer = peer
        self._method = method
        self._request = request
        self._scope = scope
        self._lost: errors.OpError | None = None
        self._gave_up = False
        self._asked: Pending[Any] = peer.call(method, request, scope)
        super().__init__(self._asked.wait_info, lambda _: self.give_up())
        self._asked.on_done(self._arrived)

    def give_up(self) -> bool:
        """Take the call back; nothing is said of its end any more."""
        self._gave_up = True
        self._asked.abandon(errors.cancelled("the receiver gave up"))
        return True

    def _arrived(self, asked: Pending[Any]) -> None:
        error = asked.error
        if self._gave_up:
            return  # who gives up says so with an error of their own
        if error is None:
            self.resolve(asked.result())
        elif isinstance(error, errors.UnavailableError) and self._lost is None:
            self._lost = error
            probing = Scope(_RECONNECT_WITHIN_S, self._scope)
            status = pb.GetStatusRequest()
            self._asked = self._peer.call(GET_STATUS, status, probing, wait_for_ready=True)
            self._asked.on_done(self._probed)
        elif self._lost is not None and isinstance(error, errors.AlreadyExistsError):
            if self._method is SEND_TENSOR:
                self.resolve(pb.SendTensorResponse())
            else:
                self.reject(self._lost)
        else:
            self.reject(error)

    def _probed(self, probe: Pending[Any]) -> None:
        if self._gave_up:
            return
        if probe.error is not None:
            assert self._lost is not None
            self.reject(self._lost)
        else:
            self._asked = self._peer.call(self._method, self._request, self._scope)
            if self._gave_up:  # meanwhile
                self.give_up()
            self._asked.on_done(self._arrived)
