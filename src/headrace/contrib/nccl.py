"""`tf.contrib.nccl`: reductions over devices, by plain operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.all_reduce import (
        all_max,
        all_min,
        all_prod,
        all_sum,
        broadcast,
        reduce_sum,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.all_reduce": (
                "all_max all_min all_prod all_sum broadcast reduce_sum"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = ["all_max", "all_min", "all_prod", "all_sum", "broadcast", "reduce_sum"]
