"""Variables in parts: cut along one axis, each part a variable that may lie on another task.

Called by: variable_store, embedding_lookup, programs.  Threads: as graph.
Source: TF 1.15 behaviour; partitioners checked against the oracle
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape, as_shape
from headrace.graph import scopes
from headrace.graph.convert import convert, register_tensor_conversion_function
from headrace.graph.registry import get as op_spec
from headrace.graph.tensor import Tensor
from headrace.library.variables.variables import Variable
from headrace.ops.array.joining import split
from headrace.ops.flow import identities as flow

__all__ = [
    "PartitionedVariable",
    "fixed_size_partitioner",
    "min_max_variable_partitioner",
    "variable_axis_size_partitioner",
]


class PartitionInfo:
    """Tells an initializer which part of what it makes: full_shape and var_offset, a number an axis."""

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        """Raises ValueError if the offset is not inside the shape."""
        if any(not 0 <= at < size for at, size in zip(var_offset, full_shape, strict=True)):
            offset, size = next(
                pair
                for pair in zip(var_offset, full_shape, strict=True)
                if not 0 <= pair[0] < pair[1]
            )
            raise ValueError(
                f"Expected 0 <= offset < shape but found offset={offset}, shape={size}: a part at {list(var_offset)} "
                f"is not inside a variable of shape {list(full_shape)}; there are more parts than rows"
            )
        self.full_shape = list(full_shape)
        self.var_offset = list(var_offset)

    def single_slice_dim(self, shape: Any) -> int | None:
        """The axis along which a part of that shape is cut; None if it is the whole.

        Raises TypeError, ValueError (it does not fit, or is cut along several).
        """
        if not isinstance(shape, (tuple, list)):
            raise TypeError(f"`shape` must be a sequence (like tuple or list) instead of {shape!r}")
        if len(shape) != len(self.full_shape):
            raise ValueError(
                f"Expected equal length, but received shape={list(shape)} of length {len(shape)} while "
                f"self.full_shape={self.full_shape} is of length {len(self.full_shape)}."
            )
        cut = [axis for axis, size in enumerate(shape) if size != self.full_shape[axis]]
        for axis in cut:
            if self.var_offset[axis] + shape[axis] > self.full_shape[axis]:
                raise ValueError(
                    f"With self.var_offset={self.var_offset}, a partition of shape={list(shape)} would exceed "
                    f"self.full_shape={self.full_shape} in dimension {axis}."
                )
        if len(cut) > 1:
            raise ValueError(
                f"Cannot use single_slice_dim() with shape={list(shape)} and self.full_shape={self.full_shape} since "
                f"slice dim could be any of dims {cut}"
            )
        return cut[0] if cut else None

    def single_offset(self, shape: Any) -> int:
        """Where along that axis the part begins; 0 for the whole.  Raises as `single_slice_dim`."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]


def axis_and_count(partitions: Sequence[int]) -> tuple[int, int]:
    """The axis that is cut and into how many parts; axis 0 and one if none is."""
    for axis, count in enumerate(partitions):
        if count > 1:
            return axis, count
    return 0, 1


def slices(shape: Sequence[int], count: int, axis: int) -> Iterator[tuple[list[int], list[int]]]:
    """(offset, shape) of each of `count` parts; the first ones are larger if it does not divide."""
    size, larger = divmod(shape[axis], count)
    offset = 0
    for index in range(count):
        here = size + (index < larger)
        offsets, sizes = [0] * len(shape), list(shape)
        offsets[axis], sizes[axis] = offset, here
        yield offsets, sizes
        offset += here


