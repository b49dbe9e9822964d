"""A master that makes a span of each step that is asked for within one.

Called by: serve.server, where somebody wants spans (`run.spans`).  Threads: any.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from headrace.run import spans
from headrace.run.scope import Scope
from headrace.serve.master.master import Master
from headrace.serve.rpc import messages as m


class TracedMaster(Master):
    """See the module header."""

    def _span(self, session: str) -> AbstractContextManager[Any]:
        attributes = {"headrace.task": self._worker.task, "headrace.session": session}
        return spans.inner(spans.MASTER_STEP, attributes)

    def run_step(self, request: m.RunStepRequest, scope: Scope) -> m.RunStepReply:
        """See `Master`."""
        with self._span(request.session_handle):
            return super().run_step(request, scope)

    def run_known(self, request: m.RunKnownRequest, scope: Scope) -> m.ValuesReply:
        """See `Master`."""
        with self._span(request.session_handle):
            return super().run_known(request, scope)

    def run_callable(self, request: m.RunCallableRequest, scope: Scope) -> m.RunCallableReply:
        """See `Master`."""
        with self._span(request.session_handle):
            return super().run_callable(request, scope)
