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
from headrace.graph import function_instances as instances
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
    values: Mapping[str, pb.AttrValue] | None = None,
) -> Body:
    """The body of a FunctionDef.  Raises InvalidArgument, NotFound (an op or function that is not known).

    graph: where its nodes go, by default a graph of their own.  shapes: of the arguments.  values: of its attrs.
    """
    name = definition.signature.name
    if graph is None:
        graph = Graph()
        graph._library = library
    graph.strict_shapes = False
    try:
        return _Import(definition, graph, shapes, values or {}).body()
    except (ValueError, TypeError, KeyError) as error:
        raise errors.invalid_argument(f"function {name!r} cannot be used: {error}") from error


class _Import:
    def __init__(
        self,
        definition: pb.FunctionDef,
        graph: Graph,
        shapes: Sequence[TensorShape],
        values: Mapping[str, pb.AttrValue],
    ) -> None:
        self._definition, self._graph = definition, graph
        self._shapes, self._values = shapes, values
        self._arguments: dict[str, list[str]] = {}  # nodes of each: one, or those of a list
        self._outputs: dict[
            str, dict[str, range]
        ] = {}  # numbers of the outputs of each node, by their names

    def body(self) -> Body:
        definition = self._definition
        proto = pb.GraphDef()
        for at, argument in enumerate(definition.signature.input_arg):
            self._add_argument(proto, argument, definition.arg_attr.get(at))
        for shape, placeholder in zip(self._shapes, proto.node, strict=False):
            placeholder.attr["shape"].CopyFrom(attr_values.to_proto(shape))
        nodes = [self._bound(node) for node in definition.node_def]
        self._outputs = {node.name: self._outputs_of(node) for node in nodes}
        for node in nodes:
            texts = [each for text in node.input for each in self._inputs(text, node.name)]
            del node.input[:]
            node.input.extend(texts)
            proto.node.append(node)
        importer = Importer(self._graph, origins=False)
        importer.add(proto)
        placeholders = [each for names in self._arguments.values() for each in names]
        inputs = [importer.ops[name].outputs[0] for name in placeholders]
        outputs = [
            importer._tensor(text, "ret")
            for result in definition.signature.output_arg
            for text in self._result(result)
        ]
        controls = [importer.ops[node] for node in definition.control_ret.values()]
        return Body(self._graph, inputs, outputs, controls)

    def _bound(self, node: pb.NodeDef) -> pb.NodeDef:
        """A copy of a node, with the function's attrs in their places."""
        copy = pb.NodeDef()
        copy.CopyFrom(node)
        if self._values:
            instances.substitute(copy.attr, self._values)
        return copy

    def _add_argument(self, proto: pb.GraphDef, argument: Any, known: Any) -> None:
        types = instances.types_of_argument(argument, self._values)
        names = [argument.name]
        if instances.is_list(argument):
            names = [f"{argument.name}_{at}" for at in range(len(types))]
        self._arguments[argument.name] = names
        for name, dtype in zip(names, types, strict=True):
            node = proto.node.add(name=name, op="Placeholder")
            node.attr["dtype"].type = dtype  # type: ignore[assignment]
            node.attr["shape"].shape.unknown_rank = True
            if known is not None and known.attr["_output_shapes"].list.shape:
                node.attr["shape"].shape.CopyFrom(known.attr["_output_shapes"].list.shape[0])

    def _result(self, result: pb.OpDef.ArgDef) -> list[str]:
        """The outputs that a result is, as a GraphDef writes them."""
        text = self._definition.ret.get(result.name)
        if text is None:
            raise ValueError(f"Return value {result.name!r} has no entry in `ret`")
        found = self._inputs(text, "ret")
        wanted = len(instances.types_of_argument(result, self._values))
        if len(found) != wanted:
            raise ValueError(
                f"Invalid ret types: {result.name!r} is {wanted} tensors, and {text!r} is {len(found)}"
            )
        return found

    def _outputs_of(self, node: Any) -> dict[str, range]:
        """The numbers of the outputs that each output of its op stands for."""
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
            count = len(arg_types(output, attrs))
            found[output.name] = range(at, at + count)
            at += count
        return found

    def _inputs(self, text: str, user: str) -> list[str]:
        """An input as a GraphDef writes it: several where it stands for all of a list."""
        if text.startswith("^"):
            return [text]
        name, *rest = text.split(":")
        found: Sequence[str] | None = self._arguments.get(name)
        if found is None and rest:
            outputs = self._outputs.get(name, {}).get(rest.pop(0))
            found = None if outputs is None else [f"{name}:{number}" for number in outputs]
        elif found is None:
            if name in self._outputs:
                return [name]
            raise ValueError(
                f"Node {user!r}: {text!r} is neither an argument nor a node of the function"
            )
        if found is not None and not rest:
            return list(found)
        if found is not None and len(rest) == 1 and rest[0].isdigit():
            if int(rest[0]) < len(found):
                return [found[int(rest[0])]]
            raise ValueError(
                f"Node {user!r}: Unknown input {text!r}: {text.rpartition(':')[0]!r} has {len(found)} outputs"
            )
        raise ValueError(
            f"Node {user!r}: Unknown input {text!r}: it is not '<argument>' or '<node>:<output>:<index>' of the "
            "function"
        )


def types_of(args: Iterable[Any]) -> list[dtypes.DType]:
    """The dtypes of a signature's arguments or results."""
    return [dtypes.as_dtype(int(arg.type)) for arg in args]
