"""Optimizer: from a loss to an op that makes one training step.

`compute_gradients` asks graph.gradients; `apply_gradients` adds one update op per variable, placed
with it, and joins them.  A subclass says what the update is (`_apply_dense`, `_apply_sparse`), which
slots it keeps (`_create_slots`) and which hyperparameters it turns into tensors (`_prepare`).  Programs have optimizers
of their own: the underscored methods are for subclasses, and have TensorFlow's names and arguments.
Called by: programs.  Threads: as graph.
Source: TF 1.15 python/training/optimizer.py, for behaviour; node names checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.gradients import gradients
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with, control_dependencies, init_scope, name_scope
from headrace.graph.operation import is_ours, where_built
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.tracking.trackable import Restoration, Trackable
from headrace.library.variables.variable_lists import trainable_variables
from headrace.library.variables.variables import Variable
from headrace.ops.flow.identities import group, tuple_
from headrace.ops.math.casting import cast
from headrace.ops.state.references import is_resource_variable
from headrace.training import slot_creator

__all__ = ["Optimizer"]

GradsAndVars = Sequence[tuple[Any, Any]]


class Optimizer(Trackable):
    """Base of the optimizers."""

    GATE_NONE: ClassVar[int] = 0
    """Gradients are used as soon as they are there."""
    GATE_OP: ClassVar[int] = 1
    """All gradients of an op are there before any is used."""
    GATE_GRAPH: ClassVar[int] = 2
    """All gradients of all variables are there before any is used."""

    def __init__(self, use_locking: bool, name: str) -> None:
        """`name` names the ops and slots.  Raises ValueError without one."""
        if not name:
            raise ValueError("Must specify the optimizer name: it names its ops and slots")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._non_slot_dict: dict[tuple[str, Any], Any] = {}

    def get_name(self) -> str:
        """The name given to the constructor."""
        return self._name

    # -- gradients ----------------------------------------------------------------------------

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """compute_gradients, then apply_gradients.

        Raises ValueError if no variable has a gradient.
        """
        pairs = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if all(grad is None for grad, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients: is "
                f"there a way from {[str(v) for _, v in pairs]} to the loss {loss}?"
            )
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """(gradient, variable) for each of `var_list` (default: all trainable ones).

        A gradient is a Tensor, an IndexedSlices, or None.  Raises ValueError, TypeError,
        LookupError.
        """
        if callable(loss):
            raise TypeError("loss must be a tensor; a function is of use only with eager execution")
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of Optimizer.GATE_NONE, GATE_OP and GATE_GRAPH, "
                f"not {gate_gradients!r}"
            )
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        if var_list is None:
            graph = scopes.get_default_graph()
            var_list = trainable_variables() + graph.get_collection(
                GraphKeys.TRAINABLE_RESOURCE_VARIABLES
            )
        variables = _flat(var_list)
        if not variables:
            raise ValueError(
                "No variables to optimize: the graph has no trainable ones, and none were given"
            )
        grads = gradients(
            loss,
            [v if isinstance(v, Tensor) else _checked(v)._ref() for v in variables],
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            grads = tuple_(grads)
        pairs = list(zip(grads, variables, strict=True))
        self._assert_valid_dtypes([v for grad, v in pairs if grad is not None])
        return pairs

    # -- updates ------------------------------------------------------------------------------

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """The op that applies gradients to variables, and then adds 1 to `global_step`.

        Raises ValueError (nothing to apply), TypeError (no gradient), NotImplementedError (not a
        variable).
        """
        pairs = [(_gradient(grad), variable) for grad, variable in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided: there are no pairs of gradient and variable")
        for _, variable in pairs:
            _checked(variable)
        used = [(grad, variable) for grad, variable in pairs if grad is not None]
        if not used:
            raise ValueError(
                f"No gradients provided for any variable: {[str(v) for _, v in pairs]} have None"
            )
        graph = scopes.get_default_graph()
        where = None
        if is_ours(type(self)):
            where = graph._names_here.where or where_built()
        with init_scope(), graph._located(where):
            self._create_slots([variable for _, variable in used])
        with name_scope(name, self._name) as scope:
            self._prepare()
            updates = []
            for grad, variable in used:
                located = graph._located(where if variable.constraint is None else None)
                with name_scope(f"update_{variable.op.name}"), colocate_with(variable), located:
                    updates.append(self._update(grad, variable))
            if global_step is None:
                applied = self._finish(updates, scope)
            else:
                with (
                    control_dependencies([self._finish(updates, "update")]),
                    colocate_with(global_step),
                ):
                    applied = _counted(global_step, scope)
        collection = applied.graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if applied not in collection:
            collection.append(applied)
        return applied

    def _update(self, grad: Tensor | IndexedSlices, variable: Any) -> Any:
        """The op that applies one gradient."""
        constraint = variable.constraint
        if isinstance(grad, IndexedSlices):
            if constraint is not None:
                raise RuntimeError(
                    f"{variable.name} has a constraint, which a sparse gradient cannot honour"
                )
            if is_resource_variable(variable):
                return self._resource_apply_sparse_duplicate_indices(
                    grad.values, variable, grad.indices
                )
            return self._apply_sparse_duplicate_indices(grad, variable)
        if is_resource_variable(variable):
            update = self._resource_apply_dense(grad, variable)
        else:
            update = self._apply_dense(grad, variable)
        if constraint is None:
            return update
        with control_dependencies([update]):
            return variable.assign(constraint(variable))

    # -- slots --------------------------------------------------------------------------------

    def get_slot(self, var: Any, name: str) -> Any:
        """The slot `name` of `var`, None if there is none."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self) -> list[str]:
        """Names of the slots it keeps for variables."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """Its own variables in the default graph, by name: slots and others."""
        graph = scopes.get_default_graph()
        found = [slot for slots in self._slots.values() for slot in slots.values()]
        found += self._non_slot_dict.values()
        return sorted((v for v in found if v.graph is graph), key=lambda v: str(v.op.name))

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        return self._slot(var, slot_name, lambda: slot_creator.create_zeros_slot(var, op_name))

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Any:
        return self._slot(var, slot_name, lambda: slot_creator.create_slot(var, val, op_name))

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Any:
        def make() -> Any:
            return slot_creator.create_slot_with_initializer(
                var, initializer, shape, dtype, op_name
            )

        return self._slot(var, slot_name, make)

    def _slot(self, var: Any, slot_name: str, make: Callable[[], Any]) -> Any:
        slots = self._slot_dict(slot_name)
        key = _key(var)
        if key not in slots:
            slots[key] = make()
            self._restore_slot_variable(slot_name, var, slots[key])
        return slots[key]

    def _slot_dict(self, slot_name: str) -> dict[Any, Any]:
        return self._slots.setdefault(slot_name, {})

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        """A variable of the optimizer itself, one per graph, placed with the variable `colocate_with`."""
        graph = colocate_with.graph
        if (name, graph) not in self._non_slot_dict:
            if callable(initial_value):
                initial_value = partial(self._call_if_callable, initial_value)
            with graph.colocate_with(colocate_with.op):
                self._non_slot_dict[name, graph] = Variable(
                    initial_value,
                    name=name,
                    trainable=False,
                    use_resource=is_resource_variable(colocate_with),
                )
            self._handle_deferred_dependencies(name, self._non_slot_dict[name, graph])
        return self._non_slot_dict[name, graph]

    def _get_non_slot_variable(self, name: str, graph: Any = None) -> Any:
        return self._non_slot_dict.get(
            (name, scopes.get_default_graph() if graph is None else graph)
        )

    def _non_slot_variables(self) -> list[Any]:
        return list(self._non_slot_dict.values())

    # -- as part of an object-based checkpoint ------------------------------------------------

    _deferred_slot_restorations: dict[tuple[str, Any], list[Restoration]] | None = None

    def _tracked(self) -> Mapping[str, Trackable]:
        graph = scopes.get_default_graph()
        names = sorted(name for name, of in self._non_slot_dict if of is graph)
        own = {name: self._non_slot_dict[name, graph] for name in names}
        return {**own, **super()._tracked()}

    def _create_or_restore_slot_variable(
        self, slot_variable_position: Restoration, slot_name: str, variable: Any
    ) -> None:
        """Restore a slot, now or when it is made."""
        slot = self.get_slot(variable, slot_name)
        if slot is not None:
            slot_variable_position.restore(slot)
            return
        if self._deferred_slot_restorations is None:
            self._deferred_slot_restorations = {}
        waiting = self._deferred_slot_restorations.setdefault((slot_name, _key(variable)), [])
        waiting.append(slot_variable_position)

    def _restore_slot_variable(self, slot_name: str, variable: Any, slot_variable: Any) -> None:
        """Restore a slot that has just been made, if a checkpoint that was loaded has values for it."""
        deferred = self._deferred_slot_restorations or {}
        waiting = deferred.pop((slot_name, _key(variable)), [])
        for each in sorted(waiting, key=lambda position: position.uid, reverse=True):
            each.restore(slot_variable)

    # -- what a subclass says -----------------------------------------------------------------

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Make the slots of these variables."""

    def _prepare(self) -> None:
        """Turn hyperparameters into tensors, inside the optimizer's name scope."""

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        """The op that applies a dense gradient."""
        raise NotImplementedError(f"{type(self).__name__} has no dense update")

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        """The op that applies a sparse gradient, each of whose indices occurs once."""
        raise NotImplementedError(f"{type(self).__name__} has no sparse update")

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        """Add up the rows of equal indices, then `_apply_sparse`."""
        summed, indices = _summed(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(summed, indices, grad.dense_shape), var)

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        """As `_apply_dense`, for a resource variable."""
        return self._apply_dense(grad, handle)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        """As `_apply_sparse`, for a resource variable: rows `grad` at `indices`."""
        return self._apply_sparse(IndexedSlices(grad, indices), handle)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: Tensor, handle: Any, indices: Tensor
    ) -> Any:
        """Add up the rows of equal indices, then `_resource_apply_sparse`."""
        summed, unique = _summed(grad, indices)
        return self._resource_apply_sparse(summed, handle, unique)

    def _apply_rule(
        self,
        rule: str,
        grad: Tensor | IndexedSlices,
        var: Any,
        slots: Sequence[str],
        scalars: Mapping[str, Any],
        **attrs: Any,
    ) -> Operation:
        """The training op of `rule`: sparse or dense, on a reference or a handle.

        slots: names of slots, in the order of the op's inputs.  scalars: by name of input; tensors and numbers, cast
        to the type of `var`.
        """
        sparse = isinstance(grad, IndexedSlices)
        kind = ("Resource" if is_resource_variable(var) else "") + ("Sparse" if sparse else "")
        spec = get(f"{kind}Apply{rule}")
        inputs = [var._ref(), *[self.get_slot(var, name)._ref() for name in slots]]
        for arg in spec.inputs[len(inputs) :]:
            if arg.name in ("grad", "delta"):
                inputs.append(_values(grad))
            elif arg.name == "indices":
                assert isinstance(grad, IndexedSlices)
                inputs.append(grad.indices)
            else:
                value = scalars[arg.name]
                inputs.append(value if arg.type_attr is None else cast_like(value, var))
        made = spec(*inputs, use_locking=self._use_locking, **attrs)
        op: Operation = made.op if isinstance(made, Tensor) else made
        return op

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        """The op that joins the updates, named `name_scope`."""
        return group(*update_ops, name=name_scope)

    def _valid_dtypes(self) -> set[DType]:
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _assert_valid_dtypes(self, tensors: Iterable[Any]) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            kind = tensor.dtype.base_dtype
            if kind not in valid and kind != dtypes.resource:
                names = ", ".join(sorted(t.name for t in valid))
                raise ValueError(
                    f"Invalid type {kind!r} for {tensor.name}: {type(self).__name__} takes {names}"
                )

    @staticmethod
    def _call_if_callable(param: Any, *given: Any) -> Any:
        if not callable(param):
            return param
        # Of the program's: what it makes is built there.
        with scopes.get_default_graph()._located(None):
            return param(*given)

    def _as_tensors(self, **values: Any) -> dict[str, Tensor]:
        """Hyperparameters as tensors of their names; what is a function is called."""
        called = {name: self._call_if_callable(value) for name, value in values.items()}
        return {name: convert(value, None, name) for name, value in called.items()}


