"""`tf.compat`: bytes and text; kinds of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace as v1
from headrace.base.lazy import names_of as _names_of
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

if TYPE_CHECKING:
    from headrace.training.forward_compatibility import (
        forward_compatibility_horizon,
        forward_compatible,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.forward_compatibility": "forward_compatibility_horizon forward_compatible",
        },
    )

__all__ = [
    "as_bytes",
    "as_str",
    "as_str_any",
    "as_text",
    "bytes_or_text_types",
    "complex_types",
    "dimension_at_index",
    "dimension_value",
    "forward_compatibility_horizon",
    "forward_compatible",
    "integral_types",
    "path_to_str",
    "real_types",
    "v1",
]
