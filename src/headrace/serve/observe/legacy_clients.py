"""Legacy clients: sessions of clients and masters that do not report their blocked steps, such as TensorFlow's.

A client of ours reports for itself, and knows more.  For the others the server that they talk to does: the
master for their sessions, the worker for partitions of masters that do not report.
Called by: serve.master.master_session, serve.worker.worker.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.run import long_waits
from headrace.run.scope import Scope
from headrace.serve.observe import reporter
from headrace.serve.observe.blocked import BlockedStep


class LegacyClient:
    """Such a session.  title: what to call it; ask: which of its steps are blocked."""

    def __init__(self, title: str, ask: Callable[[], list[BlockedStep]]) -> None:
        self._title = title
        self._ask = ask
        self._closed = False

    def watch(self, scope: Scope) -> None:
        """Report long waits of the step that has this scope."""
        long_waits.watch_over(scope, self._tell)

    def _tell(self, waited_s: float) -> None:
        if not self._closed:
            reporter.watch(self, self._title, waited_s)

    def blocked_steps(self) -> list[BlockedStep]:
        """See `reporter.Subject`."""
        return self._ask()

    def close(self) -> None:
        """The session has ended."""
        self._closed = True
        reporter.forget(self)
