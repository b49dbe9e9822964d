"""`tf.debugging`: checks in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.checks import (
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
)
from headrace.ops.math.elementwise import is_finite, is_inf, is_nan

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "Assert",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "is_finite",
    "is_inf",
    "is_nan",
]
