"""cond and switch_case as one node each, If or Case, whose branches are functions; and their gradients.

The gradient of such a node is another one.  What its branches need of the forward branches becomes more outputs of the
forward node, each in an optional that has a value where its branch was taken: nothing is computed, or drawn, twice.
Called by: ops.flow.control_flow, library.cases, graph.gradients.  Threads: as graph.
Source: TF 1.15 python/ops/cond_v2.py, for behaviour; node and function names as 2.21, compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes, nest
from headrace.base.shapes import is_fully_defined
from headrace.base.traits import CONST, IDENTITY
from headrace.graph import flow_nodes as nodes
from headrace.graph import registry, scopes
from headrace.graph.build import apply_op
from headrace.graph.const_value import const_array
from headrace.graph.convert import convert
from headrace.graph.flow_graphs import (
    READ_ONLY,
    FlowGraph,
    after_captures,
    common_shape,
    flat,
    function_graph,
    function_name,
    is_stateful,
    packed,
    trace,
)
from headrace.graph.gradients import gradients, is_trainable
from headrace.graph.graph import Operation
from headrace.graph.handles import behind, stands_for
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import zeros_like
from headrace.ops.flow.functional import (
    case_op,
    if_op,
    stateless_case_op,
    stateless_if_op,
)
from headrace.ops.flow.identities import identity

Function = Callable[[], Any]


def squeezed(pred: Any) -> Tensor:
    """A predicate as a scalar, if it may have dimensions."""
    tensor = convert(pred)
    if tensor.raw_shape == ():
        return tensor
    found: Tensor = registry.get("Squeeze")(tensor, name="Squeeze")
    return found


def functional_cond(pred: Any, true_fn: Function, false_fn: Function, name: str | None) -> Any:
    """See `ops.flow.control_flow.cond`."""
    if isinstance(pred, bool):
        raise TypeError(
            "pred must not be a Python bool: an if statement chooses then; see tf.constant"
        )
    graph = scopes.get_default_graph()
    with name_scope(name or "cond", None, []) as scope:
        names = [function_name(scope, part, graph) for part in ("true", "false")]
        pred = squeezed(pred)
        branches = [
            _traced(each, function, pred)
            for each, function in zip(names, (true_fn, false_fn), strict=True)
        ]
        return _Choice("cond", pred, branches).build(scope)


def functional_case(index: Any, functions: Sequence[Function], name: str = "indexed_case") -> Any:
    """What the function of that number returns, the last one's if there is none."""
    graph = scopes.get_default_graph()
    with name_scope(name, None, []) as scope:
        names = [function_name(scope, f"branch{at}", graph) for at in range(len(functions))]
        index = convert(index, None, "branch_index")
        branches = [
            _traced(each, function, index) for each, function in zip(names, functions, strict=True)
        ]
        return _Choice("switch_case", index, branches).build(scope)


def _traced(name: str, function: Function, selector: Tensor) -> FlowGraph:
    graph = FlowGraph(name)
    automatic = getattr(graph.outer_graph, "automatic_dependencies", False)
    trace(graph, function, automatic=automatic, for_operations=selector)
    return graph


