"""`tf.strings`: strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
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
