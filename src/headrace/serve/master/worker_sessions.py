"""The worker sessions of a session that has something of its own on the tasks.

That is state that no other session sees (`isolate_session_state`), and with it a cluster that the client has
named (`cluster_def`).  Other sessions need not be created there: they use what the tasks have.
Called by: serve.master.master_session.  Threads: any.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from headrace.base import errors
from headrace.base.device import DeviceSpec
from headrace.codec import protos as pb
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.rpc import methods
from headrace.serve.rpc.waiting import follow


class WorkerSessions:
    """Creates a session on each task before it is first used there.

    wanted: whether there is anything to create.
    """

    def __init__(self, handle: str, config: pb.ConfigProto, cluster: ClusterView) -> None:
        self.wanted = config.isolate_session_state or bool(config.cluster_def.job)
        self._handle = handle
        self._config = config
        self._cluster = cluster
        self._lock = threading.Lock()
        self._created: dict[str, Pending[None]] = {}

    @property
    def tasks(self) -> set[str]:
        """Where sessions were created."""
        with self._lock:
            return set(self._created)

    def create(self, tasks: Sequence[str], scope: Scope) -> bool:
        """Return when the session exists on `tasks`; False if none is needed.  Raises their errors."""
        if not self.wanted:
            return False
        created = []
        for task in tasks:
            with self._lock:
                known = self._created.get(task)
                mine: Pending[None] | None = None
                if known is None:
                    known = mine = Pending(WaitInfo("worker session", task))
                    self._created[task] = mine
            if mine is not None:
                self._ask(task, mine)
            created.append(known)
        for pending in created:
            follow(pending).wait(scope)
        return True

    def forget(self, tasks: Iterable[str]) -> None:
        """Tasks have been restarted: they have no session any more."""
        with self._lock:
            for task in tasks:
                self._created.pop(task, None)

    def _ask(self, task: str, pending: Pending[None]) -> None:
        asked = self._cluster.worker(task).call(
            methods.CREATE_WORKER_SESSION, self._request(task), self._cluster.scope
        )

        def arrived(reply: Pending[object]) -> None:
            error: errors.OpError | None = reply.error
            if isinstance(error, errors.AlreadyExistsError):
                error = None  # by an earlier question, of which the reply was lost
            if error is not None:
                with self._lock:
                    self._created.pop(task, None)
                pending.reject(error)
            else:
                pending.resolve(None)

        asked.on_done(arrived)

    def _request(self, task: str) -> pb.CreateWorkerSessionRequest:
        request = pb.CreateWorkerSessionRequest(
            session_handle=self._handle,
            isolate_session_state=True,  # a cluster_def asks for it, too, as TensorFlow's masters see it
        )
        if self._config.cluster_def.job:
            spec = DeviceSpec.from_string(task)
            request.server_def.cluster.CopyFrom(self._config.cluster_def)
            request.server_def.job_name = spec.job or ""
            request.server_def.task_index = spec.task or 0
            request.server_def.protocol = "grpc"
        return request