class _Choice:
    """One node that runs one of some branches."""

    def __init__(self, kind: str, selector: Tensor, branches: Sequence[FlowGraph]) -> None:
        self._kind, self._selector, self._branches = kind, selector, branches

    def build(self, name: str | None, inputs: Sequence[Sequence[Tensor]] | None = None) -> Any:
        """The node's results, an Identity of each.  inputs: of each branch, if they are not what it captured."""
        branches = self._branches
        _match_indices(branches)
        check_same_outputs(self._kind, branches)
        given = inputs or [branch.external_captures for branch in branches]
        op = self._node(_match_inputs(branches, given), name)
        results = [identity(tensor) for tensor in op.outputs]
        return packed(branches[0].structured_outputs, results)

    def _node(self, inputs: list[Tensor], name: str | None) -> Operation:
        branches = self._branches
        references = [branch.add_function() for branch in branches]
        stateful = is_stateful(branches)
        attrs: dict[str, Any]
        if self._kind == "cond":
            spec = if_op if stateful else stateless_if_op
            attrs = {"then_branch": references[0], "else_branch": references[1]}
        else:
            spec = case_op if stateful else stateless_case_op
            attrs = {"branches": references}
        read_only = set.intersection(*(branch.read_only_inputs() for branch in branches))
        with after_captures(branches):
            op = apply_op(
                spec,
                (self._selector, inputs),
                {
                    **attrs,
                    "Tout": [tensor.dtype.base_dtype for tensor in branches[0].outputs],
                    "output_shapes": _shapes(branches),
                    "_lower_using_switch_merge": True,
                    READ_ONLY: sorted(at + 1 for at in read_only),
                },
                name,
            )
        op._flow_graphs = list(branches)
        op.graph.prevent_fetching(op)
        for output, inside in zip(op.outputs, branches[0].outputs, strict=True):
            stands_for(output, inside)
        return op


def _shapes(branches: Sequence[FlowGraph]) -> list[Any]:
    columns = zip(*(branch.outputs for branch in branches), strict=True)
    return [common_shape([tensor.shape for tensor in column]) for column in columns]


# -- branches that fit each other -------------------------------------------------------------


def _match_inputs(
    branches: Sequence[FlowGraph], inputs: Sequence[Sequence[Tensor]]
) -> list[Tensor]:
    """All that any branch takes, once; each branch gets arguments for all of it."""
    everything = list(dict.fromkeys(tensor for given in inputs for tensor in given))
    for branch, given in zip(branches, inputs, strict=True):
        known = dict(zip(given, branch.inputs, strict=True))
        inside = []
        for tensor in everything:
            found = known.get(tensor)
            if found is None:
                found = branch.dummy_input(tensor)
                stands_for(found, tensor)
            inside.append(found)
        branch.reset_captures(everything, inside)
    return everything


def _match_indices(branches: Sequence[FlowGraph]) -> None:
    """IndexedSlices at the same place have indices of one type in all branches."""
    leaves = [nest.flatten(branch.structured_outputs) for branch in branches]
    if len({len(each) for each in leaves}) > 1:
        return  # `check_same_outputs` says so
    for at, column in enumerate(zip(*leaves, strict=True)):
        slices = [isinstance(each, IndexedSlices) for each in column]
        if not all(slices) or len({each.indices.dtype for each in column}) == 1:
            continue
        for branch, own in zip(branches, leaves, strict=True):
            with branch.as_default():
                own[at] = nodes.with_indices(own[at], dtypes.int64)
    for branch, own in zip(branches, leaves, strict=True):
        if any(isinstance(each, IndexedSlices) for each in own):
            branch.structured_outputs = nest.pack_sequence_as(branch.structured_outputs, own)
            branch.outputs = [branch.capture(each) for each in flat(branch.structured_outputs)]


def check_same_outputs(kind: str, branches: Sequence[FlowGraph]) -> None:
    """Raises TypeError unless all branches return nests that fit, of the same dtypes."""
    first = branches[0]
    for at, other in enumerate(branches[1:], 1):
        names = ("true_fn", "false_fn") if kind == "cond" else ("branches[0]", f"branches[{at}]")
        why = None
        try:
            nest.assert_same_structure(first.structured_outputs, other.structured_outputs)
        except (ValueError, TypeError) as error:
            why = str(error)
        if why is None and len(first.outputs) != len(other.outputs):
            why = f"there are {len(first.outputs)} and {len(other.outputs)} tensors"
        if why is None:
            for one, two in zip(first.outputs, other.outputs, strict=True):
                if one.dtype.base_dtype is not two.dtype.base_dtype:
                    why = (
                        f"{one.name} and {two.name} have different types: {one.dtype.base_dtype.name} and "
                        f"{two.dtype.base_dtype.name}; tf.cast converts"
                    )
        if why is not None:
            raise TypeError(
                f"{names[0]} and {names[1]} arguments to tf.{kind} must have the same number, type, and overall "
                f"structure of return values: {first.structured_outputs!r:.200} and "
                f"{other.structured_outputs!r:.200}: {why}"
            )


