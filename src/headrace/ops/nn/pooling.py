"""Pooling of images and volumes: the largest or the mean value under a window that moves, and the gradients.

Called by: ops.nn.convolution_calls, library.layers.dense, programs.  Threads: any; gradients as graph.
Source: TF 1.15 core/kernels/maxpooling_op.cc, avgpooling_op.cc, pooling_ops_3d.cc; gradient nodes as 2.21
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import NEVER_FAILS, SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import (
    Array,
    Geometry,
    channels_last,
    check_gradient,
    from_last,
    geometry,
    parts,
    static_out,
    to_last,
)
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.identities import stop_gradient
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

_WINDOW = "ksize: list(int) >= 4; strides: list(int) >= 4"
_FORMAT = "data_format: {'NHWC', 'NCHW'} = 'NHWC'"
_SIMPLE = f"{_WINDOW}; padding: {{'SAME', 'VALID'}}; {_FORMAT}"
_EXPLICIT = (
    f"{_WINDOW}; padding: {{'SAME', 'VALID', 'EXPLICIT'}}; explicit_paddings: list(int) = []"
)
_VOLUMES = (
    "ksize: list(int) >= 5; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; "
    "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'"
)
_FLOATS = "{half, bfloat16, float, double}"
_PART_BYTES = 1 << 20  # of inputs that one thread works on at a time
LEAST_BYTES = 640 << 10  # as many calls for less have threads wait for the interpreter's lock
_PADDED, _ALONG = 0, 0  # slots of scratch memory; from _ALONG + 1 on for each dimension
Use = Callable[[Array, tuple[slice, ...]], object]


def pool_windows(
    size: Sequence[int],
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: bytes,
    data_format: bytes,
    explicit: Sequence[int] = (),
) -> Geometry:
    """The windows over the spatial dimensions of `size`, all of an image's, with the pads that `padding` asks for.
    Raises InvalidArgument.
    """
    window = ksize[1:-1] if channels_last(data_format) else ksize[2:]
    if len(ksize) != len(size) + 2 or min(ksize) < 1:
        raise errors.invalid_argument(
            f"ksize {list(ksize)} must have {len(size) + 2} entries, all of them positive"
        )
    if math.prod(ksize) != math.prod(window):
        raise errors.unimplemented(
            f"pooling over the batch or the channels (ksize {list(ksize)}) is not supported: reshape first"
        )
    return geometry(size, window, strides, padding, data_format, (1,) * (len(size) + 2), explicit)


def _average_shape(c: ShapeContext) -> Shape:
    return c.shape_value("orig_input_shape") or (None,) * len(c.attr("data_format"))


def checked_ksize(c: ShapeContext, rank: int) -> list[int]:
    """The attr; raises ValueError unless it has an entry for each dimension."""
    found: list[int] = c.attr("ksize")
    if len(found) != rank:
        raise ValueError(
            f"{c.op.type} requires the ksize attribute to contain {rank} values, but got: {len(found)}: {found}"
        )
    return found


def _pool_shape(c: ShapeContext) -> Shape:
    data_format = c.attr("data_format")
    ksize = checked_ksize(c, len(data_format))
    x = c.with_rank(0, len(data_format))
    assert x is not None
    last = channels_last(data_format)
    size = x[1:-1] if last else x[2:]
    out = static_out(
        size,
        ksize[1:-1] if last else ksize[2:],
        c.attr("strides"),
        c.attr("padding"),
        data_format,
        (1,) * len(data_format),
        c.op.attrs.get("explicit_paddings", ()),
    )
    channels, across = (x[-1], ksize[-1]) if last else (x[1], ksize[1])
    if c.attr("padding") == b"VALID" and channels is not None and channels < across:
        raise ValueError(
            f"Negative dimension size caused by subtracting {across} from {channels}: a window has no room"
        )
    return (x[0], *out, x[-1]) if last else (x[0], x[1], *out)


def _last(x: Array, data_format: bytes) -> Array:
    if x.ndim != len(data_format):
        raise errors.invalid_argument(
            f"Input must be 4 or 5-dimensional: here it must be {data_format.decode()}, and has shape {text(x.shape)}"
        )
    return to_last(x, data_format)


def _laid_last(x: Array, data_format: bytes) -> Array:
    """As `_last`, in memory too."""
    moved = _last(x, data_format)
    return moved if channels_last(data_format) else np.ascontiguousarray(moved)


def _lowest(kind: np.dtype[Any]) -> Any:
    return np.iinfo(kind).min if kind.kind in "iu" else kind.type(-np.inf)


def parts_of_images(shape: Sequence[int], dtype: np.dtype[Any]) -> list[slice]:
    """Slices of images [n, *size, c] to be pooled side by side."""
    each = math.prod(shape[1:]) * dtype.itemsize
    return parts(shape[0], each, _PART_BYTES, LEAST_BYTES // max(each, 1))


def _parts(x: Array) -> list[slice]:
    return parts_of_images(x.shape, x.dtype)


def _padded(x: Array, where: Geometry, value: Any) -> Array:
    if not where.has_pads:
        return x
    room = scratch(_PADDED, (len(x), *where.padded_size, x.shape[-1]), x.dtype)
    return where.padded(x, value, room)


# -- the largest ------------------------------------------------------------------------------


def largest(x: Array, where: Geometry, out: Array) -> None:
    """out [n, *out, c] = the largest values under the windows of x [n, *size, c].

    Along one dimension after the other, the first one first: its lines are long.
    """
    found = _padded(x, where, _lowest(x.dtype))
    last = len(where.window)
    for axis, (places, step, count) in enumerate(
        zip(where.window, where.strides, where.out, strict=True), 1
    ):
        before = (slice(None),) * axis
        first, *others = (
            found[(*before, slice(at, at + (count - 1) * step + 1, step))] for at in range(places)
        )
        if not others:
            found = first
            continue
        found = out if axis == last else scratch(_ALONG + axis, first.shape, x.dtype)
        np.maximum(first, others[0], out=found)
        for other in others[1:]:
            np.maximum(found, other, out=found)
    if found is not out:
        out[...] = found


def _max_pool(
    xp: Any,
    x: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    explicit_paddings: Sequence[int] = (),
) -> Any:
    """The largest value under each window of x [n, h, w, c]: [n, h', w', c].

    Raises InvalidArgument (rank), Unimplemented (windows over batch or channels).
    """
    given = _last(x, data_format)
    where = pool_windows(given.shape[1:-1], ksize, strides, padding, data_format, explicit_paddings)
    out = np.empty((len(given), *where.out, given.shape[-1]), given.dtype)
    parallel_for(lambda images: largest(given[images], where, out[images]), _parts(given))
    return from_last(out, data_format)


def _at_first_place(given: Array, out: Array, where: Geometry, use: Use) -> None:
    """For some images: use(places, view) for each position of the window, `view` the inputs that it meets.

    places [n, *out, c]: where that position is the first that has the largest value.
    """
    padded = _padded(given, where, _lowest(given.dtype))
    left = np.ones(out.shape, bool)  # windows whose place has not been found yet
    positions = list(where.positions())
    for number, (_, view) in enumerate(positions):
        here = padded[view] == out
        if number:
            here &= left
        if number + 1 < len(positions):
            left ^= here
        use(here, view)


def _max_pool_grad(
    xp: Any,
    x: Array,
    y: Array,
    dy: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    explicit_paddings: Sequence[int] = (),
) -> Any:
    """The gradient of MaxPool with respect to its input: each value's goes to the first place that has it.

    Raises InvalidArgument if shapes do not fit.
    """
    given, out, grad = (_laid_last(a, data_format) for a in (x, y, dy))
    where = pool_windows(given.shape[1:-1], ksize, strides, padding, data_format, explicit_paddings)
    for each in (out, grad):
        check_gradient(each, where, len(given), given.shape[-1])
    dx = np.empty(given.shape, grad.dtype)
    parallel_for(
        lambda images: to_largest(given[images], out[images], grad[images], where, dx[images]),
        _parts(given),
    )
    return from_last(dx, data_format)


def to_largest(given: Array, out: Array, dy: Array, where: Geometry, into: Array) -> None:
    """into [n, *size, c] = what each window's dy gives to the first place of `given` that has the value of `out`."""
    apart = all(w <= s for w, s in zip(where.window, where.strides, strict=True))
    bits = np.dtype(f"i{dy.dtype.itemsize}")
    dys = dy.view(bits)
    total = into
    if where.has_pads:
        total = np.empty((len(into), *where.padded_size, into.shape[-1]), into.dtype)
    if not where.is_tiled:
        total[...] = 0

    def use(here: Array, view: tuple[slice, ...]) -> None:
        # All bits of a gradient or none of them: faster than a choice, and safe with infinities.
        mask = np.negative(here.view(np.int8)).astype(bits)
        if apart:  # every input is under one window at most
            np.bitwise_and(mask, dys, out=total.view(bits)[view])
        else:
            total[view] += np.bitwise_and(mask, dys, out=mask).view(into.dtype)

    _at_first_place(given, out, where, use)
    if where.has_pads:
        into[...] = where.inside(total)


