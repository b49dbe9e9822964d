"""Running sums and products along an axis, and the indices of extremes.

Called by: reduction gradients, nn, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/scan_ops.cc, argmax_op.cc; gradient nodes as 2.21
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import PER_RECORD
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_axis, static_axis
from headrace.ops.math.arithmetic import div_no_nan, mul
from headrace.ops.math.comparisons import where_v2
from headrace.ops.math.reductions import either
from headrace.ops.tables import ALL_NUMBERS, FLOATS, make

__all__ = [
    "arg_max",
    "arg_min",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "cumulative_logsumexp",
]

_RANGE = "Dimension ({axis}) must be in the range [{low}, {rank})"

# -- running sums -----------------------------------------------------------------------------


def _scanned(c: ShapeContext) -> Shape:
    return c.with_rank_at_least("x", 1)


def _scan(
    name: str, doc: str, types: str, accumulate: Callable[[Any, int], Any], start: float
) -> OpSpec:
    """Op `name`: accumulate(x, axis); `start` is what an exclusive scan begins with."""

    def kernel(xp: Any, x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
        if np.ndim(axis) != 0:
            raise errors.invalid_argument(
                f"ScanOp: axis must be a scalar, not {text(np.shape(axis))}"
            )
        if x.ndim == 0:
            raise errors.invalid_argument("x must have at least one dimension, but is a scalar")
        says = "ScanOp: Expected scan axis in the range [-{rank}, {rank}), but got {axis}"
        along = checked_axis(axis, x.ndim, says=says)
        if reverse:
            x = np.flip(x, along)
        out = accumulate(x, along)
        if exclusive:
            out = _shifted(out, along, start)
        return np.flip(out, along) if reverse else out

    kernel.__doc__ = f"{doc}  Raises InvalidArgument on a bad axis."
    return op(
        name,
        inputs="x: T; axis: Tidx",
        outputs="out: T",
        attrs=f"exclusive: bool = false; reverse: bool = false; T: {{{types}}}; Tidx: {{int32, int64}} = int32",
        shape=_scanned,
    )(kernel)


def _shifted(values: Any, axis: int, start: float) -> Any:
    """One place on, beginning with `start`; not subtracted, since inf - inf is NaN."""
    out = np.empty_like(values)
    lead = (slice(None),) * axis
    out[(*lead, slice(0, 1))] = start
    out[(*lead, slice(1, None))] = values[(*lead, slice(None, -1))]
    return out


def _running_sum(x: Any, axis: int) -> Any:
    return _running(np.add, x, axis)


def _running_product(x: Any, axis: int) -> Any:
    return _running(np.multiply, x, axis)


def _running(ufunc: np.ufunc, x: Any, axis: int) -> Any:
    """`ufunc.accumulate` of all elements beside the axis at once; it goes along the axis for one after the other."""
    beside, count = math.prod(x.shape[axis + 1 :]), x.shape[axis]
    if beside < _BESIDE or beside * math.prod(x.shape[:axis]) < _AT_ONCE or not count:
        return ufunc.accumulate(x, axis=axis, dtype=x.dtype)
    out = np.empty(x.shape, x.dtype)
    given, made = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    made[0] = given[0]
    for at in range(1, count):
        ufunc(made[at - 1], given[at], out=made[at], dtype=x.dtype)
    return out


_BESIDE: Final = 16  # elements behind the axis: shorter loops of NumPy's take longer to begin
_AT_ONCE: Final = 256  # elements beside it, for which a call is no longer than theirs


def _running_logsumexp(x: Any, axis: int) -> Any:
    kind = x.dtype
    if kind.itemsize == 2:
        x = x.astype(np.float32)
    return np.logaddexp.accumulate(x, axis=axis).astype(kind, copy=False)


cumsum_op = _scan("Cumsum", "Running sums of x along axis.", ALL_NUMBERS, _running_sum, 0)
cumprod_op = _scan("Cumprod", "Running products of x along axis.", ALL_NUMBERS, _running_product, 1)
cumulative_logsumexp_op = _scan(
    "CumulativeLogsumexp",
    "log of the running sums of exp(x) along axis.",
    FLOATS,
    _running_logsumexp,
    -np.inf,
)


@cumsum_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    made = cumsum_op(dout, op.inputs[1], exclusive=op["exclusive"], reverse=not op["reverse"])
    return made, None


@cumprod_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    x, axis = op.inputs
    exclusive, reverse = op["exclusive"], op["reverse"]
    products = cumprod_op(x, axis, exclusive=exclusive, reverse=reverse)
    scaled = mul(products, dout, name="mul")
    summed = cumsum_op(scaled, axis, exclusive=exclusive, reverse=not reverse)
    return div_no_nan(summed, x), None


@cumulative_logsumexp_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, None]:
    """Positive and negative parts of dout apart, each as a logarithm."""
    x, axis = op.inputs
    result = op.outputs[0]
    nothing = np.array(dout.dtype.min, dout.dtype.base_dtype.np)
    positive = where_v2(make.Greater(dout, 0), make.Log(dout), nothing)
    negative = where_v2(make.Less(dout, 0), make.Log(make.Neg(dout)), nothing)

    def part(logarithm: Tensor) -> Tensor:
        scan = cumulative_logsumexp_op(
            make.Sub(logarithm, result, name="sub"),
            axis,
            exclusive=op["exclusive"],
            reverse=not op["reverse"],
        )
        made: Tensor = make.Exp(make.AddV2(scan, x, name="add"))
        return made

    first = part(positive)
    return make.Sub(first, part(negative), name="sub"), None


def _scanner(spec: OpSpec, public: str, default: str, doc: str) -> Callable[..., Tensor]:
    def scan(
        x: Any,
        axis: Any = 0,
        exclusive: bool = False,
        reverse: bool = False,
        name: str | None = None,
    ) -> Tensor:
        with name_scope(name, default, [x]) as scope:
            made: Tensor = spec(x, axis, exclusive=exclusive, reverse=reverse, name=scope)
            return made

    scan.__name__ = scan.__qualname__ = public
    scan.__doc__ = f"{doc} along `axis`.\n\n    exclusive: without the element itself.  reverse: from the end.\n    "
    return scan


cumsum = _scanner(cumsum_op, "cumsum", "Cumsum", "Running sums")
cumprod = _scanner(cumprod_op, "cumprod", "Cumprod", "Running products")
cumulative_logsumexp = _scanner(
    cumulative_logsumexp_op,
    "cumulative_logsumexp",
    "CumulativeLogsumexp",
    "Logarithms of the running sums of exp(x)",
)

# -- indices of extremes ------------------------------------------------------------------------


def _without_axis(c: ShapeContext) -> Shape:
    c.with_rank("dimension", 0)
    shape = c.shape("input")
    if shape is None:
        return None
    if len(shape) <= 1:  # the kernel looks at the axis
        return ()
    axis = c.value("dimension")
    if axis is None:
        return (None,) * (len(shape) - 1)
    removed = static_axis(int(axis), len(shape), "dimension", _RANGE)
    return shape[:removed] + shape[removed + 1 :]


def _no_choice(input: Any, axis: int) -> errors.InvalidArgumentError:
    if not -input.ndim <= axis < input.ndim:
        return errors.invalid_argument(
            f"Expected dimension in the range [-{input.ndim}, {input.ndim}), but got {axis}"
        )
    return errors.invalid_argument(
        f"Reduction axis {axis} is empty in shape {text(input.shape)}: there is nothing to choose from"
    )


def _index_kernel(find: Callable[..., Any], worst: float) -> Callable[..., Any]:
    def kernel(xp: Any, input: Any, dimension: Any, *, output_type: DType) -> Any:
        """The index of the extreme along a dimension, the first of equals; NaN is never it.

        input [d0..dn], dimension [] in [-n, n]; output without that dimension.
        Raises InvalidArgument if dimension is out of range or has no elements.
        Source: TF 1.15 core/kernels/argmax_op.cc
        """
        if dimension.ndim != 0:
            raise errors.invalid_argument(
                f"dim must be a scalar, but received tensor of shape: {text(dimension.shape)}"
            )
        axis = int(dimension)
        if not -input.ndim <= axis < input.ndim or input.shape[axis] == 0:
            raise _no_choice(input, axis)
        if input.dtype.kind in "fV" and input.size:
            largest = np.maximum.reduce(input, axis=None)
            if largest != largest:
                input = np.where(np.isnan(input), np.array(worst, input.dtype), input)
        found = find(input, axis)
        return found if output_type is dtypes.int64 else found.astype(output_type.np)

    return kernel


def _argmax(x: Any, axis: int) -> Any:
    return x.argmax(axis)


def _argmin(x: Any, axis: int) -> Any:
    return x.argmin(axis)


_INDEXED = (
    "float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, "
    "quint8, qint32, qint16, quint16, bool"
)
argmax_op = op(
    "ArgMax",
    inputs="input: T; dimension: Tidx",
    outputs="output: output_type",
    attrs=f"T: {{{_INDEXED}}}; Tidx: {{int16, int32, int64}} = int32; "
    "output_type: {int16, uint16, int32, int64} = int64",
    shape=_without_axis,
    traits={PER_RECORD},
    differentiable=False,
)(_index_kernel(_argmax, -np.inf))
argmin_op = op(
    "ArgMin",
    inputs="input: T; dimension: Tidx",
    outputs="output: output_type",
    attrs=f"T: {{{_INDEXED}}}; Tidx: {{int32, int64}} = int32; output_type: {{int32, int64}} = int64",
    shape=_without_axis,
    traits={PER_RECORD},
    differentiable=False,
)(_index_kernel(_argmin, np.inf))


def _axis(axis: Any, dimension: Any) -> Any:
    found = either("axis", axis, "dimension", dimension)
    return 0 if found is None else found


def argmax(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """The index of the largest element along `axis` (0 if none is given), the first of equals.

    dimension: old name of axis.  output_type: int32 or int64.
    """
    made: Tensor = argmax_op(input, _axis(axis, dimension), output_type=output_type, name=name)
    return made


def argmin(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """The index of the smallest element; arguments as of `argmax`."""
    made: Tensor = argmin_op(input, _axis(axis, dimension), output_type=output_type, name=name)
    return made


def arg_max(
    input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Old spelling of `argmax`."""
    return argmax(input, dimension, name, output_type=output_type)


def arg_min(
    input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Old spelling of `argmin`."""
    return argmin(input, dimension, name, output_type=output_type)