# -- gradients --------------------------------------------------------------------------------


class CondGradient(FlowGraph):
    """The gradient of a branch.  wrapped: of nodes of the branch that it needs, the optionals that hold them."""

    def __init__(self, name: str, forward: FlowGraph) -> None:
        super().__init__(name)
        self._forward = forward
        self._found: dict[Tensor, Tensor] = {}
        self.wrapped: dict[Tensor, Tensor] = {}
        self.changes_forward = False

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """As a FuncGraph's; of what is inside the branch, the value that its node hands out in an optional."""
        forward = self._forward
        if tensor.graph is not forward or any(
            tensor is each for each in (*forward.inputs, *forward.outputs)
        ):
            return super().capture(tensor, name)
        if tensor not in self._found:
            self._found[tensor] = self._from_inside(tensor, name or tensor.op.name)
        return self._found[tensor]

    def _from_inside(self, tensor: Tensor, name: str) -> Tensor:
        if CONST in tensor.op.traits:
            with self.as_default():
                return convert(const_array(tensor.op), tensor.dtype.base_dtype, "Const")
        if tensor.dtype == dtypes.resource:
            return self.capture(_argument_of(tensor))
        optional = self._wrapped(tensor)
        inside = super().capture(optional, name)
        kind = tensor.dtype.base_dtype
        with self.as_default():
            found = registry.get("OptionalGetValue")(
                inside, output_types=[kind], output_shapes=[tensor.shape], name="OptionalGetValue"
            )
        stands_for(found[0], tensor)
        value: Tensor = found[0]
        return value

    def _wrapped(self, tensor: Tensor) -> Tensor:
        found = self._forward.handed_out.get(tensor)
        if found is None:
            with self._forward.as_default():
                found = registry.get("OptionalFromValue")([tensor], name="OptionalFromValue")
            self._forward.handed_out[tensor] = found
            self.changes_forward = True
        self.wrapped[tensor] = found
        return found


def _argument_of(handle: Tensor) -> Tensor:
    """The argument that a handle inside a function is.  Raises ValueError: the function makes it."""
    while IDENTITY in handle.op.traits:
        handle = handle.op.inputs[0]
    if not any(handle is each for each in handle.graph.inputs):  # type: ignore[attr-defined]
        raise ValueError(
            f"Taking gradient of a branch which creates a resource in its body is not supported: {handle.name} "
            f"({handle.op.type}); make it outside"
        )
    return handle


def _branch_graphs(op: Operation) -> list[FlowGraph]:
    if op._flow_graphs is None:
        references = (
            op.attrs["branches"]
            if "branches" in op.attrs
            else [op.attrs["then_branch"], op.attrs["else_branch"]]
        )
        op._flow_graphs = [function_graph(op, each, op.inputs[1:]) for each in references]
    found: list[FlowGraph] = op._flow_graphs
    for graph in found:
        graph.reset_captures(op.inputs[1:], graph.inputs)
    return found


def _gradient(op: Operation, *grads: Any) -> list[Any]:
    branches = _branch_graphs(op)
    library = op.graph.library
    for branch in branches:
        known = library.get(branch.name)
        if known is not None:
            known.freeze()
    graph = scopes.get_default_graph()
    backward = []
    for branch in branches:
        made = CondGradient(function_name(f"{branch.name}_", "grad", graph), branch)
        trace(made, lambda branch=branch: _grads_of(branch, grads), automatic=True)
        backward.append(made)
    _fill_in_zeros(branches, backward)
    if any(each.changes_forward for each in backward):
        _hand_out(op, branches, backward)
    inputs = [
        [_outside(op, branch, tensor) for tensor in each.external_captures]
        for branch, each in zip(branches, backward, strict=True)
    ]
    _match_kinds(backward)
    is_case = "branches" in op.attrs
    choice = _Choice("switch_case" if is_case else "cond", op.inputs[0], backward)
    return [None, *choice.build("gradient" if is_case else None, inputs)]


