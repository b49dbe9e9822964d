"""Overwriting: a result takes the memory of an input that nobody wants any more.

Of two arrays of ten floats a ufunc takes 220 ns; where it need not ask for memory, and the memory that it writes to is
in the cache, 190.  So in straight-line source (`run.exec.straight`) a ufunc is given the array of its input for its
result, if that was made by another ufunc, has this shape and type, and only ufuncs look at it, this one last.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.run.exec.straight import Recipe

_OUT_BY_NAME = (np.maximum, np.minimum)  # NumPy takes no third array of these otherwise


def overwritable(
    ops: Sequence[Operation], apart: AbstractSet[Operation] | Mapping[Operation, object],
    returned: Iterable[Tensor], fed: AbstractSet[Tensor], same: Mapping[Tensor, Tensor],
) -> set[Tensor]:  # fmt: skip
    """Tensors whose arrays only ufuncs look at, once they are made by one.

    apart: nodes that run together with others; same: which tensors are others, made before.
    """
    found = {
        op.outputs[0]
        for op in ops
        if len(op.outputs) == 1 and _fits(op.outputs[0]) and op not in apart and _is_ufunc(op)
    }
    found -= fed
    if not found:
        return found
    looked_at = set(returned)
    for op in ops:
        if op in apart or not _is_ufunc(op):
            looked_at.update(op.inputs)
    looked_at |= {same.get(tensor, tensor) for tensor in looked_at}
    return {tensor for tensor in found if tensor not in looked_at and tensor not in same}


def over_input(recipe: Recipe, op: Operation, gone: Iterable[Tensor], free: AbstractSet[Tensor],
               same: Mapping[Tensor, Tensor]) -> Recipe:  # fmt: skip
    """The recipe of `op`, with the input whose memory takes the result, if there is one.

    gone: inputs that nobody wants after it; free: `overwritable`.
    """
    kernel, read, written = recipe
    if not isinstance(kernel, np.ufunc) or kernel.nout != 1 or len(read) != kernel.nin:
        return recipe
    if kernel in _OUT_BY_NAME:
        return recipe
    (out,) = op.outputs
    last = set(gone)
    for tensor, register in zip(op.inputs, read, strict=True):
        first = same.get(tensor, tensor)
        alike = first._raw == out._raw and first._dtype is out._dtype
        if alike and first in last and first in free:
            return kernel, (*read, register), written
    return recipe


def _is_ufunc(op: Operation) -> bool:
    spec = op.spec
    if spec is None or spec.bare is None:
        return False
    return isinstance(getattr(np, spec.bare), np.ufunc)


def _fits(tensor: Tensor) -> bool:
    """Whether it is an array of numbers, of known shape."""
    raw = tensor._raw
    return bool(raw) and None not in raw and tensor._dtype._base.np.kind in "fiubc"  # type: ignore[operator]