def _max_pool_grad_grad(
    xp: Any,
    x: Array,
    y: Array,
    ddx: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: bytes,
    data_format: bytes,
) -> Any:
    """The gradient of MaxPoolGrad with respect to dy: what `ddx` [shape of x] has where the largest values are.

    Raises InvalidArgument if shapes do not fit.
    """
    given, out, grad = (_last(a, data_format) for a in (x, y, ddx))
    where = pool_windows(given.shape[1:-1], ksize, strides, padding, data_format)
    check_gradient(out, where, len(given), given.shape[-1])
    if grad.shape != given.shape:
        raise errors.invalid_argument(
            f"the gradient must have the shape of the input, {text(x.shape)}, not {text(ddx.shape)}"
        )
    made = np.zeros(out.shape, grad.dtype)
    around = where.padded(grad)
    _at_first_place(given, out, where, lambda here, view: np.copyto(made, around[view], where=here))
    return from_last(made, data_format)


max_pool_op = op(
    "MaxPool",
    inputs="input: T",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float; "
    f"{_EXPLICIT}; data_format: {{'NHWC', 'NCHW', 'NCHW_VECT_C'}} = 'NHWC'",
    shape=_pool_shape,
    traits={NEVER_FAILS, SHARES},
)(_max_pool)

max_pool_grad_op = op(
    "MaxPoolGrad",
    inputs="orig_input: T; orig_output: T; grad: T",
    outputs="output: T",
    attrs=f"{_EXPLICIT}; {_FORMAT}; T: realnumbertype = float",
    shape=lambda c: c.shape("orig_input"),
    traits={NEVER_FAILS, SHARES},
)(_max_pool_grad)

