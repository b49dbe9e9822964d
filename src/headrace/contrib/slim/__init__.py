"""`tf.contrib.slim`: layers, scopes of arguments, and training without a word too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.contrib import losses, metrics
    from headrace.contrib.slim import (
        evaluation,
        learning,
        model_analyzer,
        prefetch_queue,
        queues,
        summaries,
        utils,
    )
    from headrace.library.contrib.arg_scope import (
        add_arg_scope,
        arg_scope,
        arg_scope_func_key,
        arg_scoped_arguments,
        current_arg_scope,
        has_arg_scope,
    )
    from headrace.library.contrib.batch_norm import batch_norm
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
    from headrace.library.contrib.initializers import (
        variance_scaling_initializer,
        xavier_initializer,
        xavier_initializer_conv2d,
    )
    from headrace.library.contrib.norms import group_norm, instance_norm, layer_norm, unit_norm
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
    from headrace.library.contrib.variables import (
        VariableDeviceChooser,
        add_model_variable,
        filter_variables,
        get_local_variables,
        get_model_variables,
        get_trainable_variables,
        get_unique_variable,
        get_variable_full_name,
        get_variables,
        get_variables_by_name,
        get_variables_by_suffix,
        get_variables_to_restore,
        global_variable,
        local_variable,
        model_variable,
        variable,
    )
    from headrace.training.contrib.optimize_loss import (
        OPTIMIZER_CLS_NAMES,
        OPTIMIZER_SUMMARIES,
        adaptive_clipping_fn,
        optimize_loss,
    )
    from headrace.training.contrib.restoring import (
        assign_from_checkpoint,
        assign_from_checkpoint_fn,
        assign_from_values,
        assign_from_values_fn,
    )
    from headrace.training.global_step import (
        assert_global_step,
        create_global_step,
        get_global_step,
        get_or_create_global_step,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.contrib": "losses metrics",
            "headrace.library.contrib.batch_norm": "batch_norm",
            "headrace.library.contrib.convolutions": (
                "bias_add conv1d conv2d conv2d_in_plane conv2d_transpose conv3d conv3d_transpose "
                "convolution convolution1d convolution2d convolution2d_in_plane "
                "convolution2d_transpose convolution3d convolution3d_transpose separable_conv2d "
                "separable_convolution2d"
            ),
            "headrace.library.contrib.dense": (
                "elu fully_connected legacy_fully_connected legacy_linear legacy_relu linear relu "
                "relu6 repeat stack"
            ),
            "headrace.library.contrib.initializers": (
                "variance_scaling_initializer xavier_initializer xavier_initializer_conv2d"
            ),
            "headrace.library.contrib.norms": "group_norm instance_norm layer_norm unit_norm",
            "headrace.library.contrib.pooling": "avg_pool2d avg_pool3d max_pool2d max_pool3d pool",
            "headrace.library.contrib.regularizers": (
                "apply_regularization l1_l2_regularizer l1_regularizer l2_regularizer "
                "sum_regularizer"
            ),
            "headrace.library.contrib.shaping": (
                "dense_to_sparse dropout flatten images_to_sequence maxout one_hot_encoding "
                "sequence_to_images softmax spatial_softmax"
            ),
            "headrace.library.contrib.summaries": (
                "summarize_activation summarize_activations summarize_biases summarize_collection "
                "summarize_tensor summarize_tensors summarize_variables summarize_weights"
            ),
            "headrace.training.contrib.optimize_loss": (
                "OPTIMIZER_CLS_NAMES OPTIMIZER_SUMMARIES adaptive_clipping_fn optimize_loss"
            ),
            "headrace.library.contrib.arg_scope": (
                "add_arg_scope arg_scope arg_scope_func_key arg_scoped_arguments "
                "current_arg_scope has_arg_scope"
            ),
            "headrace.library.contrib.variables": (
                "VariableDeviceChooser add_model_variable filter_variables get_local_variables "
                "get_model_variables get_trainable_variables get_unique_variable "
                "get_variable_full_name get_variables get_variables_by_name "
                "get_variables_by_suffix get_variables_to_restore global_variable local_variable "
                "model_variable variable"
            ),
            "headrace.training.global_step": (
                "assert_global_step create_global_step get_global_step get_or_create_global_step"
            ),
            "headrace.training.contrib.restoring": (
                "assign_from_checkpoint assign_from_checkpoint_fn assign_from_values "
                "assign_from_values_fn"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "OPTIMIZER_CLS_NAMES",
    "OPTIMIZER_SUMMARIES",
    "VariableDeviceChooser",
    "adaptive_clipping_fn",
    "add_arg_scope",
    "add_model_variable",
    "apply_regularization",
    "arg_scope",
    "arg_scope_func_key",
    "arg_scoped_arguments",
    "assert_global_step",
    "assign_from_checkpoint",
    "assign_from_checkpoint_fn",
    "assign_from_values",
    "assign_from_values_fn",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bias_add",
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
    "create_global_step",
    "current_arg_scope",
    "dense_to_sparse",
    "dropout",
    "elu",
    "evaluation",
    "filter_variables",
    "flatten",
    "fully_connected",
    "get_global_step",
    "get_local_variables",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variable_full_name",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "global_variable",
    "group_norm",
    "has_arg_scope",
    "images_to_sequence",
    "instance_norm",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "learning",
    "legacy_fully_connected",
    "legacy_linear",
    "legacy_relu",
    "linear",
    "local_variable",
    "losses",
    "max_pool2d",
    "max_pool3d",
    "maxout",
    "metrics",
    "model_analyzer",
    "model_variable",
    "one_hot_encoding",
    "optimize_loss",
    "pool",
    "prefetch_queue",
    "queues",
    "relu",
    "relu6",
    "repeat",
    "separable_conv2d",
    "separable_convolution2d",
    "sequence_to_images",
    "softmax",
    "spatial_softmax",
    "stack",
    "sum_regularizer",
    "summaries",
    "summarize_activation",
    "summarize_activations",
    "summarize_biases",
    "summarize_collection",
    "summarize_tensor",
    "summarize_tensors",
    "summarize_variables",
    "summarize_weights",
    "unit_norm",
    "utils",
    "variable",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]