def _values(grad: Tensor | IndexedSlices) -> Tensor:
    return grad.values if isinstance(grad, IndexedSlices) else grad


def _summed(rows: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of rows of equal indices, and those indices."""
    unique, positions = get("Unique")(indices)
    count = get("Shape")(unique)[0]
    summed: Tensor = get("UnsortedSegmentSum")(rows, positions, count)
    return summed, unique


def cast_like(value: Any, var: Any) -> Tensor:
    """A hyperparameter in the type of the variable; the tensor itself if it is that."""
    same: Tensor = cast(value, var.dtype.base_dtype)
    return same


def _gradient(grad: Any) -> Tensor | IndexedSlices | None:
    if grad is None or isinstance(grad, (Tensor, IndexedSlices)):
        return grad
    try:
        return convert(grad)
    except TypeError as error:
        raise TypeError(
            f"a gradient must be a Tensor, an IndexedSlices, convertible to one, or None: {error}"
        ) from None


def _checked(variable: Any) -> Any:
    """`variable`, if it is one that can be trained."""
    if isinstance(variable, Variable):
        return variable
    if isinstance(variable, Tensor):
        raise NotImplementedError(
            f"Trying to update a Tensor {variable.name}, which cannot be done; give the tf.Variable"
        )
    raise NotImplementedError(f"{variable!r} is not a variable that can be optimized")


def _counted(step: Any, name: str) -> Operation:
    """The op that adds 1 to the global step."""
    if is_resource_variable(step):
        one = convert(1, step.dtype)
        counted: Operation = get("AssignAddVariableOp")(step.handle, one, name=name)
        return counted
    reference = step if isinstance(step, Tensor) else step._ref()
    added: Operation = get("AssignAdd")(reference, 1, use_locking=False, name=name).op
    return added


def _key(var: Any) -> Any:
    return var.op


def _flat(var_list: Any) -> list[Any]:
    if not isinstance(var_list, (list, tuple)):
        return [var_list]
    return [item for part in var_list for item in _flat(part)]
