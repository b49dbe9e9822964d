"""The functions of which functional branches and loops are made: built by calling Python functions, and found again.

Called by: ops.flow.functional_cond, ops.flow.functional_while.  Threads: as a graph.
Source: TF 1.15's python/framework/func_graph.py and python/ops/control_flow_util_v2.py, for behaviour; compared with
the oracle
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from headrace.base import dtypes, errors, nest
from headrace.base.shapes import TensorShape, common
from headrace.base.traits import READS_HANDLE, TELLS_SIZE
from headrace.codec import protos as pb
from headrace.graph import flow_nodes as nodes
from headrace.graph import registry, scopes
from headrace.graph.automatic_dependencies import Ordered
from headrace.graph.convert import convert
from headrace.graph.func_graph import FuncGraph
from headrace.graph.function_def import imported_body
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import control_dependencies
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor

READ_ONLY = "_read_only_resource_inputs"
_numbers = itertools.count(1)


def function_name(scope: str, part: str, graph: Graph) -> str:
    """A name for a function of a node: none has it."""
    while True:
        name = f"{scope}{part}_{next(_numbers)}".replace("/", "_")
        if graph._library is None or name not in graph._library:
            return name


def tells_sizes(spec: OpSpec | None, inputs: Sequence[Tensor], graph: Graph) -> bool:
    """Whether a node of these inputs tells nothing but how large values of that graph are."""
    if spec is None or TELLS_SIZE not in spec.traits or not inputs:
        return False
    return all(tensor.graph is graph for tensor in inputs)


def after_captures(graphs: Iterable[FuncGraph]) -> AbstractContextManager[None]:
    """For the node that calls these: nodes made inside run after what nodes in them are to run after."""
    around: list[Graph | None] = [scopes.get_default_graph()]
    while around[-1] is not None:
        around.append(getattr(around[-1], "outer_graph", None))
    wanted = [each for graph in graphs for each in graph.control_captures if each.graph in around]
    return control_dependencies(wanted) if wanted else nullcontext()


class FlowGraph(FuncGraph):
    """A branch, or a part of a loop; what it puts into collections is in those of the graph around.

    handed_out: of tensors that its gradient needs, the results that hold them: optionals, or lists with one element
    an iteration.
    """

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        super().__init__(name, outer)
        self._collections = self.outer_graph._collections
        self.handed_out: dict[Tensor, Tensor] = {}

    def reset_captures(self, outside: Sequence[Tensor], inside: Sequence[Tensor]) -> None:
        """All its arguments stand for tensors outside: these."""
        self.arguments = []
        self.captured = dict(zip(outside, inside, strict=True))
        self._outside = {}

    def add_function(self) -> pb.NameAttrList:
        """Add what it is now to the library; returns how an attr names it."""
        self.to_function(self.name, attrs={"_construction_context": b"kEagerRuntime"})
        return pb.NameAttrList(name=self.name)

    def rewritten(self) -> pb.NameAttrList:
        """As `add_function`, by another name, since it has changed."""
        name = f"{self.name}_rewritten"
        self.name = self.library.free_name(name) if name in self.library else name
        return self.add_function()

    def dummy_input(self, like: Tensor) -> Tensor:
        """A placeholder for what the other branch takes and this one does not."""
        return self._placeholder(like.dtype.base_dtype, like.shape, "Placeholder")

    def read_only_inputs(self) -> set[int]:
        """Which inputs are handles of which it only reads the variables."""
        return {
            at
            for at, tensor in enumerate(self.inputs)
            if tensor.dtype == dtypes.resource
            and all(_only_reads(op, tensor) for op in tensor._consumers)
        }


def _only_reads(op: Operation, handle: Tensor) -> bool:
    if READS_HANDLE in op.traits:
        return True
    listed = op.attrs.get(READ_ONLY, ())
    return all(at in listed for at, tensor in enumerate(op.inputs) if tensor is handle)


def trace(
    graph: FuncGraph,
    function: Callable[..., Any],
    arguments: Sequence[Any] = (),
    *,
    automatic: bool,
    for_operations: Tensor | None = None,
) -> None:
    """Call `function` in the graph; what it returns are the graph's results.

    automatic: nodes with effects run in the order in which they were made, and whichever results are wanted.
    for_operations: is the result in the place of an operation that is returned.
    Raises TypeError: something returned is no tensor.
    """
    with graph.as_default():
        ordered = Ordered(graph) if automatic else None

        def result(value: Any) -> Any:
            if value is None:
                return None
            if for_operations is not None and isinstance(value, Operation):
                with control_dependencies([value]):
                    value = registry.get("Identity")(for_operations, name="Identity")
            elif not _is_array(value) and not nodes.is_bundle(value):
                try:
                    value = convert(value)
                except (TypeError, ValueError) as error:
                    raise TypeError(
                        "To be compatible with tf.function, Python functions must return zero or more Tensors or "
                        f"ExtensionTypes or None values; {graph.name} returned {value!r:.80}: {error}"
                    ) from error
            return value if ordered is None else ordered.returned(value)

        graph.structured_outputs = nest.map_structure(result, function(*arguments))
        graph.outputs = [graph.capture(each) for each in flat(graph.structured_outputs)]
        if ordered is not None:
            graph.control_outputs = ordered.finish()


def _is_array(value: Any) -> bool:
    return hasattr(value, "flow") and hasattr(value, "with_flow")


def flat(structure: Any) -> list[Tensor]:
    """All tensors that a nest is made of; of an array, its flow."""
    found = []
    for leaf in nest.flatten(structure):
        if leaf is not None:
            found.extend(nodes.tensors_of(leaf.flow if _is_array(leaf) else leaf))
    return found


def packed(structure: Any, tensors: Sequence[Tensor]) -> Any:
    """`tensors` in the place of those that the leaves of a nest are made of."""
    left = iter(tensors)

    def leaf(like: Any) -> Any:
        if like is None:
            return None
        if _is_array(like):
            return like.with_flow(next(left))
        return nodes.bundled(like, [next(left) for _ in nodes.tensors_of(like)])

    return nest.pack_sequence_as(structure, [leaf(each) for each in nest.flatten(structure)])


def is_stateful(graphs: Iterable[Graph]) -> bool:
    """Whether any of them has a node that does more than compute."""
    return any(op._is_stateful for graph in graphs for op in graph.get_operations())


def function_graph(
    op: Operation, reference: pb.NameAttrList, inputs: Sequence[Tensor], *, shapes: Any = None
) -> FlowGraph:
    """The body of a function that an attr of a node names, as a graph inside the node's; see `FlowGraph`."""
    function = op.graph.library.find(reference, op.name)
    graph = FlowGraph(function.name, op.graph)
    if shapes is None:
        shapes = [tensor.shape for tensor in inputs]
    body = imported_body(function.definition, op.graph.library, graph, shapes)
    if len(body.inputs) != len(inputs):
        raise errors.invalid_argument(
            f"Expected {len(body.inputs)} arguments of {reference.name!r}, which {op.name!r} calls, but got "
            f"{len(inputs)}",
            node=op.name,
        )
    graph.arguments = list(body.inputs)
    graph.outputs = list(body.outputs)
    graph.control_outputs = list(body.control_outputs)
    graph.structured_outputs = list(graph.outputs)
    return graph


def common_shape(shapes: Sequence[TensorShape]) -> TensorShape:
    """The most that is known of a tensor that has one of these shapes."""
    found = shapes[0]._raw
    for shape in shapes[1:]:
        found = common(found, shape._raw)
    return TensorShape(found)