for _spec in (if_op, stateless_if_op, case_op, stateless_case_op):
    _spec.gradient(_gradient)


def _grads_of(branch: FlowGraph, grads: Sequence[Any]) -> list[Any]:
    """The gradients of a branch's inputs."""
    pairs = [
        (y, grad)
        for y, grad in zip(branch.outputs, grads, strict=False)
        if is_trainable(y) and grad is not None
    ]
    ys, given = [y for y, _ in pairs], [grad for _, grad in pairs]
    return gradients(ys, branch.inputs, given)


def _fill_in_zeros(branches: Sequence[FlowGraph], backward: Sequence[FlowGraph]) -> None:
    """Zeros in the place of a gradient that another branch has."""
    found = [list(each.structured_outputs) for each in backward]
    for at, column in enumerate(zip(*found, strict=True)):
        if all(grad is None for grad in column):
            continue
        for branch, graph, own in zip(branches, backward, found, strict=True):
            if own[at] is None:
                with graph.as_default():
                    own[at] = _zeros_for(branch.inputs[at])
    for graph, own in zip(backward, found, strict=True):
        graph.structured_outputs = own
        graph.outputs = [graph.capture(each) for each in flat(own)]


def _zeros_for(tensor: Tensor) -> Tensor:
    known = behind(tensor)
    if known is not None:
        sizes: Any = known[1] if is_fully_defined(known[1]) else nodes.variable_shape(tensor)
        return nodes.zeros(sizes, known[0])
    made: Tensor = zeros_like(tensor)
    return made


def _hand_out(
    op: Operation, branches: Sequence[FlowGraph], backward: Sequence[CondGradient]
) -> None:
    """More outputs of the forward node: what the gradients' branches need, in optionals."""
    most = max(len(each.wrapped) for each in backward)
    extra = []
    for branch, each in zip(branches, backward, strict=True):
        with branch.as_default():
            missing = [
                registry.get("OptionalNone")(name="OptionalNone")
                for _ in range(most - len(each.wrapped))
            ]
        extra.append([*each.wrapped.values(), *missing])
    for branch, more in zip(branches, extra, strict=True):
        branch.outputs.extend(more)
    references = [branch.rewritten() for branch in branches]
    if "branches" in op.attrs:
        op._set_attr("branches", references)
    else:
        op._set_attr("then_branch", references[0])
        op._set_attr("else_branch", references[1])
    op._set_attr("Tout", [tensor.dtype.base_dtype for tensor in branches[0].outputs])
    op._set_attr("output_shapes", _shapes(branches))
    op._add_outputs(extra[0])


def _outside(op: Operation, branch: FlowGraph, tensor: Tensor) -> Tensor:
    """What a tensor of the forward branch is in the graph of its node."""
    if tensor.graph is not branch:
        return tensor
    for at, output in enumerate(branch.outputs):
        if output is tensor:
            return op.outputs[at]
    found = branch.outside_of(tensor)
    assert found is not None, f"{tensor.name} is neither an output nor an argument"
    return found


def _match_kinds(backward: Sequence[FlowGraph]) -> None:
    """A tensor where another branch gives IndexedSlices becomes IndexedSlices of all its rows."""
    found = [list(each.structured_outputs) for each in backward]
    for at, column in enumerate(zip(*found, strict=True)):
        if not any(isinstance(each, IndexedSlices) for each in column):
            continue
        for graph, own in zip(backward, found, strict=True):
            if isinstance(own[at], Tensor):
                with graph.as_default():
                    own[at] = _as_slices(own[at])
    for graph, own in zip(backward, found, strict=True):
        graph.structured_outputs = own
        graph.outputs = [graph.capture(each) for each in flat(own)]


def _as_slices(value: Tensor) -> IndexedSlices:
    shape: Tensor = registry.get("Shape")(value, name="Shape")
    rows: Tensor = registry.get("Range")(0, shape[0], 1, name="range")
    return IndexedSlices(value, rows, shape)
