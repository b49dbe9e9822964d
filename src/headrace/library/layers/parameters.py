"""What the layers of tf.layers have in common: their variables, bias and activation; a choice by `training`.

Called by: library.layers.dense, library.layers.convolutions, library.layers.normalization.  Threads: as graph.
Source: TF 1.15 behaviour: variables by tf.get_variable, losses of regularizers in a collection
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.layers.base import layer_variable
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.control_flow import cond
from headrace.ops.math.casting import cast
from headrace.ops.nn.bias import bias_add

__all__: list[str] = []

_FORMATS = {"channels_last": ("NWC", "NHWC", "NDHWC"), "channels_first": ("NCW", "NCHW", "NCDHW")}
OfVariable = tuple[Any, Any, Any]
"""Initializer, regularizer and constraint."""


class Parameters:
    """What a layer with a bias and an activation takes beside its kernels; called within its variable scope."""

    def __init__(
        self,
        activation: Any,
        use_bias: bool,
        of_bias: OfVariable,
        activity_regularizer: Any,
        trainable: bool,
    ) -> None:
        if activation is not None and not callable(activation):
            raise TypeError(
                f"Could not interpret activation function identifier: {activation!r}; it is a function of a tensor"
            )
        self._activation, self._use_bias, self._of_bias = activation, use_bias, of_bias
        self._activity_regularizer, self._trainable = activity_regularizer, trainable

    def variable(self, name: str, shape: Sequence[Any], dtype: Any, of: OfVariable) -> Any:
        """One in the scope in force, as trainable as the layer.  of: its initializer, regularizer and constraint."""
        return layer_variable(name, shape, dtype, of, self._trainable)[0]

    def finished(self, outputs: Tensor, count: int, data_format: str = "NHWC") -> Tensor:
        """With a bias of `count` elements, if wanted, and the activation applied."""
        if self._use_bias:
            bias = self.variable("bias", [count], outputs.dtype.base_dtype, self._of_bias)
            outputs = bias_add(outputs, bias, "NHWC" if data_format.endswith("C") else "NCHW")
        if self._activation is not None:
            outputs = self._activation(outputs)
        if self._activity_regularizer is not None:
            with name_scope(None, "ActivityRegularizer"):
                loss = self._activity_regularizer(outputs)
                loss = loss / cast(shape_of(outputs)[0], loss.dtype)
            scopes.get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
        return outputs


def known(training: Any) -> bool | None:
    """`training` if it is known while the graph is built: a bool, a number, a constant."""
    value = constant_value(training) if isinstance(training, Tensor) else training
    if value is None or isinstance(value, (bool, int)) or getattr(value, "ndim", None) == 0:
        return None if value is None else bool(value)
    if hasattr(value, "dtype"):
        return None
    raise TypeError(f"training is a bool or a tensor of one, not {training!r}")


def chosen(training: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """yes() while training, no() otherwise; a tf.cond where only the step knows."""
    fixed = known(training)
    if fixed is None:
        return cond(cast(convert(training), "bool"), yes, no)
    return yes() if fixed else no()


def check_rank(values: Tensor, rank: int, layer: str, *, least: bool) -> None:
    """Raises ValueError if it is known not to be the rank that `layer` takes, or to be less than `least`."""
    raw = values.raw_shape
    if raw is None or (len(raw) >= rank if least else len(raw) == rank):
        return
    wanted = f": expected min_ndim={rank}" if least else f"expected ndim={rank}"
    raise ValueError(
        f"Input 0 of layer {layer} is incompatible with the layer: {wanted}, found ndim={len(raw)}: "
        f"{values.name} has shape {values.shape}"
    )


def format_named(data_format: str, spatial: int) -> str:
    """NHWC or NCHW, or what is said of sequences (1) or volumes (3).  Raises ValueError."""
    if data_format not in _FORMATS:
        raise ValueError(
            'The `data_format` argument must be one of "channels_first", "channels_last", '
            f"and is {data_format!r}"
        )
    return _FORMATS[data_format][spatial - 1]


def for_each(value: Any, spatial: int, name: str) -> list[int]:
    """A number for each spatial dimension.  Raises ValueError."""
    try:
        listed = [value] * spatial if isinstance(value, int) else [int(n) for n in value]
    except (TypeError, ValueError):
        listed = []
    if len(listed) != spatial:
        raise ValueError(
            f"The `{name}` argument must be a tuple of {spatial} integers, or one for all, not {value!r}"
        )
    return listed


def padding_named(padding: str) -> str:
    """SAME or VALID.  Raises ValueError."""
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise ValueError(
            'The `padding` argument must be a list/tuple or one of "valid", "same", '
            f"of which layers take the words only; it is {padding!r}"
        )
    return padding.upper()
