"""tf.cond and tf.while_loop: functions that build a branch or a loop, as nodes.

The functions that users pass are called once, while the graph is built; what they make becomes part of the branch or
loop (graph.control_flow).  Results may be nests of tensors, IndexedSlices, SparseTensors, RaggedTensors and
TensorArrays; a TensorArray goes through as its flow.
Called by: ops.flow.asserts, library.cases, library.functional, users.  Threads: as graph.
Source of names: GraphDefs of TensorFlow 2.21 with control flow v1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from headrace.base import dtypes, nest
from headrace.base.shapes import Shape, TensorShape
from headrace.graph import flow_nodes as nodes
from headrace.graph import registry, scopes
from headrace.graph.behavior import is_flow_functional
from headrace.graph.collections import GraphKeys
from headrace.graph.const_value import constant_value
from headrace.graph.control_flow import CondContext
from headrace.graph.convert import convert
from headrace.graph.gradients import read_first
from headrace.graph.graph import Graph, Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.ragged import Ragged
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.graph.while_context import WhileContext
from headrace.ops.flow.identities import identity, with_dependencies
from headrace.ops.flow.tensor_array import TensorArray
from headrace.ops.math.comparisons import logical_and

__all__ = ["cond", "while_loop"]

Function = Callable[..., Any]
_VARYING: tuple[Any, ...] = (SparseTensor, Ragged)


def _flow(leaf: Any) -> Any:
    return leaf.flow if isinstance(leaf, TensorArray) else leaf


def _restored(like: Any, value: Any) -> Any:
    return like.anew(value) if isinstance(like, TensorArray) else value


# -- cond -----------------------------------------------------------------------------------------


def cond(
    pred: Any,
    true_fn: Function | None = None,
    false_fn: Function | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Function | None = None,
    fn2: Function | None = None,
) -> Any:
    """What `true_fn()` returns where `pred` (a bool scalar) holds, what `false_fn()` returns where not.

    Nodes made by the function that is not chosen do not run; tensors made outside are computed in any case.
    Both return the same nest; a list or tuple of one element is taken out of it unless `strict`.
    Raises TypeError (what is not callable, a Python bool, nests of different types), ValueError (nothing returned,
    nests or dtypes that differ).
    """
    true_fn = _either(true_fn, fn1, "true_fn", "fn1")
    false_fn = _either(false_fn, fn2, "false_fn", "fn2")
    if is_flow_functional():
        from headrace.ops.flow.functional_cond import functional_cond

        return functional_cond(pred, true_fn, false_fn, name)
    with name_scope(name, "cond", [pred]):
        if isinstance(pred, bool):
            raise TypeError(
                "'pred' must not be a Python bool: an if statement chooses then; see tf.constant"
            )
        graph: Graph = scopes.get_default_graph()
        no, yes = nodes.switch(pred, pred)
        if_true = identity(yes, name="switch_t")
        if_false = identity(no, name="switch_f")
        pred = identity(pred, name="pred_id")
        for tensor in (no, yes, if_true, if_false, pred):
            graph.prevent_fetching(tensor.op)
        with graph._mutation_lock():  # nodes get other inputs when they are in a branch
            yes_context = CondContext(graph, pred, if_true, 1)
            shown, true_flat = _branch(yes_context, true_fn, "true_fn")
            no_context = CondContext(graph, pred, if_false, 0)
            other, false_flat = _branch(no_context, false_fn, "false_fn")
        if not strict:
            shown, other = _unpacked(shown), _unpacked(other)
        nest.assert_same_structure(shown, other)
        if not true_flat:
            raise ValueError("true_fn and false_fn must return at least one result")
        shown = _merged(shown, other, true_flat, false_flat)
        if yes_context.outer is None:
            for context in (yes_context, no_context):
                graph.add_to_collection(GraphKeys.COND_CONTEXT, context)
        return shown if strict else _unpacked(shown)


def _either(function: Any, old: Any, name: str, old_name: str) -> Function:
    if old is not None:
        if function is not None:
            raise TypeError(
                f"cond(): '{name}' and '{old_name}' may not be set simultaneously: the second is the first's old name"
            )
        function = old
    if function is None:
        raise TypeError(f"cond(): '{name}' argument required, a function without arguments")
    if not callable(function):
        raise TypeError(f"'{name}' must be callable, and is {function!r:.100}")
    found: Function = function
    return found


def _unpacked(result: Any) -> Any:
    if isinstance(result, (list, tuple)) and len(result) == 1:
        return result[0]
    return result


def _branch(context: CondContext, function: Function, name: str) -> tuple[Any, list[Any]]:
    """What `function` returns, and its leaves as the branch's results."""
    with context.entered():
        found = function()
        if found is None:
            raise ValueError(f"'{name}' must have a return value: what the cond gives")
        flat = [_result(context, leaf) for leaf in nest.flatten(found)]
    context.know_outside(*flat)
    return found, flat


