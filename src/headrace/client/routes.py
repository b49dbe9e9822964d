"""The ways that a session has to tasks without its master.

Called by: client.remote.  Threads: any.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from headrace.client.direct import Part, Route, RouteToOne
from headrace.client.reaching import Search, Task
from headrace.client.scattered import ScatteredRoute
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import OutstandingParts
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security


class Tasks:
    """The tasks that a session asks for steps by itself."""

    def __init__(self, security: Security | None, pool: GrowingPool, session: Scope) -> None:
        """session: ends with the session.  Raises InvalidArgument."""
        self._security = security
        self._search = Search(pool)
        self._session = session
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        self.outstanding: OutstandingParts = {}  # the steps that are under way
        self.untold: dict[tuple[str, int], None] = {}  # what was given up, until the master knows

    def route(self, offer: pb.DirectStep, makes: Sequence[str]) -> Route:
        """The way that a master has offered for a step with those fetches."""
        parts: list[Part] = []
        first = 0
        for part in offer.part:
            places = range(first, first + part.gives)
            first += part.gives
            made = [name for name, place in zip(makes, offer.fetch, strict=True) if place in places]
            direct = m.DIRECT_TOO if parts else m.DIRECT
            to = self._task(part)
            parts.append(Part(part.task, made, to, part.graph_handle, list(part.feed), direct))
        if len(parts) == 1:
            return RouteToOne(offer, parts)
        return ScatteredRoute(offer, parts)

    def _task(self, offer: pb.DirectPart) -> Task:
        earlier: Task | None = None
        with self._lock:
            task = self._tasks.get(offer.address)
            if task is None or task.start != offer.start:
                earlier = task
                task = Task(
                    offer,
                    self._security,
                    self._search,
                    self._session,
                    self.outstanding,
                    self.untold,
                )
                self._tasks[offer.address] = task
        if earlier is not None:
            earlier.close()
        return task

    def tell(self, master: Peer, handle: str, scope: Scope) -> None:
        """Tell the session's master what was given up, before it asks the tasks for more.  Raises as a call does."""
        calls: dict[str, list[int]] = {}
        told = list(self.untold)
        for task, number in told:
            calls.setdefault(task, []).append(number)
        for task, numbers in calls.items():
            request = pb.GiveUpElsewhereRequest(session_handle=handle, task=task, call=numbers)
            master.call_now(methods.GIVE_UP_ELSEWHERE, request, scope)
        for each in told:
            self.untold.pop(each, None)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            tasks = list(self._tasks.values())
        for task in tasks:
            task.close()
