"""`slim.utils`: small helpers of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.layer_utils import (
        NamedOutputs,
        append_tensor_alias,
        channel_dimension,
        collect_named_outputs,
        constant_value,
        convert_collection_to_dict,
        gather_tensors_aliases,
        get_tensor_aliases,
        get_variable_collections,
        last_dimension,
        n_positive_integers,
        smart_cond,
        static_cond,
        two_element_tuple,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.layer_utils": (
                "NamedOutputs append_tensor_alias channel_dimension collect_named_outputs "
                "constant_value convert_collection_to_dict gather_tensors_aliases "
                "get_tensor_aliases get_variable_collections last_dimension n_positive_integers "
                "smart_cond static_cond two_element_tuple"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "NamedOutputs",
    "append_tensor_alias",
    "channel_dimension",
    "collect_named_outputs",
    "constant_value",
    "convert_collection_to_dict",
    "gather_tensors_aliases",
    "get_tensor_aliases",
    "get_variable_collections",
    "last_dimension",
    "n_positive_integers",
    "smart_cond",
    "static_cond",
    "two_element_tuple",
]
