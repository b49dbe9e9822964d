"""classifier_parse_example_spec, regressor_parse_example_spec: how to parse examples with labels and weights.

Called by: programs.  Threads: any.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.library.feature_column.numeric import NumericColumn, numeric_column
from headrace.library.feature_column.specs import make_parse_example_spec
from headrace.library.parsing import FixedLenFeature

__all__ = ["classifier_parse_example_spec", "regressor_parse_example_spec"]


def classifier_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = dtypes.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:
    """What tf.io.parse_example must read for a classifier: the columns' features, a label, and weights, if any.

    Raises ValueError: the label or the weights are a feature of the columns.
    """
    label = FixedLenFeature((1,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = dtypes.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> dict[str, Any]:
    """What tf.io.parse_example must read for a regressor: the columns' features, a label [label_dimension], weights.

    Raises ValueError: the label or the weights are a feature of the columns.
    """
    label = FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(columns: Any, label_key: str, label: Any, weight_column: Any) -> dict[str, Any]:
    found = make_parse_example_spec(columns)
    if label_key in found:
        raise ValueError(
            f"label should not be used as feature. label_key: {label_key}, features: {list(found)}"
        )
    found[label_key] = label
    if weight_column is None:
        return found
    if isinstance(weight_column, str):
        weight_column = numeric_column(weight_column)
    if not isinstance(weight_column, NumericColumn):
        raise ValueError(
            "weight_column should be an instance of tf.feature_column.numeric_column, or the name of a feature. "
            f"Given type: {type(weight_column)} value: {weight_column}"
        )
    if weight_column.key in found:
        raise ValueError(
            f"weight_column should not be used as feature. weight_column: {weight_column.key}, "
            f"features: {list(found)}"
        )
    return {**found, **weight_column.spec}
