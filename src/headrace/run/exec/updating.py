"""Fused kernels that change variables, too: one program reads them, computes, and gives what they become.

The variables' locks are held from the moment at which the program gets their arrays until they have others, so an
update of another step comes before all of it or after.  On a device the program may write over the arrays that it
replaces (`run.state.on_device`).  What its nodes require is part of the program: where that does not hold it gives the
variables what they had, and the nodes run one by one.
Called by: plan.fused_kernels.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.run.devices.device import HOST, Device
from headrace.run.exec.fused import FusedKernel, Like
from headrace.run.state.on_device import OnDevice
from headrace.run.state.variable import Locked, State
from headrace.run.uninterrupted import changes


class Held(NamedTuple):
    """A variable of a group: at which place of what it is given, of which dtype, how often it changes it."""

    place: int
    dtype: DType
    changes: int


class UpdatingKernel(FusedKernel):
    """function: (array namespace, arrays of variables that change, of others, and what else is given) -> (what the
    first become, results, whether they hold; None: they do).  held: those that change first.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        given: Sequence[int],
        held: Sequence[Held],
        device: Device = HOST,
        told: Sequence[int] = (),
    ) -> None:
        super().__init__(function, given, device, told)
        self._held = held
        self._changed = [each for each in held if each.changes]

    def _run(self, values: Sequence[Any]) -> list[Any] | None:
        """See `FusedKernel`; where it gives None, no variable has changed."""
        variables = [values[each.place] for each in self._held]
        given = [values[place] for place in self._given]
        arrays = [self._array_of(*each) for each in zip(variables, self._held, strict=True)]
        if any(each is None for each in arrays) or len({*map(id, variables)}) < len(variables):
            return None
        shapes = tuple([tuple(value.shape) for value in (*arrays, *given)])
        form = self._ready(shapes, [*arrays, *given], [values[place] for place in self._told])
        if form is None:
            return None
        exchange = self._exchanged_here if self._device is HOST else self._exchanged_there
        exchanged = exchange(form, variables, given, shapes[: len(variables)])
        if exchanged is None:
            return None
        found, holds = exchanged
        return list(found) if holds is None or bool(holds) else None

    def _made(self, likes: Sequence[Like], told: Sequence[Any]) -> Callable[..., Any]:
        """See `FusedKernel`."""
        from headrace.run.devices import xla  # where there is JAX

        updating = xla.updating if self._device is HOST else self._device.updating
        form, arrays = updating(self._function_for(told)), self._like(likes)
        form(arrays[: len(self._changed)], arrays[len(self._changed) :])
        return form

    def _array_of(self, variable: Any, held: Held) -> Any:
        """The array of a variable, or what has its shape and dtype; None if it has none here of that dtype."""
        if self._device is HOST:
            is_here = isinstance(variable, State) and variable.device is HOST
        else:
            is_here = isinstance(variable, OnDevice) and variable.device is self._device
        return variable.held() if is_here and variable.dtype is held.dtype else None

    @changes
    def _exchanged_there(
        self,
        form: Callable[..., Any],
        variables: Sequence[OnDevice],
        given: Sequence[Any],
        shapes: Any,
    ) -> tuple[Sequence[Any], Any] | None:
        """The results and whether they hold; None if a variable has come to another shape, or to none."""
        count = len(self._changed)
        changed, taken = variables[:count], list[Any]()
        with Locked(variables):
            if not _have(variables, shapes):
                return None
            try:
                others = [each.placed() for each in variables[count:]]
                for each in changed:
                    taken.append(each.take())
                after, found, holds = form(taken, [*others, *given])
            except BaseException as error:
                _give_back(changed, taken, error)
                raise
            known = [*map(id, (*others, *given, *after, *found))]
            for variable, array, held in zip(changed, after, self._changed, strict=True):
                variable.have(array, others_do=known.count(id(array)) > 1)
                variable.updates += held.changes
            for variable, array in zip(variables[count:], others, strict=True):
                # It is a result, or what another variable has become.
                if known.count(id(array)) > 1:
                    variable.there()
        return found, holds

    @changes
    def _exchanged_here(
        self,
        form: Callable[..., Any],
        variables: Sequence[State],
        given: Sequence[Any],
        shapes: Any,
    ) -> tuple[Sequence[Any], Any] | None:
        """As `_exchanged_there`."""
        count = len(self._changed)
        with Locked(variables):
            if not _have(variables, shapes):
                return None
            arrays = [each.require() for each in variables]
            after, found, holds = form(arrays[:count], [*arrays[count:], *given])
            if holds is None or bool(holds):
                for variable, array, held in zip(variables, after, self._changed, strict=False):
                    variable.rewrite(partial(_copy, array))
                    variable.updates += held.changes - 1
        return found, holds


def _have(variables: Sequence[State], shapes: Sequence[Any]) -> bool:
    """Whether they have values of these shapes."""
    held = [each.held() for each in variables]
    return all(
        array is not None and tuple(array.shape) == shape
        for array, shape in zip(held, shapes, strict=True)
    )


def _copy(value: Any, before: Any, after: Any) -> None:
    np.copyto(after, value)


@changes
def _give_back(variables: Sequence[OnDevice], taken: Sequence[Any], error: BaseException) -> None:
    """The program has failed.  Raises Aborted if it has written over a variable before."""
    kept = [variable.give_back(array) for variable, array in zip(variables, taken, strict=False)]
    lost = [
        variable.name for variable, is_kept in zip(variables, kept, strict=False) if not is_kept
    ]
    if lost:
        raise errors.aborted(
            f"{variables[0].device.name} failed while it updated variables, and has lost the values of "
            f"{', '.join(lost)} ({error}): restore them from a checkpoint, or run their initializers"
        ) from error
