"""tf.Variable: a reference to state that outlives steps, with its initial value and a cached read.

`x` makes the nodes ``x/initial_value`` (what it starts as), ``x`` (the state, a reference),
``x/Assign`` (its initializer) and ``x/read`` (what ops that use it get).
Called by: variable_scope, training, programs.  Threads: as graph.
Source: TF 1.15 behaviour of reference variables; node names and attrs checked against the oracle
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, NoReturn

from headrace.base import dtypes
from headrace.base.reference import Reference
from headrace.base.shapes import TensorShape
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.blocks import PlacedWith
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert, register_tensor_conversion_function
from headrace.graph.export_scopes import prefixed, without_prefix
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import init_scope, name_scope
from headrace.graph.operation import where_built
from headrace.graph.registry import get as op_spec
from headrace.graph.tensor import Tensor
from headrace.library.tracking.trackable import VARIABLE_VALUE, Trackable
from headrace.library.variables import assigning
from headrace.library.variables.slice_info import SaveSliceInfo as _SliceInfo
from headrace.library.variables.variable_creation import Created
from headrace.library.variables.variable_init import guarded, initialized_value
from headrace.ops.flow import identities as flow
from headrace.ops.state import references as state

__all__ = ["Variable", "VariableAggregation", "VariableSynchronization"]


class VariableSynchronization(enum.Enum):
    """When copies of a variable are brought together; ON_READ makes it non-trainable."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How updates of copies of a variable would be combined; recorded in the VariableDef."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = 3  # noqa: PIE796 (TensorFlow's alias)


_AGGREGATIONS: Final = tuple([kind.value for kind in VariableAggregation])


class _VariableSlice(Tensor):
    """x[...]: the slice's value, which also knows how to assign to that part of x."""

    __slots__ = ("_variable",)

    def __init__(self, tensor: Tensor, variable: Variable) -> None:
        super().__init__(tensor.op, tensor.value_index, tensor._dtype)
        self._raw = tensor._raw
        self._variable = variable

    def assign(self, value: Any, name: str | None = None) -> Tensor:
        """Change this part of the variable; gives the reference to the whole."""
        op = self.op
        _, begin, end, strides = op.inputs
        masks = {key: op[key] for key in op.attrs if key.endswith("_mask")}
        return self._variable._strided_slice_assign(
            begin, end, strides, value, name or f"{op.name}/_assign", **masks
        )


