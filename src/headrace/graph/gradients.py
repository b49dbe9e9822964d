"""tf.gradients: nodes that compute the derivative of some tensors with respect to others.

Backward accumulation over the part of the graph between xs and ys, in breadth-first order from the
ys: an op is differentiated once the gradients of all its outputs have arrived.  Nothing recurses.
What an op's gradient is stands in its block (`OpSpec.gradient`) or was registered by the user under
a name (`RegisterGradient`, `Graph.gradient_override_map`).  Ops are reached by name through the
registry, as this folder may not import them.
Called by: training's optimizers, users.  Threads: as graph.
Source: TF 1.15 python/ops/gradients_util.py for order and naming; both are compared with the oracle.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import EXIT
from headrace.graph import registry
from headrace.graph.control_flow import is_loop_switch
from headrace.graph.convert import convert
from headrace.graph.crossing import Crossing
from headrace.graph.gradient_gates import gated
from headrace.graph.graph import Graph, Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.loop_gradients import LoopGradient, LoopGradients
from headrace.graph.names import name_scope
from headrace.graph.operation import where_built
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor

__all__ = [
    "AggregationMethod",
    "NoGradient",
    "NotDifferentiable",
    "RegisterGradient",
    "UnconnectedGradients",
    "gradients",
]

Grad = Tensor | IndexedSlices
GradientFunction = Callable[..., Any]


class AggregationMethod:
    """How the gradients that meet at a tensor are added up."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class UnconnectedGradients(enum.Enum):
    """What `gradients` gives for an x that no y depends on."""

    NONE = "none"
    ZERO = "zero"


_registered: dict[str, GradientFunction | None] = {}


class RegisterGradient:
    """Decorator: the function is the gradient of ops of type `op_type`.

    It is called as ``function(op, *output_gradients)`` and returns a gradient (or None) per input.
    `op_type` may be any name; `Graph.gradient_override_map` gives it to ops.
    """

    def __init__(self, op_type: str) -> None:
        """Raises TypeError unless `op_type` is a string."""
        self._op_type = _checked_name(op_type)

    def __call__(self, function: GradientFunction) -> GradientFunction:
        """Register; raises KeyError if that name has a gradient already."""
        _register(self._op_type, function)
        return function


def NotDifferentiable(op_type: str) -> None:
    """Ops of this type stop gradients silently.  Raises TypeError, KeyError (has one already)."""
    _register(_checked_name(op_type), None)


NoGradient = NotDifferentiable


def _checked_name(op_type: Any) -> str:
    if not isinstance(op_type, str):
        raise TypeError(f"op_type must be a string, not {op_type!r}")
    return op_type


def _register(name: str, function: GradientFunction | None) -> None:
    spec = registry.OPS.get(name)
    if name in _registered or (
        spec is not None and (spec.gradient_fn is not None or not spec.differentiable)
    ):
        raise KeyError(f"Registering two gradient with name {name!r}! There is one already")
    _registered[name] = function


def gradient_function(op: Operation) -> GradientFunction | None:
    """What differentiates `op`; None if gradients stop there.

    Raises LookupError when nobody said what its gradient is.
    """
    override = op.attrs.get("_gradient_op_type")
    name = op.type if override is None else override
    name = name.decode() if isinstance(name, bytes) else str(name)
    if name in _registered:
        return _registered[name]
    spec: registry.OpSpec | None = registry.OPS.get(name)
    if spec is None and override is None:
        spec = op.spec  # a call of a function by its name
    if spec is not None and spec.gradient_fn is not None:
        return spec.gradient_fn
    if spec is not None and not spec.differentiable:
        return None
    kind = op.type if override is None else f"{op.type}, overridden by {name}"
    raise LookupError(
        f"No gradient defined for operation{op.name!r} (op type: {kind}): register one with "
        "tf.RegisterGradient, or put tf.stop_gradient where it should count as a constant"
    )


def _is_built_in(op: Operation, function: GradientFunction) -> bool:
    """Whether it comes with the op, so that no code of the program's is called."""
    spec = op.spec
    return spec is not None and spec.gradient_fn is function and registry.OPS.get(op.type) is spec


