"""make_parse_example_spec: what tf.io.parse_example must read for columns.

Called by: programs.  Threads: any.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

from typing import Any

from headrace.library.feature_column.column import FeatureColumn

__all__ = ["make_parse_example_spec"]


def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """How to parse each feature that the columns read, by name.

    Raises ValueError: what is no column, two that want one feature in two ways.
    """
    found: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"All feature_columns must be _FeatureColumn instances. Given: {column}"
            )
        for key, value in column.spec.items():
            if key in found and found[key] != value:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {value} and {found[key]}"
                )
        found.update(column.spec)
    return found
