"""A call to a peer that is under way: it ends by its reply, by a failure, or by being given up.

Giving it up has the other side end it, and what comes of that may be here before the one who gave it up has gone on.
It is no news: the call ends with the error of whoever gave it up, who knows why.
Called by: the transports, serve.connect.  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo


class PeerCall(Pending[Any]):
    """See the module header.  given_up: it is being abandoned, or has been."""

    __slots__ = ("given_up",)

    def __init__(self, wait_info: WaitInfo) -> None:
        super().__init__(wait_info, PeerCall._withdrawn)  # type: ignore[arg-type]
        self.given_up = False

    def give_up(self) -> None:
        """Have the other side end it.  From any thread; from two, perhaps."""
        raise NotImplementedError

    def _withdrawn(self) -> bool:
        self.given_up = True
        self.give_up()
        return True

    def replied(self, value: Any) -> bool:
        """The reply has come; False, with no effect, if nobody waits for it any more."""
        return not self.given_up and self.resolve(value)

    def failed(self, error: errors.OpError) -> bool:
        """There will be none; False, with no effect, if nobody waits for it any more."""
        return not self.given_up and self.reject(error)
