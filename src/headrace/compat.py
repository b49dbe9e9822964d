"""`tf.compat`: bytes and text; kinds of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace as v1
from headrace.base.missing import explaining as _explaining
from headrace.base.shapes import dimension_at_index, dimension_value
from headrace.base.text import (
    as_bytes,
    as_str,
    as_str_any,
    as_text,
    bytes_or_text_types,
    complex_types,
    integral_types,
    path_to_str,
    real_types,
)

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "as_bytes",
    "as_str",
    "as_str_any",
    "as_text",
    "bytes_or_text_types",
    "complex_types",
    "dimension_at_index",
    "dimension_value",
    "integral_types",
    "path_to_str",
    "real_types",
    "v1",
]
