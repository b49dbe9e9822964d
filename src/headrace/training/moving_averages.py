"""ExponentialMovingAverage: shadow variables that follow variables and tensors, slowly.

Called by: programs; evaluation restores the averages in the place of the variables.  Threads: as graph.
Source: TF 1.15 python/training/moving_averages.py, for behaviour; node names checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import VAR_HANDLE, VARIABLE
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import init_scope, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.variables.moving_average import assign_moving_average
from headrace.library.variables.variable_lists import (
    global_variables,
    moving_average_variables,
    trainable_variables,
)
from headrace.library.variables.variables import Variable
from headrace.ops.flow.identities import group
from headrace.ops.math.arithmetic import minimum
from headrace.ops.math.casting import cast
from headrace.training import slot_creator

__all__ = ["ExponentialMovingAverage", "assign_moving_average"]

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
        whole = isinstance(self._decay, (int, np.integer))
        decay = convert(self._decay, dtypes.float32 if whole else None, "decay")
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
