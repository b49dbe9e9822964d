"""`tf.estimator.inputs`: input functions for arrays and tables in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.estimator.inputs import numpy_input_fn, pandas_input_fn
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.inputs": "numpy_input_fn pandas_input_fn",
        },
    )

__all__ = [
    "numpy_input_fn",
    "pandas_input_fn",
]
