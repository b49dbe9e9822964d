"""`tf.contrib.layers.fully_connected` and its kin, and what is made of layers: `repeat`, `stack`.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib: variables ``fully_connected/weights`` and ``fully_connected/biases``;
tests compare nodes with tf-slim's.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base.arguments import check_function, whole_number
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.scopes import get_default_graph
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.initializers import xavier_initializer
from headrace.library.contrib.layer_parts import (
    Collections,
    LayerParameters,
    as_layer,
    finished,
    layer_scope,
    normalized,
)
from headrace.library.layers.dense import check_dense, dense_in_scope
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.shapes import reshape
from headrace.ops.linalg.products import matmul
from headrace.ops.nn.activations import elu as _elu
from headrace.ops.nn.activations import relu as _relu
from headrace.ops.nn.activations import relu6 as _relu6
from headrace.ops.nn.bias import bias_add

__all__ = [
    "elu",
    "fully_connected",
    "legacy_fully_connected",
    "legacy_linear",
    "legacy_relu",
    "linear",
    "relu",
    "relu6",
    "repeat",
    "stack",
]

NAMES = {"kernel": "weights", "bias": "biases"}


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Callable[..., Any] | None = _relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008 (it has no state)
    weights_regularizer: Any = None,
    biases_initializer: Any = zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """activation_fn(normalizer_fn(inputs @ weights)), or with biases: inputs [..., in], outputs [..., num_outputs].

    Biases are added if there is no normalizer and biases_initializer is not None.
    Raises ValueError: num_outputs is no number, the size of the last dimension is not known.
    """
    if not isinstance(num_outputs, numbers.Integral):
        raise ValueError(
            f"num_outputs type should be one of [<class 'int'>], got {type(num_outputs)}."
        )
    with layer_scope(scope, "fully_connected", [inputs], reuse, NAMES) as inner:
        values = convert(inputs)
        check_dense(values, inner.name)
        parameters = LayerParameters(
            normalizer_fn,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            NAMES,
        )
        of_weights = (weights_initializer, weights_regularizer, None)
        with as_layer(inner):
            outputs = dense_in_scope(values, int(num_outputs), parameters, of_weights)
        outputs = normalized(outputs, normalizer_fn, normalizer_params)
        return finished(outputs, activation_fn, outputs_collections, inner)


relu = functools.partial(fully_connected, activation_fn=_relu)
relu6 = functools.partial(fully_connected, activation_fn=_relu6)
elu = functools.partial(fully_connected, activation_fn=_elu)
linear = functools.partial(fully_connected, activation_fn=None)


def legacy_fully_connected(
    x: Any,
    num_output_units: int,
    activation_fn: Callable[..., Any] | None = None,
    weight_init: Any = xavier_initializer(),  # noqa: B008 (it has no state)
    bias_init: Any = zeros_initializer(),  # noqa: B008
    name: str | None = None,
    weight_collections: Sequence[str] = (GraphKeys.WEIGHTS,),
    bias_collections: Sequence[str] = (GraphKeys.BIASES,),
    output_collections: Sequence[str] = (GraphKeys.ACTIVATIONS,),
    trainable: bool = True,
    weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> Any:
    """As `fully_connected`, with variables ``weights`` and ``bias`` in collections of their own.

    Raises ValueError: the rank or the size of the last dimension is not known.
    """
    with variable_scope(name, "fully_connected", [x]):
        values = convert(x)
        raw = values.raw_shape
        if raw is None or len(raw) < 2:
            raise ValueError(f"rank of x must be at least 2 not: {0 if raw is None else len(raw)}")
        if raw[-1] is None:
            raise ValueError(f"last dimension of x must be known but is None: {values.shape}")
        kind = values.dtype.base_dtype
        flat = values if len(raw) == 2 else reshape(values, [-1, raw[-1]])
        weights = get_variable(
            "weights",
            [raw[-1], num_output_units],
            kind,
            weight_init,
            weight_regularizer,
            trainable,
            [*weight_collections, GraphKeys.GLOBAL_VARIABLES],
        )
        outputs: Any = matmul(flat, weights)
        if bias_init is not None:
            bias = get_variable(
                "bias",
                [num_output_units],
                kind,
                bias_init,
                bias_regularizer,
                trainable,
                [*bias_collections, GraphKeys.GLOBAL_VARIABLES],
            )
            outputs = bias_add(outputs, bias)
        if len(raw) > 2:
            outputs = reshape(
                outputs, [*(-1 if n is None else n for n in raw[:-1]), num_output_units]
            )
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        for key in output_collections:
            get_default_graph().add_to_collection(key, outputs)
        return outputs


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=_relu)


def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """The layer over what it has made, `repetitions` times: in scopes NAME/NAME_1, NAME/NAME_2, …

    layer: a function of (inputs, *args, scope=…, **kwargs).
    """
    scope = kwargs.pop("scope", None)
    check_function("repeat", "layer", layer, "fully_connected")
    repetitions = whole_number("repeat", "repetitions", repetitions)
    with variable_scope(scope, "Repeat", [inputs]):
        outputs = convert(inputs)
        if scope is None:
            scope = _name_of(layer, "repeat")
        for number in range(repetitions):
            kwargs["scope"] = f"{scope}_{number + 1}"
            outputs = layer(outputs, *args, **kwargs)
        return outputs


def stack(inputs: Any, layer: Any, stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """The layer over what it has made, once for each of `stack_args`: a number or a list of arguments.

    layer: a function of (inputs, *arguments, scope=…, **kwargs), in scopes NAME/NAME_1, NAME/NAME_2, …
    """
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    check_function("stack", "layer", layer, "fully_connected")
    with variable_scope(scope, "Stack", [inputs]):
        outputs = convert(inputs)
        if scope is None:
            scope = _name_of(layer, "stack")
        for number, given in enumerate(stack_args, 1):
            kwargs["scope"] = f"{scope}_{number}"
            arguments = given if isinstance(given, (list, tuple)) else [given]
            outputs = layer(outputs, *arguments, **kwargs)
        return outputs


def _name_of(layer: Any, otherwise: str) -> str:
    if hasattr(layer, "__name__"):
        return str(layer.__name__)
    if hasattr(layer, "func") and hasattr(layer.func, "__name__"):
        return str(layer.func.__name__)
    return otherwise