max_pool_grad_grad_op = op(
    "MaxPoolGradGrad",
    inputs="orig_input: T; orig_output: T; grad: T",
    outputs="output: T",
    attrs=f"{_SIMPLE}; T: realnumbertype",
    shape=_pool_shape,
)(_max_pool_grad_grad)


@op(
    "MaxPool3D",
    inputs="input: T",
    outputs="output: T",
    attrs=f"{_VOLUMES}; T: {{half, bfloat16, float}}",
    shape=_pool_shape,
    traits={NEVER_FAILS, SHARES},
)
def max_pool_3d_op(
    xp: Any, x: Array, *, ksize: list[int], strides: list[int], padding: bytes, data_format: bytes
) -> Any:
    """MaxPool of volumes [n, d, h, w, c].  Raises as MaxPool."""
    return _max_pool(xp, x, ksize=ksize, strides=strides, padding=padding, data_format=data_format)


@op(
    "MaxPool3DGrad",
    inputs="orig_input: TInput; orig_output: TInput; grad: T",
    outputs="output: T",
    attrs=f"{_VOLUMES}; T: {{half, bfloat16, float}} = float; TInput: {{half, bfloat16, float}} = float",
    shape=lambda c: c.with_rank("orig_input", 5),
    traits={NEVER_FAILS, SHARES},
)
def max_pool_3d_grad_op(
    xp: Any,
    x: Array,
    y: Array,
    dy: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: bytes,
    data_format: bytes,
) -> Any:
    """The gradient of MaxPool3D with respect to its input.  Raises as MaxPoolGrad."""
    return _max_pool_grad(
        xp, x, y, dy, ksize=ksize, strides=strides, padding=padding, data_format=data_format
    )


