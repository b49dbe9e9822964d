"""`tensorflow.python.ops.list_ops`: the functions with which lists of tensors are made and used in a graph.

Called by: library, users.  Threads: as graph.
Source: TF 1.15 python/ops/list_ops.py; GraphDefs as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.data import tensor_list_arrays as arrays
from headrace.ops.data import tensor_lists as lists
from headrace.ops.data.tensor_list_arrays import as_element_shape
from headrace.run.state.tensor_lists import UNLIMITED


def empty_tensor_list(
    element_shape: Any, element_dtype: Any, max_num_elements: Any = None, name: str | None = None
) -> Tensor:
    """A list of nothing, which may get `max_num_elements`: as many as are pushed, for None."""
    most = UNLIMITED if max_num_elements is None else max_num_elements
    made: Tensor = lists.empty_tensor_list_op(
        as_element_shape(element_shape),
        most,
        element_dtype=dtypes.as_dtype(element_dtype),
        name=name,
    )
    return made


def tensor_list_reserve(
    element_shape: Any, num_elements: Any, element_dtype: Any, name: str | None = None
) -> Tensor:
    """A list of elements that are not set."""
    made: Tensor = lists.tensor_list_reserve_op(
        as_element_shape(element_shape),
        num_elements,
        element_dtype=dtypes.as_dtype(element_dtype),
        name=name,
    )
    return made


def tensor_list_from_tensor(tensor: Any, element_shape: Any, name: str | None = None) -> Tensor:
    """A list of the rows of `tensor`."""
    made: Tensor = arrays.from_tensor_op(tensor, as_element_shape(element_shape), name=name)
    return made


def tensor_list_get_item(
    input_handle: Tensor,
    index: Any,
    element_dtype: Any,
    element_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """The element at `index`."""
    made: Tensor = lists.get_item_op(
        input_handle,
        index,
        as_element_shape(element_shape),
        element_dtype=dtypes.as_dtype(element_dtype),
        name=name,
    )
    return made


def tensor_list_pop_back(input_handle: Tensor, element_dtype: Any, name: str | None = None) -> Any:
    """(the list without its last element, that element)."""
    return lists.pop_back_op(
        input_handle, -1, element_dtype=dtypes.as_dtype(element_dtype), name=name
    )


def tensor_list_gather(
    input_handle: Tensor,
    indices: Any,
    element_dtype: Any,
    element_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """The elements at `indices`, stacked."""
    made: Tensor = arrays.gather_op(
        input_handle,
        indices,
        as_element_shape(element_shape),
        element_dtype=dtypes.as_dtype(element_dtype),
        name=name,
    )
    return made


def tensor_list_scatter(
    tensor: Any,
    indices: Any,
    element_shape: Any = None,
    input_handle: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """A list in which row i of `tensor` is at indices[i]: `input_handle` with those rows, if it is given."""
    made: Tensor
    if input_handle is not None:
        made = arrays.scatter_into_op(input_handle, tensor, indices, name=name)
    else:
        shape = as_element_shape(element_shape)
        made = arrays.scatter_v2_op(tensor, indices, shape, -1, name=name)
    return made


def tensor_list_stack(
    input_handle: Tensor,
    element_dtype: Any,
    num_elements: int = -1,
    element_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """All elements as one tensor, of which `num_elements` are expected, unless that is -1."""
    made: Tensor = arrays.stack_op(
        input_handle,
        as_element_shape(element_shape),
        element_dtype=dtypes.as_dtype(element_dtype),
        num_elements=num_elements,
        name=name,
    )
    return made


def tensor_list_concat(
    input_handle: Tensor, element_dtype: Any, element_shape: Any = None, name: str | None = None
) -> Tensor:
    """All elements, one after another along their first dimension."""
    found = arrays.concat_v2_op(
        input_handle,
        as_element_shape(element_shape),
        constant(np.zeros(0, np.int64), dtypes.int64),
        element_dtype=dtypes.as_dtype(element_dtype),
        name=name,
    )
    made: Tensor = found[0]
    return made


def tensor_list_split(
    tensor: Any, element_shape: Any, lengths: Any, name: str | None = None
) -> Tensor:
    """A list of parts of `tensor`: `lengths` says how many rows each has."""
    made: Tensor = arrays.split_op(tensor, as_element_shape(element_shape), lengths, name=name)
    return made


def tensor_list_set_item(
    input_handle: Tensor,
    index: Any,
    item: Any,
    resize_if_index_out_of_bounds: bool = False,
    name: str | None = None,
) -> Tensor:
    """The list with `item` at `index`; a longer one, if it may grow for that."""
    made: Tensor = lists.set_item_op(
        input_handle,
        index,
        item,
        resize_if_index_out_of_bounds=resize_if_index_out_of_bounds,
        name=name,
    )
    return made
