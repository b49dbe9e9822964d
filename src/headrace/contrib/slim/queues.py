"""`slim.queues`: queue runners for a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.contrib.queues import NestedQueueRunnerError, QueueRunners
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.contrib.queues": "NestedQueueRunnerError QueueRunners",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "NestedQueueRunnerError",
    "QueueRunners",
]
