"""`tf.strings`: strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.ops.printing import string_format as format
from headrace.ops.regular_expressions import regex_full_match, regex_replace
from headrace.ops.string_bytes import substr
from headrace.ops.string_ops import as_string, reduce_join
from headrace.ops.string_ops import string_join as join
from headrace.ops.string_ops import string_length as length
from headrace.ops.string_ops import string_lower as lower
from headrace.ops.string_ops import string_strip as strip
from headrace.ops.string_ops import string_to_number as to_number
from headrace.ops.string_ops import string_upper as upper
from headrace.ops.string_patterns import string_split_v2 as split

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "as_string",
    "format",
    "join",
    "length",
    "lower",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_number",
    "upper",
]
