"""`tf.nn`: neural networks."""

from __future__ import annotations

from headrace.ops.activations import crelu, elu, leaky_relu, relu, relu6, selu, softplus, softsign
from headrace.ops.bias import bias_add, relu_layer, xw_plus_b
from headrace.ops.elementwise import sigmoid, tanh
from headrace.ops.embedding import embedding_lookup
from headrace.ops.nn_basic import (
    batch_normalization,
    dropout,
    in_top_k,
    l2_loss,
    l2_normalize,
    log_poisson_loss,
    moments,
    sigmoid_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
    zero_fraction,
)
from headrace.ops.softmax_ops import (
    log_softmax,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from headrace.ops.unique import top_k

__all__ = [
    "batch_normalization",
    "bias_add",
    "crelu",
    "dropout",
    "elu",
    "embedding_lookup",
    "in_top_k",
    "l2_loss",
    "l2_normalize",
    "leaky_relu",
    "log_poisson_loss",
    "log_softmax",
    "moments",
    "relu",
    "relu6",
    "relu_layer",
    "selu",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "softplus",
    "softsign",
    "sparse_softmax_cross_entropy_with_logits",
    "tanh",
    "top_k",
    "weighted_cross_entropy_with_logits",
    "xw_plus_b",
    "zero_fraction",
]
