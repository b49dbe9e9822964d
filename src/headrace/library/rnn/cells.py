"""Cells of recurrent networks: one step from (inputs, state) to (outputs, state).

A cell makes its variables on its first call, under a scope of its own, and uses them again after that.
Called by: library.rnn.loops, programs.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/rnn_cell_impl.py); GraphDefs checked against the oracle
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.base import dtypes, nest
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.layers.base import Layer, snake, unique_layer_name
from headrace.library.variables.initializers import constant_initializer, zeros_initializer
from headrace.library.variables.partitioned import fixed_size_partitioner
from headrace.library.variables.variable_scope import (
    get_variable,
    get_variable_scope,
    variable_scope,
)
from headrace.library.variables.variables import Variable
from headrace.ops.array.constants import constant, zeros
from headrace.ops.array.joining import concat, split
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.flow.identities import identity
from headrace.ops.linalg.products import matmul
from headrace.ops.math import elementwise
from headrace.ops.math.arithmetic import add, multiply
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.nn import activations
from headrace.ops.nn.bias import bias_add
from headrace.ops.nn.softmax import softmax

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "RNNCell",
]

Activation = Callable[[Any], Any]
_BY_NAME: dict[str, Activation] = {
    "tanh": elementwise.tanh,
    "sigmoid": elementwise.sigmoid,
    "exponential": elementwise.exp,
    "linear": identity,
    "softmax": softmax,
    "relu": activations.relu,
    "elu": activations.elu,
    "selu": activations.selu,
    "softplus": activations.softplus,
    "softsign": activations.softsign,
    "swish": activations.swish,
}


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM: what it keeps, and its last outputs; or sizes of both."""

    c: Any
    h: Any

    @property
    def dtype(self) -> DType:
        """That of both.  Raises TypeError if they differ."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"c is of {self.c.dtype!r} and h of {self.h.dtype!r}")
        found: DType = self.c.dtype
        return found


def joined_sizes(prefix: Any, suffix: Any) -> Tensor:
    """The shape `prefix` + `suffix` as a tensor; each is a tensor, a size or a shape.  Raises ValueError."""
    parts = []
    for part in (prefix, suffix):
        if not isinstance(part, Tensor):
            known = _as_shape(part)
            if not known.is_fully_defined():
                raise ValueError(f"the shape {known} must be known")
            parts.append(constant(known.as_list(), dtypes.int32))
            continue
        if part.raw_shape == ():
            part = expand_dims(part, 0)
        elif part.raw_shape is None or len(part.raw_shape) != 1:
            raise ValueError(f"{part.name} must be a size or a vector of sizes")
        parts.append(part)
    return concat(parts, 0)


def static_sizes(prefix: Any, suffix: Any) -> TensorShape:
    """What is known of the shape `prefix` + `suffix`."""
    known = []
    for part in (prefix, suffix):
        if not isinstance(part, Tensor):
            shape = _as_shape(part)
            if shape.is_fully_defined():
                constant(shape.as_list(), dtypes.int32)  # of which TensorFlow makes a node
        else:
            value = constant_value(part)
            if part.raw_shape == ():
                expand_dims(part, 0)
                shape = TensorShape([None if value is None else int(value)])
            else:
                shape = TensorShape(None if value is None else value.tolist())
        known.append(shape)
    return known[0].concatenate(known[1])


def _as_shape(sizes: Any) -> TensorShape:
    return TensorShape([sizes] if isinstance(sizes, int) or sizes is None else sizes)


def zero_state(sizes: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros [batch_size] + size for every size in the nest `sizes`."""

    def one(size: Any) -> Tensor:
        made = zeros(joined_sizes(batch_size, size), dtype)
        made.set_shape(static_sizes(batch_size, size))
        return made

    return nest.map_structure(one, sizes)


def check_is_cell(cell: Any, name: str) -> None:
    """Raises TypeError."""
    missing = [what for what in ("output_size", "state_size") if not hasattr(cell, what)]
    if not hasattr(cell, "zero_state") and not hasattr(cell, "get_initial_state"):
        missing.append("zero_state or get_initial_state")
    if not callable(cell):
        missing.append("__call__")
    if missing:
        raise TypeError(
            f"The argument {name!r} ({cell!r:.80}) is not an RNNCell: it has no {', '.join(missing)}"
        )


