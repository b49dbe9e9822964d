"""The rest of tf.nn: dropout, moments, normalizations, sigmoid cross entropies, in_top_k, l2_loss.

Called by: layers, losses, programs.  Threads: any.
Source: TF 1.15 core/ops/nn_ops.cc and behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors, shapes
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, TensorShape
from headrace.base.traits import SHARES
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, scalar
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.blocks import over_rows
from headrace.ops.array.constants import constant, zeros, zeros_like
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.array.shapes import squeeze
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import identity, stop_gradient
from headrace.ops.linalg.products import THREADED_VECTOR
from headrace.ops.math.casting import cast, imag, real
from headrace.ops.math.casting import complex as complex_of
from headrace.ops.math.reductions import reduce_mean, reduce_sum
from headrace.ops.random.draws import random_uniform
from headrace.ops.tables import make
from headrace.run.exec.worker_pool import hold_blas

__all__ = [
    "batch_normalization",
    "dropout",
    "in_top_k",
    "l2_loss",
    "l2_normalize",
    "log_poisson_loss",
    "moments",
    "sigmoid_cross_entropy_with_logits",
    "weighted_cross_entropy_with_logits",
    "zero_fraction",
]

Array = np.ndarray[Any, Any]


# -- ops --------------------------------------------------------------------------------------


@op(
    "L2Loss",
    inputs="t: T",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double}",
    shape=scalar,
    traits={SHARES},
)
def l2_loss(xp: Any, t: Any) -> Any:
    """Half the sum of the squares: a scalar."""
    wide = np.float64 if t.dtype == np.float64 else np.float32
    flat = np.asarray(t).ravel().astype(wide, copy=False)
    if flat.size >= THREADED_VECTOR:
        hold_blas()
    return (np.dot(flat, flat) * wide(0.5)).astype(t.dtype)


@l2_loss.gradient
def _(op: Operation, dout: Tensor) -> Any:
    return op.inputs[0] * dout


def _in_top_k(predictions: Array, targets: Array, k: int) -> Array:
    if predictions.ndim != 2 or targets.ndim != 1 or len(predictions) != len(targets):
        says = f"First dimension of predictions {(*predictions.shape, 0)[0]} must match length of targets"
        if targets.ndim != 1:
            says = "targets must be 1-dimensional"
        if predictions.ndim != 2:
            says = "predictions must be 2-dimensional"
        raise errors.invalid_argument(
            f"{says} {targets.size}: their shapes are {shapes.text(predictions.shape)} and {shapes.text(targets.shape)}"
        )
    classes = predictions.shape[1]
    if not classes:
        return np.zeros(len(targets), bool)
    valid: Array = (targets >= 0) & (targets < classes)
    chosen = predictions[np.arange(len(targets)), np.where(valid, targets, 0)]
    larger = np.empty(len(targets), np.int32)
    finite = np.empty(len(targets), bool)

    def some(rows: slice) -> None:
        part = predictions[rows]
        above = (part > chosen[rows, None]).view(np.uint8)  # sooner summed up than bools
        np.add.reduce(above, axis=1, dtype=np.int32, out=larger[rows])
        np.isfinite(part).all(axis=1, out=finite[rows])

    over_rows(len(targets), classes, some)
    found: Array = valid & finite & (larger < k)
    return found


def _in_top_k_shape(c: ShapeContext) -> Shape:
    predictions, targets = c.with_rank("predictions", 2), c.with_rank("targets", 1)
    assert predictions is not None
    assert targets is not None
    return (
        shapes.merge_sizes(predictions[0], targets[0], "the rows of predictions and the targets"),
    )


@op(
    "InTopK",
    inputs="predictions: float; targets: T",
    outputs="precision: bool",
    attrs="k: int; T: {int32, int64} = int32",
    shape=_in_top_k_shape,
    traits={SHARES},
)
def in_top_k_op(xp: Any, predictions: Array, targets: Array, *, k: int) -> Any:
    """[batch]: whether targets[i] is among the k largest of predictions[i, :].

    Ties count for the target; a target that is no class, or a row with a NaN or infinity, is false.
    Raises InvalidArgument unless predictions are [batch, classes] and targets [batch].
    """
    return _in_top_k(predictions, targets, k)


@op(
    "InTopKV2",
    inputs="predictions: float; targets: T; k: T",
    outputs="precision: bool",
    attrs="T: {int32, int64} = int32",
    shape=_in_top_k_shape,
    traits={SHARES},
)
def in_top_k_v2_op(xp: Any, predictions: Array, targets: Array, k: Any) -> Any:
    """As InTopK, with k a scalar input.  Raises as InTopK."""
    if k.ndim:
        raise errors.invalid_argument(f"k must be a scalar, not of shape {shapes.text(k.shape)}")
    return _in_top_k(predictions, targets, int(k))


# -- functions --------------------------------------------------------------------------------


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """[batch] of bool: whether targets[i] is among the k largest of predictions[i, :]."""
    with name_scope(name, "in_top_k"):
        result: Tensor = make.InTopKV2(predictions, targets, k, name=name)
        return result


def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """-labels log(sigmoid(logits)) - (1 - labels) log(1 - sigmoid(logits)), element by element."""
    logits, labels, opened = _two_alike(labels, logits, name)
    with opened as scope:
        logits, labels = convert(logits, name="logits"), convert(labels, name="labels")
        _check_alike(labels, logits)
        zeros = zeros_like(logits, dtype=logits.dtype)
        positive = logits >= zeros
        upper = make.Select(positive, logits, zeros)
        lower = make.Select(positive, -logits, logits)
        result: Tensor = make.AddV2(
            upper - logits * labels, make.Log1p(make.Exp(lower)), name=scope
        )
        return result


def weighted_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    pos_weight: Any = None,
    name: str | None = None,
    targets: Any = None,
) -> Tensor:
    """Sigmoid cross entropy in which positive labels count `pos_weight` times."""
    if labels is not None and targets is not None:
        raise ValueError("labels and targets mean the same: give only labels")
    logits, labels, opened = _two_alike(targets if labels is None else labels, logits, name)
    with opened as scope:
        logits, labels = convert(logits, name="logits"), convert(labels, name="labels")
        _check_alike(labels, logits)
        weight = 1 + (pos_weight - 1) * labels
        first = (1 - labels) * logits
        logs = make.Log1p(make.Exp(-make.Abs(logits))) + make.Relu(-logits)
        result: Tensor = make.AddV2(first, weight * logs, name=scope)
        return result


def _two_alike(labels: Any, logits: Any, name: str | None) -> tuple[Any, Any, name_scope]:
    if labels is None or logits is None:
        raise ValueError("both labels and logits must be given")
    return logits, labels, name_scope(name, "logistic_loss", [logits, labels])


def _check_alike(
    labels: Tensor, logits: Tensor, names: tuple[str, str] = ("logits", "labels")
) -> None:
    if not shapes.compatible(labels.raw_shape, logits.raw_shape):
        raise ValueError(
            f"`{names[0]}` and `{names[1]}` must have the same shape, received ({logits.shape} vs {labels.shape}), "
            f"those of {logits.name} and {labels.name}"
        )


def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """exp(log_input) - log_input * targets; with `compute_full_loss` also Stirling's log(targets!)."""
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert(log_input, name="log_input")
        targets = convert(targets, name="targets")
        _check_alike(targets, log_input, ("log_input", "targets"))
        result: Tensor = make.Exp(log_input) - log_input * targets
        if compute_full_loss:
            from headrace.ops.array.constants import ones_like

            half, circle = (constant(each, targets.dtype) for each in (0.5, 2 * np.pi))
            stirling = targets * make.Log(targets) - targets + half * make.Log(circle * targets)
            zeros = zeros_like(targets, dtype=targets.dtype)
            ones = ones_like(targets, dtype=targets.dtype)
            small = make.LogicalAnd(targets >= zeros, targets <= ones)
            result = result + make.Select(small, zeros, stirling)
        return result


