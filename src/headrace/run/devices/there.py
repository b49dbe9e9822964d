"""Arrays of a device among values of the host's, such as those of a staging area.

Called by: plan.staged, ops.data.staging, ops.flow.tensor_array_ops.  Threads: any; nobody changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import add
from typing import Any, Final

import numpy as np

from headrace.run.devices.device import Device


class There:
    """An array of a device, which whoever wants it elsewhere copies."""

    __slots__ = ("device", "dtype", "nbytes", "shape", "size", "value")
    __array_ufunc__ = None  # NumPy leaves sums to it

    def __init__(self, device: Device, value: Any, dtype: np.dtype[Any]) -> None:
        self.device, self.value, self.dtype = device, value, dtype
        self.shape = tuple(value.shape)
        self.size = int(value.size)
        self.nbytes = self.size * dtype.itemsize

    def __add__(self, other: Any) -> There:
        return There(
            self.device, self.device.bound(add)(self.value, on(self.device, other)), self.dtype
        )

    __radd__ = __add__


def here(value: Any) -> Any:
    """The value as the host has it."""
    return value.device.get(value.value) if isinstance(value, There) else value


def on(device: Device, value: Any) -> Any:
    """The value as an array of the device."""
    if isinstance(value, There) and value.device is device:
        return value.value
    return device.put(here(value))


def zeros_like(value: There) -> There:
    """Zeros where it is."""
    device = value.device
    made = device.bound(lambda array: device.xp.zeros_like(array))(value.value)
    return There(device, made, value.dtype)


MOST_ROWS: Final = 1024
"""Rows that are made of an array, or an array of, where they are; more go by way of the host."""


def stacked(values: Sequence[Any]) -> Any:
    """Values of one shape, of which some are arrays of a device, as one there [n, …]."""
    first = next(value for value in values if isinstance(value, There))
    if len(values) > MOST_ROWS:
        return np.stack([here(value) for value in values])
    given = [on(first.device, value) for value in values]
    (found,) = _program(first.device, _stack)(given)
    return There(first.device, found, first.dtype)


def joined(values: Sequence[Any]) -> Any:
    """As `stacked`, one after the other along the first dimension."""
    first = next(value for value in values if isinstance(value, There))
    if len(values) > MOST_ROWS:
        return np.concatenate([here(value) for value in values])
    (found,) = _program(first.device, _concat)([on(first.device, value) for value in values])
    return There(first.device, found, first.dtype)


def rows(value: There) -> list[Any]:
    """An array [n, …] as n arrays."""
    if not 0 < value.shape[0] <= MOST_ROWS:
        return list(here(value))
    found = _program(value.device, _rows)([value.value])
    return [There(value.device, row, value.dtype) for row in found]


def pieces(value: There, between: Sequence[tuple[int, int]]) -> list[Any]:
    """Rows from one number to another, of an array [n, …]."""
    if len(between) > MOST_ROWS:
        whole = here(value)
        return [whole[start:end] for start, end in between]
    cut = value.device.bound(lambda array: [array[start:end, ...] for start, end in between])
    return [There(value.device, piece, value.dtype) for piece in cut(value.value)]


def _stack(xp: Any, *values: Any) -> tuple[list[Any], None]:
    return [xp.stack(values)], None


def _concat(xp: Any, *values: Any) -> tuple[list[Any], None]:
    return [xp.concat(values)], None


def _rows(xp: Any, value: Any) -> tuple[list[Any], None]:
    return [value[at, ...] for at in range(value.shape[0])], None


@lru_cache(maxsize=64)
def _program(device: Device, function: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
    """`function` of arrays of the device, compiled where that compiles."""
    if device.compiles:
        return device.compiled(function)
    run = device.bound(lambda *values: function(device.xp, *values)[0])
    return lambda values: run(*values)
