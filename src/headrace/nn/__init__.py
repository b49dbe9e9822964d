"""`tf.nn`: neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.library.nn.embedding import embedding_lookup, embedding_lookup_sparse
from headrace.library.nn.sample_moments import (
    batch_norm_with_global_normalization,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
)
from headrace.library.nn.transposed import (
    atrous_conv2d_transpose,
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
    conv_transpose,
)
from headrace.ops.array.space_batch import depth_to_space, space_to_batch, space_to_depth
from headrace.ops.array.unique import top_k
from headrace.ops.math.elementwise import sigmoid, tanh
from headrace.ops.nn.activations import (
    crelu,
    elu,
    leaky_relu,
    relu,
    relu6,
    selu,
    silu,
    softplus,
    softsign,
    swish,
)
from headrace.ops.nn.basics import (
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
from headrace.ops.nn.batch_norm import fused_batch_norm
from headrace.ops.nn.bias import bias_add, relu_layer, xw_plus_b
from headrace.ops.nn.convolution_calls import (
    atrous_conv2d,
    conv1d,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv3d,
    conv3d_backprop_filter_v2,
    convolution,
    depthwise_conv2d,
    depthwise_conv2d_backprop_filter,
    depthwise_conv2d_backprop_input,
    depthwise_conv2d_native,
    depthwise_conv2d_native_backprop_filter,
    depthwise_conv2d_native_backprop_input,
    separable_conv2d,
)
from headrace.ops.nn.pooling_calls import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    avg_pool_v2,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax,
    pool,
)
from headrace.ops.nn.response_norm import local_response_normalization, lrn
from headrace.ops.nn.softmax import (
    log_softmax,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)

if TYPE_CHECKING:
    from headrace.library.nn.ctc import (
        ctc_beam_search_decoder,
        ctc_beam_search_decoder_v2,
        ctc_greedy_decoder,
        ctc_loss,
        ctc_loss_v2,
    )
    from headrace.library.nn.ctc_labels import collapse_repeated, ctc_unique_labels
    from headrace.library.nn.replica_losses import compute_average_loss, scale_regularization_loss
    from headrace.library.nn.safe_embedding import safe_embedding_lookup_sparse
    from headrace.library.nn.sampled_losses import nce_loss, sampled_softmax_loss
    from headrace.library.rnn.loops import (
        bidirectional_dynamic_rnn,
        dynamic_rnn,
        static_bidirectional_rnn,
        static_rnn,
    )
    from headrace.library.rnn.raw_loops import raw_rnn, static_state_saving_rnn
    from headrace.nn import rnn_cell
    from headrace.ops.nn.candidates import (
        compute_accidental_hits,
        learned_unigram_candidate_sampler,
        log_uniform_candidate_sampler,
        uniform_candidate_sampler,
    )
    from headrace.ops.nn.convolution_calls import (
        conv3d_backprop_filter_v2 as conv3d_backprop_filter,
    )
    from headrace.ops.nn.fractional_pooling import fractional_avg_pool, fractional_max_pool
    from headrace.ops.nn.morphology import dilation2d, erosion2d
    from headrace.ops.nn.over_space import with_space_to_batch
    from headrace.ops.nn.unigrams import all_candidate_sampler, fixed_unigram_candidate_sampler
    from headrace.ops.quantization.arithmetic import quantized_relu_x
    from headrace.ops.quantization.images import (
        quantized_avg_pool,
        quantized_conv2d,
        quantized_max_pool,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.nn.fractional_pooling": "fractional_avg_pool fractional_max_pool",
            "headrace.library.nn.replica_losses": "compute_average_loss scale_regularization_loss",
            "headrace.library.nn.ctc_labels": "collapse_repeated ctc_unique_labels",
            "headrace.ops.nn.morphology": "dilation2d erosion2d",
            "headrace.ops.quantization.arithmetic": "quantized_relu_x",
            "headrace.ops.quantization.images": "quantized_avg_pool quantized_conv2d quantized_max_pool",
            "headrace.ops.nn.unigrams": "all_candidate_sampler fixed_unigram_candidate_sampler",
            "headrace.ops.nn.convolution_calls": "conv3d_backprop_filter=conv3d_backprop_filter_v2",
            "headrace.library.nn.ctc": (
                "ctc_beam_search_decoder ctc_beam_search_decoder_v2 ctc_greedy_decoder ctc_loss ctc_loss_v2"
            ),
            "headrace.library.nn.safe_embedding": "safe_embedding_lookup_sparse",
            "headrace.ops.nn.candidates": (
                "compute_accidental_hits learned_unigram_candidate_sampler log_uniform_candidate_sampler "
                "uniform_candidate_sampler"
            ),
            "headrace.library.rnn.loops": "bidirectional_dynamic_rnn dynamic_rnn static_bidirectional_rnn static_rnn",
            "headrace.library.rnn.raw_loops": "raw_rnn static_state_saving_rnn",
            "headrace.ops.nn.over_space": "with_space_to_batch",
            "headrace.library.nn.sampled_losses": "nce_loss sampled_softmax_loss",
        },
    )

__all__ = [
    "all_candidate_sampler",
    "atrous_conv2d",
    "atrous_conv2d_transpose",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "avg_pool_v2",
    "batch_norm_with_global_normalization",
    "batch_normalization",
    "bias_add",
    "bidirectional_dynamic_rnn",
    "collapse_repeated",
    "compute_accidental_hits",
    "compute_average_loss",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_backprop_filter",
    "conv2d_backprop_input",
    "conv2d_transpose",
    "conv3d",
    "conv3d_backprop_filter",
    "conv3d_backprop_filter_v2",
    "conv3d_transpose",
    "conv_transpose",
    "convolution",
    "crelu",
    "ctc_beam_search_decoder",
    "ctc_beam_search_decoder_v2",
    "ctc_greedy_decoder",
    "ctc_loss",
    "ctc_loss_v2",
    "ctc_unique_labels",
    "depth_to_space",
    "depthwise_conv2d",
    "depthwise_conv2d_backprop_filter",
    "depthwise_conv2d_backprop_input",
    "depthwise_conv2d_native",
    "depthwise_conv2d_native_backprop_filter",
    "depthwise_conv2d_native_backprop_input",
    "dilation2d",
    "dropout",
    "dynamic_rnn",
    "elu",
    "embedding_lookup",
    "embedding_lookup_sparse",
    "erosion2d",
    "fixed_unigram_candidate_sampler",
    "fractional_avg_pool",
    "fractional_max_pool",
    "fused_batch_norm",
    "in_top_k",
    "l2_loss",
    "l2_normalize",
    "leaky_relu",
    "learned_unigram_candidate_sampler",
    "local_response_normalization",
    "log_poisson_loss",
    "log_softmax",
    "log_uniform_candidate_sampler",
    "lrn",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_v2",
    "max_pool_with_argmax",
    "moments",
    "nce_loss",
    "normalize_moments",
    "pool",
    "quantized_avg_pool",
    "quantized_conv2d",
    "quantized_max_pool",
    "quantized_relu_x",
    "raw_rnn",
    "relu",
    "relu6",
    "relu_layer",
    "rnn_cell",
    "safe_embedding_lookup_sparse",
    "sampled_softmax_loss",
    "scale_regularization_loss",
    "selu",
    "separable_conv2d",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "silu",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2",
    "softplus",
    "softsign",
    "space_to_batch",
    "space_to_depth",
    "sparse_softmax_cross_entropy_with_logits",
    "static_bidirectional_rnn",
    "static_rnn",
    "static_state_saving_rnn",
    "sufficient_statistics",
    "swish",
    "tanh",
    "top_k",
    "uniform_candidate_sampler",
    "weighted_cross_entropy_with_logits",
    "weighted_moments",
    "with_space_to_batch",
    "xw_plus_b",
    "zero_fraction",
]
