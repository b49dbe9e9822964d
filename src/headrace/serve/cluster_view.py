"""A master's view of its cluster: which devices there are, and how to reach the tasks.

The devices that placement sees follow from the cluster spec alone; a task is asked for its
incarnation only when a plan needs it.
Called by: serve.master, serve.master_session.  Threads: any.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from headrace.base.device import DeviceSpec
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve import wire
from headrace.serve.peers import Peer, Peers


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

    def incarnation(self, task: str, scope: Scope) -> int:
        """The number of a task's start.  Asks it once; raises Unavailable."""
        known = self._incarnations.get(task)
        if known is None:
            known = self.attributes(task, scope)[0].incarnation
            with self._lock:
                self._incarnations[task] = known
        return known

    def attributes(self, task: str, scope: Scope) -> list[pb.DeviceAttributes]:
        """The devices a task reports."""
        reply = (
            self._peers.get(task).call(wire.GET_STATUS, pb.GetStatusRequest(), scope).wait(scope)
        )
        return list(reply.device_attributes)


def _seen(task: str, filters: Sequence[str]) -> bool:
    if not filters:
        return True
    full = DeviceSpec.from_string(task)
    return any(DeviceSpec.from_string(text).matches(full) for text in filters)
