"""What one session of a master has on a task: state, and how it sees the cluster.

Most sessions share the task's state and cluster.  One that is isolated has a ResourceManager of its
own; one that brings a cluster spec of its own sees that cluster, in which the task may have
another name.
Called by: serve.worker.worker.  Threads: any.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.checkpoints.log import CheckpointLog
from headrace.run.exec.kernel import Memos, Runtime
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.readers.files import Files
from headrace.run.state.resources import ResourceManager
from headrace.run.state.variable import State
from headrace.serve.cluster import ClusterSpec
from headrace.serve.connect.peers import Peers
from headrace.serve.observe.legacy_clients import LegacyClient
from headrace.serve.rpc.cancelled_calls import CancelledSteps


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps of a session, as they are booked while they run.

    direct: its client has asked for them by itself.  counted: as steps, each of which is counted on one task.
    """

    session: WorkerSession
    direct: bool
    counted: bool = True


class WorkerSession:
    """See the module header.  `task`: the task's name as the session knows it.

    direct_over: why steps that its client asks for by itself are refused; None: they are not.
    leaving: its steps that were given up; those that come wait for them.
    changed: variables whose locks are held by steps that change them at once, and are not booked
    (`serve.worker.bound_parts`); change_lock: held by those that have to leave the variable's to its kernel.
    master: the task whose session it is, as far as that is known.
    """

    def __init__(
        self,
        handle: str,
        task: str,
        resources: ResourceManager,
        peers: Peers,
        files: Files,
        workers: WorkerPool,
        checkpoints: CheckpointLog,
    ) -> None:
        self.handle = handle
        self.task = task
        self.peers = peers
        self.runtime = Runtime(f"{task}/device:CPU:0", resources, files, workers, checkpoints)
        self.memos: Memos = {}
        self.legacy_client: LegacyClient | None = (
            None  # if its master does not report blocked steps
        )
        self.direct_over: pb.ErrorDetail | None = None
        self.leaving = CancelledSteps()
        self.changed: weakref.WeakSet[State] = weakref.WeakSet()
        self.change_lock = threading.Lock()
        self.master = ""
        self._shared = True, True

    @classmethod
    def created(
        cls,
        request: pb.CreateWorkerSessionRequest,
        task: str,
        runtime: Runtime,
        peers: Peers,
        worker: Any,
        pool: Any,
    ) -> WorkerSession:
        """As a master wants it; task, runtime and peers are the `worker`'s.

        Raises InvalidArgument (no handle, or a ServerDef whose cluster does not name its task).
        """
        if not request.session_handle:
            raise errors.invalid_argument("a worker session needs a session_handle")
        own_cluster = bool(request.server_def.cluster.job)
        if own_cluster:
            definition = request.server_def
            task = f"/job:{definition.job_name}/replica:0/task:{definition.task_index}"
            addresses = ClusterSpec(definition.cluster).task_names()
            if task not in addresses:
                raise errors.invalid_argument(
                    f"the cluster of the ServerDef has no task {task}; it has {', '.join(sorted(addresses))}"
                )
            peers = Peers(addresses, task, worker, pool, peers.trusting)
        resources = ResourceManager() if request.isolate_session_state else runtime.resources
        shared = runtime.files, runtime.workers, runtime.checkpoints
        made = cls(request.session_handle, task, resources, peers, *shared)
        made._shared = not request.isolate_session_state, not own_cluster
        return made

    def wait_for_changes(self) -> None:
        """Return when what its steps change at once, and have begun, is changed."""
        for lock in (self.change_lock, *[variable.lock for variable in list(self.changed)]):
            with lock:
                pass

    def close(self) -> None:
        """Forget what is the session's own."""
        self.wait_for_changes()
        if self.legacy_client is not None:
            self.legacy_client.close()
        shared_state, shared_cluster = self._shared
        if shared_state:
            self.runtime.resources.delete_private(self.handle)
        else:
            self.runtime.resources.close()
        if not shared_cluster:
            self.peers.close()
