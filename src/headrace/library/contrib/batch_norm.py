"""`tf.contrib.layers.batch_norm`.

Three ways, of which TensorFlow takes the same: that of tf.layers.batch_normalization, where updates go into UPDATE_OPS;
one operation, also for matrices, with updates where the program wants them; and moments and arithmetic for the rest.
Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib: variables ``BatchNorm/beta``, ``gamma``, ``moving_mean`` and
``moving_variance``; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import dtypes
from headrace.base.arguments import check_flag, check_mapping, check_number, check_word, several
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.layer_parts import (
    Collections,
    as_layer,
    finished,
    layer_scope,
)
from headrace.library.contrib.layer_utils import (
    constant_value,
    get_variable_collections,
    smart_cond,
)
from headrace.library.contrib.variables import model_variable
from headrace.library.layers.normalization import normalization_in_scope
from headrace.library.layers.parameters import known
from headrace.library.layers.renormalization import Renorm, checked_clipping
from headrace.library.nn.sample_moments import weighted_moments
from headrace.library.variables.initializers import ones_initializer, zeros_initializer
from headrace.library.variables.moving_average import assign_moving_average
from headrace.library.variables.variable_scope import get_variable_scope, variable_scope
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import reshape
from headrace.ops.flow.identities import identity
from headrace.ops.nn.basics import batch_normalization, moments
from headrace.ops.nn.batch_norm import fused_batch_norm

__all__ = ["batch_norm"]

_FORMATS = ("NHWC", "NCHW")
_INITIALIZERS = {
    "beta": zeros_initializer,
    "gamma": ones_initializer,
    "moving_mean": zeros_initializer,
    "moving_variance": ones_initializer,
}


def _check_kinds(decay: Any, epsilon: Any, data_format: Any, flags: tuple[Any, ...]) -> None:
    """Raises TypeError."""
    check_number("batch_norm", "decay", decay)
    check_number("batch_norm", "epsilon", epsilon)
    check_word("batch_norm", "data_format", data_format, _FORMATS)
    for name, flag in zip(("center", "scale", "renorm", "fused"), flags, strict=True):
        check_flag("batch_norm", name, flag)


def _check_lists(initializers: Any, regularizers: Any, updates_collections: Any) -> None:
    """Raises TypeError."""
    for name, given in (
        ("param_initializers", initializers),
        ("param_regularizers", regularizers),
    ):
        if given is not None:
            check_mapping("batch_norm", name, given, "functions by the names of variables")
    if updates_collections is not None and not isinstance(updates_collections, str):
        several("batch_norm", "updates_collections", updates_collections, "names, a name, or None")


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: Any = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Callable[..., Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_decay: float = 0.99,
    adjustment: Any = None,
) -> Any:
    """activation_fn((inputs - mean) / sqrt(variance + epsilon) · gamma + beta), for each channel.

    While `is_training` (a bool, or a tensor of one) mean and variance are the batch's, and the moving ones, which are
    used otherwise, go towards them by 1 - decay, when what is in updates_collections is run; with None whenever
    the outputs are computed.  batch_weights [n]: how much each example counts.  param_initializers,
    param_regularizers: by name of the variable.
    renorm: with batch renormalization, by at most renorm_clipping (a dict of "rmax", "rmin" and "dmax"), which is never
    one operation.
    Raises ValueError; NotImplementedError: adjustment.
    """
    _check_kinds(decay, epsilon, data_format, (center, scale, renorm, fused))
    _check_lists(param_initializers, param_regularizers, updates_collections)
    if adjustment is not None:
        raise NotImplementedError(
            "batch_norm with adjustment is not available; leave it out, or write it with tf.nn.moments"
        )
    if renorm and batch_weights is not None:
        raise ValueError("batch_weights are not supported with renorm.")
    if renorm and zero_debias_moving_mean:
        raise ValueError("zero_debias_moving_mean is not supported with renorm.")
    clipping = checked_clipping(renorm_clipping) if renorm else {}
    if data_format not in _FORMATS:
        raise ValueError("data_format has to be either NCHW or NHWC.")
    fused = not renorm and fused is not False
    values = convert(inputs)
    rank = values.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {values.name} has undefined rank.")
    make = _Normalizing(
        values,
        decay,
        epsilon,
        center,
        scale,
        dict(param_initializers or {}),
        dict(param_regularizers or {}),
        variables_collections,
        trainable,
        updates_collections,
        is_training,
        data_format,
        zero_debias_moving_mean,
    )
    usual = updates_collections == GraphKeys.UPDATE_OPS and not zero_debias_moving_mean
    one_op = fused and batch_weights is None and rank in (2, 4) and (rank == 2 or not usual)
    opened = variable_scope if one_op else layer_scope
    with opened(scope, "BatchNorm", [values], reuse=reuse) as inner:
        if one_op:
            outputs = make.as_one_op()
        else:
            with as_layer(inner):
                if batch_weights is None and usual:
                    outputs = make.as_layer(fused, (clipping, renorm_decay) if renorm else None)
            if batch_weights is not None or not usual:
                outputs = make.of_moments(batch_weights)
        return finished(outputs, activation_fn, outputs_collections, inner)


@dataclass(frozen=True, slots=True)
class _Normalizing:
    """What is to be done, within its scope."""

    values: Tensor
    decay: Any
    epsilon: float
    center: bool
    scale: bool
    initializers: dict[str, Any]
    regularizers: dict[str, Any]
    collections: Collections
    trainable: bool
    updates_collections: Any
    is_training: Any
    data_format: str
    zero_debias: bool

    def _channels(self, rank: int) -> tuple[int, int]:
        """The axis, counted from the first one, and its size."""
        raw = self.values.raw_shape
        assert raw is not None
        if rank < (4 if self.data_format == "NCHW" else 1):
            raise ValueError(f"Inputs {self.values.name} has no channels: its shape is {raw}.")
        at = 1 if self.data_format == "NCHW" else rank - 1
        size = raw[at]
        if size is None:
            raise ValueError(
                f"Inputs {self.values.name} has undefined channels dimension {self.values.shape}."
            )
        return at, size

    def _variable(self, name: str, size: int) -> Any:
        half = self.values.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        keys = get_variable_collections(self.collections, name)
        return model_variable(
            name,
            shape=[size],
            dtype=dtypes.float32 if half else self.values.dtype.base_dtype,
            initializer=self.initializers.get(name) or _INITIALIZERS[name](),
            regularizer=self.regularizers.get(name),
            collections=[keys] if isinstance(keys, str) else keys,
            trainable=self.trainable and not name.startswith("moving"),
        )

    def _moving(self, size: int) -> list[Any]:
        """The moving mean and variance, which are never in parts."""
        scope = get_variable_scope()
        partitioner = scope.partitioner
        try:
            scope.set_partitioner(None)
            return [self._variable(name, size) for name in ("moving_mean", "moving_variance")]
        finally:
            scope.set_partitioner(partitioner)

    def as_layer(self, fused: bool, renorm: tuple[dict[str, Any], float] | None) -> Tensor:
        """As tf.layers.batch_normalization; renorm: limits and momentum."""
        rank = len(self.values.raw_shape or ())
        at, size = self._channels(rank)
        gamma = self._variable("gamma", size) if self.scale else None
        beta = self._variable("beta", size) if self.center else None
        moving = self._moving(size)
        kind = moving[0].dtype.base_dtype
        return normalization_in_scope(
            self.values,
            gamma,
            beta,
            moving,
            at,
            self.epsilon,
            self.decay,
            self.is_training,
            fused and rank == 4,
            None if renorm is None else Renorm.made(size, kind, *renorm),
        )

    def as_one_op(self) -> Tensor:
        """By FusedBatchNorm, of images and matrices."""
        values = self.values
        rank = len(values.raw_shape or ())
        _, size = self._channels(rank)
        if rank == 2:
            values = reshape(
                values, [-1, 1, 1, size] if self.data_format == "NHWC" else [-1, size, 1, 1]
            )
        beta = self._variable("beta", size) if self.center else constant(0.0, shape=[size])
        gamma = self._variable("gamma", size) if self.scale else constant(1.0, shape=[size])
        moving = self._moving(size)

        def by_batch() -> list[Any]:
            return list(
                fused_batch_norm(
                    values, gamma, beta, epsilon=self.epsilon, data_format=self.data_format
                )
            )

        def by_moving() -> list[Any]:
            return list(
                fused_batch_norm(
                    values,
                    gamma,
                    beta,
                    moving[0],
                    moving[1],
                    epsilon=self.epsilon,
                    data_format=self.data_format,
                    is_training=False,
                )
            )

        outputs, *batch = smart_cond(self.is_training, by_batch, by_moving)
        if constant_value(self.is_training) is not False and known(self.is_training) is not False:
            if self.updates_collections is None:
                outputs = smart_cond(
                    self.is_training,
                    lambda: self._after_updates(moving, batch, [outputs])[0],
                    lambda: outputs,
                )
            else:
                self._put_updates(
                    smart_cond(
                        self.is_training,
                        lambda: self._updates(moving, batch),
                        lambda: list(moving),
                    )
                )
        outputs.set_shape(values.shape)
        return reshape(outputs, [-1, size]) if rank == 2 else outputs

    def of_moments(self, batch_weights: Any) -> Tensor:
        """By moments, weighted or not, and arithmetic."""
        rank = len(self.values.raw_shape or ())
        at, size = self._channels(rank)
        beta = self._variable("beta", size) if self.center else None
        gamma = self._variable("gamma", size) if self.scale else None
        moving = self._moving(size)
        mean, variance = moving
        if known(self.is_training) is not False:
            mean, variance = self._batch_or_moving(moving, rank, at, batch_weights)
        if self.data_format == "NCHW":
            along = [size if axis == at else 1 for axis in range(rank)]
            mean, variance, beta, gamma = (
                value if value is None else reshape(value, along)
                for value in (mean, variance, beta, gamma)
            )
        outputs = batch_normalization(self.values, mean, variance, beta, gamma, self.epsilon)
        outputs.set_shape(self.values.shape)
        return outputs

    def _batch_or_moving(
        self, moving: list[Any], rank: int, at: int, batch_weights: Any
    ) -> Sequence[Any]:
        others = [axis for axis in range(rank) if axis != at]
        if batch_weights is None:
            batch = list(moments(self.values, others))
        else:
            weights = convert(batch_weights)
            weights = reshape(weights, [-1, *[1] * (rank - 1)])
            batch = list(weighted_moments(self.values, others, weights))
        if self.updates_collections is None:
            return smart_cond(  # type: ignore[no-any-return]
                self.is_training,
                lambda: self._after_updates(moving, batch, batch),
                lambda: list(moving),
            )
        self._put_updates(
            smart_cond(self.is_training, lambda: self._updates(moving, batch), lambda: list(moving))
        )
        return smart_cond(  # type: ignore[no-any-return]
            self.is_training, lambda: list(batch), lambda: list(moving)
        )

    def _updates(self, moving: list[Any], batch: Sequence[Any]) -> list[Any]:
        return [
            assign_moving_average(moving[0], batch[0], self.decay, self.zero_debias),
            assign_moving_average(moving[1], batch[1], self.decay, zero_debias=False),
        ]

    def _after_updates(
        self, moving: list[Any], batch: Sequence[Any], values: Sequence[Any]
    ) -> list[Any]:
        with control_dependencies(self._updates(moving, batch)):
            return [identity(value) for value in values]

    def _put_updates(self, updates: Sequence[Any]) -> None:
        keys = self.updates_collections
        for key in [keys] if isinstance(keys, str) else keys:
            for update in updates:
                get_default_graph().add_to_collection(key, update)
