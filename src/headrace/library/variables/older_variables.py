"""Older ways to make variables: create_partitioned_variables, variable_op_scope.

Called by: programs.  Threads: as variable_scope.
Source: TF 1.15 behaviour; nodes and errors checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.library.variables.variable_scope import (
    VariableScope,
    partitioned_variable,
    variable_scope,
)

__all__ = ["create_partitioned_variables", "variable_op_scope"]


def create_partitioned_variables(
    shape: Sequence[int],
    slicing: Sequence[int],
    initializer: Any,
    dtype: Any = dtypes.float32,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """The parts of a variable of `shape`, cut into slicing[axis] parts along one axis; ``name/part_0``, ….

    initializer: as that of `get_variable`.  Raises ValueError if lengths differ or several axes are cut.
    """
    if len(shape) != len(slicing) or not shape:
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the length that is equal, and not 0: "
            f"{list(shape)}, {list(slicing)}"
        )
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        whole = partitioned_variable(
            scope,
            lambda **unused: list(slicing),
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=trainable,
            collections=collections,
        )
        return list(whole)


def variable_op_scope(
    values: Any,
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    *args: Any,
    **others: Any,
) -> variable_scope:
    """Old name of `variable_scope`, with its parameters in another order.

    args, others: its parameters after `values`.
    """
    return variable_scope(name_or_scope, default_name, values, *args, **others)