def _result(context: CondContext, leaf: Any) -> Any:
    if isinstance(leaf, Operation):
        return with_dependencies([leaf], context.pivot)  # stands for: it has run
    value = _flow(leaf)
    if not nodes.is_bundle(value):
        return context.result(convert(value))
    return nodes.bundled(value, [context.result(part) for part in nodes.tensors_of(value)])


def _merged(shown: Any, other: Any, true_flat: list[Any], false_flat: list[Any]) -> Any:
    """The results of both branches as one, in the nest `shown`."""
    pairs = list(zip(true_flat, false_flat, strict=True))
    uneven = [
        isinstance(yes, IndexedSlices)
        and isinstance(no, IndexedSlices)
        and yes.indices.dtype != no.indices.dtype
        for yes, no in pairs
    ]
    if any(uneven):
        for leaf in (nest.flatten(shown), nest.flatten(other)):
            for value, differs in zip(leaf, uneven, strict=True):
                if differs:
                    nodes.with_indices(value, dtypes.int64)
        pairs = [
            tuple(nodes.with_indices(value, dtypes.int64) for value in pair) if differs else pair  # type: ignore[misc]
            for pair, differs in zip(pairs, uneven, strict=True)
        ]
    _check_kinds("Incompatible return values of 'true_fn' and 'false_fn': ", pairs)
    for yes, no in pairs:
        if yes.dtype.base_dtype != no.dtype.base_dtype:
            raise ValueError(
                "Outputs of 'true_fn' and 'false_fn' must have the same type(s): "
                f"{yes.name} is {yes.dtype.base_dtype.name}, {no.name} is {no.dtype.base_dtype.name}; tf.cast converts"
            )
    merged = [_merge_parts(yes, no) for yes, no in pairs]
    leaves = nest.flatten(shown)
    return nest.pack_sequence_as(
        shown, [_restored(*pair) for pair in zip(leaves, merged, strict=True)]
    )


