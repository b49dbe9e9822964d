"""The starts of tasks that one session uses: whether a restart is to be told, and that it is told once.

A start of a server is known by its incarnation.  What a session had on a task is gone with the task's start, so before
anything of the session is registered or run on another start its client is told, by one RestartedError.  Whatever finds
a restart (a plan in the making, a step that failed, a client that has lost a task itself) asks here whether it is the
one to tell; plans that were made for an earlier start are used no more.
Called by: serve.master.planner.  Threads: any; the lock is held for a few instructions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from headrace.serve.rpc.status import RestartedError


class Incarnations:
    """See the module header.  version: grows whenever a restart is told."""

    def __init__(self, known: Mapping[str, int]) -> None:
        """known: incarnations by task, if the client has used tasks before, through an earlier start of this master."""
        self._lock = threading.Lock()
        self._used = dict(known)
        self.version = 0

    def use(self, starts: Mapping[str, int], version: int) -> bool:
        """These are used from now on; False, and nothing is changed, if a restart was told since that `version`, or one
        is to be told.
        """
        with self._lock:
            if version != self.version or self._earlier(starts):
                return False
            self._used.update(starts)
            return True

    def earlier(self, found: Mapping[str, int]) -> dict[str, int]:
        """Of the tasks that are found in these starts, those of which another one is used, and which."""
        with self._lock:
            return self._earlier(found)

    def _earlier(self, found: Mapping[str, int]) -> dict[str, int]:
        used = self._used
        return {task: used[task] for task, start in found.items() if used.get(task, start) != start}

    def over(self, starts: Mapping[str, int]) -> list[str]:
        """The tasks of which these, which were used once, are used no more: that they were restarted has been told."""
        with self._lock:
            return [task for task, start in starts.items() if self._used.get(task) != start]

    def take(self, gone: Mapping[str, int]) -> list[str]:
        """The tasks of which the caller has to tell that these starts are gone: they are used, and nobody else tells.

        Of these none is used until the next `use`: a restart before that concerns nobody.
        """
        with self._lock:
            told = [task for task, start in gone.items() if self._used.get(task) == start]
            for task in told:
                del self._used[task]
            self.version += bool(told)
        return told


def restarted(tasks: list[str]) -> RestartedError:
    """What the session's client is told."""
    error = RestartedError.of(
        f"{', '.join(f'{task} was restarted' for task in tasks)}: another incarnation answers than the one that the "
        "session knew. Variables there are uninitialized, queues empty; the next step uses the new one"
    )
    error.tasks = tuple(tasks)
    return error