@op(
    "MaxPool3DGradGrad",
    inputs="orig_input: T; orig_output: T; grad: T",
    outputs="output: T",
    attrs=f"{_VOLUMES}; T: realnumbertype",
    shape=_pool_shape,
)
def max_pool_3d_grad_grad_op(
    xp: Any,
    x: Array,
    y: Array,
    ddx: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: bytes,
    data_format: bytes,
) -> Any:
    """The gradient of MaxPool3DGrad with respect to dy.  Raises as MaxPoolGradGrad."""
    return _max_pool_grad_grad(
        xp, x, y, ddx, ksize=ksize, strides=strides, padding=padding, data_format=data_format
    )


def _attrs(op: Operation, *more: str) -> dict[str, Any]:
    return {name: op[name] for name in ("ksize", "strides", "padding", "data_format", *more)}


@max_pool_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return max_pool_grad_op(op.inputs[0], op.outputs[0], dout, **_attrs(op, "explicit_paddings"))


@max_pool_grad_op.gradient
def _(op: Operation, dout: Any) -> Any:
    x, y, _ = op.inputs
    if op["padding"] == b"EXPLICIT":
        raise LookupError(
            f"{op.name}: MaxPoolGrad with explicit padding has no gradient; pad first"
        )
    return zeros_like(x), zeros_like(y), max_pool_grad_grad_op(x, y, dout, **_attrs(op))


@max_pool_3d_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return max_pool_3d_grad_op(op.inputs[0], op.outputs[0], dout, **_attrs(op))


def _gradient_by(spec: OpSpec, by: OpSpec) -> None:
    """Of a gradient of MaxPool: `by`, of what comes for it; the inputs and outputs only say which elements."""

    @spec.gradient
    def _(op: Operation, dout: Any) -> Any:
        x, y, _ = op.inputs
        return zeros_like(x), zeros_like(y), by(x, y, dout, **_attrs(op))


_gradient_by(max_pool_grad_grad_op, max_pool_grad_op)
_gradient_by(max_pool_3d_grad_op, max_pool_3d_grad_grad_op)
_gradient_by(max_pool_3d_grad_grad_op, max_pool_3d_grad_op)


# -- the mean ---------------------------------------------------------------------------------


def _counts(where: Geometry, kind: np.dtype[Any]) -> Any:
    """How many places of each window are not padding: [1, *out, 1], or a number."""
    if not where.has_pads:
        return kind.type(math.prod(where.window))
    ones = where.padded(np.ones((1, *where.size, 1), kind))
    total = np.zeros((1, *where.out, 1), kind)
    for _, view in where.positions():
        total += ones[view]
    return total


