"""Logits of features: of a linear model, and of a network.

Called by: training.estimator.canned, programs (tf.estimator.experimental.linear_logit_fn_builder and its kin).
Threads: as graph.
Source: TF 1.15 behaviour; names of variables and summaries checked against the oracle
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.input_layer import input_layer
from headrace.library.feature_column.linear_model import linear_model
from headrace.library.layers.dense import dense
from headrace.library.layers.dense import dropout as dropout_layer
from headrace.library.layers.normalization import batch_normalization
from headrace.library.variables.initializers import glorot_uniform_initializer
from headrace.library.variables.variable_scope import get_variable_scope, variable_scope
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import reshape
from headrace.ops.io.summaries import histogram, scalar
from headrace.training.estimator.canned.common import (
    activity_summaries,
    zero_fraction,
)
from headrace.training.estimator.modes import ModeKeys

__all__ = ["call_logit_fn", "dnn_logit_fn_builder", "linear_logit_fn_builder"]


def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[..., Tensor]:
    """A function of features that gives the logits [batch, units] of a linear model, with summaries of its weights."""

    def linear_logit_fn(features: Any) -> Tensor:
        trained = get_default_graph().get_collection_ref(GraphKeys.TRAINABLE_VARIABLES)
        before = len(trained)
        logits = linear_model(features, feature_columns, units, sparse_combiner)
        _summarize_weights(trained[before:])
        return logits

    return linear_logit_fn


def _summarize_weights(variables: Sequence[Any]) -> None:
    """Of the variables that a linear model made, if it made any: the bias, and how many weights are 0."""
    if not variables:
        return
    bias = [each for each in variables if "/bias_weights" in each.op.name]
    weights = [each for each in variables if "/bias_weights" not in each.op.name]
    found = convert(bias[0]) if len(bias) == 1 else concat([convert(each) for each in bias], 0)
    if found.shape.num_elements() == 1:
        scalar("bias", reshape(found, []))
    else:
        histogram("bias", found)
    flat = concat([reshape(convert(each), [-1]) for each in weights], 0)
    scalar("fraction_of_zero_weights", zero_fraction(flat))


def dnn_logit_fn_builder(
    units: int | Iterable[int],
    hidden_units: Sequence[int],
    feature_columns: Any,
    activation_fn: Any,
    dropout: float | None,
    input_layer_partitioner: Any,
    batch_norm: bool = False,
) -> Callable[..., Any]:
    """A function of features and mode that gives the logits [batch, units] of a network; a list of units, a list.

    hidden_units: the width of each layer between.  dropout: what part of each layer is 0 in training.  batch_norm:
    layers are normalized after it.  input_layer_partitioner: cuts the variables of columns.
    Raises ValueError: units is neither.
    """
    if not isinstance(units, (int, list, tuple)):
        raise ValueError(f"units must be an int.  Given type: {type(units)}")

    def dnn_logit_fn(features: Any, mode: str) -> Any:
        training = mode == ModeKeys.TRAIN
        with variable_scope("input_from_feature_columns", partitioner=input_layer_partitioner):
            net = input_layer(features, feature_columns)
        for number, width in enumerate(hidden_units):
            name = f"hiddenlayer_{number}"
            net = dense(
                net,
                width,
                activation_fn,
                kernel_initializer=glorot_uniform_initializer(),
                name=name,
            )
            if dropout is not None and training:
                net = dropout_layer(net, rate=dropout, training=True)
            if batch_norm:
                with variable_scope(name):
                    net = batch_normalization(
                        net, momentum=0.999, training=training, name=f"batchnorm_{number}"
                    )
            activity_summaries(net, f"{get_variable_scope().name}/{name}")
        if isinstance(units, int):
            return _last_layer(net, units, "logits")
        return [_last_layer(net, each, f"logits_{at}") for at, each in enumerate(units)]

    return dnn_logit_fn


def _last_layer(net: Tensor, units: int, name: str) -> Tensor:
    logits = dense(net, units, kernel_initializer=glorot_uniform_initializer(), name=name)
    activity_summaries(logits, f"{get_variable_scope().name}/{name}")
    return logits


def call_logit_fn(
    logit_fn: Callable[..., Any], features: Any, mode: str, params: Any, config: Any
) -> Any:
    """The logits that a function gives for features, and those of mode, params and config that it takes.

    Raises ValueError: it takes no features, or gives neither a tensor nor a dict of them.
    """
    names = inspect.signature(logit_fn).parameters
    known = {"features": features, "mode": mode, "params": params, "config": config}
    if "features" not in names:
        raise ValueError("logit_fn must include features argument.")
    logits = logit_fn(**{name: value for name, value in known.items() if name in names})
    if not all(isinstance(each, Tensor) for each in _values(logits)):
        raise ValueError(
            "logit_fn should return a Tensor or a dictionary mapping strings to Tensors. logit_fn returned: "
            f"{logits}. It is {logit_fn}"
        )
    return logits


def _values(logits: Any) -> Iterable[Any]:
    return logits.values() if isinstance(logits, dict) else [logits]
