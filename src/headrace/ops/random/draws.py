"""Random ops: uniform, normal, truncated normal, integers, shuffles, draws from categories.

With seeds a node gives TensorFlow's numbers, run after run, and starts over in a new session; see
random_streams and poisson for how.
Called by: initializers, dropout, programs.  Threads: as graph; kernels any.
Source: TF 1.15 core/ops/random_ops.cc, core/kernels/{random_op,multinomial_op}.cc; nodes and
numbers checked against the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.base.traits import (
    DRAWS,
    DRAWS_BY_SHAPE,
    ITERATES,
    NONE,
    SHARES,
    STATEFUL,
    TAKES_BLOCKS,
    Traits,
)
from headrace.graph.convert import convert
from headrace.graph.names import get_seed, name_scope, set_random_seed
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import random_streams
from headrace.ops._kernels.poisson import poisson
from headrace.ops._kernels.random_streams import Stream
from headrace.ops._kernels.swapping import order_of_swaps
from headrace.ops.array.constants import checked_sizes
from headrace.ops.tables import make
from headrace.run.exec.kernel import KernelContext

__all__ = [
    "categorical",
    "multinomial",
    "random_normal",
    "random_poisson",
    "random_shuffle",
    "random_uniform",
    "set_random_seed",
    "truncated_normal",
]

Array = np.ndarray[Any, Any]
_SEEDS = "seed: int = 0; seed2: int = 0"
_FLOATS = "{half, bfloat16, float, double}"
_FEW_COMPARED = 1 << 16
"""Comparisons of all numbers with all classes, up to which those take less time than a search for each row."""


def stream_of(ctx: KernelContext, seed: int, seed2: int) -> Stream:
    """The node's own, from its first step on; seeds of 0 and 0 stand for fresh ones."""
    return stream_in(ctx.memo, seed, seed2)


def stream_in(memo: dict[str, Any], seed: int, seed2: int) -> Stream:
    """As `stream_of`, of the node that remembers this."""
    found: Stream | None = memo.get("stream")
    if found is None:
        # Two steps may come here at once: the first one's stream stays.
        found = memo.setdefault("stream", Stream(seed, seed2))
    return found


def _from_shape(c: ShapeContext) -> Shape:
    return c.shape_value("shape")


def _filler(name: str, fill: Any, says: str, traits: Traits = NONE) -> OpSpec:
    def kernel(
        ctx: KernelContext,
        shape: Array,
        taken: Array | None = None,
        *,
        dtype: DType,
        seed: int,
        seed2: int,
    ) -> Array:
        sizes = checked_sizes(shape, "shape")
        stream = stream_of(ctx, seed, seed2) if taken is None else Stream.of_taken(taken)
        made: Array = fill(stream, shape_rules.num_elements(sizes), dtype.np)
        return made.reshape(sizes)

    kernel.__doc__ = f"{says}, of shape `shape` (a vector).  Raises InvalidArgument on a bad shape."
    return op(
        name,
        inputs="shape: T",
        outputs="output: dtype",
        attrs=f"{_SEEDS}; dtype: {_FLOATS}; T: {{int32, int64}}",
        shape=_from_shape,
        traits={STATEFUL, DRAWS, SHARES, *traits},
        differentiable=False,
    )(kernel)


random_uniform_op = _filler(
    "RandomUniform", random_streams.uniform, "Uniform in [0, 1)", {TAKES_BLOCKS}
)
random_standard_normal_op = _filler(
    "RandomStandardNormal",
    random_streams.normal,
    "Normal, of mean 0 and standard deviation 1",
    {TAKES_BLOCKS},
)
truncated_normal_op = _filler(
    "TruncatedNormal",
    random_streams.truncated_normal,
    "Normal, of mean 0 and standard deviation 1 before values 2 or more away from it were redrawn",
    {ITERATES},
)


@random_uniform_op.takes_ahead
@random_standard_normal_op.takes_ahead
def _taken(ctx: KernelContext, shape: Array, *, seed: int, seed2: int) -> Array:
    sizes = checked_sizes(shape, "shape")
    return stream_of(ctx, seed, seed2).taken(shape_rules.num_elements(sizes) or 0)


@op(
    "RandomUniformInt",
    inputs="shape: T; minval: Tout; maxval: Tout",
    outputs="output: Tout",
    attrs=f"{_SEEDS}; Tout: {{int32, int64}}; T: {{int32, int64}}",
    shape=_from_shape,
    traits={STATEFUL, DRAWS, SHARES, TAKES_BLOCKS},
)
def random_uniform_int_op(
    ctx: KernelContext,
    shape: Array,
    minval: Any,
    maxval: Any,
    taken: Array | None = None,
    *,
    Tout: DType,
    seed: int,
    seed2: int,
) -> Array:
    """Uniform in [minval, maxval), scalars.  Raises InvalidArgument unless minval < maxval."""
    sizes, size, low, high = _range(shape, minval, maxval)
    if not size:
        return np.empty(sizes, Tout.np)
    stream = stream_of(ctx, seed, seed2) if taken is None else Stream.of_taken(taken)
    return random_streams.uniform_int(stream, size, low, high, Tout.np).reshape(sizes)


