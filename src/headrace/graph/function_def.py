"""Function bodies ↔ FunctionDefs.

In a FunctionDef arguments are names without nodes, inputs are ``argument``, ``node:output:index`` (the index within
that output of the op's schema) or ``^node``, and results are named in a map of their own.
Called by: graph.function_library, graph.func_graph.  Threads: as graphs.
Source of names: how TF 1.15 names the arguments and nodes of what it makes of a graph
(core/framework/graph_to_functiondef.cc), for behaviour; compared with the oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.base import dtypes, errors
from headrace.base.shapes import TensorShape
from headrace.codec import protos as pb
from headrace.graph import attrs as attr_values
from headrace.graph.build import _completed, arg_types
from headrace.graph.function_library import Body, Library, has_effects
from headrace.graph.graph import Graph
from headrace.graph.graphdef import Importer, node_def
from headrace.graph.operation import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Names:
    """Names of arguments, results and nodes, each once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def argument(self, name: str) -> str:
        """Of an argument or result: a letter, then lower-case letters, digits and '_'."""
        return self.node(normalized(name))

    def node(self, name: str) -> str:
        """`name`, or, if it is taken, with ``_0``, ``_1``, … appended."""
        found, count = name, 0
        while found in self._used:
            found = f"{name}_{count}"
            count += 1
        self._used.add(found)
        return found


def normalized(name: str) -> str:
    """A node's name as the name of an argument."""
    start = next((at for at, c in enumerate(name) if c.isascii() and c.isalpha()), None)
    if start is None:
        return "unknown"
    return "".join(c.lower() if c.isascii() and c.isalnum() else "_" for c in name[start:])


