"""Softmax, log-softmax and the cross entropies built on them.

Called by: losses, programs.  Threads: any.
Source: TF 1.15 core/ops/nn_ops.cc, core/kernels/{softmax_op,xent_op,sparse_xent_op}.cc
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes, errors, shapes
from headrace.base.shapes import Shape
from headrace.base.traits import NEVER_FAILS, PER_RECORD, SHARES
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.blocks import LARGE, over_rows
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.runs import as_they_lie
from headrace.ops.array.joining import concat
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, rank, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal
from headrace.ops.flow.identities import stop_gradient
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__ = [
    "log_softmax",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "sparse_softmax_cross_entropy_with_logits",
]

Array = np.ndarray[Any, Any]
_FLOATS = "{half, bfloat16, float, double}"


# -- ops --------------------------------------------------------------------------------------


def _at_least_vector(c: ShapeContext) -> Shape:
    return c.with_rank_at_least("logits", 1)


def _shifted(x: Array, out: Array | None = None) -> Array:
    """x less the largest of its row, in row-major order whatever that of x."""
    largest = np.maximum.reduce(x, axis=-1, keepdims=True, initial=-np.inf)
    return np.subtract(x, largest, out, order="C")


def _softmax(x: Array, out: Array | None = None) -> Array:
    powers = _shifted(x, out)
    np.exp(powers, out=powers)
    total = np.add.reduce(powers, axis=-1, keepdims=True)
    return np.divide(powers, total, powers)


def _log_softmax(x: Array, out: Array | None = None) -> Array:
    shifted = _shifted(x, out)
    total = np.add.reduce(np.exp(shifted), axis=-1, keepdims=True)
    return np.subtract(shifted, np.log(total), shifted)


def _of_rows(logits: Array, compute: Callable[..., Array]) -> Array:
    """compute(x, out) of rows [n, classes], of large ones some after the others; of half and bfloat16 in float32."""
    if logits.size < LARGE:
        return compute(single(logits)).astype(logits.dtype, copy=False)
    out = np.empty(logits.shape, logits.dtype)
    rows, into = (each.reshape(-1, logits.shape[-1]) for each in (logits, out))

    def some(which: slice) -> None:
        x, made = single(rows[which]), into[which]
        with as_they_lie(x.shape[1]):
            if x.dtype == made.dtype:
                compute(x, made)
            else:
                made[...] = compute(x)

    over_rows(len(rows), rows.shape[1], some)
    return out


def _check_vector(logits: Any) -> None:
    if logits.ndim < 1:
        raise errors.invalid_argument("softmax needs at least one dimension, not a scalar")


@op(
    "Softmax",
    inputs="logits: T",
    outputs="softmax: T",
    attrs=f"T: {_FLOATS}",
    shape=_at_least_vector,
    traits={NEVER_FAILS, PER_RECORD, SHARES},
)
def softmax_op(xp: Any, logits: Array) -> Any:
    """exp(logits) over their sum, along the last axis.  Raises InvalidArgument for a scalar."""
    _check_vector(logits)
    return _of_rows(logits, _softmax)


@softmax_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    y = op.outputs[0]
    return (dout - reduce_sum(dout * y, -1, keepdims=True)) * y


@op(
    "LogSoftmax",
    inputs="logits: T",
    outputs="logsoftmax: T",
    attrs=f"T: {_FLOATS}",
    shape=_at_least_vector,
    traits={NEVER_FAILS, SHARES},
)
def log_softmax_op(xp: Any, logits: Array) -> Any:
    """The logarithm of the softmax along the last axis.  Raises as Softmax."""
    _check_vector(logits)
    return _of_rows(logits, _log_softmax)


@log_softmax_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    y = make.Exp(op.outputs[0])
    return dout - reduce_sum(dout, -1, keepdims=True) * y


def _dense_shape(c: ShapeContext) -> list[Shape]:
    both = (shapes.merge if None in c.shapes else shapes.broadcast)(*c.shapes)
    if both is None:
        return [(None,), (None, None)]
    if len(both) != 2:
        raise ValueError(
            f"Shape must be rank 2 but is rank {len(both)}: logits and labels have shapes "
            f"{' and '.join(map(shapes.text, c.shapes))}"
        )
    return [both[:1], both]


@op(
    "SoftmaxCrossEntropyWithLogits",
    inputs="features: T; labels: T",
    outputs="loss: T; backprop: T",
    attrs=f"T: {_FLOATS}",
    shape=_dense_shape,
    traits={SHARES},
)
def softmax_cross_entropy_op(xp: Any, features: Array, labels: Array) -> Any:
    """loss [batch] = -sum(labels * log_softmax(features)), backprop = softmax(features) - labels.

    features, labels [batch, classes] (they broadcast).  Raises InvalidArgument on other shapes.
    """
    try:
        sizes = np.broadcast_shapes(features.shape, labels.shape)
    except ValueError:
        sizes = ()
    if len(sizes) != 2:
        raise errors.invalid_argument(
            f"logits and labels must be broadcastable: logits_size={shapes.text(features.shape)} "
            f"labels_size={shapes.text(labels.shape)}, and must be matrices of one shape"
        )
    given, targets = (np.broadcast_to(each, sizes) for each in (features, labels))
    return _entropies(_entropy, given, targets)


_Entropy = Callable[[Array, Array, Array | None], tuple[Array, Array]]


def _entropies(entropy: _Entropy, features: Array, labels: Array) -> tuple[Array, Array]:
    """entropy(features, labels, out) of rows, of large ones some after the others; in float32 at least."""
    kind = features.dtype
    wide = kind if kind.itemsize >= 4 else np.dtype(np.float32)
    if features.size < LARGE and kind == wide:
        return entropy(features, labels, None)
    has_probabilities = labels.ndim > 1

    def of(which: slice, out: Array | None) -> tuple[Array, Array]:
        values, targets = features[which], labels[which]
        if kind != wide:
            values = values.astype(wide)
            targets = targets.astype(wide) if has_probabilities else targets
        return entropy(values, targets, out)

    if features.size < LARGE:
        cost, slopes = of(slice(None), None)
        return cost.astype(kind, copy=False), slopes.astype(kind, copy=False)
    loss, backprop = np.empty(len(features), kind), np.empty(features.shape, kind)

    def some(which: slice) -> None:
        with as_they_lie(features.shape[1]):
            loss[which], slopes = of(which, backprop[which] if kind == wide else None)
        if kind != wide:
            backprop[which] = slopes

    over_rows(len(features), features.shape[1], some)
    return loss, backprop


def _entropy(features: Array, targets: Array, out: Array | None) -> tuple[Array, Array]:
    shifted = _shifted(features, out)
    powers = np.exp(shifted)
    total = np.add.reduce(powers, axis=1, keepdims=True)
    np.subtract(np.log(total), shifted, shifted)
    np.multiply(targets, shifted, shifted)
    np.divide(powers, total, powers)
    loss = np.add.reduce(shifted, axis=1)
    return loss, np.subtract(powers, targets, out=shifted)


def _sparse_shape(c: ShapeContext) -> list[Shape]:
    features, labels = c.with_rank("features", 2), c.with_rank("labels", 1)
    assert features is not None
    assert labels is not None
    batch = shapes.merge_sizes(features[0], labels[0], "rows of logits and labels")
    return [(batch,), (batch, features[1])]


@op(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs="features: T; labels: Tlabels",
    outputs="loss: T; backprop: T",
    attrs=f"T: {_FLOATS}; Tlabels: {{int32, int64}} = int64",
    shape=_sparse_shape,
    traits={SHARES},
)
def sparse_softmax_cross_entropy_op(xp: Any, features: Array, labels: Array) -> Any:
    """loss [batch] = -log_softmax(features)[label], backprop = softmax(features) - one_hot(label).

    features [batch, classes], labels [batch] in [0, classes).  Raises InvalidArgument.
    """
    _check_sparse(features, labels)
    return _entropies(_sparse_entropy, features, labels)


def _sparse_entropy(features: Array, labels: Array, out: Array | None) -> tuple[Array, Array]:
    powers = _shifted(features, out)
    at = np.arange(len(labels)) * features.shape[1] + labels  # in row-major order
    chosen = powers.take(at)
    np.exp(powers, out=powers)
    total = np.add.reduce(powers, axis=1, keepdims=True)
    loss = np.log(total[:, 0]) - chosen
    np.divide(powers, total, powers)
    powers.reshape(-1)[at] -= 1
    return loss, powers


def _check_sparse(features: Array, labels: Array) -> None:
    if features.ndim != 2 or labels.ndim != 1 or len(features) != len(labels):
        raise errors.invalid_argument(
            f"logits and labels must have the same first dimension, got logits shape {shapes.text(features.shape)} and "
            f"labels shape {shapes.text(labels.shape)}; they are a matrix and a vector"
        )
    classes = features.shape[1]
    if len(labels) and not classes:
        raise errors.invalid_argument("logits must have at least one class")
    unsigned = labels.view(np.uint64 if labels.dtype == np.int64 else np.uint32)  # negative: huge
    if len(labels) and np.maximum.reduce(unsigned) >= classes:
        bad = labels[unsigned >= classes]
        raise errors.invalid_argument(
            f"Received a label value of {bad[0]} which is outside the valid range of [0, {classes}), the classes that "
            "the logits have. Label values: " + " ".join(str(label) for label in labels[:100])
        )


def _scaled_by(loss: Tensor, matrix: Tensor) -> Tensor:
    scaled: Tensor = expand_dims(loss, -1) * matrix
    return scaled


def _of_logits(op: Operation, dloss: Tensor, dbackprop: Tensor | None) -> Tensor:
    """The gradient of the logits, when also the second output may have one."""
    found = _scaled_by(dloss, op.outputs[1])
    if dbackprop is None or dbackprop.op.type == "ZerosLike":
        return found
    y = make.Softmax(op.inputs[0])
    row, column = expand_dims(dbackprop, 1), expand_dims(y, 2)
    return found + (dbackprop - squeeze(matmul(row, column), axis=[1])) * y  # type: ignore[no-any-return]


@softmax_cross_entropy_op.gradient
def _(op: Operation, dloss: Tensor, dbackprop: Tensor | None) -> Any:
    first = _of_logits(op, dloss, dbackprop)
    return first, _scaled_by(dloss, -make.LogSoftmax(op.inputs[0]))


@sparse_softmax_cross_entropy_op.gradient
def _(op: Operation, dloss: Tensor, dbackprop: Tensor | None) -> Any:
    return _of_logits(op, dloss, dbackprop), None


# -- functions --------------------------------------------------------------------------------


def _axis(axis: int | None, dim: int | None) -> int:
    if axis is not None and dim is not None:
        raise ValueError("axis and dim mean the same: give only axis")
    return -1 if axis is None and dim is None else int(dim if axis is None else axis)  # type: ignore[arg-type]


def softmax(
    logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """exp(logits) over their sum along `axis` (the last by default)."""
    return _along(softmax_op, logits, _axis(axis, dim), name)


@of_ragged
def log_softmax(
    logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """The logarithm of the softmax along `axis` (the last by default)."""
    return _along(log_softmax_op, logits, _axis(axis, dim), name)


def _along(spec: OpSpec, logits: Any, axis: int, name: str | None) -> Tensor:
    values = convert(logits)
    raw = values.raw_shape
    result: Tensor
    if axis == -1 or (raw is not None and axis == len(raw) - 1):
        result = spec(values, name=name)
        return result
    if raw is not None and not -len(raw) <= axis < len(raw):
        raise errors.invalid_argument(
            f"`dim` must be in the range [{-len(raw)}, {len(raw)}), the axes of {values.name}, and axis is {axis}"
        )
    at: Any = axis
    dims = rank(values)
    if axis < 0:
        at = axis + dims
    dims = rank(values)
    if axis < 0 and raw is not None:
        at = at % len(raw)
    moved = _swapped(values, at, make.Sub(dims, 1), None)
    result = _swapped(spec(moved), at, make.Sub(dims, 1), name)
    result.set_shape(raw)
    return result


def _swapped(values: Tensor, axis: Any, last: Tensor, name: str | None) -> Tensor:
    order = concat([range_of(axis), [last], range_of(axis + 1, last), [axis]], 0)
    return _transposed(values, order, name)


def _transposed(values: Tensor, order: Tensor, name: str | None) -> Tensor:
    result: Tensor = make.Transpose(values, order, name=name or "transpose")
    return result


def _precise(logits: Tensor) -> Tensor:
    narrow = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
    return cast(logits, dtypes.float32) if narrow else logits


def softmax_cross_entropy_with_logits_v2(
    labels: Any,
    logits: Any,
    axis: int | None = None,
    name: str | None = None,
    dim: int | None = None,
) -> Tensor:
    """-sum(labels * log_softmax(logits)) along `axis` (the last by default).

    labels: probabilities, of the shape of logits.  The result has that shape without `axis`.
    """
    at = _axis(axis, dim)
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits = convert(logits, name="logits")
        labels = convert(labels, name="labels")
        values = _precise(logits)
        targets = cast(labels, values.dtype.base_dtype)
        dims = rank(values)
        raw = logits.raw_shape
        if at != -1:
            values, targets = (_moved_to_end(t, at, dims) for t in (values, targets))
        sizes = shape_of(values)
        values, targets = _as_matrix(values), _as_matrix(targets)
        cost = make.SoftmaxCrossEntropyWithLogits(values, targets, name=scope)[0]
        outer = make.Slice(sizes, [0], [make.Sub(dims, 1)])
        cost = make.Reshape(cost, outer)
        if raw is not None:
            cost.set_shape([size for index, size in enumerate(raw) if index != at % len(raw)])
        return _as_given(cost, logits)


def _as_given(cost: Tensor, logits: Tensor) -> Tensor:
    kind = logits.dtype.base_dtype
    return cost if cost.dtype == kind else cast(cost, kind)


def _moved_to_end(tensor: Tensor, axis: int, dims: Tensor) -> Tensor:
    order = concat([range_of(axis), range_of(axis + 1, dims), [axis]], 0)
    return _transposed(tensor, order, None)


def _as_matrix(tensor: Tensor) -> Tensor:
    """All axes but the last as one."""
    dims = rank(tensor)
    sizes = shape_of(tensor)
    last = make.Slice(sizes, [make.Sub(dims, 1)], [1])
    flat: Tensor = make.Reshape(tensor, concat([[-1], last], 0))
    raw = tensor.raw_shape
    if raw and shapes.is_fully_defined(raw[:-1]):
        flat.set_shape([shapes.num_elements(raw[:-1]), raw[-1]])
    return flat


def softmax_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """As `softmax_cross_entropy_with_logits_v2`, but no gradient flows into the labels."""
    _check_given(labels, logits)
    at = dim if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        fixed = stop_gradient(labels, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(fixed, logits, at, scope)


def _check_given(labels: Any, logits: Any) -> None:
    if labels is None or logits is None:
        raise ValueError("both labels and logits must be given")


def sparse_softmax_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """-log_softmax(logits) at the labels: class numbers in the shape of logits without its last axis.

    A label outside [0, classes) is an InvalidArgumentError of the step.  Raises ValueError.
    """
    _check_given(labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels, logits = convert(labels), convert(logits)
        values = _precise(logits)
        sizes = shape_of(labels)
        known = _checked_shapes(labels, logits)
        if logits.raw_shape is not None and len(logits.raw_shape) == 2:
            cost = make.SparseSoftmaxCrossEntropyWithLogits(values, labels, name=name)[0]
            return _as_given(cost, logits)
        checks = []
        if not known:
            checks.append(assert_equal(shape_of(labels), shape_of(logits)[:-1]))
        with scopes.get_default_graph().control_dependencies(checks):
            classes = shape_of(logits)[rank(logits) - 1]
            matrix = make.Reshape(values, [-1, classes])
            vector = make.Reshape(labels, [-1])
            cost = make.SparseSoftmaxCrossEntropyWithLogits(matrix, vector, name=name)[0]
            cost = make.Reshape(cost, sizes)
            cost.set_shape(labels.raw_shape)
            return _as_given(cost, logits)


def _checked_shapes(labels: Tensor, logits: Tensor) -> bool:
    """Whether the shapes are fully known; they fit as far as they are."""
    wide, narrow = logits.raw_shape, labels.raw_shape
    if wide == ():
        raise ValueError(f"`logits` cannot be a scalar: {logits.name} is one")
    if wide is None or narrow is None:
        return False
    if len(narrow) != len(wide) - 1:
        raise ValueError(
            f"`labels.shape.rank` must equal `logits.shape.rank - 1`: labels {labels.name} has shape {labels.shape}, "
            f"logits {logits.name} {logits.shape}"
        )
    known = shapes.is_fully_defined(narrow) and shapes.is_fully_defined(wide[:-1])
    if known and narrow != wide[:-1]:
        raise ValueError(
            f"`labels.shape` must equal `logits.shape` except for the last dimension: labels {labels.name} has shape "
            f"{labels.shape}, logits {logits.name} {logits.shape}"
        )
    return known
