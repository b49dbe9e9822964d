"""Transformations of vectors that are learned: masked autoregressive flows, real NVP, batch normalization.

Called by: programs.  Threads: as graph.
Source: Germain et al., "MADE", 2015; Kingma et al., "Improved variational inference with inverse autoregressive flow",
2016; Dinh et al., "Density estimation using real NVP", 2017; Papamakarios et al., "Masked autoregressive flow for
density estimation", 2017; names and arguments as TF 1.15
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.contrib.distributions.bijector import Bijector
from headrace.library.layers.classes import BatchNormalization as BatchNormalizationLayer
from headrace.library.layers.dense import dense
from headrace.library.variables.initializers import glorot_normal_initializer
from headrace.library.variables.template import make_template
from headrace.ops.array.constants import constant, zeros_like
from headrace.ops.array.joining import concat, split
from headrace.ops.array.packing import unstack
from headrace.ops.array.shapes import expand_dims, reshape, squeeze
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.control_flow import while_loop
from headrace.ops.flow.identities import stop_gradient
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.elementwise import exp
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.nn.activations import relu
from headrace.ops.nn.basics import moments
from headrace.ops.tables import make

__all__ = [
    "BatchNormalization",
    "MaskedAutoregressiveFlow",
    "RealNVP",
    "masked_autoregressive_default_template",
    "masked_dense",
    "real_nvp_default_template",
]

Scaled = tuple[Any, Any]
"""What is added, and the logarithm of what is multiplied with; either may be None."""
_LEAST_GAMMA: Final = 1e-6


def _applied(x: Any, by: Scaled) -> Any:
    shift, log_scale = by
    y = x if log_scale is None else x * exp(log_scale)
    return y if shift is None else y + shift


def _undone(y: Any, by: Scaled) -> Any:
    shift, log_scale = by
    x = y if shift is None else y - shift
    return x if log_scale is None else x * exp(-log_scale)


def _log_det(y: Any, by: Scaled) -> Any:
    return constant(0.0, y.dtype.base_dtype) if by[1] is None else reduce_sum(by[1], axis=-1)


def _depth(x: Tensor, who: str) -> int:
    rank = x.shape.rank
    size = None if rank is None or not rank else x.shape[-1].value
    if size is None:
        raise NotImplementedError(
            f"Rightmost dimension must be known prior to graph execution: {who} got {x.shape}"
        )
    return int(size)


# -- autoregressive ---------------------------------------------------------------------------


def _mask(blocks: int, inputs: int, units: int, exclusive: bool) -> np.ndarray[Any, Any]:
    """[inputs, units]: 1 where a unit may see an input: its block's, unless exclusive, and those of earlier ones."""
    of_inputs, of_units = (size // blocks for size in (inputs, units))
    found = np.zeros((inputs, units), np.float32)
    for block in range(blocks):
        first = (block + exclusive) * of_units
        found[block * of_inputs : (block + 1) * of_inputs, first:] = 1
    return found


def masked_dense(
    inputs: Any,
    units: int,
    num_blocks: int | None = None,
    exclusive: bool = False,
    kernel_initializer: Any = None,
    reuse: Any = None,
    name: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> Tensor:
    """`tf.layers.dense` of which a unit sees the inputs of earlier blocks alone, and of its own unless exclusive.

    num_blocks: of inputs, and of units.  args, kwargs: activation, use_bias, … of `tf.layers.dense`.
    Raises NotImplementedError if the last dimension is not known.
    """
    inputs = convert(inputs)
    depth = _depth(inputs, "masked_dense")
    mask = _mask(num_blocks or depth, depth, units, exclusive)
    initializer = glorot_normal_initializer() if kernel_initializer is None else kernel_initializer

    def masked(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return convert(mask, dtype) * initializer(shape, dtype, partition_info)

    def kept(kernel: Any) -> Any:
        return convert(mask, kernel.dtype.base_dtype) * kernel

    layer: Callable[..., Tensor] = dense
    return layer(
        inputs,
        units,
        *args,
        kernel_initializer=masked,
        kernel_constraint=kept,
        name=name,
        reuse=reuse,
        **kwargs,
    )


def masked_autoregressive_default_template(
    hidden_layers: Sequence[int],
    shift_only: bool = False,
    activation: Any = relu,
    log_scale_min_clip: float = -5.0,
    log_scale_max_clip: float = 3.0,
    log_scale_clip_gradient: bool = False,
    name: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> Callable[[Any], Scaled]:
    """A template of masked dense layers: x [..., n] → (shift, log_scale), both [..., n], each of what comes before.

    hidden_layers: units of each.  shift_only: log_scale is None.  log_scale_clip_gradient: what is clipped has no
    gradient, else it has the one of what was not.  args, kwargs: of `masked_dense`.
    """
    name = name or "masked_autoregressive_default_template"

    def made(x: Any) -> Scaled:
        x = convert(x)
        depth, sizes = _depth(x, name), sizes_of(x)
        for at, units in enumerate(hidden_layers):
            x = masked_dense(x, units, depth, not at, *args, activation=activation, **kwargs)
        count = 1 if shift_only else 2
        x = masked_dense(
            x, count * depth, depth, not hidden_layers, *args, activation=None, **kwargs
        )
        if shift_only:
            return reshape(x, sizes), None
        shift, log_scale = unstack(reshape(x, concat([sizes, [2]], 0)), 2, axis=-1)
        clipped = clip_by_value(log_scale, log_scale_min_clip, log_scale_max_clip)
        if not log_scale_clip_gradient:
            clipped = log_scale + stop_gradient(clipped - log_scale)
        return shift, clipped

    return make_template(name, made)


class MaskedAutoregressiveFlow(Bijector):
    """y[i] = x[i] · exp(log_scale[i]) + shift[i], both functions of y[:i]; the inverse takes one step, this one n.

    Inverted it is the inverse autoregressive flow.
    """

    def __init__(
        self,
        shift_and_log_scale_fn: Callable[[Any], Scaled],
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        unroll_loop: bool = False,
        name: str | None = None,
    ) -> None:
        """shift_and_log_scale_fn: y [..., n] → (shift, log_scale) [..., n], either may be None.  unroll_loop: n must be
        known, and no while_loop is built.
        """
        self._function, self._unroll_loop = shift_and_log_scale_fn, unroll_loop
        super().__init__(
            (),
            is_constant_jacobian,
            validate_args,
            None,
            1,
            name=name or "masked_autoregressive_flow",
        )

    def _forward(self, x: Any) -> Any:
        y = zeros_like(x)
        if self._unroll_loop:
            for _ in range(_depth(x, self.name)):
                y = _applied(x, self._function(y))
            return y
        size = sizes_of(x)[-1]
        self._function(y)  # its variables are made outside of the loop
        _, y = while_loop(
            lambda step, _: step < size,
            lambda step, y: (step + 1, _applied(x, self._function(y))),
            (0, y),
        )
        y.set_shape(x.shape)
        return y

    def _inverse(self, y: Any) -> Any:
        return _undone(y, self._function(y))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -_log_det(y, self._function(y))


# -- real NVP ---------------------------------------------------------------------------------


class RealNVP(Bijector):
    """Of vectors the first num_masked numbers stay, and say how the others are scaled and shifted."""

    def __init__(
        self,
        num_masked: int,
        shift_and_log_scale_fn: Callable[..., Scaled],
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        """shift_and_log_scale_fn: (x [..., num_masked], n) → (shift, log_scale) [..., n], either may be None.

        Raises ValueError.
        """
        if num_masked < 0:
            raise ValueError(f"num_masked must be a non-negative integer, and is {num_masked}.")
        self._num_masked, self._function = num_masked, shift_and_log_scale_fn
        super().__init__((), is_constant_jacobian, validate_args, None, 1, name=name or "real_nvp")

    def _parts(self, x: Any) -> tuple[Any, Any, Scaled]:
        depth, kept = _depth(x, self.name), self._num_masked
        if kept >= depth:
            raise ValueError(
                f"Number of masked units must be smaller than the event size: {kept} of {depth}."
            )
        first, rest = x[..., :kept], x[..., kept:]
        return first, rest, self._function(first, depth - kept)

    def _forward(self, x: Any) -> Any:
        first, rest, by = self._parts(x)
        return concat([first, _applied(rest, by)], -1)

    def _inverse(self, y: Any) -> Any:
        first, rest, by = self._parts(y)
        return concat([first, _undone(rest, by)], -1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return _log_det(x, self._parts(x)[2])

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -_log_det(y, self._parts(y)[2])


def real_nvp_default_template(
    hidden_layers: Sequence[int],
    shift_only: bool = False,
    activation: Any = relu,
    name: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> Callable[..., Scaled]:
    """A template of dense layers: (x [..., n], m) → (shift, log_scale), both [..., m].

    hidden_layers: units of each.  shift_only: log_scale is None.  args, kwargs: of `tf.layers.dense`.
    """

    def made(x: Any, output_units: int) -> Scaled:
        x = convert(x)
        alone = x.shape.rank == 1
        if alone:
            x = expand_dims(x, 0)
        for units in hidden_layers:
            x = dense(x, units, activation, *args, **kwargs)
        x = dense(x, (1 if shift_only else 2) * output_units, None, *args, **kwargs)
        if alone:
            x = squeeze(x, [0])
        if shift_only:
            return x, None
        shift, log_scale = split(x, 2, axis=-1)
        return shift, log_scale

    return make_template(name or "real_nvp_default_template", made)


# -- batch normalization ----------------------------------------------------------------------


class BatchNormalization(Bijector):
    """The inverse normalizes a batch of vectors; forward undoes that by the layer's moving mean and variance."""

    def __init__(
        self,
        batchnorm_layer: Any = None,
        training: bool = True,
        validate_args: bool = False,
        name: str = "batch_normalization",
    ) -> None:
        """batchnorm_layer: a tf.layers.BatchNormalization of the last dimension.

        training: the inverse takes the batch's own mean and variance.
        """
        self.batchnorm = batchnorm_layer or BatchNormalizationLayer(
            gamma_constraint=lambda gamma: relu(gamma) + _LEAST_GAMMA
        )
        self._training = training
        super().__init__((), False, validate_args, None, 1, name=name)

    def _built(self, x: Any) -> Any:
        """The layer, which has its variables."""
        if not self.batchnorm.variables:
            self.batchnorm(x, training=False)
        return self.batchnorm

    def _forward(self, x: Any) -> Any:
        layer = self._built(x)
        rescaled = make.Sqrt(layer.moving_variance + layer.argument("epsilon"))
        return (x - layer.beta) * rescaled / layer.gamma + layer.moving_mean

    def _inverse(self, y: Any) -> Any:
        return self.batchnorm(y, training=self._training)

    def _log_scale(self, variance: Any) -> Any:
        """Sum of the logarithms of what the inverse multiplies with."""
        layer = self.batchnorm
        return reduce_sum(
            make.Log(layer.gamma) - 0.5 * make.Log(variance + layer.argument("epsilon"))
        )

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -self._log_scale(self._built(x).moving_variance)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        layer = self._built(y)
        if not self._training:
            return self._log_scale(layer.moving_variance)
        _, variance = moments(y, list(range((y.shape.rank or 1) - 1)))
        return self._log_scale(variance)
