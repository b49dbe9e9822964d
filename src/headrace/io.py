"""`tf.io`: files, records and their formats."""

from __future__ import annotations

from headrace.ops.csv import decode_csv
from headrace.ops.io_ops import matching_files, read_file, write_file
from headrace.ops.queues import QueueBase, RandomShuffleQueue
from headrace.ops.string_bytes import decode_base64, decode_raw, encode_base64
from headrace.training.input import match_filenames_once

__all__ = [
    "QueueBase",
    "RandomShuffleQueue",
    "decode_base64",
    "decode_csv",
    "decode_raw",
    "encode_base64",
    "match_filenames_once",
    "matching_files",
    "read_file",
    "write_file",
]
