"""Array kernels of what leaves an array as it is, or looks at its shape alone.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

import math
from typing import Any

from headrace.ops._portable.table import arrays, check, device_of, require


@arrays("Identity", "PreventGradient", "StopGradient", passes=True)
def _identity(xp: Any, input: Any) -> Any:
    return input


@arrays("IdentityN", passes=True)
def _identity_n(xp: Any, *inputs: Any) -> list[Any]:
    return list(inputs)


@arrays("CheckNumerics", reals=True, passes=True)
def _check_numerics(xp: Any, tensor: Any) -> Any:
    require(xp, xp.isfinite(tensor), "not all finite")
    return tensor


@arrays("EnsureShape", passes=True)
def _ensure_shape(xp: Any, input: Any, *, shape: Any) -> Any:
    sizes = shape.as_list() if hasattr(shape, "as_list") else shape
    if sizes is not None:
        check(len(sizes) == input.ndim)
        check(all(n in (None, size) for n, size in zip(sizes, input.shape, strict=True)))
    return input


def _numbers(xp: Any, like: Any, values: Any, dtype: Any) -> Any:
    return xp.asarray(values, dtype=getattr(xp, dtype), device=device_of(like))


@arrays("Shape", passes=True)
def _shape(xp: Any, input: Any, *, out_type: Any) -> Any:
    return _numbers(xp, input, list(input.shape), out_type.name)


@arrays("ShapeN", passes=True)
def _shape_n(xp: Any, *inputs: Any, out_type: Any) -> list[Any]:
    return [_shape(xp, each, out_type=out_type) for each in inputs]


@arrays("Size", passes=True)
def _size(xp: Any, input: Any, *, out_type: Any) -> Any:
    return _numbers(xp, input, math.prod(input.shape), out_type.name)


@arrays("Rank", passes=True)
def _rank(xp: Any, input: Any) -> Any:
    return _numbers(xp, input, input.ndim, "int32")
