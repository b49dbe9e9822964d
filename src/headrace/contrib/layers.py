"""`tf.contrib.layers`: layers with scopes and model variables, regularizers, initializers, summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.batch_norm import (
        batch_norm,
    )
    from headrace.library.contrib.convolutions import (
        bias_add,
        conv1d,
        conv2d,
        conv2d_in_plane,
        conv2d_transpose,
        conv3d,
        conv3d_transpose,
        convolution,
        convolution1d,
        convolution2d,
        convolution2d_in_plane,
        convolution2d_transpose,
        convolution3d,
        convolution3d_transpose,
        separable_conv2d,
        separable_convolution2d,
    )
    from headrace.library.contrib.dense import (
        elu,
        fully_connected,
        legacy_fully_connected,
        legacy_linear,
        legacy_relu,
        linear,
        relu,
        relu6,
        repeat,
        stack,
    )
    from headrace.library.contrib.embedding import (
        bow_encoder,
        embed_sequence,
        embedding_lookup_unique,
    )
    from headrace.library.contrib.initializers import (
        variance_scaling_initializer,
        xavier_initializer,
        xavier_initializer_conv2d,
    )
    from headrace.library.contrib.more_layers import (
        GDN,
        gdn,
        recompute_grad,
        rev_block,
        scale_gradient,
    )
    from headrace.library.contrib.norms import (
        group_norm,
        instance_norm,
        layer_norm,
        unit_norm,
    )
    from headrace.library.contrib.pooling import (
        avg_pool2d,
        avg_pool3d,
        max_pool2d,
        max_pool3d,
        pool,
    )
    from headrace.library.contrib.regularizers import (
        apply_regularization,
        l1_l2_regularizer,
        l1_regularizer,
        l2_regularizer,
        sum_regularizer,
    )
    from headrace.library.contrib.shaping import (
        dense_to_sparse,
        dropout,
        flatten,
        images_to_sequence,
        maxout,
        one_hot_encoding,
        sequence_to_images,
        softmax,
        spatial_softmax,
    )
    from headrace.library.contrib.summaries import (
        summarize_activation,
        summarize_activations,
        summarize_biases,
        summarize_collection,
        summarize_tensor,
        summarize_tensors,
        summarize_variables,
        summarize_weights,
    )
    from headrace.library.nn.safe_embedding import (
        safe_embedding_lookup_sparse,
    )
    from headrace.training.contrib.optimize_loss import (
        OPTIMIZER_CLS_NAMES,
        OPTIMIZER_SUMMARIES,
        adaptive_clipping_fn,
        optimize_loss,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.batch_norm": "batch_norm",
            "headrace.library.contrib.convolutions": (
                "bias_add conv1d conv2d conv2d_in_plane conv2d_transpose conv3d conv3d_transpose "
                "convolution convolution1d convolution2d convolution2d_in_plane convolution2d_transpose "
                "convolution3d convolution3d_transpose separable_conv2d separable_convolution2d"
            ),
            "headrace.library.contrib.dense": (
                "elu fully_connected legacy_fully_connected legacy_linear legacy_relu linear relu relu6 "
                "repeat stack"
            ),
            "headrace.library.contrib.embedding": "bow_encoder embed_sequence embedding_lookup_unique",
            "headrace.library.contrib.initializers": (
                "variance_scaling_initializer xavier_initializer xavier_initializer_conv2d"
            ),
            "headrace.library.contrib.more_layers": "GDN gdn recompute_grad rev_block scale_gradient",
            "headrace.library.contrib.norms": "group_norm instance_norm layer_norm unit_norm",
            "headrace.library.contrib.pooling": "avg_pool2d avg_pool3d max_pool2d max_pool3d pool",
            "headrace.library.contrib.regularizers": (
                "apply_regularization l1_l2_regularizer l1_regularizer l2_regularizer sum_regularizer"
            ),
            "headrace.library.contrib.shaping": (
                "dense_to_sparse dropout flatten images_to_sequence maxout one_hot_encoding "
                "sequence_to_images softmax spatial_softmax"
            ),
            "headrace.library.contrib.summaries": (
                "summarize_activation summarize_activations summarize_biases summarize_collection "
                "summarize_tensor summarize_tensors summarize_variables summarize_weights"
            ),
            "headrace.library.nn.safe_embedding": "safe_embedding_lookup_sparse",
            "headrace.training.contrib.optimize_loss": (
                "OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES adaptive_clipping_fn optimize_loss"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "GDN",
    "OPTIMIZER_CLS_NAMES",
    "OPTIMIZER_SUMMARIES",
    "adaptive_clipping_fn",
    "apply_regularization",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bias_add",
    "bow_encoder",
    "conv1d",
    "conv2d",
    "conv2d_in_plane",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "convolution",
    "convolution1d",
    "convolution2d",
    "convolution2d_in_plane",
    "convolution2d_transpose",
    "convolution3d",
    "convolution3d_transpose",
    "dense_to_sparse",
    "dropout",
    "elu",
    "embed_sequence",
    "embedding_lookup_unique",
    "flatten",
    "fully_connected",
    "gdn",
    "group_norm",
    "images_to_sequence",
    "instance_norm",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "legacy_fully_connected",
    "legacy_linear",
    "legacy_relu",
    "linear",
    "max_pool2d",
    "max_pool3d",
    "maxout",
    "one_hot_encoding",
    "optimize_loss",
    "pool",
    "recompute_grad",
    "relu",
    "relu6",
    "repeat",
    "rev_block",
    "safe_embedding_lookup_sparse",
    "scale_gradient",
    "separable_conv2d",
    "separable_convolution2d",
    "sequence_to_images",
    "softmax",
    "spatial_softmax",
    "stack",
    "sum_regularizer",
    "summarize_activation",
    "summarize_activations",
    "summarize_biases",
    "summarize_collection",
    "summarize_tensor",
    "summarize_tensors",
    "summarize_variables",
    "summarize_weights",
    "unit_norm",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]
