"""`slim.prefetch_queue`: a queue of whole batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.contrib.queues import prefetch_queue
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.contrib.queues": "prefetch_queue",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "prefetch_queue",
]