def _avg_pool(
    xp: Any, x: Array, *, ksize: list[int], strides: list[int], padding: bytes, data_format: bytes
) -> Any:
    """The mean under each window of x [n, h, w, c], padding not counted: [n, h', w', c].  Raises as MaxPool."""
    given = _last(single(x), data_format)
    where = pool_windows(given.shape[1:-1], ksize, strides, padding, data_format)
    counts = _counts(where, given.dtype)
    out = np.empty((len(given), *where.out, given.shape[-1]), given.dtype)

    def part(images: slice) -> None:
        padded, into = _padded(given[images], where, 0), out[images]
        (_, first), *others = where.positions()
        into[...] = padded[first]
        for _, view in others:
            into += padded[view]
        into /= counts

    parallel_for(part, _parts(given))
    return from_last(out.astype(x.dtype, copy=False), data_format)


def _avg_pool_grad(
    xp: Any,
    input_shape: Array,
    dy: Array,
    *,
    ksize: list[int],
    strides: list[int],
    padding: bytes,
    data_format: bytes,
) -> Any:
    """The gradient of AvgPool with respect to its input, of shape orig_input_shape [4].

    Raises InvalidArgument if shapes do not fit.
    """
    grad = _last(single(dy), data_format)
    if input_shape.shape != (len(data_format),) or input_shape.min() < 0:
        raise errors.invalid_argument(
            f"orig_input_shape must be {len(data_format)} sizes ({data_format.decode()}), not {input_shape.tolist()}"
        )
    sizes = [int(n) for n in input_shape]
    like = to_last(np.broadcast_to(np.zeros((), grad.dtype), sizes), data_format)
    where = pool_windows(like.shape[1:-1], ksize, strides, padding, data_format)
    check_gradient(grad, where, len(like), like.shape[-1])
    counts = _counts(where, grad.dtype)
    dx = np.empty(like.shape, grad.dtype)

    def part(images: slice) -> None:
        into, share = dx[images], grad[images] / counts
        total = into
        if where.has_pads:
            total = scratch(_PADDED, (len(into), *where.padded_size, dx.shape[-1]), dx.dtype)
        total[...] = 0
        for _, view in where.positions():
            total[view] += share
        if where.has_pads:
            into[...] = where.inside(total)

    parallel_for(part, _parts(dx))
    return from_last(dx.astype(dy.dtype, copy=False), data_format)


avg_pool_op = op(
    "AvgPool",
    inputs="value: T",
    outputs="output: T",
    attrs=f"{_SIMPLE}; T: {_FLOATS}",
    shape=_pool_shape,
    traits={NEVER_FAILS, SHARES},
)(_avg_pool)

avg_pool_grad_op = op(
    "AvgPoolGrad",
    inputs="orig_input_shape: int32; grad: T",
    outputs="output: T",
    attrs=f"{_SIMPLE}; T: {_FLOATS}",
    shape=_average_shape,
    traits={NEVER_FAILS, SHARES},
)(_avg_pool_grad)

avg_pool_3d_op = op(
    "AvgPool3D",
    inputs="input: T",
    outputs="output: T",
    attrs=f"{_VOLUMES}; T: {_FLOATS}",
    shape=_pool_shape,
    traits={NEVER_FAILS, SHARES},
)(_avg_pool)

avg_pool_3d_grad_op = op(
    "AvgPool3DGrad",
    inputs="orig_input_shape: int32; grad: T",
    outputs="output: T",
    attrs=f"{_VOLUMES}; T: {_FLOATS}",
    shape=_average_shape,
    traits={NEVER_FAILS, SHARES},
)(_avg_pool_grad)


def _gradients_of_means(mean: OpSpec, grad: OpSpec) -> None:
    """The two are each other's."""

    @mean.gradient
    def _(op: Operation, dout: Any) -> Any:
        return grad(shape_of(op.inputs[0]), dout, **_attrs(op))

    @grad.gradient
    def _(op: Operation, dout: Any) -> Any:
        return stop_gradient(op.inputs[0]), mean(dout, **_attrs(op))


_gradients_of_means(avg_pool_op, avg_pool_grad_op)
_gradients_of_means(avg_pool_3d_op, avg_pool_3d_grad_op)
