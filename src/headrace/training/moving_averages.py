"""ExponentialMovingAverage: shadow variables that follow variables and tensors, slowly.

Called by: programs; evaluation restores the averages in the place of the variables.  Threads: as graph.
Source: TF 1.15 python/training/moving_averages.py, for behaviour; node names checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.traits import VAR_HANDLE, VARIABLE
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import colocate_with, init_scope, name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.variables.assigning import assign, assign_add, assign_sub
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_lists import (
    global_variables,
    moving_average_variables,
    trainable_variables,
)
from headrace.library.variables.variable_scope import (
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.library.variables.variables import Variable
from headrace.ops.flow.identities import group
from headrace.ops.math.arithmetic import minimum
from headrace.ops.math.casting import cast
from headrace.training import slot_creator

__all__ = ["ExponentialMovingAverage"]

_AVERAGED = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


class ExponentialMovingAverage:
    """average = decay * average + (1 - decay) * value, whenever the op that `apply` gave is run."""

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        """`decay`: a number or tensor in [0, 1], mostly close to 1.

        num_updates: a count of steps; decay is then at most (1 + num_updates) / (10 + num_updates), so that averages
        move faster at first.  zero_debias: averages of tensors, which start at 0, are corrected for that.
        """
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """The name given to the constructor: that of the shadow variables, behind what they follow."""
        return self._name

    def apply(self, var_list: Sequence[Any] | None = None) -> Operation:
        """The op that updates the averages of `var_list`: variables and tensors (default: trainable variables).

        The average of a variable starts as the variable's initial value, that of a tensor at 0.
        Raises TypeError for what is not of a floating type.
        """
        followed = trainable_variables() if var_list is None else list(var_list)
        debiased = set()
        for var in followed:
            if var.dtype.base_dtype not in _AVERAGED:
                raise TypeError(
                    f"The variables must be half, float, or double: {var.name} is {var.dtype.name}"
                )
            if var not in self._averages:
                with init_scope():
                    self._averages[var] = self._shadow(var)
                if self._zero_debias and not isinstance(var, Variable):
                    debiased.add(var)
        with name_scope(self._name) as scope:
            decay = self._decay_now()
            updates = [
                assign_moving_average(self.average(var), var, decay, var in debiased)
                for var in followed
            ]
            return group(*updates, name=scope)

    def _shadow(self, var: Any) -> Any:
        if not isinstance(var, Variable):
            holds = not var.op.traits.isdisjoint((VARIABLE, VAR_HANDLE))
            return slot_creator.create_zeros_slot(var, self._name, colocate=holds)
        with scopes.get_default_graph().device(var.device):
            start = var.initialized_value()
        made = slot_creator.create_slot(var, start, self._name)
        collection = scopes.get_default_graph().get_collection_ref(
            GraphKeys.MOVING_AVERAGE_VARIABLES
        )
        collection.append(var)
        return made

    def _decay_now(self) -> Tensor:
        decay = convert(self._decay, None, "decay")
        if self._num_updates is None:
            return decay
        done = cast(self._num_updates, dtypes.float32, name="num_updates")
        slowest: Tensor = minimum(decay, (1.0 + done) / (10.0 + done))
        return slowest

    def average(self, var: Any) -> Any:
        """The variable that holds the average of `var`; None before `apply` was called with it."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name (of the op) of the average of `var`, which need not exist: what a checkpoint calls it."""
        average = self.average(var)
        if average is not None:
            return str(average.op.name)
        graph = scopes.get_default_graph()
        return graph.unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)

    def variables_to_restore(
        self, moving_avg_variables: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """What to load into which variable so that variables hold their averages: for `tf.train.Saver`.

        moving_avg_variables: those that have averages in the checkpoint (default: the trainable ones and those that
        `apply` was called with).  All other variables are loaded under their own names.
        """
        if moving_avg_variables is None:
            averaged = [*trainable_variables(), *moving_average_variables()]
        else:
            averaged = list(moving_avg_variables)
        found = {self.average_name(var): var for var in averaged}
        names = {var.name for var in averaged}
        for var in global_variables():
            if var.name not in names:
                found.setdefault(var.op.name, var)
        return found


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