def definition_of(
    name: str,
    body: Body,
    output_names: Sequence[str] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> pb.FunctionDef:
    """The FunctionDef of a body.  attrs: as nodes hold them, or AttrValues."""
    names = _Names()
    proto = pb.FunctionDef()
    signature = proto.signature
    signature.name = name
    source: dict[Tensor, str] = {}
    given = output_names or [tensor.op.name for tensor in body.outputs]
    results = [names.argument(each) for each in given]
    for at, tensor in enumerate(body.inputs):
        argument = names.argument(tensor.op.name)
        signature.input_arg.add(name=argument, type=tensor.dtype.base_dtype.as_datatype_enum)
        source[tensor] = argument
        _describe(tensor, proto.arg_attr[at].attr)
    for result, tensor in zip(results, body.outputs, strict=True):
        signature.output_arg.add(name=result, type=tensor.dtype.base_dtype.as_datatype_enum)
    arguments = {tensor.op for tensor in body.inputs}
    nodes = [op for op in body.graph.get_operations() if op not in arguments]
    called = {op: names.node(op.name) for op in nodes}
    for op in nodes:
        proto.node_def.append(_node(op, called, source))
    for result, tensor in zip(results, body.outputs, strict=True):
        proto.ret[result] = _output_name(tensor, called, source)
    for op in body.control_outputs:
        signature.control_output.append(called[op])
        proto.control_ret[called[op]] = called[op]
    signature.is_stateful = any(has_effects(op) for op in nodes)
    for key, value in (attrs or {}).items():
        proto.attr[key].CopyFrom(
            value if isinstance(value, pb.AttrValue) else attr_values.to_proto(value)
        )
    return proto


def _describe(argument: Tensor, attrs: Any) -> None:
    """What is known of an argument: its shape, and what its placeholder has beyond its schema."""
    for key, value in argument.op.attrs.items():
        if key.startswith("_"):
            attrs[key].CopyFrom(attr_values.to_proto(value))
    if argument.dtype.base_dtype is not dtypes.resource:
        attrs["_output_shapes"].CopyFrom(attr_values.to_proto([TensorShape(argument._raw)]))


def _node(
    op: Operation, called: Mapping[Operation, str], source: Mapping[Tensor, str]
) -> pb.NodeDef:
    node = node_def(op)
    node.name = called[op]
    del node.input[:]
    node.input.extend(_output_name(tensor, called, source) for tensor in op.inputs)
    node.input.extend(
        sorted(f"^{called[control]}" for control in op.control_inputs if control in called)
    )
    if "_class" in node.attr:
        groups = node.attr["_class"].list.s
        by_name = {each.name.encode(): name for each, name in called.items()}
        groups[:] = [
            b"loc:@" + by_name[group[5:]].encode()
            if group.startswith(b"loc:@") and group[5:] in by_name
            else group
            for group in groups
        ]
    return node


def _output_name(
    tensor: Tensor, called: Mapping[Operation, str], source: Mapping[Tensor, str]
) -> str:
    argument = source.get(tensor)
    if argument is not None:
        return argument
    op = tensor.op
    assert op.spec is not None, f"{op.name} is of an unknown op"
    index = tensor.value_index
    for definition in op.spec.outputs:
        count = len(arg_types(definition, op.attrs))
        if index < count:
            return f"{called[op]}:{definition.name}:{index}"
        index -= count
    raise AssertionError(f"{tensor.name} is no output of its node")


def imported_body(
    definition: pb.FunctionDef,
    library: Library,
    graph: Graph | None = None,
    shapes: Sequence[TensorShape] = (),
) -> Body:
    """The body of a FunctionDef.  Raises InvalidArgument, NotFound (an op or function that is not known).

    graph: where its nodes go, by default a graph of their own.  shapes: of the arguments.
    """
    name = definition.signature.name
    if definition.signature.attr:
        raise errors.unimplemented(
            f"function {name!r} has attrs ({', '.join(a.name for a in definition.signature.attr)}), so that it is a "
            "different one for each of its callers; headrace takes functions whose types are given"
        )
    if graph is None:
        graph = Graph()
        graph._library = library
    graph.strict_shapes = False
    try:
        return _Import(definition, graph, library, shapes).body()
    except (ValueError, TypeError, KeyError) as error:
        raise errors.invalid_argument(f"function {name!r} cannot be used: {error}") from error


class _Import:
    def __init__(
        self,
        definition: pb.FunctionDef,
        graph: Graph,
        library: Library,
        shapes: Sequence[TensorShape],
    ) -> None:
        self._definition, self._graph, self._library = definition, graph, library
        self._shapes = shapes
        self._at: dict[str, int] = {}  # of node outputs: "node:output:index" -> number
        self._arguments: list[str] = []

    def body(self) -> Body:
        definition = self._definition
        proto = pb.GraphDef()
        for at, argument in enumerate(definition.signature.input_arg):
            self._arguments.append(argument.name)
            self._add_argument(proto, argument, definition.arg_attr.get(at))
            if at < len(self._shapes):
                shape = proto.node[at].attr["shape"]
                shape.CopyFrom(attr_values.to_proto(self._shapes[at]))
        specs = {node.name: self._outputs(node) for node in definition.node_def}
        for node in definition.node_def:
            copy = proto.node.add()
            copy.CopyFrom(node)
            del copy.input[:]
            copy.input.extend(self._input(text, specs, node.name) for text in node.input)
        importer = Importer(self._graph, origins=False)
        importer.add(proto)
        inputs = [importer.ops[name].outputs[0] for name in self._arguments]
        outputs = []
        for result in definition.signature.output_arg:
            text = definition.ret.get(result.name)
            if text is None:
                raise ValueError(f"Return value {result.name!r} has no entry in `ret`")
            outputs.append(importer._tensor(self._input(text, specs, "ret"), "ret"))
        controls = [importer.ops[node] for node in definition.control_ret.values()]
        return Body(self._graph, inputs, outputs, controls)

    def _add_argument(self, proto: pb.GraphDef, argument: Any, known: Any) -> None:
        node = proto.node.add(name=argument.name, op="Placeholder")
        node.attr["dtype"].type = argument.type
        node.attr["shape"].shape.unknown_rank = True
        if known is not None and known.attr["_output_shapes"].list.shape:
            node.attr["shape"].shape.CopyFrom(known.attr["_output_shapes"].list.shape[0])

    def _outputs(self, node: Any) -> dict[str, int]:
        """Where each output of a node begins."""
        from headrace.graph.graphdef import spec_of

        spec: OpSpec | None = spec_of(node.op, self._graph)
        if spec is None:
            raise errors.not_found(
                f"Op type not registered '{node.op}' in headrace: that of node {node.name!r} of function "
                f"{self._definition.signature.name!r}; see `headrace ops` for what is",
                node=node.name,
                op_type=node.op,
            )
        attrs = _completed(
            spec, {key: attr_values.from_proto(value) for key, value in node.attr.items()}
        )
        found, at = {}, 0
        for output in spec.outputs:
            found[output.name] = at
            at += len(arg_types(output, attrs))
        return found

    def _input(self, text: str, specs: Mapping[str, Mapping[str, int]], user: str) -> str:
        """An input as a GraphDef writes it."""
        if text.startswith("^"):
            return text
        pieces = text.split(":")
        if len(pieces) == 1:
            if text not in specs and text not in self._arguments:
                raise ValueError(
                    f"Node {user!r}: {text!r} is neither an argument nor a node of the function"
                )
            return text
        starts = specs.get(pieces[0])
        if starts is None or len(pieces) != 3 or pieces[1] not in starts or not pieces[2].isdigit():
            raise ValueError(
                f"Node {user!r}: Unknown input {text!r}: it is not '<argument>' or '<node>:<output>:<index>' of the "
                "function"
            )
        return f"{pieces[0]}:{starts[pieces[1]] + int(pieces[2])}"


def types_of(args: Iterable[Any]) -> list[dtypes.DType]:
    """The dtypes of a signature's arguments or results."""
    return [dtypes.as_dtype(int(arg.type)) for arg in args]
