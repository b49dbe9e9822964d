"""Handles of variables that become the values of these: what they come to is changed, in a graph and in its functions.

A handle is followed first, then nodes are changed.  What passes it on passes on the value, what reads it takes the
value, and what calls functions with it calls others, in which these arguments are values; so a function that others
call with handles stays as it is.
Called by: graph.freezing.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.base import dtypes, errors
from headrace.base.traits import (
    CALLS_FUNCTION,
    ENTER,
    EXIT,
    IDENTITY,
    MERGE,
    NEXT_ITERATION,
    READS_VARIABLE,
    SWITCH,
    SWITCH_N,
)
from headrace.codec import protos as pb
from headrace.codec.tensors import make_tensor_proto
from headrace.graph.registry import OPS, traits_of

_PASS_ON: Final = {IDENTITY, SWITCH, SWITCH_N, MERGE, ENTER, EXIT, NEXT_ITERATION}
_OF_VALUES: Final = {
    "ResourceGather": "GatherV2",
    "ResourceGatherNd": "GatherNd",
    "VariableShape": "Shape",
}
"""What gives of a value what these give of a variable."""
_RESOURCE: Final = dtypes.resource.as_datatype_enum


class Port(NamedTuple):
    """An output of a node, or an argument of a function."""

    node: str
    number: int


class Handle(NamedTuple):
    """Of which variable, for messages, and of which dtype its value is."""

    variable: str
    dtype: int


Handles = dict[int, Handle]
"""By the number of an argument, or of a result."""


@dataclass
class _Call:
    """What a node calls.

    functions: the messages that name them.  first: the number of the input that is their first argument.
    types_in, types_out: the attrs that list dtypes of arguments and results; none where the op is the function.
    """

    functions: Sequence[Any]
    first: int = 0
    types_in: str = ""
    types_out: str = ""

    @property
    def is_loop(self) -> bool:
        """Whether the results are the next arguments."""
        return bool(self.types_in) and self.types_in == self.types_out


@dataclass
class _Followed:
    """Where handles go in a graph or function: the outputs that they are, and the results."""

    ports: dict[Port, Handle] = field(default_factory=dict)
    results: Handles = field(default_factory=dict)


class _Nodes:
    """The nodes of a graph, or of a function, and who takes their outputs."""

    def __init__(
        self, nodes: Iterable[pb.NodeDef], function: pb.FunctionDef | None, library: Any
    ) -> None:
        self.all = [*nodes]
        self.function = function
        self._library = library
        self._ops = {node.name: node.op for node in self.all}
        self.users: dict[Port, list[pb.NodeDef]] = {}
        for node in self.all:
            for port in self.sources(node):
                self.users.setdefault(port, []).append(node)

    def sources(self, node: pb.NodeDef) -> list[Port]:
        """What its inputs are, without those that only order nodes."""
        return [self.port(each) for each in node.input if not each.startswith("^")]

    def results(self) -> list[Port]:
        """What the results of the function are."""
        if self.function is None:
            return []
        return [
            self.port(self.function.ret[each.name]) for each in self.function.signature.output_arg
        ]

    def port(self, text: str) -> Port:
        """What an input names: `node:1` in a graph, `node:output:1` or an argument in a function."""
        name, *rest = text.split(":")
        number = int(rest.pop()) if rest and rest[-1].isdigit() else 0
        if not rest:
            return Port(name, number)
        op = self._ops.get(name, "")
        called = self._library.get(op)
        outputs = OPS[op].outputs if op in OPS else called.signature.output_arg if called else ()
        before = [each.name for each in outputs]
        return Port(name, number + (before.index(rest[0]) if rest[0] in before else 0))

    def where(self, node: pb.NodeDef) -> str:
        """The node, for a message."""
        within = (
            "" if self.function is None else f" of the function {self.function.signature.name!r}"
        )
        return f"{node.name!r}{within}"


class Conversion:
    """Of the handles in one GraphDef, which it changes."""

    def __init__(self, graph: pb.GraphDef) -> None:
        self._graph = graph
        self._library = {each.signature.name: each for each in graph.library.function}
        self._given = set(self._library)
        self._followed: dict[Any, _Followed] = {}
        self._names: dict[Any, str] = {}

    def convert(self, variables: Mapping[str, dtypes.DType]) -> None:
        """Let everything behind the handles that nodes of these names give take values of these dtypes instead.

        Raises UnimplementedError: one goes to a node that does not only read the variable.
        """
        nodes = _Nodes(self._graph.node, None, self._library)
        seeds = {
            Port(name, 0): Handle(name, dtype.as_datatype_enum) for name, dtype in variables.items()
        }
        found = _Followed(dict(seeds))
        self._follow(nodes, found)
        self._change(nodes, found)
        self._leave_out()

    # -- following ------------------------------------------------------------------------------

    def _follow(self, nodes: _Nodes, found: _Followed) -> None:
        """Add what the handles in `found` come to."""
        waiting = list(found.ports)
        while waiting:
            port = waiting.pop()
            for user in nodes.users.get(port, ()):
                for number, handle in self._passed(nodes, user, found.ports, port).items():
                    given = Port(user.name, number)
                    if given not in found.ports:
                        found.ports[given] = handle
                        waiting.append(given)
        results = enumerate(nodes.results())
        found.results = {at: found.ports[port] for at, port in results if port in found.ports}

    def _passed(
        self, nodes: _Nodes, node: pb.NodeDef, ports: Mapping[Port, Handle], port: Port
    ) -> Handles:
        """The outputs of a node that are handles because an input, `port`, is one."""
        handle, traits = ports[port], traits_of(node.op)
        if not traits.isdisjoint(_PASS_ON):
            count = 1
            if SWITCH in traits or SWITCH_N in traits:
                count = node.attr["num_outs"].i or 2
            return dict.fromkeys(range(count), handle)
        if READS_VARIABLE in traits or node.op in _OF_VALUES:
            return {}
        call = self._call_of(node)
        if call is None:
            raise self._cannot(nodes, node, handle, f"{node.op} does not only read it")
        found: Handles = {}
        for each in call.functions:
            given = _arguments(nodes, node, call, ports)
            found.update(self._within(each.name, given).results)
        return found

    def _within(self, name: str, given: Handles) -> _Followed:
        """Where handles go that are arguments of a function."""
        key = _key(name, given)
        found = self._followed.get(key)
        if found is None:
            function = self._library[name]
            arguments = function.signature.input_arg
            ports = {Port(arguments[at].name, 0): handle for at, handle in given.items()}
            found = self._followed[key] = _Followed(ports)
            self._follow(_Nodes(function.node_def, function, self._library), found)
        return found

    def _call_of(self, node: pb.NodeDef) -> _Call | None:
        """What a node calls with its last inputs, one for each argument; None if it does something else."""
        if node.op in self._library and node.op not in OPS:
            call = _Call([pb.NameAttrList(name=node.op)])
            count = len([each for each in node.input if not each.startswith("^")])
        elif CALLS_FUNCTION in traits_of(node.op):
            spec = OPS[node.op]
            functions: list[Any] = []
            for name, attr in spec.attrs.items():
                if attr.kind == "func":
                    functions.append(node.attr[name].func)
                elif attr.kind == "list(func)":
                    functions.extend(node.attr[name].list.func)
            types_in = spec.inputs[-1].type_list_attr or ""
            types_out = spec.outputs[0].type_list_attr or ""
            call = _Call(functions, len(spec.inputs) - 1, types_in, types_out)
            count = len(node.attr[types_in].list.type)
        else:
            return None
        for each in call.functions:
            function = self._library.get(each.name)
            if function is None or function.signature.attr:
                return None
            if len(function.signature.input_arg) != count:
                return None
        return call

    # -- changing -------------------------------------------------------------------------------

    def _change(self, nodes: _Nodes, found: _Followed) -> None:
        """Change the nodes that take a handle in `found`."""
        read = set()
        for node in nodes.all:
            taken = [found.ports.get(port) for port in nodes.sources(node)]
            handle = next((each for each in taken if each is not None), None)
            if handle is None:
                continue
            traits = traits_of(node.op)
            if not traits.isdisjoint(_PASS_ON):
                if MERGE in traits and not all(taken):
                    raise self._cannot(
                        nodes, node, handle, "another handle may come out of it as well"
                    )
                node.attr["T"].type = handle.dtype  # type: ignore[assignment]
                node.attr.pop("_output_shapes", None)
            elif READS_VARIABLE in traits or node.op in _OF_VALUES:
                read.add(node.name)
                axis = _take_value(node, handle)
                if axis is not None:
                    self._add(nodes, node, axis)
            else:
                self._call_others(nodes, node, handle, found.ports)
        if nodes.function is not None:
            _name_outputs(nodes.function, read)

    def _add(self, nodes: _Nodes, node: pb.NodeDef, axis: pb.NodeDef) -> None:
        """Give a node a constant as its last input."""
        if nodes.function is None:
            self._graph.node.append(axis)
            node.input.append(axis.name)
        else:
            nodes.function.node_def.append(axis)
            node.input.append(f"{axis.name}:output:0")

    def _call_others(
        self, nodes: _Nodes, node: pb.NodeDef, handle: Handle, ports: Mapping[Port, Handle]
    ) -> None:
        """Let a node call functions that take values."""
        call = self._call_of(node)
        assert call is not None
        given = _arguments(nodes, node, call, ports)
        results = {at: ports[Port(node.name, at)] for at in _numbers(ports, node.name)}
        if call.is_loop and results.keys() != given.keys():
            raise self._cannot(
                nodes, node, handle, "its body gives another handle in the place of this one"
            )
        for each in call.functions:
            within = self._within(each.name, given).results
            outputs = self._library[each.name].signature.output_arg
            for at, output in enumerate(outputs):
                if at in results and at not in within and output.type == _RESOURCE:
                    raise self._cannot(
                        nodes, node, handle, "one of its functions gives another handle"
                    )
            each.name = self._converted(each.name, given)
        if not call.types_in:
            node.op = call.functions[0].name
            return
        for attr, handles in ((call.types_in, given), (call.types_out, results)):
            for at, one in handles.items():
                node.attr[attr].list.type[at] = one.dtype  # type: ignore[call-overload]
        for shapes in ("output_shapes", "_output_shapes"):
            _forget_shapes(node.attr, shapes, results)

    def _converted(self, name: str, given: Handles) -> str:
        """The name of the function that takes values as these of its arguments."""
        key = _key(name, given)
        if key not in self._names:
            found = self._within(name, given)
            base, _, number = name.rpartition("_")
            made = self._unused(f"{base if base and number.isdigit() else name}_frozen")
            self._names[key] = made
            function = self._graph.library.function.add()
            function.CopyFrom(self._library[name])
            function.signature.name = made
            self._library[made] = function
            for at, handle in given.items():
                function.signature.input_arg[at].type = handle.dtype  # type: ignore[assignment]
                if at in function.arg_attr:
                    function.arg_attr[at].attr.clear()
            _forget_shapes(function.attr, "_input_shapes", given)
            for at, handle in found.results.items():
                function.signature.output_arg[at].type = handle.dtype  # type: ignore[assignment]
            self._change(_Nodes(function.node_def, function, self._library), found)
        return self._names[key]

    def _unused(self, name: str) -> str:
        number = 0
        while f"{name}_{number}" in self._library:
            number += 1
        return f"{name}_{number}"

    def _leave_out(self) -> None:
        """Remove the functions that nobody calls any more."""
        called: set[str] = set()
        waiting = [*self._graph.node]
        while waiting:
            for name in _functions_of(waiting.pop(), self._library):
                if name not in called:
                    called.add(name)
                    waiting.extend(self._library[name].node_def)
        gone = {name for name, _ in self._names} - called
        kept = [each for each in self._graph.library.function if each.signature.name not in gone]
        gradients = [
            each
            for each in self._graph.library.gradient
            if gone.isdisjoint((each.function_name, each.gradient_func))
        ]
        self._graph.library.Clear()
        self._graph.library.function.extend(kept)
        self._graph.library.gradient.extend(gradients)

    def _cannot(self, nodes: _Nodes, node: pb.NodeDef, handle: Handle, why: str) -> Exception:
        return errors.unimplemented(
            f"The variable {handle.variable!r} cannot become a constant: its handle goes to the node "
            f"{nodes.where(node)}, and {why}. Name it in variable_names_blacklist, or freeze nodes that do not need "
            f"{node.name!r}",
            node=node.name,
            op_type=node.op,
        )


def _key(name: str, given: Handles) -> tuple[str, Any]:
    return name, tuple(sorted((at, handle.dtype) for at, handle in given.items()))


def _arguments(
    nodes: _Nodes, node: pb.NodeDef, call: _Call, ports: Mapping[Port, Handle]
) -> Handles:
    """Which arguments of the functions that a node calls are handles."""
    sources = nodes.sources(node)[call.first :]
    return {at: ports[port] for at, port in enumerate(sources) if port in ports}


def _numbers(ports: Iterable[Port], node: str) -> list[int]:
    return sorted(port.number for port in ports if port.node == node)


def _functions_of(node: pb.NodeDef, library: Mapping[str, Any]) -> Iterator[str]:
    """The functions that a node names."""
    names = [node.op]
    for _, value in sorted(node.attr.items()):  # a map has another order in each process
        names += [value.func.name, *(each.name for each in value.list.func)]
    return (name for name in names if name in library)


def _forget_shapes(attrs: Any, name: str, handles: Iterable[int]) -> None:
    """Let shapes be unknown in an attr that lists them."""
    if name in attrs:
        shapes = attrs[name].list.shape
        for at in handles:
            if at < len(shapes):
                shapes[at].Clear()
                shapes[at].unknown_rank = True


def _name_outputs(function: pb.FunctionDef, nodes: set[str]) -> None:
    """Name the outputs of nodes as the ops do that they are now, which have one, `output`."""

    def named(text: str) -> str:
        name, *rest = text.split(":")
        return ":".join([name, "output", *rest[1:]]) if rest and name in nodes else text

    for node in function.node_def:
        node.input[:] = [named(each) for each in node.input]
    for result, text in function.ret.items():
        function.ret[result] = named(text)


def _take_value(node: pb.NodeDef, handle: Handle) -> pb.NodeDef | None:
    """Let a node that reads a variable take the value.  Gives the constant that is to be its last input."""
    old = pb.NodeDef()
    old.CopyFrom(node)
    inputs = [each for each in old.input if not each.startswith("^")]
    node.Clear()
    node.name = old.name
    node.input.extend(inputs)
    node.op = _OF_VALUES.get(old.op, "Identity")
    if "_class" in old.attr:
        node.attr["_class"].CopyFrom(old.attr["_class"])
    if "Tindices" not in old.attr:
        node.attr["T"].type = handle.dtype  # type: ignore[assignment]
        if "out_type" in old.attr:
            node.attr["out_type"].CopyFrom(old.attr["out_type"])
        return None
    node.attr["Tparams"].type = handle.dtype  # type: ignore[assignment]
    node.attr["Tindices"].CopyFrom(old.attr["Tindices"])
    if node.op != "GatherV2":
        return None
    batch_dims, kind = old.attr["batch_dims"].i, old.attr["Tindices"]
    node.attr["Taxis"].CopyFrom(kind)
    if batch_dims:
        node.attr["batch_dims"].i = batch_dims
    axis = pb.NodeDef(name=f"{old.name}/axis", op="Const")
    axis.attr["dtype"].CopyFrom(kind)
    number = make_tensor_proto(batch_dims, dtype=dtypes.as_dtype(kind.type), shape=())
    axis.attr["value"].tensor.CopyFrom(number)
    return axis
