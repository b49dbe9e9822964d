"""`tf.strings`: strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.ops.flow.printing import string_format as format
from headrace.ops.string.byte_strings import substr
from headrace.ops.string.regular_expressions import regex_full_match, regex_replace
from headrace.ops.string.splitting import string_split_v2 as split
from headrace.ops.string.strings import as_string, reduce_join
from headrace.ops.string.strings import string_join as join
from headrace.ops.string.strings import string_length as length
from headrace.ops.string.strings import string_lower as lower
from headrace.ops.string.strings import string_strip as strip
from headrace.ops.string.strings import string_to_number as to_number
from headrace.ops.string.strings import string_upper as upper

if TYPE_CHECKING:
    from headrace.ops.string.hashes import string_to_hash_bucket as to_hash_bucket
    from headrace.ops.string.hashes import string_to_hash_bucket_fast as to_hash_bucket_fast
    from headrace.ops.string.hashes import string_to_hash_bucket_strong as to_hash_bucket_strong
    from headrace.ops.string.ngrams import unsorted_segment_join
    from headrace.ops.string.ragged_strings import (
        bytes_split,
        ngrams,
        unicode_decode,
        unicode_decode_with_offsets,
        unicode_encode,
        unicode_split,
        unicode_split_with_offsets,
    )
    from headrace.ops.string.unicode import unicode_script, unicode_transcode
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.string.ngrams": "unsorted_segment_join",
            "headrace.ops.string.ragged_strings": (
                "bytes_split ngrams unicode_decode unicode_decode_with_offsets unicode_encode unicode_split "
                "unicode_split_with_offsets"
            ),
            "headrace.ops.string.unicode": "unicode_script unicode_transcode",
            "headrace.ops.string.hashes": (
                "to_hash_bucket=string_to_hash_bucket to_hash_bucket_fast=string_to_hash_bucket_fast "
                "to_hash_bucket_strong=string_to_hash_bucket_strong"
            ),
        },
    )

__all__ = [
    "as_string",
    "bytes_split",
    "format",
    "join",
    "length",
    "lower",
    "ngrams",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_script",
    "unicode_split",
    "unicode_split_with_offsets",
    "unicode_transcode",
    "unsorted_segment_join",
    "upper",
]