class RNNCell(Layer):
    """Base of cells.  A subclass has `state_size`, `output_size` and `call(inputs, state) -> outputs, state`.

    Inside `call` and `build`, tf.get_variable makes variables in the cell's scope.
    """

    trainable, built = True, False
    _name: str | None = None
    _dtype: DType | None = None
    _reuse: Any = None
    _outer_scope: Any = None  # in which the cell was first called
    _scope: Any = None

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        """name: of the scope; by default made of the class's.  dtype: of variables, by default the inputs'.

        kwargs: reuse, whether variables of that name must be there already.  Raises TypeError for others.
        """
        self._reuse = kwargs.pop("reuse", kwargs.pop("_reuse", None))
        if kwargs:
            raise TypeError(f"{type(self).__name__} takes no {', '.join(sorted(kwargs))}")
        self.trainable = trainable
        self._base = name or snake(type(self).__name__)
        self._name = name or unique_layer_name(self._base)
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self._variables: dict[str, Any] = {}

    def _scope_base(self) -> str:
        """Of a cell whose subclass has not called `__init__`, too."""
        return getattr(self, "_base", None) or snake(type(self).__name__)

    @property
    def dtype(self) -> DType | None:
        """Of the variables; None before it is known."""
        return self._dtype

    @property
    def state_size(self) -> Any:
        """Sizes of the state: an int, a TensorShape or a nest of them."""
        raise NotImplementedError(f"Abstract method: {type(self).__name__} has no state_size")

    @property
    def output_size(self) -> Any:
        """Size of the outputs: an int, a TensorShape or a nest of them."""
        raise NotImplementedError(f"Abstract method: {type(self).__name__} has no output_size")

    def build(self, inputs_shape: Any) -> None:
        """Make the variables; called once, before the first `call`."""

    def call(self, inputs: Any, state: Any) -> Any:
        """One step: (outputs, state)."""
        raise NotImplementedError(f"{type(self).__name__} has no call")

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """(outputs, new state) of inputs [batch, depth] and a state of `state_size`.

        scope: a name or scope for the variables, heeded on the first call.  Raises ValueError.
        """
        if self._outer_scope is None and scope is None:
            self._outer_scope = get_variable_scope()
        with variable_scope(self._outer_scope if scope is None else scope) as outer:
            return self._stepped(inputs, state, None if scope is None else outer)

    def _stepped(self, inputs: Any, state: Any, scope: Any) -> Any:
        """`call` in the cell's own scope, which is found on the first call."""
        self._find_scope(scope)
        inside = variable_scope(
            self._scope,
            reuse=True if self.built else self._reuse,
            custom_getter=self._collected,
            auxiliary_name_scope=False,
        )
        with inside as current, name_scope(current.original_name_scope):
            if not self.built:
                inputs = nest.map_structure(convert, inputs)
                self._dtype = self._dtype or nest.flatten(inputs)[0].dtype.base_dtype
                self.build(nest.map_structure(lambda x: x.shape, inputs))
                result = self.call(inputs, state)
                self.built = True
                return result
            return self.call(inputs, state)

    apply = __call__

    def _collected(self, getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__.setdefault("_variables", {}).setdefault(
            name, getter(name, *args, **kwargs)
        )

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
        """A variable of the cell, as of tf.get_variable; trainable by default as the cell is."""
        variable = get_variable(
            name,
            shape,
            dtype or self._dtype,
            initializer,
            regularizer,
            self.trainable if trainable is None else trainable,
            constraint=constraint,
            **others,
        )
        return self._kept(variable, name)

    add_variable = add_weight

    def __deepcopy__(self, memo: dict[int, Any]) -> RNNCell:
        """The same cell before its first call: it will make variables of its own."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        for key, value in vars(self).items():
            if key in ("_outer_scope", "_scope", "built", "_variables"):
                continue
            if key == "_children":  # what is tracked of it
                value = {name: each for name, each in value.items() if not _is_of_graph(each)}
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if _is_of_graph(each):
                    memo[id(each)] = each
            made.__dict__[key] = copy.deepcopy(value, memo)
        made._variables = {}
        return made

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """A state of zeros, [batch_size] + each size in `state_size`.  batch_size: an int or a scalar."""
        with name_scope(None, type(self).__name__ + "ZeroState", [batch_size]):
            return zero_state(self.state_size, batch_size, dtype)

    def get_initial_state(
        self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
    ) -> Any:
        """`zero_state` for what `inputs` or batch_size and dtype say.  Raises ValueError."""
        if inputs is not None:
            given = convert(inputs, name="inputs")
            batch_size, dtype = shape_of(given)[0], given.dtype
        if batch_size is None or dtype is None:
            raise ValueError("get_initial_state needs inputs, or batch_size and dtype")
        return self.zero_state(batch_size, dtype)


def _is_of_graph(value: Any) -> bool:
    return isinstance(value, (Tensor, Variable))


class _BuiltInCell(RNNCell):
    """A cell of one depth of inputs and one activation."""

    def __init__(
        self,
        num_units: int,
        activation: Any,
        default: Activation | None,
        name: str | None,
        dtype: Any,
        reuse: Any,
        others: dict[str, Any],
    ) -> None:
        super().__init__(name=name, dtype=dtype, reuse=reuse, **others)
        self._num_units = num_units
        if isinstance(activation, str):
            if activation not in _BY_NAME:
                raise ValueError(
                    f"activation is a function or one of {', '.join(sorted(_BY_NAME))}, not {activation!r}"
                )
            activation = _BY_NAME[activation]
        self._activation = activation or default or elementwise.tanh

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> Any:
        return self._num_units

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        if not self.built:
            inputs = convert(inputs)
            if inputs.raw_shape is None or len(inputs.raw_shape) != 2:
                raise ValueError(
                    f"Input 0 of layer {self.name} is incompatible with the layer: expected ndim=2, [batch, depth], "
                    f"and {inputs.name} has shape {inputs.shape}"
                )
            if inputs.raw_shape[1] is None:
                raise ValueError(
                    f"Expected inputs.shape[-1] to be known, saw shape: {inputs.shape}, that of {inputs.name}: "
                    f"it is the depth of the inputs of {self.name}"
                )
        if state is None:
            raise ValueError(
                f"{self.name} needs a state, and it is None: zero_state(batch_size, dtype) is the first one"
            )
        return self._stepped(inputs, state, scope)

    def _weights(self, depth: int, count: int, prefix: str = "", **of: Any) -> tuple[Any, Any]:
        """kernel [depth, count] and bias [count]."""
        kernel, bias = of.get("kernel"), of.get("bias") or zeros_initializer(dtype=self._dtype)
        parts = {"partitioner": of["partitioner"]} if of.get("partitioner") else {}
        return (
            self.add_variable(f"{prefix}kernel", [depth, count], initializer=kernel, **parts),
            self.add_variable(f"{prefix}bias", [count], initializer=bias),
        )


def _linear(parts: Sequence[Any], kernel: Any, bias: Any) -> Tensor:
    return bias_add(matmul(concat(parts, 1), kernel), bias)


class BasicRNNCell(_BuiltInCell):
    """outputs = state = activation([inputs, state] @ kernel + bias)."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """activation: tanh by default.  Variables: kernel [depth + num_units, num_units], bias."""
        super().__init__(num_units, activation, None, name, dtype, reuse, kwargs)

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`: makes the weights, from the depth of inputs [batch, depth]."""
        depth = inputs_shape[-1].value
        self._kernel, self._bias = self._weights(depth + self._num_units, self._num_units)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`: inputs [batch, depth] and a state to outputs [batch, output_size] and the next state."""
        output = self._activation(_linear([inputs, state], self._kernel, self._bias))
        return output, output


class GRUCell(_BuiltInCell):
    """Gated recurrent unit (http://arxiv.org/abs/1406.1078): the state is a mixture of itself and a candidate."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """activation: of the candidate, tanh by default.  bias_initializer: by default 1 for gates, 0 for candidates.

        Variables: gates/kernel [depth + num_units, 2 num_units], gates/bias, candidate/kernel, candidate/bias.
        """
        super().__init__(num_units, activation, None, name, dtype, reuse, kwargs)
        self._of_kernel, self._of_bias = kernel_initializer, bias_initializer

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`: makes the weights, from the depth of inputs [batch, depth]."""
        n = self._num_units
        depth = inputs_shape[-1].value + n
        open_gates = self._of_bias or constant_initializer(1.0, dtype=self._dtype)
        self._gates = self._weights(depth, 2 * n, "gates/", kernel=self._of_kernel, bias=open_gates)
        self._candidate = self._weights(
            depth, n, "candidate/", kernel=self._of_kernel, bias=self._of_bias
        )

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`: inputs [batch, depth] and a state to outputs [batch, output_size] and the next state."""
        gates = elementwise.sigmoid(_linear([inputs, state], *self._gates))
        reset, update = split(gates, 2, 1)
        candidate = self._activation(_linear([inputs, reset * state], *self._candidate))
        new = update * state + (1 - update) * candidate
        return new, new


class BasicLSTMCell(_BuiltInCell):
    """Long short-term memory (http://arxiv.org/abs/1409.2329), without peepholes, clipping or projection."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """activation: tanh by default.  state_is_tuple: else the state is [c, h] side by side.

        Variables: kernel [depth + num_units, 4 num_units], bias.
        """
        super().__init__(num_units, activation, None, name, dtype, reuse, kwargs)
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple

    @property
    def state_size(self) -> Any:
        """Units in each part of the state; a sum where the parts lie side by side."""
        n = self._num_units
        return LSTMStateTuple(n, n) if self._state_is_tuple else 2 * n

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`: makes the weights, from the depth of inputs [batch, depth]."""
        n = self._num_units
        self._kernel, self._bias = self._weights(inputs_shape[-1].value + n, 4 * n)

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`: inputs [batch, depth] and a state to outputs [batch, output_size] and the next state."""
        one = constant(1, dtypes.int32)
        c, h = state if self._state_is_tuple else split(state, 2, one)
        gates = _linear([inputs, h], self._kernel, self._bias)
        enter, candidate, forget, leave = split(gates, 4, one)
        kept = elementwise.sigmoid(add(forget, constant(self._forget_bias, forget.dtype)))
        new_c = add(
            multiply(c, kept), multiply(elementwise.sigmoid(enter), self._activation(candidate))
        )
        new_h = multiply(self._activation(new_c), elementwise.sigmoid(leave))
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else concat(
            [new_c, new_h], 1
        )


class LSTMCell(_BuiltInCell):
    """Long short-term memory with what may be added to it: peepholes, clipping, a projection of the outputs."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        """use_peepholes: gates see c (w_f_diag, w_i_diag, w_o_diag).  cell_clip: c stays in [-cell_clip, cell_clip].

        num_proj: h is projected to that size (projection/kernel), then clipped by proj_clip.  num_unit_shards,
        num_proj_shards: parts that the kernels are made in.
        """
        super().__init__(num_units, activation, None, name, dtype, reuse, kwargs)
        self._use_peepholes, self._cell_clip, self._initializer = (
            use_peepholes,
            cell_clip,
            initializer,
        )
        self._num_proj, self._proj_clip = num_proj, proj_clip
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple

    @property
    def state_size(self) -> Any:
        """Units in each part of the state; a sum where the parts lie side by side."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        """Units in the output of a step."""
        return self._num_proj or self._num_units

    def build(self, inputs_shape: Any) -> None:
        """See `RNNCell.build`: makes the weights, from the depth of inputs [batch, depth]."""
        n, depth = self._num_units, inputs_shape[-1].value + self.output_size
        shards = self._num_unit_shards
        self._kernel, self._bias = self._weights(
            depth,
            4 * n,
            kernel=self._initializer,
            partitioner=fixed_size_partitioner(shards) if shards else None,
        )
        if self._use_peepholes:
            self._to_forget, self._to_enter, self._to_leave = (
                self.add_variable(name, [n], initializer=self._initializer)
                for name in ("w_f_diag", "w_i_diag", "w_o_diag")
            )
        if self._num_proj:
            shards = self._num_proj_shards
            parts: dict[str, Any] = (
                {"partitioner": fixed_size_partitioner(shards)} if shards else {}
            )
            self._projection = self.add_variable(
                "projection/kernel", [n, self._num_proj], initializer=self._initializer, **parts
            )

    def call(self, inputs: Any, state: Any) -> Any:
        """See `RNNCell.call`: inputs [batch, depth] and a state to outputs [batch, output_size] and the next state."""
        n = self._num_units
        if self._state_is_tuple:
            c, h = state
        else:
            c = slice_of(state, [0, 0], [-1, n])
            h = slice_of(state, [0, n], [-1, self.output_size])
        gates = _linear([inputs, h], self._kernel, self._bias)
        enter, candidate, forget, leave = split(gates, 4, 1)
        forget = forget + self._forget_bias
        if self._use_peepholes:
            forget = forget + self._to_forget * c
        kept = elementwise.sigmoid(forget) * c
        if self._use_peepholes:
            enter = enter + self._to_enter * c
        c = kept + elementwise.sigmoid(enter) * self._activation(candidate)
        if self._cell_clip is not None:
            c = clip_by_value(c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            leave = leave + self._to_leave * c
        h = elementwise.sigmoid(leave) * self._activation(c)
        if self._num_proj:
            h = matmul(h, self._projection)
            if self._proj_clip is not None:
                h = clip_by_value(h, -self._proj_clip, self._proj_clip)
        return h, LSTMStateTuple(c, h) if self._state_is_tuple else concat([c, h], 1)