def _check_kinds(what: str, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Raises ValueError where one of two leaves is a tensor and the other one sparse, say."""
    for one, other in pairs:
        if nodes.kind_of(one) != nodes.kind_of(other):
            raise ValueError(
                f"{what}The two structures don't have the same nested structure: one has {one!r:.300}, the other "
                f"{other!r:.300}, whose type, dtype or ragged_rank differs"
            )


def _merge_parts(yes: Any, no: Any) -> Any:
    parts = zip(nodes.tensors_of(no), nodes.tensors_of(yes), strict=True)
    return nodes.bundled(yes, [nodes.merge(list(pair))[0] for pair in parts])


def smart_cond(pred: Any, true_fn: Function, false_fn: Function, name: str | None = None) -> Any:
    """As `cond`, but where the value of `pred` is known while the graph is built only one function is called."""
    known = pred if isinstance(pred, bool) else constant_value(pred)
    if known is None:
        return cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


# -- while_loop -----------------------------------------------------------------------------------


def while_loop(
    cond: Function,
    body: Function,
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat `loop_vars = body(*loop_vars)` while `cond(*loop_vars)`, a bool scalar, holds; returns the last ones.

    loop_vars: a list or tuple of nests.  Shapes stay as they are at the start unless shape_invariants, a nest of
    TensorShapes and Nones like loop_vars, says how they may vary; that of a sparse tensor is its dense_shape's.
    A single loop variable is returned bare unless return_same_structure.  back_prop=False: gradients stop at the
    loop.
    Raises TypeError (what is not callable, a dtype that changes), ValueError (no loop_vars, another nest from
    body, a shape that changes).
    """
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise TypeError(f"'{what}' must be callable, and is {function!r:.100}")
    if parallel_iterations < 1:
        raise TypeError(
            f"'parallel_iterations' must be a positive integer, not {parallel_iterations}"
        )
    loop_vars = nest.map_structure(read_first, loop_vars)
    if is_flow_functional():
        return _functional(
            cond,
            body,
            loop_vars,
            shape_invariants,
            parallel_iterations,
            back_prop,
            name,
            maximum_iterations,
            return_same_structure,
        )
    if not isinstance(parallel_iterations, Integral):
        raise ValueError(f"'parallel_iterations' must be a positive integer: {parallel_iterations}")
    with name_scope(name, "while", [t for t in nest.flatten(loop_vars) if isinstance(t, Tensor)]):
        if not nest.is_nested(loop_vars) or not len(loop_vars):
            raise ValueError("'loop_vars' must be provided: a list or tuple of at least one tensor")
        limit = None
        bare = len(loop_vars) == 1 and not return_same_structure
        if maximum_iterations is not None:
            limit = convert(maximum_iterations, None, "maximum_iterations")
            if limit.raw_shape != ():
                raise ValueError(
                    f"'maximum_iterations' must be a scalar, and has shape {limit.shape}"
                )
            cond, body, loop_vars = _limited(cond, body, loop_vars, limit, bare)
            if shape_invariants is not None:
                shape_invariants = (TensorShape([]), shape_invariants)
        context = WhileContext(
            scopes.get_default_graph(),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=limit,
        )
        with context.graph._mutation_lock():  # nodes get inputs that are made later
            result = _loop(context, cond, body, loop_vars, shape_invariants)
        if context.outer is None:
            context.graph.add_to_collection(GraphKeys.WHILE_CONTEXT, context)
        if limit is not None:
            return result[1]
        return result[0] if len(context.exits) == 1 and not return_same_structure else result


def _functional(
    cond: Function,
    body: Function,
    loop_vars: Any,
    invariants: Any,
    parallel_iterations: int,
    back_prop: bool,
    name: str | None,
    maximum_iterations: Any,
    return_same_structure: bool,
) -> Any:
    """`while_loop`, of functions."""
    from headrace.ops.flow.functional_while import functional_while

    if not nest.is_nested(loop_vars) or not len(loop_vars):
        raise ValueError("'loop_vars' must be provided: a list or tuple of at least one tensor")
    leaves = nest.flatten(loop_vars)
    tensors = _tensors(leaves)
    shapes = (
        _kept_shapes(leaves, tensors)
        if invariants is None
        else _shapes(invariants, leaves, tensors)
    )

    def again(*values: Tensor) -> list[Tensor]:
        returned = body(*_packed(loop_vars, leaves, values))
        if not nest.is_nested(returned):
            returned = [returned]
        nest.assert_same_structure(list(returned), list(loop_vars), check_types=False)
        return _tensors(nest.map_structure(read_first, nest.flatten(returned)))

    found = functional_while(
        lambda *values: cond(*_packed(loop_vars, leaves, values)),
        again,
        tensors,
        [tensor.raw_shape for tensor in tensors] if shapes is None else shapes,
        parallel_iterations=parallel_iterations,
        maximum_iterations=maximum_iterations,
        name=name,
    )
    if not back_prop:
        found = [registry.get("StopGradient")(tensor, name="StopGradient") for tensor in found]
    result = _packed(loop_vars, leaves, found)
    return result[0] if len(leaves) == 1 and not return_same_structure else result


def _limited(
    cond: Function, body: Function, loop_vars: Any, limit: Tensor, bare: bool
) -> tuple[Function, Function, Any]:
    """The same loop with two variables: a counter, and what there was (`bare`: without the list around one)."""
    counter = nodes.constant(0, limit.dtype, name="iteration_counter")
    if bare:
        return (
            lambda i, value: logical_and(i < limit, cond(value)),
            lambda i, value: (i + 1, body(value)),
            (counter, loop_vars[0]),
        )
    return (
        lambda i, values: logical_and(i < limit, cond(*values)),
        lambda i, values: (i + 1, body(*values)),
        (counter, loop_vars),
    )


def _loop(
    context: WhileContext, cond: Function, body: Function, loop_vars: Any, invariants: Any
) -> Any:
    """Build the loop; returns its results as the nest that `body` returned."""
    leaves = nest.flatten(loop_vars)
    values = _tensors(leaves)
    shapes = (
        _kept_shapes(leaves, values) if invariants is None else _shapes(invariants, leaves, values)
    )
    with context.entered():
        pred = convert(cond(*_packed(loop_vars, leaves, context.open(values, shapes))))
        inside = _packed(loop_vars, leaves, context.test(pred))
        found = body(*inside)
        if not nest.is_nested(found):
            found = [found]
        nest.assert_same_structure(list(inside), list(found))
        results = nest.flatten(found)
        _check_kinds("", list(zip(leaves, results, strict=True)))
        exits = context.close(_tensors(results))
    return _packed(found, results, exits)


def _tensors(leaves: Sequence[Any]) -> list[Tensor]:
    """All tensors that `leaves` are made of."""
    values = [_flow(leaf) for leaf in leaves]
    values = [value if nodes.is_bundle(value) else convert(value) for value in values]
    return [tensor for value in values for tensor in nodes.tensors_of(value)]


def _packed(structure: Any, leaves: Sequence[Any], tensors: Sequence[Tensor]) -> Any:
    """`tensors` in the place of those that `leaves` are made of, in the nest `structure`."""
    left = iter(tensors)
    made = [
        _restored(leaf, nodes.bundled(leaf, [next(left) for _ in nodes.tensors_of(leaf)]))
        for leaf in leaves
    ]
    return nest.pack_sequence_as(structure, made)


def _kept_shapes(leaves: Sequence[Any], values: Sequence[Tensor]) -> list[Shape] | None:
    """What loop variables keep to when nothing is said: their shapes; what is sparse or ragged may change within it."""
    if not any(isinstance(leaf, _VARYING) for leaf in leaves):
        return None
    shapes: list[Shape] = []
    for leaf in leaves:
        start = len(shapes)
        shapes.extend(_kept(leaf, values[start : start + len(nodes.tensors_of(leaf))]))
    return shapes


def _kept(leaf: Any, parts: Sequence[Tensor]) -> list[Shape]:
    """`_kept_shapes` of one loop variable."""
    if isinstance(leaf, _VARYING):
        return _part_shapes(leaf, leaf.shape._raw)
    return [part.raw_shape for part in parts]


def _shapes(invariants: Any, leaves: Sequence[Any], values: Sequence[Tensor]) -> list[Shape]:
    flat = nest.flatten(invariants)
    if len(flat) != len(leaves):
        raise ValueError(
            f"The two structures don't have the same nested structure: shape_invariants has {len(flat)} shapes "
            f"for {len(leaves)} loop variables"
        )
    shapes: list[Shape] = []
    for leaf, given in zip(leaves, flat, strict=True):
        start = len(shapes)
        if given is None:
            shapes.extend(_kept(leaf, values[start : start + len(nodes.tensors_of(leaf))]))
        else:
            shapes.extend(_part_shapes(leaf, _invariant(given, leaf)._raw))
    return shapes


def _invariant(given: Any, leaf: Any) -> TensorShape:
    """The shape that a loop variable keeps to: a TensorShape, or that of a spec which fits the variable.

    A TensorShape given for a sparse tensor is that of its dense_shape, [rank].
    """
    if isinstance(given, TensorShape):
        return _of_rank(given) if isinstance(leaf, SparseTensor) else given
    compatible, shape = getattr(given, "is_compatible_with", None), getattr(given, "shape", None)
    if compatible is None or not isinstance(shape, TensorShape):
        raise TypeError(
            f"shape_invariants is a nest of TensorShapes and TypeSpecs, and holds {given!r:.80}"
        )
    if not compatible(leaf if nodes.is_bundle(leaf) else convert(leaf)):
        raise TypeError(f"TypeSpec {given!r:.200} is not compatible with {leaf!r:.200}")
    return shape


def _of_rank(vector: TensorShape) -> TensorShape:
    """Of what a tensor is whose shape, itself a tensor, has the shape `vector`."""
    if vector.ndims not in (None, 1):
        raise ValueError(
            f"Expected a shape with 1 dimension. Obtained: {vector} which has {vector.ndims} dimensions: the shape "
            "invariant of a sparse tensor is the shape of its dense_shape"
        )
    rank = None if vector._raw is None else vector._raw[0]
    return TensorShape(None if rank is None else [None] * rank)


def _part_shapes(leaf: Any, shape: Shape) -> list[Shape]:
    """The shapes of the tensors that `leaf` is made of when the whole has `shape`."""
    rank = None if shape is None else len(shape)
    if isinstance(leaf, IndexedSlices):
        limits: list[Shape] = [shape, (shape[0] if shape else None,), (rank,)]
        return limits[: len(nodes.tensors_of(leaf))]
    if isinstance(leaf, SparseTensor):
        return [(None, rank), (None,), (rank,)]
    if isinstance(leaf, Ragged):
        inner = None if shape is None else (None, *shape[leaf.ragged_rank + 1 :])
        rows = shape[0] if shape else None
        first: Shape = (None if rows is None else rows + 1,)
        return [inner, first, *[(None,)] * (leaf.ragged_rank - 1)]
    return [() if isinstance(leaf, TensorArray) else shape]
