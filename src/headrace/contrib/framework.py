"""`tf.contrib.framework`: defaults of arguments, variables by name and scope, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.arg_scope import (
        add_arg_scope,
        arg_scope,
        arg_scope_func_key,
        arg_scoped_arguments,
        current_arg_scope,
        has_arg_scope,
    )
    from headrace.library.contrib.fuse_op import (
        fuse_op,
    )
    from headrace.library.contrib.tensor_checks import (
        assert_scalar_int,
        get_placeholders,
        reduce_sum_n,
        remove_squeezable_dimensions,
        with_same_shape,
        with_shape,
        zero_initializer,
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
    from headrace.library.tensor_spec import (
        BoundedTensorSpec,
        TensorSpec,
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
    from headrace.training.saver.checkpoint_readers import (
        list_variables,
        load_checkpoint,
        load_variable,
    )
    from headrace.training.saver.warm_starting import (
        init_from_checkpoint,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.arg_scope": (
                "add_arg_scope arg_scope arg_scope_func_key arg_scoped_arguments current_arg_scope "
                "has_arg_scope"
            ),
            "headrace.library.contrib.fuse_op": "fuse_op",
            "headrace.library.contrib.tensor_checks": (
                "assert_scalar_int get_placeholders reduce_sum_n remove_squeezable_dimensions "
                "with_same_shape with_shape zero_initializer"
            ),
            "headrace.library.contrib.variables": (
                "VariableDeviceChooser add_model_variable filter_variables get_local_variables "
                "get_model_variables get_trainable_variables get_unique_variable get_variable_full_name "
                "get_variables get_variables_by_name get_variables_by_suffix get_variables_to_restore "
                "global_variable local_variable model_variable variable"
            ),
            "headrace.library.tensor_spec": "BoundedTensorSpec TensorSpec",
            "headrace.training.contrib.restoring": (
                "assign_from_checkpoint assign_from_checkpoint_fn assign_from_values assign_from_values_fn"
            ),
            "headrace.training.global_step": (
                "assert_global_step create_global_step get_global_step get_or_create_global_step"
            ),
            "headrace.training.saver.checkpoint_readers": "list_variables load_checkpoint load_variable",
            "headrace.training.saver.warm_starting": "init_from_checkpoint",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "BoundedTensorSpec",
    "TensorSpec",
    "VariableDeviceChooser",
    "add_arg_scope",
    "add_model_variable",
    "arg_scope",
    "arg_scope_func_key",
    "arg_scoped_arguments",
    "assert_global_step",
    "assert_scalar_int",
    "assign_from_checkpoint",
    "assign_from_checkpoint_fn",
    "assign_from_values",
    "assign_from_values_fn",
    "create_global_step",
    "current_arg_scope",
    "filter_variables",
    "fuse_op",
    "get_global_step",
    "get_local_variables",
    "get_model_variables",
    "get_or_create_global_step",
    "get_placeholders",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variable_full_name",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "global_variable",
    "has_arg_scope",
    "init_from_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "local_variable",
    "model_variable",
    "reduce_sum_n",
    "remove_squeezable_dimensions",
    "variable",
    "with_same_shape",
    "with_shape",
    "zero_initializer",
]
