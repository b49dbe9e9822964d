"""What the making of a plan leaves for whoever comes later: the work on it outlasts a step whose limit passes.

A step with a limit looks at the graph and asks tasks for their starts itself; what it began goes on for that as long as
it has taken until then, if the limit has passed meanwhile.  Registration, which takes as long as the tasks compile, is
another thread's, and goes on until it is over or the session is closed: each try would begin it anew, and none might
end it.
Called by: serve.master.planner.  Threads: any.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.graph.graph import Operation
from headrace.plan.wanted import Wanted
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.serve.rpc.gather import Begun


class Draft(NamedTuple):
    """A plan that has not been registered.

    devices: of all nodes.  incarnations: the numbers of their starts.  starts: those of the tasks, which were asked for
    at that `version` of what is known of restarts.
    """

    version: int
    found: Wanted
    devices: Mapping[Operation, str]
    incarnations: Mapping[str, int]
    starts: Mapping[str, int]


class Making:
    """A plan in the making.

    over: done with what it failed with, or None.  asked: the tasks that were asked to register their parts.
    """

    def __init__(self, session: str) -> None:
        self.asked: dict[str, Begun | Pending[Any]] = {}
        info = WaitInfo("the plan of a step", f"session {session}", self._detail)
        self.over: Pending[BaseException | None] = Pending(info)

    def _detail(self) -> str:
        late = [task for task, asked in self.asked.copy().items() if not _answered(asked)]
        return f"{', '.join(late)} has not registered its part" if late else ""


def _answered(asked: Begun | Pending[Any]) -> bool:
    return asked.done if isinstance(asked, Pending) else asked.over


def at_least(scope: Scope, since: float, owner: Scope) -> Scope:
    """For questions to tasks: `scope`, or, if less of it is left than has passed `since`, one of `owner` that lasts so
    long again.
    """
    took_s = time.monotonic() - since
    remaining = scope.remaining()
    if scope.error is None and (remaining is None or remaining >= took_s):
        return scope
    return Scope(took_s, owner)