def _range(shape: Array, minval: Any, maxval: Any) -> tuple[tuple[int, ...], int, int, int]:
    """The shape, how many numbers, and their limits.  Raises InvalidArgument."""
    sizes = checked_sizes(shape, "shape")
    for name, value in (("minval", minval), ("maxval", maxval)):
        if value.ndim:
            raise errors.invalid_argument(
                f"{name} must be 0-D, got shape {shape_rules.text(value.shape)}"
            )
    size = shape_rules.num_elements(sizes) or 0
    low, high = int(minval), int(maxval)
    if size and low >= high:
        raise errors.invalid_argument(f"Need minval < maxval, got {low} >= {high}")
    return sizes, size, low, high


@random_uniform_int_op.takes_ahead
def _taken_for_int(
    ctx: KernelContext, shape: Array, minval: Any, maxval: Any, *, seed: int, seed2: int
) -> Array:
    _, size, low, high = _range(shape, minval, maxval)
    return stream_of(ctx, seed, seed2).taken(size, max(high - low, 1), low)


@op(
    "RandomShuffle",
    inputs="value: T",
    outputs="output: T",
    attrs=f"{_SEEDS}; T: type",
    shape=unchanged,
    traits={STATEFUL, DRAWS, DRAWS_BY_SHAPE},
    differentiable=False,
)
def random_shuffle_op(
    ctx: KernelContext, value: Any, taken: Array | None = None, *, seed: int, seed2: int
) -> Any:
    """The rows of value in random order."""
    value = np.asarray(value)
    if value.ndim == 0 or len(value) < 2 or value.size == 0:
        return value.copy()
    return value[_order(ctx, value, seed=seed, seed2=seed2) if taken is None else taken]


@random_shuffle_op.takes_ahead
def _order(ctx: KernelContext, value: Any, *, seed: int, seed2: int) -> Array:
    """Numbers of the rows, in random order."""
    rows = value.shape[0] if value.ndim else 0
    if rows < 2 or 0 in value.shape:
        return np.arange(rows)
    stream = stream_of(ctx, seed, seed2)
    if not stream.seeded:
        return stream.numpy.permutation(rows)
    blocks = (rows + 2) // 4  # as many as hold rows - 1 numbers
    first = stream.reserve(blocks)
    words = stream.made_again(first, blocks, blocks)
    if words is None:
        words = stream.words(first, blocks)
    words = words.ravel()[: rows - 1]
    steps = words % np.arange(rows, 1, -1, dtype=np.uint64)
    return order_of_swaps(np.arange(rows - 1) + steps.astype(np.int64))


def _multinomial_shape(c: ShapeContext) -> Shape:
    logits = c.with_rank("logits", 2)
    assert logits is not None
    c.with_rank("num_samples", 0)
    samples = c.value("num_samples")
    if samples is not None and samples < 0:
        raise ValueError(
            f"Dimension size, given by scalar input 1, must be non-negative but is {samples}: num_samples"
        )
    return logits[0], None if samples is None else int(samples)


@op(
    "Multinomial",
    inputs="logits: T; num_samples: int32",
    outputs="output: output_dtype",
    attrs=f"{_SEEDS}; T: realnumbertype; output_dtype: {{int32, int64}} = int64",
    shape=_multinomial_shape,
    traits={STATEFUL, DRAWS, DRAWS_BY_SHAPE, TAKES_BLOCKS},
    differentiable=False,
)
def multinomial_op(
    ctx: KernelContext,
    logits: Array,
    num_samples: Any,
    taken: Array | None = None,
    *,
    seed: int,
    seed2: int,
    output_dtype: DType,
) -> Array:
    """[batch, num_samples] of class numbers; logits [batch, classes], unnormalized log probabilities.

    Raises InvalidArgument on shapes that do not fit.
    """
    batch, samples = _classes_wanted(logits, num_samples)
    out = np.empty((batch, samples), output_dtype.np)
    if out.size:
        stream = stream_of(ctx, seed, seed2) if taken is None else Stream.of_taken(taken)
        drawn = random_streams.doubles_of_run(stream, out.size, _numbers_of(batch, samples))
        out[:] = picked(logits.astype(np.float64), drawn.reshape(out.shape))
    return out