class Variable(Trackable, metaclass=Created):
    """A variable of the default graph; operators and ops use its value."""

    SaveSliceInfo = _SliceInfo
    __array_priority__ = 100

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: pb.VariableDef | None = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        """`initial_value`: anything that converts to a tensor, or a function that gives it.

        With a function its nodes are named under ``x/Initializer`` and lie with the variable.
        use_resource: True makes a `ResourceVariable`; None asks the variable scope, then
        `tf.enable_resource_variables`.  `expected_shape` is accepted and unused, as is the `shape` of a reference
        variable; that of a resource variable may be less definite than the initial value's.
        Raises ValueError (no initial value; unknown shape with validate_shape), TypeError.
        """
        self._synchronization = synchronization
        self._aggregation = aggregation
        self._save_slice_info: _SliceInfo | None = None
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive")
            self._from_def(variable_def, import_scope)
            return
        if trainable is None:
            trainable = synchronization is not VariableSynchronization.ON_READ
        if initial_value is None:
            raise ValueError("initial_value must be specified")
        if not isinstance(aggregation, VariableAggregation) and aggregation not in _AGGREGATIONS:
            raise ValueError(
                f"Invalid variable aggregation mode: {aggregation} for variable: {name}; see tf.VariableAggregation"
            )
        if constraint is not None and not callable(constraint):
            raise ValueError(
                f"The `constraint` argument must be a callable, a function of the variable, not {constraint!r:.80}"
            )
        self._trainable = trainable
        self._constraint = constraint
        wanted = None if dtype is None else dtypes.as_dtype(dtype)
        keys = _collections(collections, trainable)
        with init_scope():
            self._build(initial_value, wanted, validate_shape, caching_device, name, shape)
        self.graph.add_to_collections(keys, self)

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
        with name_scope(name, "Variable", [] if computed else [initial_value]) as scope:
            graph = scopes.get_default_graph()
            located = graph._located(graph._names_here.where or where_built())
            if computed:
                with PlacedWith(graph, scope[:-1]):
                    with graph.name_scope("Initializer"), graph.device(None):
                        value = convert(initial_value(), dtype, "initial_value")
                    with located:
                        self._variable = _state_node(value, validate_shape, scope)
            else:
                value = convert(initial_value, dtype, "initial_value")
                with located:
                    self._variable = _state_node(value, validate_shape, scope)
            self._initial_value: Tensor | None = value
            with located:
                self._initializer_op: Operation = assigning.assign(
                    self._variable, guarded(value, scope), validate_shape=validate_shape
                ).op
                self._snapshot = self._read(graph, caching_device)

    def _read(self, graph: Graph, caching_device: Any) -> Tensor:
        place: Any
        if caching_device is None:
            place = graph.colocate_with(self._variable.op)
        else:
            if callable(caching_device):
                caching_device = caching_device(self._variable.op)
            place = graph.device(caching_device)
        with place:
            read: Tensor = flow.identity(self._variable, "read")
            return read

    def _from_def(self, given: pb.VariableDef, import_scope: str | None) -> None:
        self._snapshot = self._restore(given, import_scope)

    def _restore(self, given: pb.VariableDef, import_scope: str | None) -> Tensor:
        """Make it what a VariableDef says; gives the snapshot that the VariableDef names."""
        graph = scopes.get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(prefixed(name, import_scope))

        self._variable = element(given.variable_name)
        self._initializer_op = element(given.initializer_name)
        # A file written before the field existed does not name the initial value.
        self._initial_value = (
            element(given.initial_value_name) if given.initial_value_name else None
        )
        self._trainable = given.trainable
        self._synchronization = VariableSynchronization(int(given.synchronization))
        self._aggregation = VariableAggregation(int(given.aggregation))
        self._constraint = None
        if given.HasField("save_slice_info_def"):
            self._save_slice_info = _SliceInfo(
                save_slice_info_def=given.save_slice_info_def, import_scope=import_scope
            )
        snapshot: Tensor = element(given.snapshot_name)
        return snapshot

    # -- what it is ---------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """``node:0``."""
        return self._variable.name

    @property
    def _shared_name(self) -> str:
        return self._variable.op.name

    @property
    def op(self) -> Operation:
        """The node that holds the state."""
        return self._variable.op

    @property
    def graph(self) -> Graph:
        """The graph it was made in."""
        return self._variable.graph

    @property
    def device(self) -> str:
        """The device asked for; empty if none was."""
        return self._variable.device

    @property
    def dtype(self) -> dtypes.DType:
        """A reference type (``float32_ref``); `dtype.base_dtype` is that of the values."""
        return self._variable.dtype

    @property
    def shape(self) -> TensorShape:
        """Static shape."""
        return self._variable.shape

    def get_shape(self) -> TensorShape:
        """Same as `shape`."""
        return self._variable.shape

    def set_shape(self, shape: Any) -> None:
        """Add what you know about the shape.  Raises ValueError if it contradicts what is known."""
        self._variable.set_shape(shape)
        self._snapshot.set_shape(shape)

    @property
    def initializer(self) -> Operation:
        """The node that assigns the initial value."""
        return self._initializer_op

    @property
    def initial_value(self) -> Tensor | None:
        """What it is initialized with; reading it does not touch the variable."""
        return self._initial_value

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it unless told otherwise."""
        return self._trainable

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        """Projection that optimizers apply after an update."""
        return self._constraint

    @property
    def synchronization(self) -> VariableSynchronization:
        """As given; ON_READ variables are not trainable."""
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        """As given."""
        return self._aggregation

    # -- reading ------------------------------------------------------------------------------

    def value(self) -> Tensor:
        """The read made with the variable (on the caching device, if any)."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """A new read, which sees what the control dependencies in force have changed."""
        read: Tensor = flow.identity(self._variable, "read")
        return read

    def initialized_value(self) -> Tensor:
        """Its value if it is initialized, else its initial value."""
        return initialized_value(self)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """A bool scalar."""
        result: Tensor = state.is_variable_initialized_op(self._variable, name=name)
        return result

    def eval(self, session: Any = None) -> Any:
        """Its value in `session` or the default one."""
        return self._variable.eval(session=session)

    def _ref(self) -> Tensor:
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at `indices`."""
        from headrace.ops.array.gathering import gather

        result: Tensor = gather(self, indices, name=name)
        return result

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The slices at coordinates indices[..., :]."""
        from headrace.ops.array.gathering import gather_nd

        result: Tensor = gather_nd(self, indices, name=name)
        return result

    # -- changing -----------------------------------------------------------------------------

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """x = value: the reference afterwards, or the operation if `read_value` is False."""
        result = assigning.assign(self._variable, value, use_locking=use_locking, name=name)
        return result if read_value else result.op

    def assign_add(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """x += delta: the reference afterwards, or the operation if `read_value` is False."""
        result = assigning.assign_add(self._variable, delta, use_locking, name)
        return result if read_value else result.op

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """x -= delta: the reference afterwards, or the operation if `read_value` is False."""
        result = assigning.assign_sub(self._variable, delta, use_locking, name)
        return result if read_value else result.op

    def load(self, value: Any, session: Any = None) -> None:
        """Set it to an array at once, in `session` or the default one; adds nothing to the graph."""
        found = session if session is not None else scopes.get_default_session()
        if found is None:
            raise ValueError(
                "Either session argument should be provided or default session should be established: "
                f"nobody says in which session a value is to be loaded into {self.name}"
            )
        found.run(self._initializer_op, {self._initializer_op.inputs[1]: value})

    def count_up_to(self, limit: int) -> Any:
        """Its value, which is then raised by one; a step raises OutOfRange at `limit`."""
        return assigning.count_up_to(self._variable, limit)

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[d.indices] = d.values, for an IndexedSlices d."""
        return self._scatter(assigning.scatter_update, sparse_delta, use_locking, name)

    def scatter_add(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[d.indices] += d.values, for an IndexedSlices d."""
        return self._scatter(assigning.scatter_add, sparse_delta, use_locking, name)

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[d.indices] -= d.values, for an IndexedSlices d."""
        return self._scatter(assigning.scatter_sub, sparse_delta, use_locking, name)

    def scatter_mul(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[d.indices] *= d.values, for an IndexedSlices d."""
        return self._scatter(assigning.scatter_mul, sparse_delta, use_locking, name)

    def scatter_div(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[d.indices] /= d.values, for an IndexedSlices d."""
        return self._scatter(assigning.scatter_div, sparse_delta, use_locking, name)

    def scatter_min(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[d.indices] = min(x[d.indices], d.values), for an IndexedSlices d."""
        return self._scatter(assigning.scatter_min, sparse_delta, use_locking, name)

    def scatter_max(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[d.indices] = max(x[d.indices], d.values), for an IndexedSlices d."""
        return self._scatter(assigning.scatter_max, sparse_delta, use_locking, name)

    def batch_scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """x[b, d.indices[b]] = d.values[b] for every position b of the leading dimensions."""
        return self._scatter(assigning.batch_scatter_update, sparse_delta, use_locking, name)

    def _scatter(
        self, function: Callable[..., Any], delta: Any, use_locking: bool, name: str | None
    ) -> Any:
        if not (hasattr(delta, "indices") and hasattr(delta, "values")):
            raise TypeError(f"sparse_delta is not IndexedSlices: {delta!r:.80}")
        return function(self._variable, delta.indices, delta.values, use_locking, name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] = updates."""
        return assigning.scatter_nd_update(self._variable, indices, updates, True, name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] += updates."""
        return assigning.scatter_nd_add(self._variable, indices, updates, True, name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] -= updates."""
        return assigning.scatter_nd_sub(self._variable, indices, updates, True, name)

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] = min(x there, updates)."""
        return assigning.scatter_nd_min(self._variable, indices, updates, True, name)

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """x at coordinates indices[..., :] = max(x there, updates)."""
        return assigning.scatter_nd_max(self._variable, indices, updates, True, name)

    def _strided_slice_assign(
        self, begin: Any, end: Any, strides: Any, value: Any, name: str | None, **masks: int
    ) -> Tensor:
        spec = op_spec("StridedSliceAssign")
        result: Tensor = spec(self._variable, begin, end, strides, value, name=name, **masks)
        return result

    # -- as a file keeps it -------------------------------------------------------------------

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return {VARIABLE_VALUE: self}

    def _set_save_slice_info(self, save_slice_info: _SliceInfo) -> None:
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self) -> _SliceInfo | None:
        return self._save_slice_info

    def to_proto(self, export_scope: str | None = None) -> pb.VariableDef | None:
        """The VariableDef; None if the variable is outside `export_scope`."""
        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        proto = pb.VariableDef(
            variable_name=without_prefix(self.name, export_scope),
            initializer_name=without_prefix(self._initializer_op.name, export_scope),
            snapshot_name=without_prefix(self._snapshot_name, export_scope),
            trainable=self._trainable,
        )
        if self._initial_value is not None:
            proto.initial_value_name = without_prefix(self._initial_value.name, export_scope)
        proto.synchronization = self._synchronization.value  # type: ignore[assignment]
        proto.aggregation = self._aggregation.value  # type: ignore[assignment]
        if self._save_slice_info is not None:
            slice_def = self._save_slice_info.to_proto(export_scope)
            if slice_def is not None:
                proto.save_slice_info_def.CopyFrom(slice_def)
        return proto

    @property
    def _snapshot_name(self) -> str:
        return self._snapshot.name

    @staticmethod
    def from_proto(variable_def: pb.VariableDef, import_scope: str | None = None) -> Variable:
        """The variable whose nodes the default graph has already.  Raises KeyError if it has not."""
        return Variable(variable_def=variable_def, import_scope=import_scope)

    # -- as Python sees it --------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Tensor:
        value = self.value()
        sliced: Tensor = value[item]
        op = sliced.op
        if op.type == "StridedSlice" and op.inputs[0] is value:
            sliced = op.outputs[0] = _VariableSlice(sliced, self)
        return sliced

    def __iter__(self) -> NoReturn:
        iter(self.read_value())  # raises OperatorNotAllowedInGraphError
        raise AssertionError("a tensor was iterated over")

    def ref(self) -> Reference[Variable]:
        """A hashable stand-in, equal to that of the same variable only; `deref()` gives the variable."""
        return Reference(self)

    def experimental_ref(self) -> Reference[Variable]:
        """Same as `ref`."""
        return Reference(self)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<tf.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}>"


def _overload(operator: str) -> None:
    """Let `operator` of a Variable be that of its value."""
    method = getattr(Tensor, operator)

    def apply(self: Variable, *operands: Any) -> Any:
        return method(self.value(), *operands)

    apply.__name__ = operator
    setattr(Variable, operator, apply)


_REFLECTED = (
    *("add", "sub", "mul", "truediv", "floordiv", "div", "mod", "pow", "matmul"),
    *("and", "or", "xor"),
)
for _operator in (
    *_REFLECTED,
    *(f"r{_name}" for _name in _REFLECTED),
    *("lt", "le", "gt", "ge", "neg", "abs", "invert"),
):
    _overload(f"__{_operator}__")


def _state_node(value: Tensor, validate_shape: bool, scope: str) -> Tensor:
    shape = value.shape if validate_shape else TensorShape(None)
    if validate_shape and not shape.is_fully_defined():
        raise ValueError(
            f"initial_value must have a shape specified, and {value.name} has shape {shape}; "
            "set_shape() it, or give validate_shape=False"
        )
    node: Tensor = state.variable_v2(shape=shape, dtype=value.dtype.base_dtype, name=scope)
    return node


def _collections(collections: Any, trainable: bool) -> list[Any]:
    if collections is None:
        collections = [GraphKeys.GLOBAL_VARIABLES]
    if not isinstance(collections, (list, tuple, set)):
        raise ValueError(
            "collections argument to Variable constructor must be a list, tuple, or set, "
            f"not {collections!r}"
        )
    keys = list(collections)
    if trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
        keys.append(GraphKeys.TRAINABLE_VARIABLES)
    return keys


def _to_tensor(
    value: Variable,
    dtype: dtypes.DType | None = None,
    name: str | None = None,
    as_ref: bool = False,
) -> Tensor:
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type {dtype.name!r} for variable of type {value.dtype.name!r}: "
            f"{value.name}; tf.cast converts its value"
        )
    return value._ref() if as_ref else value.value()


register_tensor_conversion_function(Variable, _to_tensor)
