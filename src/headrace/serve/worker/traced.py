"""A worker that makes a span of each partition that runs within one, and of what such a partition sends to other tasks.

Called by: serve.server, where somebody wants spans (`run.spans`).  Threads: any.
"""

from __future__ import annotations

from typing import Any

from headrace.run import spans
from headrace.run.exec.keys import tensor_name
from headrace.serve.rpc import messages as m
from headrace.serve.worker.registered import RegisteredPartition
from headrace.serve.worker.remote_rendezvous import RemoteRendezvous, size_of
from headrace.serve.worker.worker import Worker
from headrace.serve.worker.worker_session import Steps


class TracedRendezvous(RemoteRendezvous):
    """One whose sends are spans."""

    __slots__ = ()

    def _push(self, task: str, request: m.SendTensorRequest) -> None:
        attributes = {
            "headrace.tensor": tensor_name(request.rendezvous_key),
            "headrace.to": task,
            "headrace.bytes": size_of(request.value),
        }
        with spans.inner(spans.SEND, attributes, spans.PRODUCER):
            super()._push(task, request)


class TracedWorker(Worker):
    """See the module header."""

    view_of = TracedRendezvous

    def enter(
        self,
        registered: RegisteredPartition,
        kind: Steps,
        args: list[Any],
        step_id: int,
        /,
        *how: Any,
    ) -> list[Any]:
        """See `Worker.enter`."""
        attributes = {
            "headrace.task": self.task,
            "headrace.session": kind.session.handle,
            "headrace.step_id": f"{step_id:x}",
        }
        with spans.inner(spans.PARTITION, attributes):
            return super().enter(registered, kind, args, step_id, *how)
