"""x[...]: what stands between the brackets becomes the vectors and masks of a StridedSlice.

Called by: Tensor.__getitem__.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/array_ops.py), GraphDefs as 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import Dimension
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor, operator
from headrace.ops.array.constants import constant
from headrace.ops.array.gathering import boolean_mask
from headrace.ops.array.packing import stack
from headrace.ops.array.slicing import strided_slice_op

_INDEX_TYPES = (dtypes.int16, dtypes.int32, dtypes.int64)


def _check_index(item: Any) -> None:
    if isinstance(item, (int, np.integer, Dimension)) and not isinstance(item, bool):
        return
    kind = getattr(item, "dtype", None)
    if kind is not None and dtypes.as_dtype(kind).base_dtype in _INDEX_TYPES:
        raw = item.raw_shape if isinstance(item, Tensor) else np.shape(item)
        if raw is None or len(raw) != 1:
            return
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are "
        f"valid indices of a tensor, not {item!r:.80}"
    )


def _widest(items: list[Any]) -> DType | None:
    kinds = {item.dtype.base_dtype for item in items if isinstance(item, Tensor)}
    for kind in (dtypes.int64, dtypes.int32, dtypes.int16):
        if kind in kinds:
            return kind
    return None


class _Spec:
    """An index under construction."""

    def __init__(self) -> None:
        self.begin: list[Any] = []
        self.end: list[Any] = []
        self.strides: list[Any] = []
        self.masks = dict.fromkeys(
            ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
        )

    def add(self, begin: Any, end: Any, stride: Any, *masks: str) -> None:
        for mask in masks:
            self.masks[mask] |= 1 << len(self.begin)
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def add_slice(self, item: slice) -> None:
        """Absent bounds become constants of the type that the tensors among the bounds have."""
        kind = _widest([item.start, item.stop, item.step])
        masks = []
        parts = []
        for value, default, mask in (
            (item.start, 0, "begin_mask"),
            (item.stop, 0, "end_mask"),
            (item.step, 1, ""),
        ):
            if value is None or (isinstance(value, Dimension) and value.value is None):
                value = default if kind is None else constant(default, kind)
                masks.append(mask)
            else:
                _check_index(value)
            parts.append(value)
        self.add(*parts, *(mask for mask in masks if mask))

    def add_index(self, item: Any) -> None:
        _check_index(item)
        wide = isinstance(item, Tensor) and item.dtype.base_dtype in (dtypes.int16, dtypes.int64)
        # TensorFlow's graphs have the constant only for these types.
        self.add(
            item, item + 1, constant(1, item.dtype.base_dtype) if wide else 1, "shrink_axis_mask"
        )


@operator("getitem")
def getitem(tensor: Tensor, item: Any) -> Tensor:
    """tensor[item]: integers, scalar integer tensors, slices, ..., None, a bool mask, or a tuple of the first five.

    Raises TypeError for anything else, ValueError for what is statically out of bounds.
    """
    if _is_mask(item):
        return boolean_mask(tensor, item)
    spec = _Spec()
    begin_end: list[Any] = []
    for part in item if isinstance(item, (list, tuple)) else (item,):
        if isinstance(part, slice):
            spec.add_slice(part)
        elif part is Ellipsis:
            spec.add(0, 0, 1, "ellipsis_mask")
        elif part is None:
            spec.add(0, 0, 1, "new_axis_mask")
        else:
            spec.add_index(part)
    begin_end = [v for v in (*spec.begin, *spec.end, *spec.strides) if isinstance(v, Tensor)]
    with name_scope(None, "strided_slice", [tensor, *begin_end]) as scope:
        made: Tensor = strided_slice_op(tensor, *_packed(spec), name=scope, **spec.masks)
        return made


def _is_mask(item: Any) -> bool:
    if isinstance(item, (bool, np.bool_)):
        return True
    kind = getattr(item, "dtype", None)
    return kind is not None and (kind == dtypes.bool or kind == np.bool_)


def _packed(spec: _Spec) -> list[Tensor]:
    if not spec.begin:
        return [constant([], dtypes.int32)] * 3
    vectors = [stack(_sizes(part)) for part in (spec.begin, spec.end, spec.strides)]
    kind = _widest(vectors)
    if kind in (dtypes.int64, dtypes.int16):
        vectors = [v if v.dtype.base_dtype is kind else get("Cast")(v, DstT=kind) for v in vectors]
    return vectors


def _sizes(part: list[Any]) -> list[Any]:
    return [int(item) if isinstance(item, Dimension) else item for item in part]
