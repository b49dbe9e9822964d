"""`tf.debugging`: checks in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
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

if TYPE_CHECKING:
    from headrace.client.default_config import get_log_device_placement, set_log_device_placement
    from headrace.library.checks.ranks import (
        assert_rank,
        assert_rank_at_least,
        assert_rank_in,
        assert_scalar,
    )
    from headrace.library.checks.sizes import assert_shapes
    from headrace.library.checks.types import (
        assert_integer,
        assert_proper_iterable,
        assert_same_float_dtype,
        assert_type,
        is_numeric_tensor,
    )
    from headrace.library.checks.values import (
        assert_near,
        is_non_decreasing,
        is_strictly_increasing,
    )
    from headrace.library.checks.values import verify_tensor_all_finite as assert_all_finite
    from headrace.ops.flow.identities import check_numerics
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.client.default_config": "get_log_device_placement set_log_device_placement",
            "headrace.library.checks.ranks": "assert_rank assert_rank_at_least assert_rank_in assert_scalar",
            "headrace.library.checks.sizes": "assert_shapes",
            "headrace.library.checks.types": (
                "assert_integer assert_proper_iterable assert_same_float_dtype assert_type "
                "is_numeric_tensor"
            ),
            "headrace.library.checks.values": (
                "assert_all_finite=verify_tensor_all_finite assert_near is_non_decreasing "
                "is_strictly_increasing"
            ),
            "headrace.ops.flow.identities": "check_numerics",
        },
    )

__all__ = [
    "Assert",
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_shapes",
    "assert_type",
    "check_numerics",
    "get_log_device_placement",
    "is_finite",
    "is_inf",
    "is_nan",
    "is_non_decreasing",
    "is_numeric_tensor",
    "is_strictly_increasing",
    "set_log_device_placement",
]
