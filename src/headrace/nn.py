"""`tf.nn`: neural networks."""

from __future__ import annotations

from headrace.ops.activations import crelu, elu, leaky_relu, relu, relu6, selu, softplus, softsign
from headrace.ops.bias import bias_add, relu_layer, xw_plus_b
from headrace.ops.softmax import (
    log_softmax,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)

__all__ = [
    "bias_add",
    "crelu",
    "elu",
    "leaky_relu",
    "log_softmax",
    "relu",
    "relu6",
    "relu_layer",
    "selu",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "softplus",
    "softsign",
    "sparse_softmax_cross_entropy_with_logits",
    "xw_plus_b",
]