@of_ragged
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """x with a share `rate` (1 - keep_prob) of its elements 0, the others scaled to keep the sum.

    noise_shape: where it has 1, elements are kept or dropped together.
    Raises ValueError unless x is floating and 0 <= rate < 1.
    """
    if keep_prob is not None:
        if rate is not None:
            raise ValueError(
                "Cannot specify both 'keep_prob' and 'rate': the first is 1 - the second"
            )
        rate = 1 - keep_prob
    if rate is None:
        raise ValueError("`rate` must be provided: dropout needs it")
    with name_scope(name, "dropout", [x]):
        known = isinstance(rate, (int, float, np.number))
        if known and not 0 <= rate < 1:
            raise ValueError(
                f"`rate` must be a scalar tensor or a float in the range [0, 1), and is {rate}"
            )
        values = convert(x, name="x")
        kind = values.dtype.base_dtype
        if not kind.is_floating:
            raise ValueError(
                f"`x.dtype` must be a floating point tensor as `x` will be scaled: {values.name} is {kind.name}"
            )
        if known and rate == 0:
            return values
        if known:
            scaled = make.Mul(values, convert(1 / (1 - float(rate)), kind))
        else:
            rate = convert(rate, kind, "rate")
            rate.shape.assert_has_rank(0)
            one = constant(1, kind)
            scaled = make.RealDiv(values, make.Sub(one, rate))
        noise = random_uniform(_noise_shape(values, noise_shape), seed=seed, dtype=kind)
        kept = noise >= rate
        result: Tensor = make.SelectV2(kept, scaled, constant(0, kind))
        result.set_shape(values.raw_shape)
        return result


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return shape_of(x)
    try:
        wanted = shapes.as_raw(noise_shape)
    except (TypeError, ValueError):
        return noise_shape
    known = x.raw_shape
    if wanted is None or known is None or len(wanted) != len(known):
        return noise_shape
    return TensorShape(
        [there if given is None else given for given, there in zip(wanted, known, strict=True)]
    )