def is_trainable(tensor: Tensor) -> bool:
    """Whether gradients flow through tensors of this dtype."""
    return _is_trainable(tensor._dtype._base)


@cache
def _is_trainable(base: dtypes.DType) -> bool:
    return base.is_floating or base.is_complex or base in (dtypes.resource, dtypes.variant)


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str | None = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Any]:
    """Sum over ys of d(y)/d(x), one for each of xs: a Tensor, an IndexedSlices, or None.

    grad_ys: the gradient of the final value with respect to each y (None: ones).
    gate_gradients: an op's input gradients become available together.
    stop_gradients: tensors taken as constants.
    Raises LookupError (an op without gradient), TypeError, ValueError.
    """
    ys, xs = [read_first(y) for y in _as_list(ys)], _as_list(xs)
    stops = [] if stop_gradients is None else _as_list(stop_gradients)
    given = [None] * len(ys) if grad_ys is None else _as_list(grad_ys)
    method = AggregationMethod.DEFAULT if aggregation_method is None else aggregation_method
    if method not in (0, 1, 2):
        raise ValueError(
            f"Invalid `aggregation_method` specified {method}: it is none of AggregationMethod's"
        )
    graph = get_default_graph()
    where = graph._names_here.where or where_built()
    try:
        unconnected = UnconnectedGradients(unconnected_gradients)
    except ValueError:
        raise ValueError(
            f"Unknown value for unconnected_gradients: {unconnected_gradients!r}; "
            "it is 'none' or 'zero'"
        ) from None
    tensors = [*ys, *stops, *xs, *given]
    with name_scope(name, "gradients", tensors) as scope, graph._mutation_lock():
        if len(given) != len(ys):
            raise ValueError(
                f"Length mismatch. Passed {len(given)} grad_ys for {len(ys)} ys: each y needs one"
            )
        y_tensors = [_element(y, f"y_{index}") for index, y in enumerate(ys)]
        x_tensors = [_x_tensor(x, f"x_{index}") for index, x in enumerate(xs)]
        stop_tensors = [_x_tensor(x, f"stop_{index}") for index, x in enumerate(stops)]
        crossing = Crossing([*y_tensors, *x_tensors], x_tensors)
        work = _Backward(
            graph, scope, colocate_gradients_with_ops, gate_gradients, method, crossing, where
        )
        for index, (y, grad) in enumerate(zip(y_tensors, given, strict=True)):
            with work.colocated(y.op):
                work.add(y, _initial(y, grad, index))
        with graph._located(where):
            work.prepare(y_tensors, x_tensors)
            work.run(y_tensors, x_tensors, stop_tensors)
    work.finish()
    return [work.result(x, unconnected) for x in x_tensors]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def read_first(value: Any) -> Any:
    """A resource variable is read, where TensorFlow does so before anything else; anything else is itself."""
    return value.value() if handle_of(value) is not None else value


def handle_of(value: Any) -> Tensor | None:
    """The handle of a resource variable; None of anything else."""
    if isinstance(value, Tensor) or not hasattr(value, "_as_graph_element"):
        return None  # other things have handles too
    handle = getattr(value, "handle", None)
    return handle if isinstance(handle, Tensor) and handle.dtype == dtypes.resource else None


def _element(value: Any, name: str) -> Tensor:
    if isinstance(value, IndexedSlices):
        return value.values
    return convert(value, None, name)


