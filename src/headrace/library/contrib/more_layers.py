"""`tf.contrib.layers`: gradients by scale, divisive normalization, blocks that can be turned around.

Called by: programs.  Threads: as graph.
Source: J. Ballé, V. Laparra, E. Simoncelli, Density modeling of images using a generalized normalization
transformation, 2016; A. Gomez et al., The reversible residual network, 2017; names: TF 1.15's contrib
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.custom_gradient import custom_gradient
from headrace.graph.names import add_to_collection
from headrace.graph.tensor import Tensor
from headrace.library import recompute
from headrace.library.variables.initializers import constant_initializer
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.identities import identity
from headrace.ops.linalg.products import matmul
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import logical_or
from headrace.ops.math.elementwise import rsqrt, sqrt
from headrace.ops.math.magnitudes import square

__all__ = ["GDN", "gdn", "recompute_grad", "rev_block", "scale_gradient"]


def scale_gradient(inputs: Any, gradient_multiplier: Any = 1.0) -> Tensor:
    """The inputs, whose gradient is multiplied by a number."""

    def scaled(x: Any) -> Any:
        return identity(x), lambda grad: grad * gradient_multiplier

    found: Tensor = custom_gradient(scaled)(inputs)
    return found


def _at_least(x: Any, bound: float) -> Tensor:
    """max(x, bound); a gradient that would raise an x that is too small passes all the same."""

    def bounded(value: Any) -> Any:
        def back(grad: Any) -> Any:
            passes = logical_or(value >= bound, grad < 0)
            return grad * cast(passes, grad.dtype)

        return maximum(value, bound), back

    found: Tensor = custom_gradient(bounded)(identity(x))
    return found


class GDN:
    """y[i] = x[i] / sqrt(beta[i] + sum over j of gamma[j, i] * x[j]²), i and j channels.

    Variables: reparam_beta [channels] and reparam_gamma [channels, channels], which hold square roots.
    """

    def __init__(
        self,
        inverse: bool = False,
        beta_min: float = 1e-6,
        gamma_init: float = 0.1,
        reparam_offset: float = 2**-18,
        data_format: str = "channels_last",
        activity_regularizer: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """inverse: multiply by the root instead.  gamma_init: first value of gamma's diagonal.

        reparam_offset: how far from 0 the variables' squares are kept.  Raises ValueError: another data_format.
        """
        if data_format not in ("channels_last", "channels_first"):
            raise ValueError(f"Unknown data format: {data_format!r}")
        self.inverse, self._beta_min, self._gamma_init = inverse, beta_min, gamma_init
        self._offset, self._first = reparam_offset, data_format == "channels_first"
        self._regularizer, self._trainable = activity_regularizer, trainable
        self._name, self._reuse = name, kwargs.pop("_reuse", None)
        self._scope: Any = kwargs.pop("_scope", None)
        if kwargs:
            raise TypeError(f"GDN takes no {', '.join(sorted(kwargs))}")
        self._made: tuple[Any, Any] | None = None

    def _variables(self, channels: int, kind: Any) -> tuple[Tensor, Tensor]:
        pedestal = self._offset**2
        if self._made is None:
            with variable_scope(self._scope or self._name, "gdn", reuse=self._reuse):
                eye = np.eye(channels) * self._gamma_init
                beta, gamma = (
                    get_variable(
                        name,
                        start.shape,
                        kind,
                        constant_initializer(np.sqrt(np.maximum(start + pedestal, pedestal))),
                        trainable=self._trainable,
                    )
                    for name, start in (("reparam_beta", np.ones(channels)), ("reparam_gamma", eye))
                )
                self._made = beta, gamma
        lowest = np.sqrt(self._beta_min + pedestal), self._offset
        floor_beta, floor_gamma = (
            square(_at_least(each, float(low))) - pedestal
            for each, low in zip(self._made, lowest, strict=True)
        )
        return floor_beta, floor_gamma

    def __call__(self, inputs: Any) -> Tensor:
        """Of [batch, …, channels], or [batch, channels, …].  Raises ValueError: channels are not known."""
        x: Tensor = convert(inputs)
        rank = x.shape.ndims
        if rank is None or rank < 2:
            raise ValueError(
                f"The inputs of GDN have to have a known rank of 2 or more, not {x.shape}"
            )
        channels = x.shape[1 if self._first else -1].value
        if channels is None:
            raise ValueError("The channel dimension of the inputs to `GDN` must be defined.")
        order = [0, *range(2, rank), 1]
        last = transpose(x, order) if self._first else x
        beta, gamma = self._variables(channels, x.dtype)
        rows = reshape(square(last), [-1, channels])
        pool = reshape(matmul(rows, gamma) + beta, shape_of(last))
        made: Tensor = last * (sqrt(pool) if self.inverse else rsqrt(pool))
        if self._first:
            made = transpose(made, [0, rank - 1, *range(1, rank - 1)])
        made.set_shape(x.shape)
        if self._regularizer is not None:
            add_to_collection(GraphKeys.REGULARIZATION_LOSSES, self._regularizer(made))
        return made

    apply = __call__


def gdn(
    inputs: Any,
    inverse: bool = False,
    beta_min: float = 1e-6,
    gamma_init: float = 0.1,
    reparam_offset: float = 2**-18,
    data_format: str = "channels_last",
    activity_regularizer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """`GDN` as a function; reuse: whether its variables, of the scope `name`, are there already."""
    layer = GDN(
        inverse,
        beta_min,
        gamma_init,
        reparam_offset,
        data_format,
        activity_regularizer,
        trainable,
        name,
        _reuse=reuse,
    )
    return layer(inputs)


def rev_block(
    x1: Any,
    x2: Any,
    f: Any,
    g: Any,
    num_layers: int = 1,
    f_side_input: Sequence[Any] | None = None,
    g_side_input: Sequence[Any] | None = None,
    is_training: bool = True,
) -> tuple[Tensor, Tensor]:
    """num_layers times y1 = x1 + f(x2), y2 = x2 + g(y1).

    f, g: functions of (x) or (x, side input), or a list of one for each layer; variables of layer n are of the scope
    revblock/revlayer_n.  What the layers have computed is kept for the gradient, which TensorFlow computed anew.
    """
    fs, gs = ([each] * num_layers if callable(each) else list(each) for each in (f, g))
    if not len(fs) == len(gs) == num_layers:
        raise ValueError(f"f and g have to have a function for each of the {num_layers} layers")
    with variable_scope("revblock"):
        for number, (first, second) in enumerate(zip(fs, gs, strict=True)):
            with variable_scope(f"revlayer_{number}"):
                with variable_scope("f"):
                    x1 = x1 + (first(x2, f_side_input) if f_side_input else first(x2))
                with variable_scope("g"):
                    x2 = x2 + (second(x1, g_side_input) if g_side_input else second(x1))
    return identity(x1), identity(x2)


def recompute_grad(fn: Any, use_data_dep: Any = None, tupleize_grads: bool = False) -> Any:
    """As `tf.recompute_grad`; the other arguments are TensorFlow's, and change nothing."""
    return recompute.recompute_grad(fn)
