"""ResourceVariable: a tf.Variable behind a handle, whose reads are values.

`x` makes the nodes ``x`` (VarHandleOp, the handle), ``x/IsInitialized``, ``x/Assign`` (its initializer) and ``x/Read``;
every use of it makes a ReadVariableOp of its own, where it is used.  What changes it returns an `UnreadVariable`: the
same variable, whose reads come after the change.
Called by: variables.Variable (use_resource=True), programs.  Threads: as graph.
Source: TF 1.15 behaviour of resource variables; node names and attrs checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import Shape, TensorShape, as_shape
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.blocks import PlacedWith
from headrace.graph.convert import convert
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import (
    control_dependencies,
    init_scope,
    name_scope,
)
from headrace.graph.registry import get as op_spec
from headrace.graph.scopes import function_being_built
from headrace.graph.tensor import Tensor
from headrace.library.variables.variable_init import guarded
from headrace.library.variables.variables import Variable
from headrace.ops.flow import identities as flow
from headrace.ops.flow.control_flow import cond
from headrace.ops.state import resources as raw

__all__ = ["ResourceVariable"]


@contextmanager
def _placed_freely(graph: Graph) -> Iterator[None]:
    """Nodes made inside follow neither device nor colocation scopes."""
    with graph.device(None), graph.colocate_with(None, ignore_existing=True):
        yield


class ResourceVariable(Variable):
    """See the module header; made by `tf.Variable(..., use_resource=True)` and its kin."""

    _graph_element: Tensor
    _cached_value: Tensor | None
    _caching_device: Any

    # -- making -------------------------------------------------------------------------------

    def _build(
        self,
        initial_value: Any,
        dtype: dtypes.DType | None,
        validate_shape: bool,
        caching_device: Any,
        name: str | None,
        shape: Any = None,
    ) -> None:
        computed = callable(initial_value)
        self._validate_shape = validate_shape
        with name_scope(name, "Variable", [] if computed else [initial_value]) as scope:
            graph = scopes.get_default_graph()
            with PlacedWith(graph, scope[:-1]):
                with graph.name_scope("Initializer"), graph.device(None):
                    given = initial_value() if computed else initial_value
                    value = convert(given, dtype, "initial_value")
                known = value.shape if shape is None else as_shape(shape)
                self._variable = raw.var_handle_op(
                    dtype=value.dtype.base_dtype,
                    shape=known,
                    shared_name=scope[:-1],
                    debug_name=scope,
                    name=scope,
                )
            self._initial_value = value
            self._add_nodes(graph, value, caching_device, scope)

    def _add_nodes(self, graph: Graph, value: Tensor, caching_device: Any, scope: str) -> None:
        """What stands beside the handle: the question whether it is initialized, initializer, read."""
        handle = self._variable
        with graph.name_scope("IsInitialized"):
            raw.var_is_initialized_op(handle)
        with graph.name_scope("Assign") as assign_scope, _placed_freely(graph):
            start = guarded(value, scope)
            with graph.device(handle.device):
                self._initializer_op = raw.assign_variable_op(handle, start, name=assign_scope)
        self._cached_value = None
        self._caching_device = None
        with graph.name_scope("Read"):
            with graph.device(handle.device):
                read = raw.read_variable_op(handle, dtype=value.dtype.base_dtype)
            self._graph_element = read
            if caching_device is not None:
                if callable(caching_device):
                    caching_device = caching_device(handle.op)
                self._caching_device = caching_device
                with _placed_freely(graph), graph.device(caching_device):
                    self._cached_value = flow.identity(read)

    def _from_def(self, given: pb.VariableDef, import_scope: str | None) -> None:
        snapshot = self._restore(given, import_scope)
        cached = snapshot.op.spec is not raw.read_variable_op
        self._cached_value = snapshot if cached else None
        self._graph_element = snapshot.op.inputs[0] if cached else snapshot
        self._caching_device = snapshot.device if cached else None
        self._validate_shape = True

    # -- what it is ---------------------------------------------------------------------------

    @property
    def handle(self) -> Tensor:
        """The tensor that stands for the state, of dtype resource."""
        return self._variable

    @property
    def _handle(self) -> Tensor:  # by which TensorFlow, and so others, tell that something has one
        return self._variable

    @property
    def _handle_name(self) -> str:
        return self._variable.name

    @property
    def _unique_id(self) -> str:
        return self._variable.op.name

    @property
    def dtype(self) -> dtypes.DType:
        """Of the values."""
        dtype: dtypes.DType = self._variable.op["dtype"]
        return dtype

    @property
    def shape(self) -> TensorShape:
        """Static shape."""
        return self._graph_element.shape

    @property
    def raw_shape(self) -> Shape:
        """As `Tensor.raw_shape`: what `tf.cast` gives may be a resource variable, and has it either way."""
        return self._graph_element.raw_shape

    def get_shape(self) -> TensorShape:
        """Same as `shape`."""
        return self._graph_element.shape

    def set_shape(self, shape: Any) -> None:
        """Add what you know about the shape.  Raises ValueError if it contradicts what is known."""
        self._graph_element.set_shape(shape)

    @property
    def create(self) -> Operation:
        """Same as `initializer`."""
        return self.initializer

    def _as_graph_element(self) -> Tensor:
        return self._graph_element

    # -- reading ------------------------------------------------------------------------------

    def value(self) -> Tensor:
        """A new read, or the one on the caching device, if any."""
        if self._cached_value is not None:
            return self._cached_value
        with _placed_freely(self.graph):
            return self._read()

    def _read(self, _graph: Any = None, _caching_device: Any = None) -> Tensor:
        found: Tensor
        if self._caching_device is None:
            found = raw.read_variable_op(self._variable, dtype=self.dtype)
        else:
            with _placed_freely(self.graph), self.graph.device(self._caching_device):
                found = raw.read_variable_op(self._variable, dtype=self.dtype)
        return found

    def read_value(self) -> Tensor:
        """A new read, which sees what the control dependencies in force have changed."""
        with name_scope("Read"):
            read = self._read()
        result: Tensor = flow.identity(read)
        return result

    def is_initialized(self, name: str | None = None) -> Tensor:
        """A bool scalar."""
        result: Tensor = raw.var_is_initialized_op(self._variable, name=name)
        return result

    def initialized_value(self) -> Tensor:
        """Its value if it is initialized, else its initial value."""
        initial = self._initializer_op.inputs[1]
        with init_scope():
            ready = self.is_initialized()
            result: Tensor = cond(ready, self.read_value, lambda: initial)
        return result

    def eval(self, session: Any = None) -> Any:
        """Its value in `session` or the default one."""
        return self._graph_element.eval(session=session)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at `indices`."""
        with name_scope("Gather" if name is None else name) as scope:
            rows: Tensor = raw.resource_gather_op(
                self._variable, indices, dtype=self.dtype, name=scope
            )
        return rows

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The slices at coordinates indices[..., :]."""
        with name_scope("GatherNd" if name is None else name) as scope:
            slices = raw.resource_gather_nd_op(
                self._variable, indices, dtype=self.dtype, name=scope
            )
        result: Tensor = flow.identity(slices)
        return result

    # -- changing -----------------------------------------------------------------------------

    def _after_cached(self) -> AbstractContextManager[Any]:
        """What a change must come after: the read on the caching device."""
        cached = self._cached_value
        return nullcontext() if cached is None else control_dependencies([cached])

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """x = value: the variable afterwards, or the operation if `read_value` is False."""
        tensor = convert(value, self.dtype)
        if not self.shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"Cannot assign value to variable {self.name!r}: Shape mismatch: it has shape {self.shape}, "
                f"and {tensor.name} shape {tensor.shape}"
            )
        checked = self._validate_shape and self.shape.is_fully_defined()
        op = raw.assign_variable_op(self._variable, tensor, validate_shape=checked, name=name)
        return self._after(op) if read_value else op

    def assign_add(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """x += delta: the variable afterwards, or the operation if `read_value` is False."""
        with self._after_cached():
            tensor = convert(delta, self.dtype)
            op = raw.assign_add_variable_op(self._variable, tensor, name=name)
        return self._after(op) if read_value else op

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """x -= delta: the variable afterwards, or the operation if `read_value` is False."""
        with self._after_cached():
            tensor = convert(delta, self.dtype)
            op = raw.assign_sub_variable_op(self._variable, tensor, name=name)
        return self._after(op) if read_value else op

    def _after(self, op: Operation) -> UnreadVariable:
        return UnreadVariable(self, op)

    def count_up_to(self, limit: int) -> Tensor:
        """Its value, which is then raised by one; a step raises OutOfRange at `limit`."""
        result: Tensor = raw.resource_count_up_to_op(self._variable, limit=limit, T=self.dtype)
        return result

    def _scattered(self, op_name: str, indices: Any, updates: Any, name: str | None) -> Any:
        """What `assigning` calls for ``Scatter…`` on this variable: its resource op, the variable afterwards."""
        values = convert(updates, self.dtype)
        return self._after(
            op_spec(f"Resource{op_name}")(self._variable, indices, values, name=name)
        )

    def _scatter(
        self, function: Callable[..., Any], delta: Any, use_locking: bool, name: str | None
    ) -> Any:
        if not (hasattr(delta, "indices") and hasattr(delta, "values")):
            raise TypeError(f"sparse_delta must be an IndexedSlices, not {delta!r:.80}")
        return function(self, delta.indices, delta.values, use_locking, name)

    def batch_scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[b, d.indices[b]] = d.values[b] for every position b of the leading dimensions."""
        return self._after(super().batch_scatter_update(sparse_delta, use_locking, name).op)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] = updates."""
        return self._scattered("ScatterNdUpdate", indices, updates, name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] += updates."""
        return self._scattered("ScatterNdAdd", indices, updates, name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] -= updates."""
        return self._scattered("ScatterNdSub", indices, updates, name)

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] = min(x there, updates)."""
        return self._scattered("ScatterNdMin", indices, updates, name)

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] = max(x there, updates)."""
        return self._scattered("ScatterNdMax", indices, updates, name)

    def _strided_slice_assign(
        self, begin: Any, end: Any, strides: Any, value: Any, name: str | None, **masks: int
    ) -> Any:
        with self._after_cached():
            tensor = convert(value, self.dtype)
            op = raw.resource_strided_slice_assign_op(
                self._variable, begin, end, strides, tensor, name=name, **masks
            )
            return self._after(op)

    # -- as Python sees it --------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self.read_value())

    def numpy(self) -> Any:
        """Raises NotImplementedError: a variable of a graph has values in sessions."""
        raise NotImplementedError(
            f"variable {self.name} has no value while the graph is built; use session.run or eval()"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    # -- as a file keeps it -------------------------------------------------------------------

    def to_proto(self, export_scope: str | None = None) -> pb.VariableDef | None:
        """The VariableDef; None if the variable is outside `export_scope`."""
        proto = super().to_proto(export_scope)
        if proto is not None:
            proto.is_resource = True
        return proto

    @property
    def _snapshot_name(self) -> str:
        cached = self._cached_value
        return (self._graph_element if cached is None else cached).name


class UnreadVariable(ResourceVariable):
    """A resource variable as it is after `parent`, an operation that changed it."""

    def __init__(self, variable: ResourceVariable, parent: Operation) -> None:
        self.__dict__.update(variable.__dict__)
        self._parent = parent
        self._cached_value = None
        self._initializer_op: Any = None
        self._graph_element: Any = None
        if function_being_built() is None:  # in a function it is read where it is used
            with control_dependencies([parent]):
                self._graph_element = raw.read_variable_op(self._variable, dtype=self.dtype)
            self._graph_element.set_shape(variable.shape)

    @property
    def name(self) -> str:
        """That of the operation."""
        return self._parent.name

    @property
    def op(self) -> Operation:
        """The operation that changed it."""
        return self._parent

    def value(self) -> Tensor:
        """A new read, after the change."""
        return self.read_value()

    def read_value(self) -> Tensor:
        """A new read, after the change."""
        with control_dependencies([self._parent]):
            return self._read()


def _refuse(operator: str, sign: str) -> None:
    """Let ``x += y`` on a resource variable be an error: it would not say whether the variable changes."""

    def apply(self: ResourceVariable, other: Any) -> Any:
        advice = {"+": "x.assign_add(y)", "-": "x.assign_sub(y)"}.get(sign, f"x.assign(x {sign} y)")
        raise RuntimeError(
            f"{sign}= on variable {self.name}: use {advice} to change the variable, or x = x {sign} y for a new tensor"
        )

    apply.__name__ = operator
    setattr(ResourceVariable, operator, apply)


for _name, _sign in [("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("pow", "**")]:
    _refuse(f"__i{_name}__", _sign)


def _after_parent(method: str) -> None:
    """Let `method` of an UnreadVariable put its nodes behind the change."""
    plain = getattr(ResourceVariable, method)

    def apply(self: UnreadVariable, *args: Any, **kwargs: Any) -> Any:
        with control_dependencies([self._parent]):
            return plain(self, *args, **kwargs)

    apply.__name__ = method
    apply.__doc__ = plain.__doc__
    setattr(UnreadVariable, method, apply)


# Not the functions (tf.scatter_add, …), nor what changes a slice: as in TensorFlow.
for _method in [
    "assign",
    "assign_add",
    "assign_sub",
    "batch_scatter_update",
    *[f"scatter_{kind}" for kind in ("update", "add", "sub", "mul", "div", "min", "max")],
    *[f"scatter_nd_{kind}" for kind in ("update", "add", "sub", "min", "max")],
]:
    _after_parent(_method)