@multinomial_op.takes_ahead
def _taken_for_classes(
    ctx: KernelContext, logits: Any, num_samples: Any, *, seed: int, seed2: int
) -> Array:
    wanted = _classes_wanted(logits, num_samples)
    return stream_of(ctx, seed, seed2).taken(_numbers_of(*wanted))


def _numbers_of(batch: int, samples: int) -> int:
    return batch * ((samples + 3) // 4 * 4) * 2


def _classes_wanted(logits: Any, num_samples: Any) -> tuple[int, int]:
    """Of how many rows, and how many of each.  Raises InvalidArgument."""
    if logits.ndim != 2 or num_samples.ndim:
        raise errors.invalid_argument(
            f"logits should be a matrix, got shape {shape_rules.text(logits.shape)}"
            if logits.ndim != 2
            else f"num_samples should be a scalar, got shape {shape_rules.text(num_samples.shape)}"
        )
    samples, (batch, classes) = int(num_samples), logits.shape
    if samples < 0:
        raise errors.invalid_argument(f"num_samples should be non-negative, got {samples}")
    if classes < 1:
        raise errors.invalid_argument(f"num_classes should be positive, got {classes}")
    return batch, samples


def picked(logits: Array, drawn: Array) -> Array:
    """int [batch, samples]: for each number drawn from [0, 1) [batch, samples] the class by its row of logits [batch,
    classes], float64; those with infinite or NaN logits are never it.
    """
    finite = np.isfinite(logits)
    if finite.all():
        weights = np.exp(logits - logits.max(1, keepdims=True))
    else:
        top = np.max(logits, 1, keepdims=True, initial=-np.inf, where=finite)
        below = np.subtract(logits, top, out=np.zeros_like(logits), where=finite)
        weights = np.where(finite, np.exp(below), 0.0)
    totals = np.cumsum(weights, 1)
    wanted = drawn * totals[:, -1:]
    if wanted.size * logits.shape[1] <= _FEW_COMPARED:
        found: Array = np.count_nonzero(totals[:, None, :] <= wanted[:, :, None], 2)
        return found
    pairs = zip(totals, wanted, strict=True)
    return np.stack([np.searchsorted(row, each, "right") for row, each in pairs])


_WHOLE = "{half, float, double, int32, int64}"
_LARGEST_OF_NUMPY = 9e18
_FAR_OFF = 20.0  # standard deviations that a count is never away from its rate


def _poisson(
    ctx: KernelContext, shape: Array, rate: Any, dtype: DType, seed: int, seed2: int
) -> Array:
    sizes = checked_sizes(shape, "shape")
    rates = np.asarray(rate, np.float64)
    if not np.all((rates >= 0) & (rates < np.inf)):
        raise errors.invalid_argument("rates of a Poisson distribution are finite and not negative")
    limits = np.finfo(dtype.np) if dtype.is_floating else np.iinfo(dtype.np)
    largest, highest = float(limits.max), float(rates.max(initial=0.0))
    if highest + _FAR_OFF * highest**0.5 > largest:
        raise errors.invalid_argument(
            f"counts of a Poisson distribution of rate {highest:g} do not fit {dtype.name}, "
            f"whose largest value is {largest:g}"
        )
    stream = stream_of(ctx, seed, seed2)
    if not stream.seeded and highest < _LARGEST_OF_NUMPY:
        return stream.numpy.poisson(rates, sizes + rates.shape).astype(dtype.np)
    made = poisson(stream, shape_rules.num_elements(sizes) or 0, rates.ravel(), largest)
    return made.astype(dtype.np).reshape(sizes + rates.shape)


def _shape_and(arg: str) -> Any:
    def shape(c: ShapeContext) -> Shape:
        return shape_rules.concatenate(c.shape_value("shape"), c.shape(arg))

    return shape


@op(
    "RandomPoisson",
    inputs="shape: S; rate: dtype",
    outputs="output: dtype",
    attrs=f"{_SEEDS}; S: {{int32, int64}}; dtype: {{half, float, double}}",
    shape=_shape_and("rate"),
    traits={STATEFUL, DRAWS, ITERATES},
)
def random_poisson_op(
    ctx: KernelContext, shape: Array, rate: Any, *, dtype: DType, seed: int, seed2: int
) -> Array:
    """shape + rate.shape of counts.  Raises InvalidArgument on a rate that is negative, infinite or too large."""
    return _poisson(ctx, shape, rate, dtype, seed, seed2)


@op(
    "RandomPoissonV2",
    inputs="shape: S; rate: R",
    outputs="output: dtype",
    attrs=f"{_SEEDS}; S: {{int32, int64}}; R: {_WHOLE} = double; dtype: {_WHOLE} = int64",
    shape=_shape_and("rate"),
    traits={STATEFUL, DRAWS, ITERATES},
)
def random_poisson_v2_op(
    ctx: KernelContext, shape: Array, rate: Any, *, dtype: DType, seed: int, seed2: int
) -> Array:
    """shape + rate.shape of counts.  Raises InvalidArgument on a rate that is negative, infinite or too large."""
    return _poisson(ctx, shape, rate, dtype, seed, seed2)


# -- functions --------------------------------------------------------------------------------


def seeds_of(seed: int | None) -> dict[str, Any]:
    """The attrs of a node: an op's seed joined with its graph's; 0 and 0 if there is neither."""
    first, second = get_seed(seed)
    return {"seed": first or 0, "seed2": second or 0}


def shape_tensor(shape: Any) -> Tensor:
    """`shape` as a vector of int32 (int64 where it needs it, or is)."""
    kind: DType | None = None
    if isinstance(shape, (list, tuple)):
        plain = all(isinstance(size, (int, np.integer)) for size in shape)
        wide = plain and any(abs(int(size)) > 2**31 - 1 for size in shape)
        kind = dtypes.int64 if wide else dtypes.int32
        if any(isinstance(size, Tensor) and size.dtype == dtypes.int64 for size in shape):
            kind = dtypes.int64
        if any(isinstance(size, (float, np.floating)) for size in shape):
            kind = None
    return convert(shape, kind, "shape")


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Uniform in [minval, maxval); maxval is 1 for floats by default and needed for integers."""
    kind = dtypes.as_dtype(dtype)
    if kind not in _UNIFORM_TYPES:
        raise ValueError(
            f"Argument `dtype` got invalid value {kind}: "
            "random_uniform makes float16, bfloat16, float32, float64, int32 or int64"
        )
    if maxval is None:
        if kind.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {kind!r}: there is no default")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        sizes = shape_tensor(shape)
        from_zero = kind.is_floating and type(minval) is int and minval == 0
        if from_zero and type(maxval) is int and maxval == 1:
            return _tensor(make.RandomUniform(sizes, dtype=kind, **seeds_of(seed)))
        low = convert(minval, kind, "min")
        high = convert(maxval, kind, "max")
        if kind.is_integer:
            return _tensor(make.RandomUniformInt(sizes, low, high, name=scope, **seeds_of(seed)))
        drawn = make.RandomUniform(sizes, dtype=kind, **seeds_of(seed))
        if from_zero:
            return _tensor(make.Mul(drawn, high))
        span = make.Sub(high, low, name="sub")
        return _tensor(make.AddV2(make.Mul(drawn, span, name="mul"), low, name=scope))


_UNIFORM_TYPES = (
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
    dtypes.int32,
    dtypes.int64,
)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal of this mean and standard deviation (tensors that broadcast)."""
    return _scaled("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal, without values more than two standard deviations from the mean."""
    return _scaled("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


def _scaled(
    kind: str,
    default_name: str,
    shape: Any,
    mean: Any,
    stddev: Any,
    dtype: Any,
    seed: int | None,
    name: str | None,
) -> Tensor:
    wanted = dtypes.as_dtype(dtype)
    with name_scope(name, default_name, [shape, mean, stddev]) as scope:
        sizes = shape_tensor(shape)
        centre = convert(mean, wanted, "mean")
        spread = convert(stddev, wanted, "stddev")
        drawn = getattr(make, kind)(sizes, dtype=wanted, **seeds_of(seed))
        return _tensor(make.AddV2(make.Mul(drawn, spread, name="mul"), centre, name=scope))


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """The rows of `value` in random order."""
    return _tensor(random_shuffle_op(value, name=name, **seeds_of(seed)))


def multinomial(
    logits: Any,
    num_samples: Any,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: Any = None,
) -> Tensor:
    """[batch, num_samples] of class numbers; logits [batch, classes], unnormalized log probabilities."""
    return _drawn("multinomial", logits, num_samples, output_dtype, seed, name)


def categorical(
    logits: Any,
    num_samples: Any,
    dtype: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """[batch, num_samples] of class numbers; logits [batch, classes], unnormalized log probabilities."""
    return _drawn("categorical", logits, num_samples, dtype, seed, name)


def _drawn(
    default_name: str, logits: Any, num_samples: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    with name_scope(name, default_name, [logits]):
        values = convert(logits, name="logits")
        kind = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
        return _tensor(make.Multinomial(values, num_samples, output_dtype=kind, **seeds_of(seed)))


def random_poisson(
    lam: Any,
    shape: Any,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """shape + lam.shape of counts drawn from Poisson distributions of these rates."""
    with name_scope(name, "random_poisson", [lam, shape]):
        sizes = convert(shape, dtypes.int32, "shape")
        return _tensor(make.RandomPoissonV2(sizes, lam, dtype=dtype, **seeds_of(seed)))


def _tensor(made: Any) -> Tensor:
    result: Tensor = made
    return result
