"""`tf.config.threading`: how many threads sessions use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.client.default_config import (
        get_inter_op_parallelism_threads,
        get_intra_op_parallelism_threads,
        set_inter_op_parallelism_threads,
        set_intra_op_parallelism_threads,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.client.default_config": (
                "get_inter_op_parallelism_threads get_intra_op_parallelism_threads "
                "set_inter_op_parallelism_threads set_intra_op_parallelism_threads"
            ),
        },
    )

__all__ = [
    "get_inter_op_parallelism_threads",
    "get_intra_op_parallelism_threads",
    "set_inter_op_parallelism_threads",
    "set_intra_op_parallelism_threads",
]
