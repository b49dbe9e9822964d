"""SparseTensor: the non-zero elements of a tensor and where they are.

Called by: ops, client (feeds and fetches), users.  Threads: as graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import as_shape
from headrace.graph.convert import convert
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor

_QUOTIENTS = {
    **dict.fromkeys((dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16), dtypes.float32),
    **dict.fromkeys((dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64), dtypes.float64),
}
"""The types in which integers are divided."""


class SparseTensorValue(NamedTuple):
    """A SparseTensor as arrays: what a session returns for one, and what one is fed."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """indices [n, rank] int64; values [n]; dense_shape [rank] int64."""

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        """Raises ValueError if the shapes of the three do not fit."""
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert(indices, dtypes.int64, "indices")
            self._values = convert(values, name="values")
            self._dense_shape = convert(dense_shape, dtypes.int64, "dense_shape")
        self._known: TensorShape | None = None  # what a placeholder was told of the shape
        rows = self._indices.shape.with_rank(2)
        count = self._values.shape.with_rank(1)
        sizes = self._dense_shape.shape.with_rank(1)
        rows[0].merge_with(count[0])
        rows[1].merge_with(sizes[0])

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """A SparseTensor of constants.  Raises TypeError for what is no SparseTensorValue."""
        value = sparse_tensor_value
        if not isinstance(value, (SparseTensor, SparseTensorValue)):
            raise TypeError(f"from_value takes a SparseTensorValue, not {value!r:.80}")
        return cls(value.indices, value.values, value.dense_shape)

    @property
    def indices(self) -> Tensor:
        """Where the elements are, [n, rank]."""
        return self._indices

    @property
    def values(self) -> Tensor:
        """The elements, [n]."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """Shape of the whole tensor, [rank]."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """What is known of the whole tensor's shape."""
        return TensorShape(as_shape(self._dense_shape)) if self._known is None else self._known

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

    def consumers(self) -> list[Operation]:
        """The operations that take `values`."""
        return self._values.consumers()

    def eval(
        self, feed_dict: dict[Any, Any] | None = None, session: Any = None
    ) -> SparseTensorValue:
        """The value, in `session` or the default one."""
        from headrace.graph.scopes import session_of

        parts = [self._indices, self._values, self._dense_shape]
        session = session_of(session, self.graph, "evaluate tensor", "eval()", self._values.name)
        return SparseTensorValue(*session.run(parts, feed_dict))

    def __mul__(self, other: Any) -> SparseTensor:
        """The elements times those of a dense tensor that broadcasts to this shape."""
        return self._beside("SparseDenseCwiseMul", other, "mul")

    def __div__(self, other: Any) -> SparseTensor:
        """The elements over those of a dense tensor, whole numbers of integers."""
        return self._beside("SparseDenseCwiseDiv", other, "div")

    def __truediv__(self, other: Any) -> SparseTensor:
        """The elements over those of a dense tensor that broadcasts to this shape."""
        return self._beside("SparseDenseCwiseDiv", other, "truediv", _QUOTIENTS.get(self.dtype))

    def _beside(
        self, kind: str, other: Any, name: str, wanted: DType | None = None
    ) -> SparseTensor:
        with name_scope(None, name, [self._indices, self._values, other]) as scope:
            dense = convert(other, self.dtype.base_dtype, "y")
            values = self._values
            if wanted is not None:
                values, dense = (get("Cast")(each, DstT=wanted) for each in (values, dense))
            made = get(kind)(self._indices, values, self._dense_shape, dense, name=scope)
            return SparseTensor(self._indices, made, self._dense_shape)

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self._indices}, values={self._values}, dense_shape={self._dense_shape})"


def convert_to_tensor_or_sparse_tensor(
    value: Any, dtype: Any = None, name: str | None = None
) -> Any:
    """`value` as a SparseTensor if it is one or a SparseTensorValue, else as a Tensor.

    Raises RuntimeError if it is a SparseTensor of another dtype.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if wanted is not None and not wanted.is_compatible_with(value.dtype):
            raise RuntimeError(
                f"Sparse dtype mismatch. Requested: {wanted.name}, and the values of {value.values.name} "
                f"are {value.dtype.name}"
            )
        return value
    return convert(value, wanted, name)


def of_values(
    function: Callable[..., Any], x: SparseTensor, name: str | None, default_name: str
) -> SparseTensor:
    """What function(x, name=...) makes of the values, where x has them.

    The name is given away once before: TensorFlow has tried to make a tensor of x under it.
    """
    with name_scope(name, default_name):
        pass
    return SparseTensor(x.indices, function(x.values, name=name), x.dense_shape)
