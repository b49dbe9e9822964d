"""tf.TensorArray: an array of tensors as the graph's author holds it, for loops.

A TensorArray object is a handle, a flow, and what is known of the elements.  Its methods add nodes; those that write
return an object with the new flow, which is the one to use from then on.
Called by: ops.flow.control_flow, library.functional, users.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/tensor_array_ops.py, tensor_array_grad.py); node names as 2.21
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.graph import registry, scopes
from headrace.graph.behavior import is_flow_functional
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow import tensor_array_ops as ops
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast

__all__ = ["TensorArray"]


class _Shared:
    """What all objects with one handle know together."""

    def __init__(self, shape: TensorShape) -> None:
        self.element_shape = shape
        self.first_value: Operation | None = (
            None  # the array is placed with the first value written
        )


class TensorArray:
    """Tensors by index, written once each and read once, unless `clear_after_read` is false.

    Where branches and loops are functions an array is a list of tensors, a value (`ListArray`).
    """

    _named: ClassVar[str] = "TensorArray"

    def __new__(cls, *args: Any, handle: Any = None, flow: Any = None, **kwargs: Any) -> Any:
        """As `__init__`."""
        handle = args[5] if len(args) > 5 else handle
        flow = args[6] if len(args) > 6 else flow
        is_list = isinstance(flow, Tensor) and flow.dtype == dtypes.variant
        if cls is TensorArray and handle is None and (is_list or is_flow_functional()):
            return super().__new__(ListArray)
        return super().__new__(cls)

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        """A new array of `size` elements, or the one behind `handle` and `flow`.

        dynamic_size: writes beyond the end make it grow.  infer_shape: all elements have one shape.
        Raises ValueError (size and handle both or neither given, or what belongs to the other), TypeError.
        """
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._size = None if handle is not None else size
        self._infer_shape = infer_shape
        self._colocates = colocate_with_first_write_call
        self._shared = _Shared(TensorShape(element_shape))
        if isinstance(self, ListArray):
            self._start(size, flow, element_shape, name)
            return
        if handle is not None:
            for given, what in (
                (tensor_array_name, "tensor_array_name"),
                (size, "size"),
                (element_shape, "element_shape"),
                (dynamic_size, "dynamic_size"),
                (clear_after_read, "clear_after_read"),
            ):
                if given:
                    raise ValueError(
                        f"Cannot provide both `handle` and `{what}` arguments at the same time: "
                        "the handle's TensorArray is made already"
                    )
        elif size is None:
            raise ValueError("Argument `size` must be provided if handle is not provided")
        with name_scope(name, self._named, [handle, size, flow]) as scope:
            if handle is not None:
                self._handle = handle
                self._flow = convert(flow, dtypes.float32)
                return
            clears = True if clear_after_read is None else clear_after_read
            graph = scopes.get_default_graph()
            with graph.device(None) if self._colocates else nullcontext():
                self._handle, self._flow = ops.tensor_array_op(
                    size,
                    dtype=self._dtype,
                    element_shape=self._shared.element_shape,
                    identical_element_shapes=infer_shape,
                    dynamic_size=self._dynamic_size,
                    clear_after_read=clears,
                    tensor_array_name=tensor_array_name or "",
                    name=scope,
                )

    def with_flow(self, flow: Tensor) -> TensorArray:
        """The same array after what `flow` waits for."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._flow = flow
        return made

    def anew(self, flow: Tensor) -> TensorArray:
        """As `with_flow`, for what takes the name of an array in the current scope, as TensorFlow's objects do."""
        scopes.get_default_graph().unique_name(self._named)
        return self.with_flow(flow)

    @property
    def flow(self) -> Tensor:
        """What the next operation on the array has to wait for."""
        return self._flow

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self._dtype

    @property
    def handle(self) -> Tensor:
        """The array itself."""
        return self._handle

    @property
    def element_shape(self) -> TensorShape:
        """What is known of the shape of all elements."""
        return self._shared.element_shape

    @property
    def dynamic_size(self) -> bool:
        """Whether a write beyond its end makes it larger."""
        return self._dynamic_size

    def __repr__(self) -> str:
        return f"<TensorArray {self._handle.op.name!r} dtype={self._dtype.name} element_shape={self.element_shape}>"

    def identity(self) -> TensorArray:
        """The same array, with what was asked for before made to happen first."""
        return self.anew(identity(self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """The array of the gradients that `source` accumulates."""
        flow = self._flow if flow is None else flow
        graph = self._handle.graph
        with name_scope(name, "TensorArrayGrad", [self._handle]), graph.colocate_with(self._handle):
            handle, _ = ops.tensor_array_grad_op(self._handle, flow, source=source, name=name)
            with graph.control_dependencies([handle]):
                flow = identity(flow, name="gradient_flow")
            made = TensorArray(
                self._dtype,
                handle=handle,
                flow=flow,
                infer_shape=self._infer_shape,
                colocate_with_first_write_call=False,
            )
            made._shared.element_shape = self.element_shape
            return made

    # -- one element ------------------------------------------------------------------------------

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`."""
        value: Tensor = ops.read_op(self._handle, index, self._flow, dtype=self._dtype, name=name)
        if self.element_shape.ndims is not None:
            value.set_shape(self.element_shape)
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with `value` at `index`.  Raises ValueError (shape)."""
        with name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            tensor = self._value(value)
            self._check_element(tensor.shape)
            with self._beside(tensor):
                flow = ops.write_op(self._handle, index, tensor, self._flow, name=name)
            return self.with_flow(flow)

    def _value(self, value: Any) -> Tensor:
        """One of another dtype is an error of the step."""
        return convert(value, None, "value", self._dtype)

    def _check_element(self, shape: TensorShape) -> None:
        known = self.element_shape
        if not shape.is_compatible_with(known):
            raise ValueError(
                f"Inconsistent shapes: saw {shape} but expected {known}, that of the elements of the TensorArray "
                f"{self._handle.op.name!r}; infer_shape=False lets them differ"
            )
        if self._infer_shape:
            self._shared.element_shape = known.merge_with(shape)

    def _beside(self, value: Tensor) -> AbstractContextManager[Any]:
        """The array is used where the first value that was written to it is made."""
        if not self._colocates:
            return nullcontext()
        if self._shared.first_value is None:
            self._shared.first_value = value.op
        return self._handle.graph.colocate_with(self._shared.first_value)

    # -- many elements ------------------------------------------------------------------------------

    def stack(self, name: str | None = None) -> Tensor:
        """All elements as one tensor [size, ...]."""
        with (
            name_scope(name, "TensorArrayStack", [self._handle]),
            self._handle.graph.colocate_with(self._handle),
        ):
            value = self.gather(range_of(0, self.size()), name=name)
            if (
                self.element_shape.ndims is not None
                and not self._dynamic_size
                and self._size is not None
            ):
                count = constant_value(self._size) if isinstance(self._size, Tensor) else self._size
                value.set_shape(TensorShape([count]).concatenate(self.element_shape))
            return value

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices` [n] as one tensor [n, ...]."""
        value: Tensor = ops.gather_op(
            self._handle,
            indices,
            self._flow,
            dtype=self._dtype,
            element_shape=self.element_shape,
            name=name,
        )
        if self.element_shape.ndims is not None:
            value.set_shape(TensorShape([None]).concatenate(self.element_shape))
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, one after another along their first dimension."""
        shape = self.element_shape
        value: Tensor
        value, _ = ops.concat_op(
            self._handle,
            self._flow,
            dtype=self._dtype,
            name=name,
            element_shape_except0=shape[1:] if shape.ndims is not None else shape,
        )
        if shape.ndims is not None:
            rows = None
            if self._infer_shape:
                count = constant_value(self.size())
                if count is not None and shape[0].value is not None:
                    rows = int(count) * shape[0].value
            value.set_shape(TensorShape([rows]).concatenate(shape[1:]))
        return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array with value[i] at index i."""
        with name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            count = shape_of(value)[0]
            return self.scatter(range_of(0, count), value, name=name)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with value[i] at indices[i]."""
        with name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            tensor = self._value(value)
            self._check_element(
                tensor.shape[1:] if tensor.shape.ndims is not None else tensor.shape
            )
            with self._beside(tensor):
                flow = ops.scatter_op(self._handle, indices, tensor, self._flow, name=name)
            return self.with_flow(flow)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value`, lengths[i] of them at index i.  Raises ValueError."""
        with name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            tensor = convert(value, self._dtype, "value")
            with self._beside(tensor):
                sizes = cast(lengths, dtypes.int64)
                known = constant_value(sizes)
                if (
                    known is not None
                    and known.ndim == 1
                    and known.size
                    and known.min() == known.max()
                    and tensor.shape.ndims
                ):
                    self._check_element(TensorShape([int(known[0])]).concatenate(tensor.shape[1:]))
                flow = ops.split_op(self._handle, tensor, sizes, self._flow, name=name)
            return self.with_flow(flow)

    def size(self, name: str | None = None) -> Tensor:
        """Number of elements, int32 []."""
        if not self._dynamic_size and self._size is not None:
            return convert(self._size, dtypes.int32)
        count: Tensor = ops.size_op(self._handle, self._flow, name=name)
        return count

    def close(self, name: str | None = None) -> Operation:
        """An operation after which the array cannot be used."""
        closed: Operation = ops.close_op(self._handle, name=name)
        return closed


class ListArray(TensorArray):
    """A TensorArray that is a list of tensors: its flow is the list, and each write makes another one."""

    _named: ClassVar[str] = "TensorArrayV2"

    def _start(self, size: Any, flow: Any, element_shape: Any, name: str | None) -> None:
        """What `__init__` does: nothing has a name or a place of its own, and what is read is not cleared."""
        if flow is None and size is None:
            raise ValueError("Argument `size` must be provided if argument `flow` is not provided.")
        for given, what in ((size, "size"), (element_shape, "element_shape")):
            if flow is not None and given is not None:
                raise ValueError(
                    f"Cannot provide both `flow` and `{what}` arguments at the same time: the flow is a list already"
                )
        self._size = size
        with name_scope(name, self._named, [size, flow]) as scope:
            self._flow = (
                _lists().tensor_list_reserve(element_shape, size, self._dtype, name=scope)
                if flow is None
                else flow
            )

    @property
    def handle(self) -> Any:
        """None: the flow is all there is."""
        return None

    def __repr__(self) -> str:
        return f"<TensorArray {self._flow.op.name!r} dtype={self._dtype.name} element_shape={self.element_shape}>"

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """Raises NotImplementedError: gradients of lists are lists."""
        raise NotImplementedError("a TensorArray that is a list has no array of gradients")

    def _written(self, value: Any, rows: bool) -> Tensor:
        tensor = convert(value, None, "value", self._dtype)
        if tensor.dtype.base_dtype != self._dtype:
            raise TypeError(
                f"TensorArray dtype is {self._dtype.name}, but Op is trying to write dtype "
                f"{tensor.dtype.base_dtype.name}: {tensor.name}; tf.cast converts"
            )
        shape = tensor.shape
        self._check_element(shape[1:] if rows and shape.ndims is not None else shape)
        return tensor

    def _check_element(self, shape: TensorShape) -> None:
        known = self.element_shape
        if not shape.is_compatible_with(known):
            raise ValueError(
                f"Inconsistent shapes: saw {shape} but expected {known}, that of the elements; infer_shape=False lets "
                "them differ"
            )
        if self._infer_shape:
            self._shared.element_shape = known.merge_with(shape)

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`."""
        with name_scope(name, "TensorArrayV2Read", [self._flow, index]):
            found: Tensor = _lists().tensor_list_get_item(
                self._flow, index, self._dtype, self.element_shape, name
            )
            return found

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with `value` at `index`.  Raises ValueError (shape), TypeError (dtype)."""
        with name_scope(name, "TensorArrayV2Write", [self._flow, index, value]):
            tensor = self._written(value, rows=False)
            return self.with_flow(
                _lists().tensor_list_set_item(
                    self._flow,
                    index,
                    tensor,
                    resize_if_index_out_of_bounds=self._dynamic_size,
                    name=name,
                )
            )

    def stack(self, name: str | None = None) -> Tensor:
        """All elements as one tensor [size, ...]."""
        with name_scope(name, "TensorArrayV2Stack", [self._flow]):
            count: Any = -1
            if not self._dynamic_size and self._size is not None:
                count = constant_value(self._size) if isinstance(self._size, Tensor) else self._size
            found: Tensor = _lists().tensor_list_stack(
                self._flow, self._dtype, -1 if count is None else int(count), self.element_shape
            )
            return found

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices` [n] as one tensor [n, ...]."""
        found: Tensor = _lists().tensor_list_gather(
            self._flow, indices, self._dtype, self.element_shape, name
        )
        return found

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, one after another along their first dimension."""
        known = self.element_shape
        rest = TensorShape(None)
        if known.ndims:
            rest = TensorShape([None]).concatenate(known[1:])
        found: Tensor = _lists().tensor_list_concat(self._flow, self._dtype, rest, name=name)
        return found

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array with value[i] at index i."""
        with name_scope(name, "TensorArrayUnstack", [self._flow, value]):
            tensor = self._written(value, rows=True)
            rows = tensor.shape[1:] if tensor.shape.ndims is not None else tensor.shape
            return self.with_flow(_lists().tensor_list_from_tensor(tensor, rows))

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with value[i] at indices[i]."""
        with name_scope(name, "TensorArrayScatter", [self._flow, value, indices]):
            tensor = self._written(value, rows=True)
            return self.with_flow(
                _lists().tensor_list_scatter(tensor, indices, self.element_shape, self._flow)
            )

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value`, lengths[i] of them at index i."""
        with name_scope(name, "TensorArraySplit", [self._flow, value, lengths]):
            tensor = convert(value, None, "value", self._dtype)
            sizes = cast(lengths, dtypes.int64)
            known = constant_value(sizes)
            if known is not None and known.ndim == 1 and len(set(known.tolist())) == 1:
                self._check_element(TensorShape([int(known[0])]).concatenate(tensor.shape[1:]))
            return self.with_flow(
                _lists().tensor_list_split(tensor, self.element_shape, sizes, name=name)
            )

    def size(self, name: str | None = None) -> Tensor:
        """Number of elements, int32 []."""
        if not self._dynamic_size and self._size is not None:
            return convert(self._size, dtypes.int32)
        count: Tensor = registry.get("TensorListLength")(self._flow, name=name)
        return count

    def close(self, name: str | None = None) -> Operation:
        """An operation that does nothing."""
        closed: Operation = registry.get("NoOp")(name=name)
        return closed


def _lists() -> Any:
    """The functions of lists of tensors, which few programs need."""
    from headrace.ops.data import tensor_list_calls

    return tensor_list_calls


# -- gradients ------------------------------------------------------------------------------------


def _source(name: str) -> str:
    """The call of tf.gradients that the node `name` belongs to: its name scope.  Raises ValueError."""
    parts = name.split("/")
    inside = [index for index, part in enumerate(parts) if part.startswith("gradients")]
    if not inside:
        raise ValueError(
            f"{name!r} is not in a name scope that begins with 'gradients', which gradients of TensorArrays need; "
            "let tf.gradients have its default name"
        )
    return "/".join(parts[: inside[-1] + 1])


def _gradient_array(op: Operation, dtype: DType, flow: Tensor, grad: Tensor) -> TensorArray:
    array = TensorArray(dtype, handle=op.inputs[0], flow=flow, colocate_with_first_write_call=False)
    return array.grad(_source(grad.name), flow)


def _barrier(op: Operation, flow: Tensor) -> Tensor:
    """`flow` of the gradient, after the write itself: the gradient's array is as large as the array is by then."""
    written = identity(op.outputs[0], name="flow_out")
    with op.graph.control_dependencies([written]):
        passed: Tensor = identity(flow, name="write_barrier")
    return passed


@ops.read_op.gradient
def _(op: Operation, grad: Tensor) -> Any:
    array = _gradient_array(op, op["dtype"], op.inputs[2], grad)
    return None, None, array.write(op.inputs[1], grad).flow


@ops.write_op.gradient
def _(op: Operation, flow: Tensor) -> Any:
    source = flow
    flow = _barrier(op, flow)
    array = _gradient_array(op, op["T"], flow, source)
    return None, None, array.read(op.inputs[1]), flow


@ops.gather_op.gradient
def _(op: Operation, grad: Tensor) -> Any:
    array = _gradient_array(op, op["dtype"], op.inputs[2], grad)
    return None, None, array.scatter(op.inputs[1], grad).flow


@ops.scatter_op.gradient
def _(op: Operation, flow: Tensor) -> Any:
    source = flow
    flow = _barrier(op, flow)
    array = _gradient_array(op, op["T"], flow, source)
    return None, None, array.gather(op.inputs[1]), flow


@ops.concat_op.gradient
def _(op: Operation, grad: Tensor, lengths_grad: Any) -> Any:
    array = _gradient_array(op, op["dtype"], op.inputs[1], grad)
    return None, array.split(grad, op.outputs[1]).flow


@ops.split_op.gradient
def _(op: Operation, flow: Tensor) -> Any:
    source = flow
    flow = _barrier(op, flow)
    array = _gradient_array(op, op["T"], flow, source)
    return None, array.concat(), None, flow
