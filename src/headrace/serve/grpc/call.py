"""The gRPC transport, client side: a call under way.

It ends once: by its reply, its caller, its scope, or because the server is found not to live.
Called by: serve.grpc.client.  Threads: the caller's, and grpcio's, which brings the reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import WaitInfo
from headrace.run.scope import Scope
from headrace.serve.grpc.grpcio import grpc
from headrace.serve.grpc.server import DETAIL_KEY
from headrace.serve.rpc.encoding import INLINE
from headrace.serve.rpc.methods import Method
from headrace.serve.rpc.peer_call import PeerCall
from headrace.serve.rpc.status import as_op_error, from_bytes, from_text
from headrace.serve.rpc.transport import Outstanding
from headrace.serve.rpc.waiting import passed_deadline

if TYPE_CHECKING:
    from headrace.serve.grpc.client import GrpcPeer

_CUT_SHORT = "CANCELLED"  # gRPC's own text, where no handler has said anything


class GrpcCall(PeerCall):
    """See the module header."""

    __slots__ = (
        "_future",
        "_method",
        "_number",
        "_peer",
        "_rpcs",
        "_scope",
        "_told",
        "_unregister",
    )

    def __init__(
        self,
        peer: GrpcPeer,
        method: Method,
        scope: Scope,
        future: Any,
        rpcs: Outstanding | None,
        number: int,
        told: pb.GiveUpRequest | None,
    ) -> None:
        """future: of the request that was sent.  rpcs: where it is outstanding until it ends.

        number: of the call, 0 if nobody need know that it was given up.  told: what went ahead of the request.
        """
        super().__init__(WaitInfo(method.name, peer.name))
        self._peer = peer
        self._method = method
        self._scope = scope
        self._future = future
        self._rpcs = rpcs
        self._number = number
        self._told = told
        if rpcs is not None:
            rpcs.add(self, self._lost)
        self._unregister = scope.on_cancel(self._scope_ended)
        future.add_done_callback(self._arrived)

    def _gave_up(self) -> None:
        if self._number:
            self._peer.cancelled_calls.add(calls=(self._number,))

    def give_up(self) -> None:
        """See `PeerCall`."""
        self._gave_up()
        self._future.cancel()

    def _scope_ended(self) -> None:
        if not passed_deadline(self._scope):  # which gRPC sees to
            error = self._scope.error
            self.abandon(error or errors.cancelled("the call was cancelled"))

    def _lost(self, failure: errors.OpError) -> None:
        self._gave_up()
        self.failed(failure)
        self._future.cancel()

    def _arrived(self, done: Any) -> None:
        """The future has ended, which is this call's."""
        self._unregister()
        if self._rpcs is not None:
            self._rpcs.settle(self)
        answered = done.code() is grpc.StatusCode.OK
        if self._told is not None and (answered or _is_answer(done)):
            self._peer.cancelled_calls.heard(self._told)
        if not answered:  # `result` would raise `done`, which then holds this frame
            if not (self.done or _is_answer(done)):
                self._gave_up()
            self.failed(self._failure(done))
            return
        if self._rpcs is not None:
            self._rpcs.answered()
        method = self._method
        try:
            data = done.result()
            size = len(data)
            self._peer.traffic.received += size
            reply = method.decode_reply(data, INLINE)
        except Exception as failure:  # a reply that cannot be understood
            self.failed(as_op_error(failure, f"{method.name} of {self._peer.name}"))
        else:
            self.replied(reply)

    def _failure(self, failure: Any) -> errors.OpError:
        """What a failed future means."""
        to, what = self._peer.name, self._method.name
        if failure.cancelled():
            return errors.cancelled(f"{what} to {to} was cancelled")
        for name, value in failure.trailing_metadata() or ():
            if name == DETAIL_KEY:
                return from_bytes(value)
        code = failure.code()
        number = code.value[0] if code is not None else errors.UNKNOWN
        text = failure.details() or code
        if (
            number == errors.CANCELLED and text == _CUT_SHORT
        ):  # by the other side: ours is a future's
            return errors.unavailable(f"{to} ended {what} unanswered: it was stopped")
        if number == errors.UNAVAILABLE:
            return errors.unavailable(
                f"{to} cannot be reached ({what}): {text}; is a server running there?"
            )
        if number == errors.DEADLINE_EXCEEDED:
            return errors.deadline_exceeded(f"{to} did not answer {what} in time: {text}")
        if number == errors.UNIMPLEMENTED:
            return errors.unimplemented(f"{to} does not implement {what}: {text}")
        return from_text(number, str(text))


def _is_answer(failure: Any) -> bool:
    """Whether a server of ours has said it, and not gRPC."""
    return any(name == DETAIL_KEY for name, _ in failure.trailing_metadata() or ())
