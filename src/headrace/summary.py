"""`tf.summary`: values of steps for event files, and who writes those."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.codec.protos import (
        Event,
        SessionLog,
        Summary,
        SummaryDescription,
        TaggedRunMetadata,
    )
    from headrace.ops.io.summaries import (
        audio,
        get_summary_description,
        histogram,
        image,
        merge,
        merge_all,
        scalar,
        tensor_summary,
        text,
    )
    from headrace.training.graph_summaries import all_v2_summary_ops, initialize
    from headrace.training.summary_writer import FileWriter, FileWriterCache
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.codec.protos": (
                "Event SessionLog Summary SummaryDescription TaggedRunMetadata"
            ),
            "headrace.ops.io.summaries": (
                "audio get_summary_description histogram image merge merge_all scalar tensor_summary "
                "text"
            ),
            "headrace.training.graph_summaries": "all_v2_summary_ops initialize",
            "headrace.training.summary_writer": "FileWriter FileWriterCache",
        },
    )

__all__ = [
    "Event",
    "FileWriter",
    "FileWriterCache",
    "SessionLog",
    "Summary",
    "SummaryDescription",
    "TaggedRunMetadata",
    "all_v2_summary_ops",
    "audio",
    "get_summary_description",
    "histogram",
    "image",
    "initialize",
    "merge",
    "merge_all",
    "scalar",
    "tensor_summary",
    "text",
]
