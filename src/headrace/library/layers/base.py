"""tf.layers.Layer: what makes its variables when it is first called, in a scope of its own, and uses them again.

Called by: library.layers.classes, library.rnn.cells, programs, whose layers are subclasses.  Threads: as graph.
Source: TF 1.15 behaviour of tf.layers.Layer; names checked against the oracle
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from headrace.base import dtypes, nest
from headrace.base.shapes import TensorShape
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.graph import Graph
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.layers.input_spec import check_inputs
from headrace.library.tracking.trackable import Trackable
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.library.variables.variable_scope import (
    VariableScope,
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast

__all__ = ["Layer"]

_NAMED: WeakKeyDictionary[Graph, Counter[str]] = WeakKeyDictionary()
"""How many layers of a class have been given a name in a graph."""


class Entered(str):
    """The name of a layer, for one of tf.layers' functions, when its scope is entered already."""


def snake(name: str) -> str:
    """BasicLSTMCell as basic_lstm_cell."""
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name))
    return f"private{words.lower()}" if words.startswith("_") else words.lower()


def unique_layer_name(base: str) -> str:
    """`base` with the next number that it has in the default graph, from 1."""
    counts = _NAMED.setdefault(scopes.get_default_graph(), Counter())
    counts[base] += 1
    return f"{base}_{counts[base]}"


@contextmanager
def layer_scope(name: Any, default: str, values: Any, reuse: Any = None) -> Iterator[None]:
    """The variable scope of a layer that is called as a function; the one in force for one that is an object."""
    if isinstance(name, Entered):
        yield
        return
    if name is None:
        unique_layer_name(default)
    with variable_scope(name, default, values, reuse=reuse):
        yield


@contextmanager
def layer_name_scope(name: Any, default: str, values: Any) -> Iterator[None]:
    """As `layer_scope`, of a layer that has no variables."""
    if isinstance(name, Entered):
        yield
        return
    if name is None:
        unique_layer_name(default)
    with name_scope(name, default, values):
        yield


def add_regularization(name: str, variable: Any, regularizer: Any) -> list[Any]:
    """The losses that a regularizer gives for each part of a new variable, which go into their collection."""
    losses = []
    for part in variable if isinstance(variable, PartitionedVariable) else [variable]:
        with name_scope(name + "/Regularizer"):
            loss = regularizer(part)
        if loss is not None:
            scopes.get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
            losses.append(loss)
    return losses


def layer_variable(
    name: str,
    shape: Any,
    dtype: Any,
    of: tuple[Any, Any, Any],
    trainable: bool,
    **others: Any,
) -> tuple[Any, list[Any]]:
    """A variable in the scope in force, and the losses of its regularizer, which are computed in the name scope there.

    of: its initializer, regularizer and constraint.
    """
    initializer, regularizer, constraint = of
    before = scopes.get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)
    variable = get_variable(
        name, shape, dtype, initializer, None, trainable, constraint=constraint, **others
    )
    if regularizer is None or not is_new(variable, before):
        return variable, []
    return variable, add_regularization(name, variable, regularizer)


@contextmanager
def uncut() -> Iterator[None]:
    """Where variables are not cut into parts, whatever the scope says."""
    with variable_scope(get_variable_scope(), auxiliary_name_scope=False) as scope:
        scope.set_partitioner(None)
        yield


def is_new(variable: Any, before: Sequence[Any]) -> bool:
    """Whether none of a variable's parts was among the global ones before."""
    parts = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
    return not any(part is each for part in parts for each in before)


def depends_on(element: Any, inputs: Sequence[Any]) -> bool:
    """Whether what an operation or tensor is made of are one or more of these tensors."""
    wanted, waiting = {id(each) for each in inputs}, [getattr(element, "op", element)]
    seen = {*waiting}
    while waiting:
        op = waiting.pop()
        if any(id(each) in wanted for each in (*op.inputs, *op.outputs)):
            return True
        for other in (*op.control_inputs, *(each.op for each in op.inputs)):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return False


