"""Pooling by factors that are no whole numbers, under windows that are drawn at random.

Called by: programs.  Threads: any; gradients as graph.
Source: Graham, "Fractional max-pooling", 2015; behaviour of TF 1.15 (core/kernels/fractional_max_pool_op.cc,
fractional_avg_pool_op.cc), whose random numbers are drawn
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import DRAWS_BY_SHAPE, NEVER_FOLDED, SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.random_streams import Stream
from headrace.ops._kernels.word_streams import Words
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.nn.pooling import parts_of_images
from headrace.run.exec.kernel import KernelContext
from headrace.run.exec.worker_pool import parallel_for

__all__ = ["fractional_avg_pool", "fractional_max_pool"]

Array = np.ndarray[Any, Any]
_KINDS = "T: {float, double, int32, int64}"


# -- where windows begin ----------------------------------------------------------------------


def pooled_sizes(shape: Sequence[int], ratios: Sequence[float]) -> tuple[int, int]:
    """Rows and columns that are made of images of that shape.  Raises InvalidArgument."""
    if len(shape) != 4:
        raise errors.invalid_argument(f"input must be 4-dimensional: {text(tuple(shape))}")
    if len(ratios) != 4:
        raise errors.invalid_argument("pooling_ratio field must specify 4 dimensions")
    if min(ratios) < 1:
        raise errors.invalid_argument(
            f"pooling_ratio cannot be smaller than 1, got: {min(ratios):g}"
        )
    if ratios[0] != 1 or ratios[3] != 1:
        raise errors.unimplemented(
            "Fractional pooling is not yet supported on the batch nor channel dimension: "
            f"pooling_ratio is {list(ratios)}"
        )
    made = [_shrunk(size, ratio) for size, ratio in zip(shape[1:3], ratios[1:3], strict=True)]
    if min(made) < 1:
        raise errors.invalid_argument(
            f"output size of a fractional pooling must be positive: {text(tuple(shape))} by {list(ratios)}"
        )
    return made[0], made[1]


def _shrunk(size: int, ratio: float) -> int:
    return math.floor(np.float32(size) / np.float32(ratio))


def _edges(size: int, made: int, stream: Stream, pseudo_random: bool) -> Array:
    """int64 [made + 1]: where the windows over `size` lines begin, and `size`."""
    each, over = divmod(size, made)
    if pseudo_random:
        ratio = size / made
        most = min((each + 2) / ratio - 1, (size + 1 - each) / ratio - (made - 1))
        start = float(Words(stream, 2).doubles(1)[0]) * most
        between = [math.ceil(ratio * (at + start)) - 1 for at in range(1, made)]
        return np.array([0, *between, size], np.int64)
    steps = [each + 1] * over + [each] * (made - over)
    words = Words(stream, made)
    for at in range(made - 1):
        other = at + int(words.below(made - at, 1)[0])
        steps[at], steps[other] = steps[other], steps[at]
    return np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)


def _ends(edges: Array, overlapping: bool, size: int) -> Array:
    """Behind the last line of each window."""
    ends: Array = np.minimum(edges[1:] + overlapping, size)
    return ends


def _under(reduce: np.ufunc, x: Array, edges: Array, axis: int, overlapping: bool) -> Array:
    """`reduce` of the lines of each window along `axis`, one line after the other."""
    starts = edges[:-1]
    lengths = _ends(edges, overlapping, x.shape[axis]) - starts
    found: Array = np.take(x, starts, axis=axis)
    within: tuple[Any, ...] = (slice(None),) * axis
    for number in range(1, int(lengths.max(initial=0))):
        longer = (lengths > number).nonzero()[0]
        line = np.take(x, starts[longer] + number, axis=axis)
        if len(longer) == len(lengths):
            reduce(found, line, out=found)
        else:
            found[(*within, longer)] = reduce(np.take(found, longer, axis=axis), line)
    return found


def _of_each_image(x: Array, made: Array, work: Callable[[Array, Array], None]) -> None:
    """work(image, what is made of it), for all."""

    def some(images: slice) -> None:
        for number in range(images.start, images.stop):
            work(x[number], made[number])

    if made.size:
        parallel_for(some, parts_of_images(x.shape, x.dtype))


def _largest(x: Array, rows: Array, columns: Array, overlapping: bool) -> Array:
    made = np.empty((len(x), len(rows) - 1, len(columns) - 1, x.shape[3]), x.dtype)

    def one(image: Array, out: Array) -> None:
        lines = _under(np.maximum, image, rows, 0, overlapping)
        out[...] = _under(np.maximum, lines, columns, 1, overlapping)

    _of_each_image(x, made, one)
    return made


def _counts(rows: Array, columns: Array, overlapping: bool) -> Array:
    """How many places each window has, [rows, columns, 1]."""
    high, wide = (
        _ends(edges, overlapping, int(edges[-1])) - edges[:-1] for edges in (rows, columns)
    )
    counts: Array = np.multiply.outer(high, wide)[..., None]
    return counts


def _mean(x: Array, rows: Array, columns: Array, overlapping: bool) -> Array:
    made = np.empty((len(x), len(rows) - 1, len(columns) - 1, x.shape[3]), x.dtype)
    counts = _counts(rows, columns, overlapping)
    whole = x.dtype.kind == "i"

    def one(image: Array, out: Array) -> None:
        lines = _under(np.add, image.astype(np.int64) if whole else image, rows, 0, overlapping)
        sums = _under(np.add, lines, columns, 1, overlapping)
        if whole:
            out[...] = np.sign(sums) * (np.abs(sums) // counts)
        else:
            np.divide(sums, counts.astype(x.dtype), out=out)

    _of_each_image(x, made, one)
    return made


# -- the ops ----------------------------------------------------------------------------------


def _shapes(c: ShapeContext) -> list[Shape]:
    x = c.with_rank("value", 4)
    ratios = c.attr("pooling_ratio")
    if len(ratios) != 4:
        raise ValueError(
            f"pooling_ratio must have 4 entries, one for each dimension, not {list(ratios)}"
        )
    assert x is not None
    if min(ratios) < 1:
        raise ValueError(f"pooling_ratio cannot be smaller than 1, got: {min(ratios):g}")
    made: list[int | None] = [
        None if size is None else _shrunk(size, ratio)
        for size, ratio in zip(x, ratios, strict=True)
    ]
    high, wide = (None if size is None else size + 1 for size in made[1:3])
    return [tuple(made), (high,), (wide,)]


def _drawn(
    ctx: KernelContext,
    value: Any,
    *,
    pooling_ratio: Sequence[float],
    pseudo_random: bool,
    deterministic: bool,
    seed: int,
    seed2: int,
) -> Array:
    """int64: where the rows of windows begin, and behind them the columns.  Raises as FractionalMaxPool."""
    if not deterministic and (seed or seed2):
        raise errors.invalid_argument(
            f"Both seed and seed2 should be 0 if deterministic is false, and they are {seed} and {seed2}"
        )
    high, wide = pooled_sizes(value.shape, pooling_ratio)
    stream = Stream(seed, seed2)
    rows = _edges(value.shape[1], high, stream, pseudo_random)
    return np.concatenate([rows, _edges(value.shape[2], wide, stream, pseudo_random)])


Reduce = Callable[[Array, Array, Array, bool], Array]


def _pool_op(name: str, reduce: Reduce, what: str) -> OpSpec:
    def kernel(
        ctx: KernelContext,
        value: Array,
        taken: Array | None = None,
        *,
        pooling_ratio: Sequence[float],
        pseudo_random: bool,
        overlapping: bool,
        deterministic: bool,
        seed: int,
        seed2: int,
    ) -> Any:
        edges = taken
        if edges is None:
            edges = _drawn(
                ctx,
                value,
                pooling_ratio=pooling_ratio,
                pseudo_random=pseudo_random,
                deterministic=deterministic,
                seed=seed,
                seed2=seed2,
            )
        high, _ = pooled_sizes(value.shape, pooling_ratio)
        rows, columns = edges[: high + 1].copy(), edges[high + 1 :].copy()
        return reduce(value, rows, columns, overlapping), rows, columns

    kernel.__doc__ = f"""{what} under each window of images [n, h, w, c], and where windows begin.

    The image is made pooling_ratio[1] times less high, pooling_ratio[2] times less wide, by windows of sizes that
    differ by one, drawn anew in every step (deterministic: by the seeds, the same in every step; pseudo_random: drawn
    by one number).  overlapping: a window has the first line of the next one too.
    output [n, h', w', c]; row_pooling_sequence int64 [h' + 1], col_pooling_sequence [w' + 1].
    Raises InvalidArgument (rank, ratios, seeds), Unimplemented (ratios of batch or channels).
    """
    made = op(
        name,
        inputs="value: T",
        outputs="output: T; row_pooling_sequence: int64; col_pooling_sequence: int64",
        attrs="pooling_ratio: list(float) >= 4; pseudo_random: bool = false; overlapping: bool = false; "
        f"deterministic: bool = false; seed: int = 0; seed2: int = 0; {_KINDS}",
        shape=_shapes,
        traits={NEVER_FOLDED, DRAWS_BY_SHAPE, SHARES},
    )(kernel)
    made.takes_ahead(_drawn)
    return made


max_pool_op = _pool_op("FractionalMaxPool", _largest, "The largest value")
avg_pool_op = _pool_op("FractionalAvgPool", _mean, "The mean")


def _check(shape: Sequence[int], dout: Array, rows: Array, columns: Array) -> None:
    """Raises InvalidArgument unless the windows are those of images of that shape, and dout has one value each."""
    if len(shape) != 4 or dout.ndim != 4:
        raise errors.invalid_argument(
            f"the input and the gradient must be 4-dimensional: {text(tuple(shape))} and {text(dout.shape)}"
        )
    if dout.shape[0] != shape[0] or dout.shape[3] != shape[3]:
        raise errors.invalid_argument(
            f"the gradient {text(dout.shape)} must have the batch and the channels of the input {text(tuple(shape))}"
        )
    for edges, count, size, axis in (
        (rows, dout.shape[1], shape[1], "row"),
        (columns, dout.shape[2], shape[2], "col"),
    ):
        if edges.ndim != 1 or len(edges) != count + 1:
            raise errors.invalid_argument(
                f"{axis}_pooling_sequence must have {count + 1} elements for the gradient {text(dout.shape)}, and has "
                f"shape {text(edges.shape)}"
            )
        if not count:
            continue
        if edges[0] < 0 or edges[-1] > size or (edges[1:] <= edges[:-1]).any():
            raise errors.invalid_argument(
                f"{axis}_pooling_sequence must rise from 0 to {size}, and is {edges.tolist()}"
            )


def _places(
    rows: Array, columns: Array, sizes: Sequence[int], overlapping: bool
) -> list[tuple[Array, Array]]:
    """(windows, pixels): numbers of those that have a first, a second, … place, and of the pixels there."""
    starts = rows[:-1], columns[:-1]
    lengths = [
        _ends(edges, overlapping, size) - edges[:-1]
        for edges, size in zip((rows, columns), sizes, strict=True)
    ]
    found = []
    for down in range(int(lengths[0].max(initial=0))):
        (high,) = (lengths[0] > down).nonzero()
        for along in range(int(lengths[1].max(initial=0))):
            (wide,) = (lengths[1] > along).nonzero()
            windows = high[:, None] * len(lengths[1]) + wide
            lines = (starts[0][high] + down) * sizes[1]
            pixels = lines[:, None] + (starts[1][wide] + along)
            found.append((windows.ravel(), pixels.ravel()))
    return found


class _Owners:
    """Of lines along an axis: which windows have them.

    own: the window that begins last.  covered: whether there is any.  twice: the lines that the one before has, too.
    """

    def __init__(self, edges: Array, size: int, overlapping: bool) -> None:
        lines = np.arange(size)
        own = np.searchsorted(edges, lines, side="right") - 1
        self.own = np.clip(own, 0, len(edges) - 2)
        self.covered = (lines >= edges[0]) & (lines < min(int(edges[-1]) + overlapping, size))
        self.twice = edges[1:-1] if overlapping else edges[:0]
        self.before = np.arange(len(self.twice))


@op(
    "FractionalMaxPoolGrad",
    inputs="orig_input: T; orig_output: T; out_backprop: T; row_pooling_sequence: int64; col_pooling_sequence: int64",
    outputs="output: T",
    attrs=f"overlapping: bool = false; {_KINDS}",
    shape=lambda c: c.with_rank("orig_input", 4),
    traits={SHARES},
)
def max_pool_grad_op(
    xp: Any,
    x: Array,
    y: Array,
    dy: Array,
    rows: Array,
    columns: Array,
    *,
    overlapping: bool,
) -> Any:
    """The gradient of FractionalMaxPool: each window's goes to the first place that has its value.

    Raises InvalidArgument if shapes do not fit, windows do not rise, or the output is not that of the input.
    """
    _check(x.shape, dy, rows, columns)
    if y.shape != dy.shape:
        raise errors.invalid_argument(
            f"the output and the gradient must have one shape: {text(y.shape)} and {text(dy.shape)}"
        )
    dx = np.zeros_like(x)
    places = _places(rows, columns, x.shape[1:3], overlapping)
    channels = x.shape[3]

    def some(images: slice) -> None:
        for number in range(images.start, images.stop):
            pixels, made, slopes, into = (
                each[number].reshape(-1, channels) for each in (x, y, dy, dx)
            )
            left = np.ones(made.shape, bool)  # windows whose place has not been found yet
            for windows, at in places:
                here = pixels[at] == made[windows]
                here &= left[windows]
                left[windows] ^= here
                into[at] += np.where(here, slopes[windows], 0).astype(dx.dtype, copy=False)
            if left.any():
                raise errors.invalid_argument(
                    "tensor_out_dup is not the same as tensor_out: orig_output has values that are under none of their "
                    "windows"
                )

    if y.size:
        parallel_for(some, parts_of_images(x.shape, x.dtype))
    return dx


def _summed_shape(c: ShapeContext) -> Shape:
    if c.shape("orig_input_tensor_shape") not in (None, (4,)):
        return (None,) * 4  # the step says so
    return c.shape_value("orig_input_tensor_shape") or (None,) * 4


@op(
    "FractionalAvgPoolGrad",
    inputs="orig_input_tensor_shape: int64; out_backprop: T; row_pooling_sequence: int64; col_pooling_sequence: int64",
    outputs="output: T",
    attrs=f"overlapping: bool = false; {_KINDS}",
    shape=_summed_shape,
    traits={SHARES},
)
def avg_pool_grad_op(
    xp: Any, sizes: Array, dy: Array, rows: Array, columns: Array, *, overlapping: bool
) -> Any:
    """The gradient of FractionalAvgPool, of shape orig_input_tensor_shape [4]: each window's, shared evenly.

    Raises InvalidArgument if shapes do not fit, or windows do not rise.
    """
    if sizes.ndim != 1 or len(sizes) != 4 or (sizes < 0).any():
        raise errors.invalid_argument(
            f"original input tensor shape must be 4 sizes, not {sizes.tolist()}"
        )
    shape = sizes.tolist()
    _check(shape, dy, rows, columns)
    dx = np.zeros(shape, dy.dtype)
    if rows.size > 1 and columns.size > 1:
        counts = _ends(rows, overlapping, shape[1]) - rows[:-1]
        across = _ends(columns, overlapping, shape[2]) - columns[:-1]
        places = np.multiply.outer(counts, across)[..., None]
        down, along = _Owners(rows, shape[1], overlapping), _Owners(columns, shape[2], overlapping)
        _of_each_image(dy, dx, lambda image, out: _given_back(image / places, down, along, out))
    return dx


def _given_back(each: Array, rows: _Owners, columns: _Owners, out: Array) -> None:
    """out [h, w, c] = what windows [rows, columns, c] give to their places; that of its own comes first."""
    own = each[rows.own]
    made = own[:, columns.own]
    made[:, columns.twice] += own[:, columns.before]
    above = each[rows.before]
    made[rows.twice] += above[:, columns.own]
    made[rows.twice[:, None], columns.twice] += above[:, columns.before]
    made[~rows.covered] = 0
    made[:, ~columns.covered] = 0
    out[...] = made


@max_pool_op.gradient
def _(op: Operation, dout: Any, _rows: Any, _columns: Any) -> Any:
    return max_pool_grad_op(
        op.inputs[0], op.outputs[0], dout, *op.outputs[1:], overlapping=op["overlapping"]
    )


@avg_pool_op.gradient
def _(op: Operation, dout: Any, _rows: Any, _columns: Any) -> Any:
    sizes = shape_of(op.inputs[0], out_type="int64")
    return avg_pool_grad_op(sizes, dout, *op.outputs[1:], overlapping=op["overlapping"])


Pooled = tuple[Tensor, Tensor, Tensor]


def _function(spec: OpSpec, name: str, what: str) -> Callable[..., Pooled]:
    def pool(
        value: Any,
        pooling_ratio: Sequence[float],
        pseudo_random: bool = False,
        overlapping: bool = False,
        deterministic: bool = False,
        seed: int = 0,
        seed2: int = 0,
        name: str | None = None,
    ) -> Pooled:
        pooled: Pooled = spec(
            value,
            pooling_ratio=pooling_ratio,
            pseudo_random=pseudo_random,
            overlapping=overlapping,
            deterministic=deterministic,
            seed=seed,
            seed2=seed2,
            name=name,
        )
        return pooled

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = f"""{what} under each window of images [n, h, w, c]; where rows and columns of windows begin.

    pooling_ratio: how many times smaller each of the four dimensions is to be; 1.0 for the first and the last.
    """
    return pool


fractional_max_pool = _function(max_pool_op, "fractional_max_pool", "The largest value")
fractional_avg_pool = _function(avg_pool_op, "fractional_avg_pool", "The mean")
