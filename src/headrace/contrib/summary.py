"""`tf.contrib.summary`: summaries that steps write themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.training.graph_summaries import (
    SummaryWriter,
    always_record_summaries,
    audio,
    create_db_writer,
    create_file_writer,
    eval_dir,
    flush,
    generic,
    graph,
    histogram,
    image,
    import_event,
    initialize,
    never_record_summaries,
    record_summaries_every_n_global_steps,
    scalar,
    should_record_summaries,
    summary_writer_initializer_op,
)
from headrace.training.graph_summaries import all_v2_summary_ops as all_summary_ops
from headrace.unmodified.facade import names_beneath as _names_beneath

create_summary_file_writer = create_file_writer

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = [
    "SummaryWriter",
    "all_summary_ops",
    "always_record_summaries",
    "audio",
    "create_db_writer",
    "create_file_writer",
    "create_summary_file_writer",
    "eval_dir",
    "flush",
    "generic",
    "graph",
    "histogram",
    "image",
    "import_event",
    "initialize",
    "never_record_summaries",
    "record_summaries_every_n_global_steps",
    "scalar",
    "should_record_summaries",
    "summary_writer_initializer_op",
]
