"""A master's view of its cluster: which devices there are, and how to reach the tasks.

The devices that placement sees follow from the cluster spec alone; a task is asked for its
incarnation only when a plan needs it.
Called by: serve.master, serve.master_session.  Threads: any.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from headrace.base import errors
from headrace.base.device import DeviceSpec
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve import wire
from headrace.serve.peers import Peer, Peers
from headrace.serve.waiting import wait_for_server


class ClusterView:
    """Tasks (after device filters), their devices and incarnations."""

    def __init__(
        self, peers: Peers, own_task: str, scope: Scope, filters: Sequence[str] = ()
    ) -> None:
        """filters: a task is seen if any matches it, or if it is the master's own; none: all are."""
        self._peers = peers
        self.scope = scope
        self.tasks = [task for task in peers.tasks if task == own_task or _seen(task, filters)]
        self._lock = threading.Lock()
        self._incarnations: dict[str, int] = {}

    @property
    def devices(self) -> list[str]:
        """Full names of all devices."""
        return [f"{task}/device:CPU:0" for task in self.tasks]

    def worker(self, task: str) -> Peer:
        """The worker service of a task."""
        return self._peers.get(task)

    def incarnations(self, tasks: Iterable[str], scope: Scope) -> dict[str, int]:
        """The numbers of the tasks' starts, by task.  Each is asked once.

        Waits for tasks that are not up yet.  Raises Unavailable naming the task.
        """
        wanted = list(tasks)
        unknown = [task for task in wanted if task not in self._incarnations]
        if unknown:
            found = self.attributes(unknown, scope)
            with self._lock:
                self._incarnations.update((task, found[task][0].incarnation) for task in unknown)
        return {task: self._incarnations[task] for task in wanted}

    def attributes(
        self, tasks: Iterable[str], scope: Scope
    ) -> dict[str, Sequence[pb.DeviceAttributes]]:
        """The devices that tasks report, by task; as `incarnations`."""
        request = pb.GetStatusRequest()
        with Scope(parent=scope) as asking:
            asked = {
                task: self.worker(task).call(wire.GET_STATUS, request, asking, wait_for_ready=True)
                for task in tasks
            }
            try:
                return {
                    task: wait_for_server(reply, self.worker(task).name, scope).device_attributes
                    for task, reply in asked.items()
                }
            finally:
                asking.cancel(errors.cancelled("nobody waits for this any more"))


def _seen(task: str, filters: Sequence[str]) -> bool:
    if not filters:
        return True
    full = DeviceSpec.from_string(task)
    return any(DeviceSpec.from_string(text).matches(full) for text in filters)
