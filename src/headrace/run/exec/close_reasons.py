"""Why a step closes queues: the failure that made somebody run it, on the step's scope.

Called by: client, serve.worker.worker (say it), ops.data.queue_ops (asks).  Threads: any.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from headrace.base import errors
from headrace.run.scope import Scope
from headrace.run.uninterrupted import changes

_reasons: WeakKeyDictionary[Scope, errors.OpError] = WeakKeyDictionary()


@changes
def note_close_reason(scope: Scope, reason: errors.OpError) -> None:
    """Queues that are closed under `scope` are closed because of `reason`."""
    _reasons[scope] = errors.detached(reason)


def close_reason_of(scope: Scope | None) -> errors.OpError | None:
    """Why queues are closed under `scope`, None if nothing has failed."""
    while scope is not None and _reasons:
        found = _reasons.get(scope)
        if found is not None:
            return found
        scope = scope.parent
    return None