def _x_tensor(value: Any, name: str) -> Tensor:
    """A variable stands for its reference, a resource variable for its handle."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, IndexedSlices):
        return value.values
    handle = handle_of(value)
    return convert(value, None, name, None, as_ref=True) if handle is None else handle


def _initial(y: Tensor, grad: Any, index: int) -> Grad:
    """The gradient that enters at `y`: ones, or what the caller gave, under a name of its own."""
    name = f"grad_ys_{index}"
    if grad is None:
        if y.dtype.is_complex:
            raise TypeError(
                f"Gradients of complex tensors ({y}) must set grad_ys: it is {y.dtype.name}"
            )
        return _ones(y, name)
    if isinstance(grad, IndexedSlices):
        _check_class(y, grad.values)
        return IndexedSlices(
            indices=_identity(grad.indices, name + "_indices"),
            values=_identity(grad.values, name + "_values"),
            dense_shape=None
            if grad.dense_shape is None
            else _identity(grad.dense_shape, name + "_shape"),
        )
    tensor = convert(grad, None, f"grad_y_{index}")
    _check_class(y, tensor)
    return _identity(tensor, name)


def _ones(y: Tensor, name: str) -> Tensor:
    raw = y.raw_shape
    if raw is not None and None not in raw:
        shape = convert(np.array(raw, np.int32), dtypes.int32, "Shape")
    else:
        shape = registry.get("Shape")(y, name="Shape")
    with name_scope(name) as scope:
        base = y.dtype.base_dtype
        one = convert(np.ones((), base.np), base, "Const")
        filled: Tensor = registry.get("Fill")(shape, one, name=scope)
    return filled


def _identity(tensor: Tensor, name: str) -> Tensor:
    result: Tensor = registry.get("Identity")(tensor, name=name)
    return result


def _check_class(y: Tensor, grad: Tensor) -> None:
    """A gradient is of the class of its tensor: real, complex, integer, or a handle."""
    got, wanted = grad._dtype._base, y._dtype._base
    if got is wanted and got.is_floating:
        return
    if wanted.is_complex:
        fits, needs = got.is_complex, "complex"
    elif wanted.is_floating or wanted.is_integer:
        fits, needs = got.is_floating or got.is_integer, "real or integer"
    elif wanted in (dtypes.resource, dtypes.variant):
        fits, needs = True, ""
    else:
        raise TypeError(f"{y.name} is {wanted.name}, which has no gradient")
    if not fits:
        raise TypeError(
            f"gradient type {got.name} was given for {y.name} of type {wanted.name}; "
            f"it must be {needs}"
        )


class _Backward:
    """One call of `gradients`: what is between xs and ys, and the gradients that have arrived."""

    def __init__(
        self,
        graph: Graph,
        scope: str,
        colocate: bool,
        gate: bool,
        method: int,
        crossing: Crossing,
        where: tuple[str, int] | None,
    ) -> None:
        """where: what asks for the gradients."""
        self._graph = graph
        self._where = where
        self._crossing = crossing
        self._scope = scope
        self._colocate = colocate
        self._gate = gate
        self._method = method
        self._grads: dict[Tensor, list[Grad]] = {}
        self._pending: dict[Operation, int] = {}
        self._between: set[Operation] = set()
        self._stops: set[Operation] = set()
        self._loops = LoopGradients()

    # -- the part of the graph that matters ---------------------------------------------------

    def prepare(self, ys: list[Tensor], xs: list[Tensor]) -> None:
        """Find the ops between xs and ys, and how many gradients each has to wait for."""
        reached = _reached({x.op for x in xs}, self._crossing)
        queue = deque(y.op for y in ys)
        order = []
        while queue:
            op = queue.popleft()
            if op in reached:
                reached.discard(op)
                self._between.add(op)
                order.append(op)
                queue.extend(tensor.op for tensor in self._crossing.inputs(op))
        for op in order:  # grows: all exits of a loop take part if one does
            if EXIT in op.traits:
                with self.colocated(op):
                    exits = self._loops.add_loop(op)
                order.extend(other for other in exits if other not in self._between)
                self._between.update(exits)
        for op in order:
            for tensor in self._crossing.inputs(op):
                if tensor.op in self._between:
                    self._pending[tensor.op] = self._pending.get(tensor.op, 0) + 1

    def run(self, ys: list[Tensor], xs: list[Tensor], stops: list[Tensor]) -> None:
        """Differentiate every op between, outputs before inputs."""
        ready = deque(
            op
            for op in dict.fromkeys(y.op for y in ys)
            if op in self._between and not self._pending.get(op)
        )
        for unused in self._loops.unused_exits(self._pending, ready):
            if is_trainable(unused):
                self.add(unused, self._loops.zeros_for_exit(unused))
                ready.append(unused.op)
        for x in xs:
            # An x that depends on another x is passed through, not stopped at.
            inputs = self._crossing.inputs(x.op)
            if not any(self._pending.get(tensor.op, 0) > 0 for tensor in inputs):
                self._stops.add(x.op)
        self._stops.update(tensor.op for tensor in stops)
        while ready:
            op = ready.popleft()
            inputs = [
                *self._crossing.inputs(op)
            ]  # a loop of functions gets more while it is differentiated
            with self.colocated(op):
                self._step(op, inputs)
            for tensor in inputs:
                ready.extend(self._arrived(tensor))

    def finish(self) -> None:
        """Close the loops that were made."""
        self._loops.finish()

    def _arrived(self, tensor: Tensor) -> Iterable[Operation]:
        """Ops that can be differentiated now that one more user of `tensor` has been."""
        op = tensor.op
        self._pending[op] = left = self._pending.get(op, 0) - 1
        if left and not (left > 0 and is_loop_switch(op)):
            return ()
        if EXIT not in op.traits:
            return (op,)
        loop = self._loops.of_exit(op)  # its exits are differentiated together
        loop.deferred_exits.append(tensor)
        loop.pending_exits -= 1
        return self._exits_of(loop) if loop.pending_exits == 0 else ()

    def _exits_of(self, loop: LoopGradient) -> Iterator[Operation]:
        used = [exit_ for exit_ in loop.deferred_exits if self._grads.get(exit_)]
        loop.unused_exits.extend(exit_ for exit_ in loop.deferred_exits if exit_ not in used)
        yield from (exit_.op for exit_ in used)
        for unused in loop.unused_exits:
            if used and is_trainable(unused):
                self.add(unused, self._loops.zeros_for_exit(unused))
            yield unused.op

    def colocated(self, op: Operation) -> AbstractContextManager[Any]:
        """The colocation scope for nodes made on behalf of `op`."""
        return self._graph.colocate_with(op) if self._colocate else nullcontext()

    # -- one op -------------------------------------------------------------------------------

    def _step(self, op: Operation, inputs: Sequence[Tensor]) -> None:
        with self._loops.entered(op, outputs=True):
            arrived = [self._aggregate(op, tensor) for tensor in op.outputs]
        if all(grad is None for grad in arrived) or op in self._stops:
            return
        function = gradient_function(op)
        with self._loops.entered(op):
            self._check_not_around(op)
            if function is None:
                return
            self._fill_in_zeros(op, arrived)
            with self._graph.name_scope(op.name + "_grad"), op.graph._original_op(op):
                with self._graph._located(self._where if _is_built_in(op, function) else None):
                    found = _as_list(function(op, *arrived))
                found = _checked(op, inputs, found)
                if self._gate and sum(grad is not None for grad in found) > 1:
                    found = gated(self._graph, found)
        for tensor, grad in zip(inputs, found, strict=True):
            if grad is not None:
                self.add(tensor, grad)

    def _fill_in_zeros(self, op: Operation, arrived: list[Grad | None]) -> None:
        """Zeros for the outputs that no gradient arrived at."""
        for index, output in enumerate(op.outputs):
            if arrived[index] is None and is_trainable(output):
                zero = self._loops.zeros_for_output(op, index)
                if zero is not None:
                    arrived[index] = zero
                    self._grads[output] = [zero]

    def _check_not_around(self, op: Operation) -> None:
        """Inside a loop, gradients reach back to the start of the iteration and no further."""
        context = op._control_flow_context
        if context is not None and context is op.graph._control_flow_context and is_loop_switch(op):
            raise ValueError(
                f"gradients inside the while loop {context.name!r} cannot go through its loop variable {op.name!r} to "
                "what the loop started from; take them outside the loop, or of the loop variable itself"
            )

    def add(self, tensor: Tensor, grad: Grad) -> None:
        """One more gradient of `tensor`."""
        self._grads.setdefault(tensor, []).append(grad)

    def _aggregate(self, op: Operation, tensor: Tensor) -> Grad | None:
        """All that arrived for `tensor`, as one."""
        grads = self._grads.get(tensor)
        if not grads:
            return None
        if len(grads) > 1:
            self._grads[tensor] = [self._sum(op, grads)]
        return self._grads[tensor][0]

    def _sum(self, op: Operation, grads: Sequence[Grad]) -> Grad:
        slices = [grad for grad in grads if isinstance(grad, IndexedSlices)]
        if len(slices) == len(grads):
            return _concatenated(slices)
        if slices:
            total: Tensor = registry.get("AddN")(list(grads))
            return total
        tensors = [grad for grad in grads if isinstance(grad, Tensor)]
        if self._method == AggregationMethod.ADD_N:
            return _add_by_device(self._graph, tensors)
        with self._graph.name_scope(op.name + "_gradient_sum"):
            running = tensors[0]
            for tensor in tensors[1:]:
                running = registry.get("AddN")([running, tensor])
        return running

    def result(self, x: Tensor, unconnected: UnconnectedGradients) -> Grad | None:
        """The gradient of `x`, once all ops are done."""
        grads = self._grads.get(x)
        if grads:
            return grads[0]
        if unconnected is UnconnectedGradients.NONE:
            return None
        raw = x.raw_shape
        base = x.dtype.base_dtype
        if raw is not None and None not in raw:
            zeros = np.zeros([size or 0 for size in raw], base.np)
            return convert(zeros, base, "zeros_like")
        like: Tensor = registry.get("ZerosLike")(x, name="zeros_like")
        return like


def _reached(ops: Iterable[Operation], crossing: Crossing) -> set[Operation]:
    """`ops` and all that a gradient could come back from to them."""
    reached: set[Operation] = set()
    queue = deque(ops)
    while queue:
        op = queue.popleft()
        if op not in reached:
            reached.add(op)
            for tensor in op.outputs:
                if is_trainable(tensor):
                    queue.extend(crossing.consumers(tensor))
    return reached


def _checked(op: Operation, inputs: Sequence[Tensor], grads: list[Any]) -> list[Grad | None]:
    """What a gradient function returned, checked against the inputs that the op had."""
    if len(grads) != len(inputs):
        raise ValueError(
            f"Num gradients {len(grads)} generated for op {op.name!r} ({op.type}) "
            f"do not match num inputs {len(inputs)}"
        )
    for index, (tensor, grad) in enumerate(zip(inputs, grads, strict=True)):
        if grad is None or isinstance(grad, IndexedSlices):
            continue
        if not isinstance(grad, Tensor):
            raise TypeError(
                f"the gradient of {op.name!r} ({op.type}) for input {index} is a "
                f"{type(grad).__name__}, not a tensor: {grad!r:.80}"
            )
        if tensor._dtype._base is not dtypes.resource:
            _check_class(tensor, grad)
            if grad._raw == tensor._raw:
                continue
            try:
                grad.set_shape(tensor.raw_shape)
            except ValueError:
                raise ValueError(
                    "Incompatible shapes between op input and calculated input gradient: "
                    f"operation {op.name!r}, input {index} has shape {tensor.shape}, "
                    f"the gradient {grad.name} has shape {grad.shape}"
                ) from None
    return grads


# -- adding up --------------------------------------------------------------------------------


def _concatenated(slices: list[IndexedSlices]) -> IndexedSlices:
    """The sum of sparse gradients: all their rows, one after another."""
    concat = registry.get("ConcatV2")
    indices = [part.indices for part in slices]
    if any(tensor.dtype == dtypes.int64 for tensor in indices):
        cast = registry.get("Cast")
        indices = [
            tensor if tensor.dtype == dtypes.int64 else cast(tensor, DstT=dtypes.int64, name="Cast")
            for tensor in indices
        ]
    return IndexedSlices(
        values=concat([part.values for part in slices], 0, name="concat"),
        indices=concat(indices, 0, name="concat"),
        dense_shape=slices[0].dense_shape,
    )


def _add_by_device(graph: Graph, tensors: list[Tensor]) -> Tensor:
    """Sums per device first, each placed with its first summand."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.device, []).append(tensor)
    sums = []
    for device in sorted(groups):
        group = groups[device]
        with graph.colocate_with(group[0].op, ignore_existing=True):
            sums.append(registry.get("AddN")(group) if len(group) > 1 else group[0])
    total: Tensor = registry.get("AddN")(sums) if len(sums) > 1 else sums[0]
    return total
