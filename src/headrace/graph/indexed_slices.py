"""IndexedSlices: some rows of a large tensor, as gradients of gathers are.

Called by: gradients, optimizers, ops (Gather's gradient), users.  Threads: as graph.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import as_shape, constant_value
from headrace.graph.convert import convert, register_tensor_conversion_function
from headrace.graph.graph import Graph, Operation
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor


class IndexedSlicesValue(NamedTuple):
    """An IndexedSlices as arrays: what a session returns for one, and what one is fed."""

    values: Any
    indices: Any
    dense_shape: Any = None


class IndexedSlices:
    """Rows `values[i]` at `indices[i]` of a tensor that is zero elsewhere; rows of one index add up.

    values [n, ...]; indices [n] int32 or int64; dense_shape: the whole tensor's shape, or None.
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        if not isinstance(values, Tensor):
            values = convert(values, name="values")
        if not isinstance(indices, Tensor):
            indices = convert(indices, name="indices")
        if dense_shape is not None and not isinstance(dense_shape, Tensor):
            dense_shape = convert(dense_shape, name="dense_shape")
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self) -> Tensor:
        """The rows, [n, ...]."""
        return self._values

    @property
    def indices(self) -> Tensor:
        """Where the rows belong, [n]."""
        return self._indices

    @property
    def dense_shape(self) -> Tensor | None:
        """Shape of the whole tensor, if it was given."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """What is known of the whole tensor's shape."""
        return TensorShape(None if self._dense_shape is None else as_shape(self._dense_shape))

    @property
    def name(self) -> str:
        """The name of `values`."""
        return self._values.name

    @property
    def device(self) -> str:
        """The device of `values`."""
        return self._values.device

    @property
    def op(self) -> Operation:
        """The operation that makes `values`."""
        return self._values.op

    @property
    def dtype(self) -> DType:
        """The dtype of `values`."""
        return self._values.dtype

    @property
    def graph(self) -> Graph:
        """The graph of `values`."""
        return self._values.graph

    def get_shape(self) -> TensorShape:
        """Same as `shape`."""
        return self.shape

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __repr__(self) -> str:
        dense = "" if self._dense_shape is None else f", dense_shape={self._dense_shape}"
        return f"IndexedSlices(indices={self._indices}, values={self._values}{dense})"

    def consumers(self) -> list[Operation]:
        """The operations that take `values`."""
        return self._values.consumers()


_LARGEST_SILENT = 100_000_000  # elements


def _to_tensor(
    value: IndexedSlices, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with dtype {value.dtype.name}: "
            f"{value.name}"
        )
    if value.dense_shape is not None:
        _warn_if_large(value, constant_value(value.dense_shape))
    return _dense(value, name)


def _warn_if_large(value: IndexedSlices, sizes: Any) -> None:
    count = None if sizes is None else int(np.prod(sizes, dtype=np.int64))
    if count is None or count >= _LARGEST_SILENT:
        size = "of unknown shape" if count is None else f"with {count} elements"
        warnings.warn(
            f"the IndexedSlices {value.name} becomes a dense tensor {size}, which may take much memory",
            stacklevel=3,
        )


def _dense(value: IndexedSlices, name: str | None) -> Tensor:
    if value.dense_shape is None:
        raise ValueError(
            "Tensor conversion requested for IndexedSlices for argument `value` without dense_shape: "
            f"{value.name} cannot become a tensor"
        )
    made: Tensor = get("UnsortedSegmentSum")(
        value.values, value.indices, value.dense_shape[0], name=name
    )
    return made


register_tensor_conversion_function(IndexedSlices, _to_tensor)


def to_dense(value: Any) -> Any:
    """`value` as a Tensor if it is an IndexedSlices (without the warning), else as it is."""
    if not isinstance(value, IndexedSlices):
        return value
    return _dense(value, None)


def convert_to_tensor_or_indexed_slices(
    value: Any, dtype: Any = None, name: str | None = None
) -> Any:
    """`value` if it is an IndexedSlices, else as a Tensor.

    Raises ValueError if it is an IndexedSlices of another dtype.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if not isinstance(value, IndexedSlices):
        return convert(value, wanted, name)
    if wanted is not None and not wanted.is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible tensor conversion requested to `dtype` {wanted.name} for `value` {value.name}: "
            f"the IndexedSlices has dtype {value.dtype.name}"
        )
    return value
