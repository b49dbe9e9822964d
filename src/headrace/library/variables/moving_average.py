"""One step of a moving average, for what keeps averages: optimizers' averages and normalizing layers.

Called by: training.moving_averages, library.contrib.batch_norm.  Threads: as graph.
Source: TF 1.15 behaviour; node names checked against the oracle
"""

from __future__ import annotations

from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import colocate_with, name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.variables.assigning import assign, assign_add, assign_sub
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import (
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.ops.math.casting import cast

__all__ = ["assign_moving_average"]


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """variable -= (variable - value) * (1 - decay).  Gives what assigned it.

    zero_debias: the variable started at 0, which the average is to forget: it becomes the weighted mean of the values
    given so far.  Two more variables, ``biased`` and ``local_step``, are made for that.
    """
    with name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope:
        rate = cast(convert(1.0 - decay, None, "decay"), variable.dtype.base_dtype)
        if zero_debias:
            return assign(variable, _debiased(variable, value, rate), name=scope)
        return assign_sub(variable, (variable - value) * rate, name=scope)


def _debiased(variable: Any, value: Any, rate: Tensor) -> Tensor:
    """The mean of the values so far, weighted by (1 - rate) ^ age."""
    with variable_scope(variable.op.name), colocate_with(variable):
        biased, local_step = (
            get_variable(
                _unused(name),
                shape,
                dtype=variable.dtype.base_dtype,
                initializer=zeros_initializer(),
                trainable=False,
            )
            for name, shape in (("biased", variable.get_shape()), ("local_step", []))
        )
    moved = assign_sub(biased, (biased - value) * rate)
    steps = assign_add(local_step, 1.0)
    # A start at 0 has kept a share of (1 - rate) ^ steps.
    mean: Tensor = moved / (1.0 - get("Pow")(1.0 - rate, steps))
    return mean


def _unused(name: str) -> str:
    """A name that no variable has in the scope yet; `name` itself if variables are reused."""
    scope = get_variable_scope()
    taken = {str(var.op.name) for var in scope.global_variables()}
    if scope.reuse or f"{scope.name}/{name}" not in taken:
        return name
    number = 1
    while f"{scope.name}/{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
