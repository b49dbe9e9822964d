"""What array kernels of windows share: channels last, padding, and sums of what lies under windows.

Nothing is changed in place: devices' arrays need not allow it.
Called by: ops._portable.convolutions, ops._portable.pooling.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.ops._kernels.windows import Geometry, Pads, channels_last
from headrace.ops._portable.table import check, device_of


def to_last(xp: Any, x: Any, data_format: bytes) -> Any:
    """`x` with the channels last."""
    check(x.ndim == len(data_format))
    return x if channels_last(data_format) else xp.moveaxis(x, 1, -1)


def from_last(xp: Any, x: Any, data_format: bytes) -> Any:
    """The inverse of `to_last`."""
    return x if channels_last(data_format) else xp.moveaxis(x, -1, 1)


def sizes_last(sizes: Any, data_format: bytes) -> tuple[int, ...]:
    """Sizes that an input names, the channels last."""
    found = [int(size) for size in sizes]
    check(len(found) == len(data_format) and min(found) > 0)
    if not channels_last(data_format):
        found.append(found.pop(1))
    return tuple(found)


def padded(xp: Any, x: Any, pads: Pads, value: float | int = 0) -> Any:
    """`x` [n, *size, c] with `value` around it.  Numbers of places; negative ones are left out."""
    for axis, (before, after) in enumerate(pads, 1):
        parts = [x]
        for many, first in ((before, True), (after, False)):
            shape = (*x.shape[:axis], many, *x.shape[axis + 1 :])
            if many > 0:
                edge = xp.full(shape, value, dtype=x.dtype, device=device_of(x))
                parts = [edge, *parts] if first else [*parts, edge]
        if len(parts) > 1:
            x = xp.concat(parts, axis=axis)
        cut = slice(max(-before, 0), x.shape[axis] - max(-after, 0))
        if cut != slice(0, x.shape[axis]):
            x = x[(*(slice(None),) * axis, cut, *(slice(None),) * (x.ndim - axis - 1))]
    return x


def apart(xp: Any, x: Any, steps: Sequence[int]) -> Any:
    """`x` [n, *size, c] with zeros between its places: each is `steps` from the next."""
    for axis, step in enumerate(steps, 1):
        if step == 1:
            continue
        count = x.shape[axis]
        one = xp.expand_dims(x, axis=axis + 1)
        shape = (*one.shape[: axis + 1], step - 1, *one.shape[axis + 2 :])
        zeros = xp.zeros(shape, dtype=x.dtype, device=device_of(x))
        wide = xp.concat([one, zeros], axis=axis + 1)
        x = xp.reshape(wide, (*x.shape[:axis], count * step, *x.shape[axis + 1 :]))
        x = padded(xp, x, [(0, 0)] * (axis - 1) + [(0, 1 - step)])
    return x


def spread(xp: Any, shares: Iterable[tuple[tuple[int, ...], Any]], where: Geometry) -> Any:
    """[n, *size, c]: for each (place in the window, what every window gives to it), the sum, without padding."""
    total: Any = None
    for at, share in shares:
        wide = apart(xp, share, where.strides)
        pads = [
            (place * dilation - before, size + before - place * dilation - length)
            for place, dilation, (before, _), size, length in zip(
                at, where.dilations, where.pads, where.size, wide.shape[1:-1], strict=True
            )
        ]
        moved = padded(xp, wide, pads)
        total = moved if total is None else total + moved
    return total


def check_out(dy: Any, where: Geometry, batch: int, channels: int) -> None:
    """Raise ValueError unless dy [n, *out, channels] is what the operation gave for such an input."""
    check(tuple(dy.shape) == (batch, *where.out, channels) and math.prod(dy.shape) > 0)
