"""FuncGraph: the body of a function while it is built; what it takes from the graph around becomes an argument.

A tensor of another graph that a node is given is *captured*: a placeholder stands for it inside, and who calls the
function passes the tensor itself.  Control inputs and colocation with nodes outside are the call's business.
Called by: library.functions, ops.data, ops.flow.  Threads: as a graph.
Source: TF 1.15's python/framework/func_graph.py and function.py, for behaviour; compared with the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph import scopes
from headrace.graph.collections import VARIABLE_COLLECTIONS
from headrace.graph.function_def import definition_of
from headrace.graph.function_library import Body, Function
from headrace.graph.graph import Graph, Operation
from headrace.graph.handles import stands_for
from headrace.graph.registry import OPS, OpSpec
from headrace.graph.tensor import Tensor


class FuncGraph(Graph):
    """The graph of a function's body.

    outer: the graph that calls it.  inputs: its arguments, then what stands for `captures`; outputs, control_outputs:
    set by who builds it.  control_captures: what is outside, and nodes in it are to run after.
    """

    building_function = _building_function = True
    functional_flow = True

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        super().__init__()
        self.name = name
        self.outer_graph = scopes.get_default_graph() if outer is None else outer
        self.share_library(self.outer_graph)
        self.seed = self.outer_graph.seed
        self._device_stack = list(self.outer_graph._device_stack)
        self._container = self.outer_graph._container
        for key in VARIABLE_COLLECTIONS:
            self._collections[key] = self.outer_graph.get_collection_ref(key)
        self.arguments: list[Tensor] = []
        self.captured: dict[Tensor, Tensor] = {}
        self.control_captures: list[Any] = []
        self._outside: dict[Tensor, Tensor] = {}
        self.outputs: list[Tensor] = []
        self.control_outputs: list[Operation] = []
        self.structured_input_signature: Any = None
        self.structured_outputs: Any = None
        self.automatic_dependencies = False

    @property
    def inputs(self) -> list[Tensor]:
        """Arguments, then captures."""
        return [*self.arguments, *self.captured.values()]

    @property
    def captures(self) -> list[tuple[Tensor, Tensor]]:
        """(outside, inside) of each tensor that was captured."""
        return list(self.captured.items())

    @property
    def external_captures(self) -> list[Tensor]:
        """What is captured, as the graph around knows it."""
        return list(self.captured)

    @property
    def internal_captures(self) -> list[Tensor]:
        """What is captured, as the body knows it."""
        return list(self.captured.values())

    def add_argument(
        self, dtype: dtypes.DType, shape: TensorShape | None = None, name: str | None = None
    ) -> Tensor:
        """One more argument."""
        unknown = TensorShape(None)
        tensor = self._placeholder(dtype, unknown if shape is None else shape, name or "arg")
        self.arguments.append(tensor)
        return tensor

    def outside_of(self, inside: Tensor) -> Tensor | None:
        """What was captured as `inside`."""
        if len(self._outside) != len(self.captured):
            self._outside = {found: each for each, found in self.captured.items()}
        return self._outside.get(inside)

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """What stands inside for a tensor of the graph around."""
        if tensor.graph is self:
            return tensor
        found = self.captured.get(tensor)
        if found is None:
            dtype = tensor.dtype.base_dtype
            found = self._placeholder(dtype, tensor.shape, name or self.captures_are_called(tensor))
            if self.functional_flow:
                found.op.attrs["_user_specified_name"] = (name or tensor.op.name).encode()
            stands_for(found, tensor)
            self.captured[tensor] = found
        return found

    def captures_are_called(self, tensor: Tensor) -> str:
        """What stands for a tensor from outside is called so, below the scope of the node that takes it first."""
        return tensor.op.name

    def _placeholder(self, dtype: dtypes.DType, shape: TensorShape, name: str) -> Tensor:
        spec = OPS["Placeholder"]
        with self.device(None), self.control_dependencies(None):
            op = super().add_operation(
                self.unique_name(name),
                "Placeholder",
                spec,
                [],
                {"dtype": dtype.base_dtype, "shape": shape},
                [dtype.base_dtype],
                device="",
            )
        return op.outputs[0]

    def add_operation(
        self,
        name: str,
        op_type: str,
        spec: OpSpec | None,
        inputs: list[Tensor],
        attrs: dict[str, Any],
        output_types: Sequence[dtypes.DType],
        *,
        control_inputs: list[Operation] | None = None,
        device: str | None = None,
        apply_scopes: bool = True,
    ) -> Operation:
        """As a graph's, but captures inputs of other graphs."""
        inputs = [each if each is None else self.capture(each) for each in inputs]
        controls = [each for each in control_inputs or () if each.graph is self]
        return super().add_operation(
            name,
            op_type,
            spec,
            inputs,
            attrs,
            output_types,
            control_inputs=controls,
            device=device,
            apply_scopes=apply_scopes,
        )

    def control_dependencies(
        self, control_inputs: Iterable[Any] | None
    ) -> AbstractContextManager[None]:
        """As a graph's.  What is outside is for who makes the node that calls the function (`control_captures`)."""
        if control_inputs is None:
            return super().control_dependencies(None)
        inside = []
        for each in control_inputs:
            if self._has(each):
                inside.append(each)
            else:
                self.control_captures.append(each)
        return super().control_dependencies(inside)

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """As a graph's; of what is outside, its device is that of nodes made inside."""
        if op is not None and not self._has(op):
            with self._together_with([]), self.device(getattr(op, "device", None) or ""):
                yield
            return
        with super().colocate_with(op, ignore_existing):
            yield

    @contextmanager
    def init_scope(self) -> Iterator[None]:
        """Nodes made inside are outside of the function, with the names that they would have had in it."""
        with self.outer_graph.as_default(), self.outer_graph.init_scope():
            inner = f"{self._name_stack}/" if self._name_stack else None
            with scopes.get_default_graph().name_scope(inner):
                yield

    def _has(self, element: Any) -> bool:
        if hasattr(element, "_handle"):
            element = (
                element.op
            )  # of a resource variable: what makes its handle, or what changed it
        graph = getattr(element, "graph", None)
        return graph is self or not isinstance(graph, Graph)

    @property
    def body(self) -> Body:
        """As its library keeps it."""
        return Body(self, self.inputs, self.outputs, self.control_outputs)

    def to_function(
        self,
        name: str | None = None,
        *,
        output_names: Sequence[str] | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> Function:
        """Add it to the library.  It is not to be changed from here on.

        attrs: of its FunctionDef.  Raises ValueError: there is a function of that name.
        """
        body = Body(self, self.inputs, [*self.outputs], [*self.control_outputs])
        function = Function(
            name or self.name,
            self.library,
            body=body,
            define=lambda made: definition_of(made.name, body, output_names, attrs or {}),
        )
        return self.library.add(function)


def traced(
    graph: FuncGraph,
    function: Callable[..., Any],
    arguments: Sequence[Any],
) -> Any:
    """What `function` returns when it is called with `arguments` inside `graph`."""
    with graph.as_default():
        return function(*arguments)
