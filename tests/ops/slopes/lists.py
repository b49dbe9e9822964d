"""Gradients of ops of lists of tensors, optionals and ragged variants: what is made and read again."""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as tf
from headrace.graph.registry import get
from headrace.ops.data import tensor_list_calls as lists
from tests.ops.slopes import Cases

_X = np.array([[1.5, -2.0], [0.5, 3.0], [4.0, 1.0]])


def _pushed(x: Any) -> Any:
    items = get("TensorListPushBack")(lists.empty_tensor_list([2], tf.float64), x[0])
    return lists.tensor_list_stack(get("TensorListPushBack")(items, x[1] * x[2]), tf.float64)


def _popped(x: Any) -> Any:
    items, last = lists.tensor_list_pop_back(lists.tensor_list_from_tensor(x, [2]), tf.float64)
    return last * last, lists.tensor_list_stack(items, tf.float64)


def _set(x: Any) -> Any:
    items = lists.tensor_list_set_item(lists.tensor_list_from_tensor(x, [2]), 1, x[0] * x[2])
    return lists.tensor_list_stack(items, tf.float64) * x


def _item(x: Any) -> Any:
    items = lists.tensor_list_from_tensor(x, [2])
    return lists.tensor_list_get_item(items, 2, tf.float64) * x[0]


def _split(x: Any) -> Any:
    return lists.tensor_list_split(x * x, [None, 2], np.int64([2, 0, 1]))


def _scattered(x: Any) -> Any:
    items = lists.tensor_list_scatter(x * x, [3, 0, 1], [2])
    return lists.tensor_list_stack(items, tf.float64)


def _scattered_v1(x: Any) -> Any:
    items = get("TensorListScatter")(x * x, [3, 0, 1], [2])
    return lists.tensor_list_stack(items, tf.float64)


def _scattered_into(x: Any) -> Any:
    items = lists.tensor_list_from_tensor(x, [2])
    items = lists.tensor_list_scatter(x[:2] * x[1:], [2, 0], input_handle=items)
    return lists.tensor_list_stack(items, tf.float64) * x


def _resized(x: Any) -> Any:
    items = get("TensorListResize")(lists.tensor_list_from_tensor(x * x, [2]), 2)
    return lists.tensor_list_stack(items, tf.float64)


def _optional(x: Any) -> Any:
    some = get("OptionalFromValue")([x * x, x[0]])
    kinds, shapes = [tf.float64] * 2, [tf.TensorShape([3, 2]), tf.TensorShape([2])]
    return list(get("OptionalGetValue")(some, output_types=kinds, output_shapes=shapes))


def _ragged(x: Any) -> Any:
    rows = get("RaggedTensorToVariant")([np.int64([0, 2, 2, 3])], x * x, batched_input=True)
    found = get("RaggedTensorFromVariant")(
        rows, input_ragged_rank=0, output_ragged_rank=1, Tvalues=tf.float64, Tsplits=tf.int64
    )
    return found[1]


CASES: Cases = {
    "TensorListPushBack": (_pushed, [_X]),
    "TensorListPopBack": (_popped, [_X]),
    "TensorListGetItem": (_item, [_X]),
    "TensorListSetItem": (_set, [_X]),
    "TensorListResize": (_resized, [_X]),
    "TensorListStack": (_scattered, [_X]),
    "TensorListFromTensor": (_item, [_X]),
    "TensorListConcat": (
        lambda x: get("TensorListConcat")(_split(x), element_dtype=tf.float64)[0],
        [_X],
    ),
    "TensorListConcatV2": (lambda x: lists.tensor_list_concat(_split(x), tf.float64), [_X]),
    "TensorListSplit": (
        lambda x: lists.tensor_list_get_item(_split(x), 0, tf.float64),
        [_X],
    ),
    "TensorListGather": (
        lambda x: lists.tensor_list_gather(
            lists.tensor_list_from_tensor(x * x, [2]), [2, 0], tf.float64
        ),
        [_X],
    ),
    "TensorListScatter": (_scattered_v1, [_X]),
    "TensorListScatterV2": (_scattered, [_X]),
    "TensorListScatterIntoExistingList": (_scattered_into, [_X]),
    "OptionalFromValue": (_optional, [_X]),
    "OptionalGetValue": (_optional, [_X]),
    "RaggedTensorToVariant": (_ragged, [_X]),
    "RaggedTensorFromVariant": (_ragged, [_X]),
}
ELSEWHERE: set[str] = set()
