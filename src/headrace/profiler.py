"""`tf.profiler`: what a graph and its steps cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.codec.protos import (
        AdviceProto,
        GraphNodeProto,
        MultiGraphNodeProto,
        OpLogProto,
    )
    from headrace.training.profiler.analysis import Profiler, advise, profile, write_op_log
    from headrace.training.profiler.options import ProfileOptionBuilder
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.codec.protos": "AdviceProto GraphNodeProto MultiGraphNodeProto OpLogProto",
            "headrace.training.profiler.analysis": "Profiler advise profile write_op_log",
            "headrace.training.profiler.options": "ProfileOptionBuilder",
        },
    )

__all__ = [
    "AdviceProto",
    "GraphNodeProto",
    "MultiGraphNodeProto",
    "OpLogProto",
    "ProfileOptionBuilder",
    "Profiler",
    "advise",
    "profile",
    "write_op_log",
]