class PartitionedVariable:
    """The parts of one variable, in order; as a tensor, their concatenation."""

    def __init__(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        variable_list: Sequence[Variable],
        partitions: Sequence[int],
    ) -> None:
        """`partitions`: how many parts along each axis.  Raises ValueError, TypeError."""
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError(f"variable_list is a list of variables, not {variable_list!r:.80}")
        if any(count < 1 for count in partitions):
            raise ValueError(f"partitions must be at least one: {list(partitions)}")
        if not variable_list:
            raise ValueError("variable_list must not be empty")
        self._name = name
        self._shape = as_shape(shape)
        self._dtype = dtypes.as_dtype(dtype)
        self._variable_list = list(variable_list)
        self._partitions = list(partitions)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        return len(self._variable_list)

    @property
    def name(self) -> str:
        """The name of the whole."""
        return self._name

    @property
    def dtype(self) -> dtypes.DType:
        """That of the parts."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """Of the whole."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Same as `shape`."""
        return self._shape

    def _get_variable_list(self) -> list[Variable]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def _partition_axes(self) -> list[int]:
        return [axis_and_count(self._partitions)[0]]

    def as_tensor(self) -> Tensor:
        """The concatenation of the parts' values."""
        graph = scopes.get_default_graph()
        whole: Any = self._variable_list[0]
        if len(self._variable_list) > 1:
            axis = self._partition_axes()[0]
            with graph.name_scope(f"{self._name}/ConcatPartitions/"):
                whole = op_spec("ConcatV2")(self._variable_list, axis, name="concat")
        with graph.name_scope(None):
            result: Tensor = flow.identity(whole, name=self._name)
        return result

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Assign each part its slice of `value`; the parts afterwards, or the operations."""
        return self._apply("assign", value, use_locking, read_value)

    def assign_add(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Add to each part its slice of `value`; the parts afterwards, or the operations."""
        return self._apply("assign_add", value, use_locking, read_value)

    def assign_sub(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Subtract from each part its slice of `value`; the parts afterwards, or the operations."""
        return self._apply("assign_sub", value, use_locking, read_value)

    def _apply(self, method: str, value: Any, use_locking: bool, read_value: bool) -> list[Any]:
        if isinstance(value, (PartitionedVariable, list, tuple)) and len(value) == len(self):
            pieces: list[Any] = list(value)
        else:
            axis = self._partition_axes()[0]
            sizes = [part.shape[axis].value for part in self._variable_list]
            whole = value if isinstance(value, Tensor) else convert(value, self._dtype)
            pieces = split(whole, sizes, axis=axis)
        return [
            getattr(part, method)(piece, use_locking=use_locking, read_value=read_value)
            for part, piece in zip(self._variable_list, pieces, strict=True)
        ]


def _to_tensor(
    value: PartitionedVariable,
    dtype: dtypes.DType | None = None,
    name: str | None = None,
    as_ref: bool = False,
) -> Any:
    if as_ref:
        raise NotImplementedError(
            f"partitioned variable {value.name} has no single reference; use its parts"
        )
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            f"partitioned variable {value.name} has dtype {value.dtype.name}, and {dtype.name} is needed"
        )
    return value.as_tensor()


register_tensor_conversion_function(PartitionedVariable, _to_tensor)

Partitioner = Callable[..., list[int]]


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Cut `axis` into `num_shards` parts (fewer if it is shorter)."""

    def partitioner(shape: TensorShape, **unused: Any) -> list[int]:
        sizes = shape.as_list()
        parts = [1] * len(sizes)
        parts[axis] = min(num_shards, sizes[axis] or 1)
        return parts

    return partitioner


def variable_axis_size_partitioner(
    max_shard_bytes: int,
    axis: int = 0,
    bytes_per_string_element: int = 16,
    max_shards: int | None = None,
) -> Partitioner:
    """Cut `axis` so that no part exceeds `max_shard_bytes`, into at most `max_shards` parts."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError(
            "Both max_shard_bytes and bytes_per_string_element must be positive, not "
            f"{max_shard_bytes} and {bytes_per_string_element}"
        )
    if max_shards and max_shards < 1:  # zero is no limit, as in TensorFlow
        raise ValueError(f"max_shards must be positive, not {max_shards}")

    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        sizes, element = _sizes(shape, dtype, bytes_per_string_element)
        slice_bytes = math.prod(sizes) // max(sizes[axis], 1) * element
        slices_per_shard = max(1, max_shard_bytes // max(slice_bytes, 1))
        count = max(1, math.ceil(sizes[axis] / slices_per_shard))
        parts = [1] * len(sizes)
        parts[axis] = min(max_shards, count) if max_shards else count
        return parts

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Partitioner:
    """Cut `axis` into at most `max_partitions` parts of at least about `min_slice_size` bytes."""

    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        if axis >= len(shape):
            raise ValueError(
                f"Cannot partition variable along axis {axis} when shape is only {shape}"
            )
        sizes, element = _sizes(shape, dtype, bytes_per_string_element)
        wanted = math.ceil(math.prod(sizes) * element / min_slice_size)
        parts = [1] * len(sizes)
        parts[axis] = max(1, min(sizes[axis], max_partitions, wanted))
        return parts

    return partitioner


def _sizes(shape: Any, dtype: Any, string_bytes: int) -> tuple[list[int], int]:
    shape = as_shape(shape)
    if not shape.is_fully_defined():
        raise ValueError(f"shape is not fully defined: {shape}, and a partitioner needs it")
    kind = dtypes.as_dtype(dtype)
    return shape.as_list(), string_bytes if kind == dtypes.string else kind.size or 1