def keep_dimensions(keepdims: bool | None, keep_dims: bool | None) -> bool:
    """Which of the two names of one argument was given.  Raises ValueError if both were."""
    if keepdims is not None and keep_dims is not None:
        raise ValueError("keepdims and keep_dims mean the same: give only keepdims")
    return bool(keepdims if keep_dims is None else keep_dims)


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance along `axes`.  `shift` is accepted and unused, as in TensorFlow."""
    keep = keep_dimensions(keepdims, keep_dims)
    with name_scope(name, "moments", [x, axes]):
        values = convert(x)
        half = values.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        precise = cast(values, dtypes.float32) if half else values
        mean = reduce_mean(precise, axes, keepdims=True, name="mean")
        squares = make.SquaredDifference(precise, stop_gradient(mean))
        variance = reduce_mean(squares, axes, keepdims=True, name="variance")
        if not keep:
            mean, variance = squeeze(mean, axes), squeeze(variance, axes)
        if half:
            kind = values.dtype.base_dtype
            mean, variance = cast(mean, kind), cast(variance, kind)
        return mean, variance


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """(x - mean) / sqrt(variance + variance_epsilon) * scale + offset; the last two may be None."""
    with name_scope(name, "batchnorm", [x, mean, variance, scale, offset]):
        factor = make.Rsqrt(variance + variance_epsilon)
        if scale is not None:
            factor = factor * scale
        first = x * cast(factor, x.dtype)
        second = offset - mean * factor if offset is not None else -mean * factor
        result: Tensor = first + cast(second, x.dtype)
        return result


def l2_normalize(
    x: Any,
    axis: Any = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: Any = None,
) -> Tensor:
    """x / sqrt(max(sum(|x| ** 2, axis), epsilon))."""
    axis = dim if axis is None else axis
    with name_scope(name, "l2_normalize", [x]) as scope:
        values = convert(x, name="x")
        if values.dtype.is_complex:
            squares = make.Square(real(values)) + make.Square(imag(values))
            total = reduce_sum(real(squares), axis, keepdims=True)
            factor = make.Rsqrt(make.Maximum(total, epsilon))
            x, y = (make.Mul(part(values), factor) for part in (real, imag))
            return complex_of(x, y, name=scope)
        total = reduce_sum(make.Square(values), axis, keepdims=True)
        result: Tensor = make.Mul(values, make.Rsqrt(make.Maximum(total, epsilon)), name=scope)
        return result


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The share of zeros among the elements, float32; NaN if there is none."""
    with name_scope(name, "zero_fraction", [value]):
        values = convert(value, name="value")
        size = size_of(values, out_type=dtypes.int64)
        small = size <= dtypes.int32.max
        nonzero = cond(
            small,
            lambda: cast(_nonzeros(values, dtypes.int32), dtypes.int64),
            lambda: _nonzeros(values, dtypes.int64),
        )
        with scopes.get_default_graph().name_scope("counts_to_fraction"):
            zeros = cast(size - nonzero, dtypes.float32)
            share = zeros / cast(size, dtypes.float32)
        result: Tensor = identity(share, "fraction")
        return result


def _nonzeros(values: Tensor, kind: DType) -> Tensor:
    """How many there are; counted in `kind`, of which the smaller is faster."""
    with name_scope("count_nonzero"):
        nonzero = make.NotEqual(values, zeros([], values.dtype.base_dtype))
        counted: Tensor = reduce_sum(cast(nonzero, kind), name="nonzero_count")
        return counted
