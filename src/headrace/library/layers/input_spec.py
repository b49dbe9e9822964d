"""What a layer says of its inputs: `InputSpec`, which calls of the layer check.

Called by: library.layers.classes, programs.  Threads: as graph.
Source: TF 1.15 behaviour
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.tensor import Tensor

__all__ = ["InputSpec"]


class InputSpec:
    """dtype, shape, rank (ndim, or from min_ndim to max_ndim) and sizes of axes that an input must have.

    What is None is not checked, nor what the input does not say.
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[Any, int | None] | None = None,
    ) -> None:
        """Raises ValueError for an axis that the rank has not."""
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self.shape = shape
        self.ndim = ndim if shape is None else len(shape)
        self.max_ndim, self.min_ndim = max_ndim, min_ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}
        most = self.ndim if self.ndim is not None else max_ndim
        if self.axes and most is not None and max(self.axes) >= most:
            raise ValueError(
                f"Axis {max(self.axes)} is greater than the maximum allowed value: {most - 1}"
            )

    def __repr__(self) -> str:
        said = [
            f"{name}={value}"
            for name in ("dtype", "shape", "ndim", "max_ndim", "min_ndim")
            if (value := getattr(self, name)) is not None
        ]
        if self.axes:
            said.append(f"axes={self.axes}")
        return f"InputSpec({', '.join(said)})"


def check_inputs(specs: Any, inputs: Any, layer: str) -> None:
    """Raises ValueError if inputs, a tensor or several, are not what the specs say; None says nothing."""
    if specs is None:
        return
    wanted: Sequence[Any] = specs if isinstance(specs, (list, tuple)) else [specs]
    given: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    if len(wanted) != len(given):
        raise ValueError(
            f"Layer {layer} expects {len(wanted)} inputs, but it received {len(given)} input tensors. "
            f"Inputs received: {inputs}"
        )
    for number, (spec, tensor) in enumerate(zip(wanted, given, strict=True)):
        problem = None if spec is None else _problem(spec, tensor)
        if problem is not None:
            raise ValueError(
                f"Input {number} of layer {layer} is incompatible with the layer: {problem}"
            )


def _problem(spec: InputSpec, tensor: Any) -> str | None:
    shape = (
        tensor.shape if isinstance(tensor, Tensor) else TensorShape(getattr(tensor, "shape", None))
    )
    rank = shape.ndims
    if rank is not None:
        received = f"Full shape received: {shape.as_list()}"
        if spec.ndim is not None and rank != spec.ndim:
            return f"expected ndim={spec.ndim}, found ndim={rank}. {received}"
        if spec.max_ndim is not None and rank > spec.max_ndim:
            return f"expected max_ndim={spec.max_ndim}, found ndim={rank}"
        if spec.min_ndim is not None and rank < spec.min_ndim:
            return f": expected min_ndim={spec.min_ndim}, found ndim={rank}. {received}"
    if spec.dtype is not None and dtypes.as_dtype(tensor.dtype).base_dtype.name != spec.dtype:
        return f"expected dtype={spec.dtype}, found dtype={dtypes.as_dtype(tensor.dtype)}"
    if rank is None:
        return None
    sizes = shape.as_list()
    for axis, size in spec.axes.items():
        at = axis + rank if axis < 0 else axis
        if size is not None and 0 <= at < rank and sizes[at] not in (size, None):
            return f"expected axis {axis} of input shape to have value {size} but received input with shape {sizes}"
    if spec.shape is not None:
        for size, found in zip(spec.shape, sizes, strict=True):
            if size is not None and found is not None and int(size) != found:
                return f"expected shape={spec.shape}, found shape={sizes}"
    return None
