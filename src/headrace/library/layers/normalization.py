"""tf.layers.batch_normalization: the statistics of the batch taken out, those of all batches kept for later.

Called by: programs.  Threads: as graph.
Source: Ioffe, Szegedy, ICML 2015; TF 1.15 behaviour: variables ``gamma``, ``beta``, ``moving_mean`` and
``moving_variance``, updates in the collection UPDATE_OPS
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.layers.base import layer_scope, layer_variable, uncut
from headrace.library.layers.parameters import chosen, known
from headrace.library.layers.renormalization import Renorm, checked_clipping, composed
from headrace.library.variables.assigning import assign_sub
from headrace.library.variables.initializers import ones_initializer, zeros_initializer
from headrace.library.variables.variable_scope import get_variable
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import reshape
from headrace.ops.math.casting import cast
from headrace.ops.nn.basics import batch_normalization as normalized
from headrace.ops.nn.basics import moments
from headrace.ops.nn.batch_norm import fused_batch_norm

__all__ = ["batch_normalization"]


def batch_normalization(
    inputs: Any,
    axis: Any = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = zeros_initializer(),  # noqa: B008 (it has no state)
    gamma_initializer: Any = ones_initializer(),  # noqa: B008
    moving_mean_initializer: Any = zeros_initializer(),  # noqa: B008
    moving_variance_initializer: Any = ones_initializer(),  # noqa: B008
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> Tensor:
    """(inputs - mean) / sqrt(variance + epsilon) · gamma + beta, for each place along `axis`.

    While `training` (a bool, or a tensor of one) the mean and variance are the batch's, and operations in the
    collection UPDATE_OPS move the moving ones, which are used otherwise, by 1 - momentum; run them with the training
    step.  fused: as one operation, by default for images with channels in axis 3 or 1.  renorm: with batch
    renormalization, by at most renorm_clipping (a dict of "rmax", "rmin" and "dmax").
    Raises NotImplementedError for virtual_batch_size, adjustment and several axes; ValueError if the size of
    the axis is not known, renorm_clipping has other keys, or fused is True and cannot be.
    """
    _refuse(virtual_batch_size=virtual_batch_size, adjustment=adjustment)
    if renorm and fused:
        raise ValueError(
            "Passing both `fused=True` and `renorm=True` is not supported: leave fused out"
        )
    clipping = checked_clipping(renorm_clipping) if renorm else {}
    values = convert(inputs)
    at, size = _axis(values, axis)
    one_op = not renorm and _is_one_op(values, at, axis, fused)
    half = values.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
    kind = dtypes.float32 if half else values.dtype.base_dtype
    with layer_scope(name, "batch_normalization", [values], reuse=reuse):
        gamma = beta = None
        if scale:
            given = gamma_initializer, gamma_regularizer, gamma_constraint
            gamma, _ = layer_variable("gamma", [size], kind, given, trainable)
        if center:
            given = beta_initializer, beta_regularizer, beta_constraint
            beta, _ = layer_variable("beta", [size], kind, given, trainable)
        moving = [
            _whole(f"moving_{what}", [size], kind, initializer)
            for what, initializer in (
                ("mean", moving_mean_initializer),
                ("variance", moving_variance_initializer),
            )
        ]
        corrected = Renorm.made(size, kind, clipping, renorm_momentum) if renorm else None
        return normalization_in_scope(
            values, gamma, beta, moving, at, epsilon, momentum, training, one_op, corrected
        )


def _whole(name: str, shape: list[int], kind: Any, initializer: Any) -> Any:
    """A variable that is not trained, and not cut into parts: it is assigned as one."""
    with uncut():
        return get_variable(name, shape, kind, initializer, trainable=False)


def normalization_in_scope(
    values: Tensor,
    gamma: Any,
    beta: Any,
    moving: Sequence[Any],
    at: int,
    epsilon: float,
    momentum: Any,
    training: Any,
    one_op: bool,
    renorm: Renorm | None = None,
) -> Tensor:
    """What `batch_normalization` makes within its scope of its variables; at: the axis, counted from the first one."""
    if one_op:
        outputs, *batch = _fused(values, gamma, beta, moving, at, epsilon, training)
    else:
        outputs, *batch = _composed(values, gamma, beta, moving, at, epsilon, training, renorm)
    if known(training) is not False:
        _keep(moving, batch, momentum, training)
    return outputs


def _refuse(**unavailable: Any) -> None:
    for what, asked in unavailable.items():
        if asked:
            raise NotImplementedError(
                f"batch_normalization with {what} is not available; leave it out, or write it with tf.nn.moments"
            )


def _is_one_op(values: Tensor, at: int, axis: Any, fused: bool | None) -> bool:
    """at: the axis, counted from the first one; axis: as it was given."""
    possible = len(values.raw_shape or ()) == 4 and at in (1, 3)
    if fused and not possible:
        raise ValueError(
            f"fused batch_normalization is for images with channels in axis 3 or 1, not {values.shape} and axis {axis}"
        )
    return possible if fused is None else bool(fused)


def _axis(values: Tensor, axis: Any) -> tuple[int, int]:
    """The axis, counted from the first one, and its size."""
    if isinstance(axis, (list, tuple)):
        if len(axis) != 1:
            raise NotImplementedError(
                f"batch_normalization along several axes ({list(axis)}) is not available: reshape them into one"
            )
        (axis,) = axis
    raw = values.raw_shape
    if raw is None or not -len(raw) <= axis < len(raw) or raw[axis] is None:
        raise ValueError(
            f"the size of axis {axis} must be known, and {values.name} has shape {values.shape}"
        )
    size = raw[axis]
    assert size is not None
    return axis % len(raw), size


def _fused(
    values: Tensor,
    gamma: Any,
    beta: Any,
    moving: Sequence[Any],
    at: int,
    epsilon: float,
    training: Any,
) -> Sequence[Tensor]:
    """The outputs, and the mean and (unbiased) variance of the batch."""
    size, data_format = (values.raw_shape or ())[at], "NHWC" if at == 3 else "NCHW"
    gamma = constant(1.0, "float32", [size]) if gamma is None else gamma
    beta = constant(0.0, "float32", [size]) if beta is None else beta

    def by_batch() -> list[Tensor]:
        return list(fused_batch_norm(values, gamma, beta, epsilon=epsilon, data_format=data_format))

    def by_moving() -> list[Tensor]:
        return list(
            fused_batch_norm(
                values,
                gamma,
                beta,
                moving[0],
                moving[1],
                epsilon=epsilon,
                data_format=data_format,
                is_training=False,
            )
        )

    found: Sequence[Tensor] = chosen(training, by_batch, by_moving)
    return found


def _composed(
    values: Tensor,
    gamma: Any,
    beta: Any,
    moving: Sequence[Any],
    at: int,
    epsilon: float,
    training: Any,
    renorm: Renorm | None,
) -> Sequence[Tensor]:
    rank = len(values.raw_shape or ())
    others = [axis for axis in range(rank) if axis != at]
    precise = cast(values, moving[0].dtype.base_dtype)
    batch = moving if known(training) is False else moments(precise, others)
    mean, variance = chosen(
        training, lambda: list(batch), lambda: [convert(variable) for variable in moving]
    )
    later: list[Tensor] = [mean, variance]
    if renorm is not None and known(training) is not False:
        factor, offset, *later = renorm.corrections(mean, variance, epsilon, training)
        gamma, beta = composed(factor, offset, gamma, beta)
    along = [-1 if axis == at else 1 for axis in range(rank)]

    def spread(value: Any) -> Any:
        return value if value is None or at == rank - 1 else reshape(value, along)

    outputs = normalized(
        precise, spread(mean), spread(variance), spread(beta), spread(gamma), epsilon
    )
    return cast(outputs, values.dtype.base_dtype), *later


def _keep(moving: Sequence[Any], batch: Sequence[Tensor], momentum: float, training: Any) -> None:
    """Put operations that move `moving` towards what the batch has into UPDATE_OPS."""
    still = chosen(training, lambda: convert(momentum), lambda: constant(1.0))
    for variable, value in zip(moving, batch, strict=True):
        with name_scope(None, "AssignMovingAvg", [variable, value]) as scope:
            share = cast(1.0 - still, variable.dtype.base_dtype)
            update = assign_sub(variable, (variable - value) * share, name=scope).op
        scopes.get_default_graph().add_to_collection(GraphKeys.UPDATE_OPS, update)