class Layer(Trackable):
    """Base of layers.  A subclass makes variables in `build`, by `add_weight`, and computes in `call`.

    `layer(inputs)` calls it.  Inside `build` and `call`, tf.get_variable makes variables in the layer's scope, which is
    found on the first call.
    """

    _scope: VariableScope | None = None
    _graph: Graph | None = None
    _updates: Sequence[Any] = ()
    _losses: Sequence[Any] = ()
    _apart: Sequence[Any] = ()  # those of both that depend on no inputs

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        """name: of the scope, by default made of the class's.  dtype: of variables, by default the inputs'.

        kwargs: activity_regularizer, a function of the outputs whose value is a loss; _reuse, whether the variables
        must be there already; _scope, a name or scope that is not made unique.  Raises TypeError for others.
        """
        self._reuse = kwargs.pop("_reuse", None)
        scope = kwargs.pop("_scope", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        if kwargs:
            raise TypeError(f"Keyword argument not understood: {', '.join(sorted(kwargs))}")
        self._begin(name, trainable, dtype)
        self._enter_first(scope)

    def _enter_first(self, scope: Any) -> None:
        """Make the scope of that name the layer's; None: the first call does."""
        if scope is not None:
            with variable_scope(scope) as self._scope:
                pass

    def _begin(self, name: Any, trainable: bool, dtype: Any) -> None:
        if isinstance(name, VariableScope):
            self._base = name.name
            self._name: str | None = unique_layer_name(snake(type(self).__name__))
        else:
            self._base = name or snake(type(self).__name__)
            self._name = name or unique_layer_name(self._base)
        self.trainable = trainable
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._variables: dict[str, Any] = {}
        self.built = False
        self.input_spec: Any = None
        """An InputSpec, or one for each input: what calls check."""

    def build(self, input_shape: Any) -> None:
        """Make the variables; called once, before the first `call`.  input_shape: the inputs', a nest as they are."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What the layer gives for its inputs; the inputs, unless a subclass says otherwise."""
        return inputs

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What `call` gives for inputs, a tensor or a nest of them, and further arguments.

        scope: a name or scope for the variables, heeded on the first call.
        Raises ValueError if the inputs do not fit `input_spec`.
        """
        scope = kwargs.pop("scope", None)
        inputs = nest.map_structure(_tensor, inputs)
        given = [each for each in nest.flatten(inputs) if isinstance(each, Tensor)]
        graph = given[0].graph if given else scopes.get_default_graph()
        with graph.as_default():
            self._graph = graph
            self._find_scope(scope)
            check_inputs(self.input_spec, inputs, self._name or type(self).__name__)
            with self._entered(self._getter()):
                if not self.built:
                    self._build(inputs, given)
                outputs = self.call(inputs, *args, **kwargs)
                self._regularize(outputs)
            self.built = True
            _add_new(graph, GraphKeys.UPDATE_OPS, self.updates)
        return outputs

    apply = __call__

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """The shape of what `call` gives for inputs of that shape, if a subclass says so.

        Raises NotImplementedError if it does not.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say what shape its outputs have: define compute_output_shape in it"
        )

    def _getter(self) -> Callable[..., Any] | None:
        """The custom getter in force while the layer is called."""
        return None

    def _build(self, inputs: Any, given: Sequence[Tensor]) -> None:
        if self._dtype is None and given:
            self._dtype = given[0].dtype.base_dtype
        self.build(nest.map_structure(lambda each: getattr(each, "shape", None), inputs))
        self.built = True

    def _scope_base(self) -> str:
        return self._base

    def _find_scope(self, scope: Any) -> None:
        """The layer's scope, the first time."""
        if self._scope is None:
            if self._reuse:
                opened = variable_scope(self._scope_base() if scope is None else scope)
            else:
                opened = variable_scope(scope, default_name=self._scope_base())
            with opened as self._scope:
                pass

    @contextmanager
    def _entered(self, getter: Callable[..., Any] | None = None) -> Iterator[None]:
        """The layer's variable scope, and the name scope in which it was first called."""
        assert self._scope is not None
        reuse = True if self.built else self._reuse
        inside = variable_scope(
            self._scope, reuse=reuse, custom_getter=getter, auxiliary_name_scope=False
        )
        with inside as current, name_scope(current.original_name_scope):
            yield

    def _regularize(self, outputs: Any) -> None:
        if self._activity_regularizer is not None:
            with name_scope("ActivityRegularizer"):
                for output in nest.flatten(outputs):
                    loss = self._activity_regularizer(output)
                    self.add_loss(loss / cast(shape_of(output)[0], loss.dtype), inputs=True)

    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        **others: Any,
    ) -> Any:
        """A variable of the layer, as of tf.get_variable.  The regularizer's value goes into REGULARIZATION_LOSSES.

        dtype: by default the layer's.  trainable: by default True; none is in a layer that is not trainable.
        """
        self._find_scope(None)
        kind = dtype or self._dtype or dtypes.float32
        wanted = self.trainable and (trainable is None or bool(trainable))
        of = initializer, regularizer, constraint
        with self._entered():
            variable, losses = layer_variable(name, shape, kind, of, wanted, **others)
        self._keep_losses(losses)
        return self._kept(self._variables.setdefault(name, variable), name)

    add_variable = add_weight

    def _keep_losses(self, losses: Sequence[Any]) -> None:
        """Of variables alone."""
        self._losses, self._apart = [*self._losses, *losses], [*self._apart, *losses]

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add a loss, or a list of them, to `losses` and to the collection REGULARIZATION_LOSSES.

        inputs: what the losses depend on, see `get_losses_for`.
        """
        found = [each() if callable(each) else each for each in nest.flatten(losses)]
        found = [each for each in found if each is not None]
        self._losses = [*self._losses, *found]
        if inputs is None:
            self._apart = [*self._apart, *found]
        _add_new(scopes.get_default_graph(), GraphKeys.REGULARIZATION_LOSSES, found)

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add an operation, or a list of them, to `updates`; those are in the collection UPDATE_OPS after the call.

        inputs: what the updates depend on, see `get_updates_for`.
        """
        found = [each() if callable(each) else each for each in nest.flatten(updates)]
        ops = [each.op if hasattr(each, "op") else each for each in found]
        self._updates = [*self._updates, *ops]
        if inputs is None:
            self._apart = [*self._apart, *ops]

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Those of `losses` that were added as depending on inputs, and do depend on these, a tensor or a nest of them.

        None: the others, such as those of regularizers of variables.
        """
        return self._of_inputs(self.losses, inputs)

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Of `updates`, as `get_losses_for`."""
        return self._of_inputs(self.updates, inputs)

    def _of_inputs(self, elements: Sequence[Any], inputs: Any) -> list[Any]:
        apart = {id(each) for each in self._apart}
        if inputs is None:
            return [each for each in elements if id(each) in apart]
        given = nest.flatten(inputs)
        return [each for each in elements if id(each) not in apart and depends_on(each, given)]

    def _kept(self, variable: Any, name: str) -> Any:
        """`variable`, as part of the layer in object-based checkpoints, unless it is a partitioned one."""
        if isinstance(variable, Trackable):
            self._track_trackable(variable, name, overwrite=True)
        return variable

    @property
    def name(self) -> str:
        """The name that was given, or one made of the class's."""
        return self._name or snake(type(self).__name__)

    @property
    def scope_name(self) -> str:
        """The name of the variable scope.  Raises ValueError before the first call."""
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self.name}" has not been used yet: its first '
                "call finds the scope"
            )
        return self._scope.name

    @property
    def graph(self) -> Graph | None:
        """That of the last call; None before the first one."""
        return self._graph

    @property
    def dtype(self) -> Any:
        """Of the variables, by its name; None before it is known."""
        return None if self._dtype is None else self._dtype.name

    @property
    def losses(self) -> list[Any]:
        """What regularizers and `add_loss` gave, in the order in which they came."""
        return list(self._losses)

    @property
    def updates(self) -> list[Any]:
        """What `add_update` gave; none of a layer that is not trainable."""
        return list(self._updates) if self.trainable else []

    @property
    def variables(self) -> list[Any]:
        """Those of the layer, the trainable ones first; none before the first call."""
        return self.trainable_variables + self.non_trainable_variables

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        """Those that optimizers change, in the order in which they were made."""
        return [each for each in self._variables.values() if self.trainable and _trained(each)]

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The other ones."""
        return [
            each for each in self._variables.values() if not (self.trainable and _trained(each))
        ]

    non_trainable_weights = non_trainable_variables

    def count_params(self) -> int:
        """How many elements the variables have.  Raises ValueError before the first call."""
        if not self.built:
            raise ValueError(
                f"You tried to call `count_params` on {self.name}, but the layer isn't built: it is by its first call"
            )
        return sum(each.shape.num_elements() for each in self.variables)


def _trained(variable: Any) -> bool:
    return bool(getattr(variable, "trainable", True))


def _tensor(value: Any) -> Any:
    return convert(value) if isinstance(value, (np.ndarray, np.generic, float, int)) else value


def _add_new(graph: Graph, key: str, elements: Sequence[Any]) -> None:
    """Put into a collection what is not there yet."""
    there = graph.get_collection(key)
    for each in elements:
        if not any(each is other for other in there):
            graph.add_to_collection(key, each)
