"""Whom a session's master waits for, in the log of the client, where somebody looks who waits for a step.

A step that has waited for long makes the session ask its master, which knows why each server is missing.
Called by: client.remote.  Threads: any; the question is asked on the session's pool.
"""

from __future__ import annotations

import logging
import threading

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool

_GROWTH = 1.8  # somewhat less than that of the times at which a step tells
_ANSWER_WITHIN_S = 3.0

_log = logging.getLogger("headrace")


class MissingTasks:
    """Says for one session whom it waits for, at growing intervals, however many steps tell that they wait."""

    def __init__(self, pool: GrowingPool, scope: Scope) -> None:
        """scope: the session's."""
        self._pool = pool
        self._scope = scope
        self._lock = threading.Lock()
        self._waited_s = 0.0  # when it was asked last
        self._due_s = LIMITS.missing_after_s

    def ask(self, master: Peer, handle: str) -> None:
        """Ask for whom the session's steps wait, and log that if it is time.  Never blocks or raises."""
        try:
            self._pool.submit(self._ask, master, handle)
        except RuntimeError:  # the session is being closed
            return

    def _ask(self, master: Peer, handle: str) -> None:
        request = pb.InspectRequest(session_handle=handle, awaited_only=True)
        try:
            with Scope(_ANSWER_WITHIN_S, self._scope) as asking:
                reply = master.call(methods.INSPECT_CLUSTER, request, asking).wait(asking)
        except errors.OpError:  # TensorFlow's masters cannot say; whoever waits asks again
            return
        if self._is_due(max((each.waited_s for each in reply.awaited), default=0.0)):
            named = "; ".join(f"{each.task} ({each.reason})" for each in reply.awaited)
            waited_s = reply.awaited[0].waited_s
            _log.warning("%s is still waiting, for %.0f s, for %s", master.name, waited_s, named)

    def _is_due(self, waited_s: float) -> bool:
        with self._lock:
            if waited_s < self._waited_s:  # that is another wait
                self._due_s = LIMITS.missing_after_s
            self._waited_s = waited_s
            if waited_s < self._due_s:
                return False
            self._due_s = waited_s * _GROWTH
            return True
