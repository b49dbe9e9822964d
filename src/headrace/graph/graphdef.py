"""Graph ↔ GraphDef: the IR on the wire, in files and in differential tests.

Import makes nodes with the GraphDef's own names, control inputs, devices and attrs; inputs may
refer to later nodes (loops).  A node of an unknown op is NotFound naming op and node, unless
`allow_unknown` keeps it (for graphs that are only passed on).
Called by: client (shipping), serve (receiving), users (import_graph_def).  Threads: as graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.device import canonical
from headrace.base.device import merge as merged_device
from headrace.base.traits import (
    AGGREGATE,
    ALLOWS_UNINITIALIZED,
    COMMUTATIVE,
    CONST,
    MERGE,
    STATEFUL,
)
from headrace.codec import protos as pb
from headrace.codec import tensors as codec
from headrace.graph import attrs as attr_values
from headrace.graph import scopes
from headrace.graph.build import _completed, arg_types
from headrace.graph.graph import FINALIZED, Graph, Operation, is_node_name
from headrace.graph.import_notes import add_noted_shapes, check_groups, topological
from headrace.graph.operation import infer_shapes
from headrace.graph.registry import OPS, OpSpec
from headrace.graph.schemas import MISSING, ArgDef, AttrDef
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from headrace.graph.function_library import Function

_MOST_REMEMBERED: Final = 4 << 20
"""Bytes of a GraphDef that is remembered: graphs with large constants would be in memory twice."""

# What an optimizer has noted for itself; its unknown sizes have numbers, which are negative.
_HINTS = frozenset(("_input_shapes", "_output_shapes"))


def input_name(tensor: Tensor) -> str:
    """``node`` for output 0, ``node:i`` for the others, as GraphDefs write it."""
    if tensor.value_index == 0:
        return tensor.op.name
    return f"{tensor.op.name}:{tensor.value_index}"


def node_def(op: Operation, add_shapes: bool = False) -> pb.NodeDef:
    """The NodeDef of a node."""
    node = pb.NodeDef(name=op.name, op=op.type, device=op.device)
    node.input.extend(input_name(tensor) for tensor in op.inputs)
    node.input.extend(sorted(f"^{control.name}" for control in op.control_inputs))
    for name, value in op.attrs.items():
        if name == "value" and CONST in op.traits and not isinstance(value, pb.TensorProto):
            found = codec.make_tensor_proto(value, dtype=op.attrs["dtype"])
            node.attr[name].tensor.CopyFrom(found)
        else:
            attr_values.put(node.attr[name], value)
    if add_shapes and op.outputs:
        shapes = node.attr["_output_shapes"].list.shape
        for tensor in op.outputs:
            codec.put_shape(shapes.add(), tensor._raw)
    return node


def graph_def(
    graph: Graph,
    *,
    add_shapes: bool = False,
    ops: Sequence[Operation] | None = None,
    functions_from: int | None = None,
) -> pb.GraphDef:
    """The GraphDef of a graph, or of some of its nodes with the functions that they need.

    functions_from: with those functions that came after so many.
    """
    proto = _whole(graph, add_shapes) if ops is None else _of(ops, add_shapes)
    proto.versions.CopyFrom(graph.graph_def_versions)
    library = graph._library
    if library:
        wanted: Iterable[Function] = library
        if functions_from is not None:
            wanted = library.since(functions_from)
        elif ops is not None:
            wanted = library.reachable(ops)
        proto.library.CopyFrom(library.proto(wanted))
    return proto


def _of(ops: Sequence[Operation], add_shapes: bool) -> pb.GraphDef:
    """Just the nodes."""
    proto = pb.GraphDef()
    for op in ops:
        proto.node.append(node_def(op, add_shapes))
    return proto


def _whole(graph: Graph, add_shapes: bool) -> pb.GraphDef:
    """All nodes, remembered until the next change: hooks and savers ask for the same graph again and again."""
    version = graph.version, len(graph)
    known = graph._as_bytes.get(add_shapes)
    if known is not None and known[0] == version:
        return pb.GraphDef.FromString(known[1])
    proto = _of(graph.get_operations(), add_shapes)
    if proto.ByteSize() <= _MOST_REMEMBERED:
        graph._as_bytes[add_shapes] = version, proto.SerializeToString()
    return proto


def spec_of(name: str, graph: Graph) -> OpSpec | None:
    """The op of that name, or the call of the function of that name in the graph's library."""
    found: OpSpec | None = OPS.get(name)
    if found is None and graph._library is not None:
        function = graph._library.get(name)
        if function is not None:
            return function.spec
    return found


def op_def(spec: OpSpec) -> pb.OpDef:
    """The OpDef of a spec."""
    proto = pb.OpDef(
        name=spec.name,
        is_stateful=STATEFUL in spec.traits,
        is_commutative=COMMUTATIVE in spec.traits,
        is_aggregate=AGGREGATE in spec.traits,
        allows_uninitialized_input=ALLOWS_UNINITIALIZED in spec.traits,
    )
    for definitions, field in ((spec.inputs, proto.input_arg), (spec.outputs, proto.output_arg)):
        for definition in definitions:
            field.append(_arg_def(definition))
    for attr in spec.attrs.values():
        proto.attr.append(_attr_def(attr))
    return proto


def _arg_def(definition: ArgDef) -> pb.OpDef.ArgDef:
    proto = pb.OpDef.ArgDef(
        name=definition.name,
        type_attr=definition.type_attr or "",
        number_attr=definition.number_attr or "",
        type_list_attr=definition.type_list_attr or "",
        is_ref=definition.is_ref,
    )
    if definition.type is not None:
        proto.type = definition.type.as_datatype_enum  # type: ignore[assignment]
    return proto


def _attr_def(attr: AttrDef) -> pb.OpDef.AttrDef:
    proto = pb.OpDef.AttrDef(name=attr.name, type=attr.kind)
    if attr.default is not MISSING:
        proto.default_value.CopyFrom(attr_values.to_proto(attr.default))
    if attr.allowed is not None:
        proto.allowed_values.CopyFrom(attr_values.to_proto(list(attr.allowed)))
    if attr.minimum is not None:
        proto.has_minimum, proto.minimum = True, attr.minimum
    return proto


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[Any, Any] | None = None,
    return_elements: Iterable[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes of a GraphDef to the default graph, under name scope `name` ("import").

    input_map: names of the GraphDef (``node``, ``node:1``, ``^node``) → what to use instead.
    return_elements: names of the GraphDef whose Operations and Tensors to return, in order.
    Raises ValueError (inconsistent GraphDef, name not found), TypeError (not a GraphDef),
    NotFoundError (an op headrace does not know, naming op and node), RuntimeError (finalized graph).
    """
    if not hasattr(graph_def, "node") or not hasattr(graph_def, "SerializeToString"):
        raise TypeError(
            f"Argument `graph_def` must be a GraphDef proto, and is a {type(graph_def).__name__}"
        )
    graph = scopes.get_default_graph()
    if graph.finalized:
        raise RuntimeError(FINALIZED)
    scope = "import" if name is None else name
    if input_map is not None and not isinstance(input_map, Mapping):
        raise TypeError(
            f"Argument `input_map` must be a dictionary from names to tensors, not {input_map!r:.80}"
        )
    strange = [key for key in input_map or () if not isinstance(key, (str, bytes))]
    if strange:
        raise TypeError(
            f"All keys for argument `input_map` must be strings. Obtained keys: {strange}"
        )
    mapping = {_normal(key): value for key, value in (input_map or {}).items()}
    wanted = None if return_elements is None else _element_names(return_elements)
    with graph.name_scope(scope) as prefix:
        for key, value in list(mapping.items()):
            if isinstance(value, Operation) and not key.startswith("^"):
                raise TypeError(
                    f"can't convert Operation {value.name!r} to Tensor: input_map gives it for {key!r}, which is one"
                )
            if not isinstance(value, (Tensor, Operation)):
                from headrace.graph.convert import convert

                with graph.name_scope("_inputs"):
                    mapping[key] = convert(value)
        importer = Importer(graph, prefix, mapping)
        found = importer.add(graph_def, wanted or ())
    unused = importer.unused()
    if unused:
        raise ValueError(
            f"Attempted to map inputs that were not found in graph_def: [{', '.join(sorted(unused))}]; "
            "input_map names what the GraphDef uses"
        )
    return None if wanted is None else found


def _element_names(names: Any) -> list[str]:
    texts = [name.decode() if isinstance(name, bytes) else name for name in names]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(
            f"Argument `return_elements` must be a list of strings, names of the GraphDef, not {names!r:.80}"
        )
    return texts


def _normal(name: Any) -> str:
    text = name.decode() if isinstance(name, bytes) else str(name)
    if text.startswith("^"):
        return text
    return text if ":" in text else f"{text}:0"


_SPELLED = {"float32": "float", "float64": "double", "float16": "half"}


def _spelled(dtype: Any) -> str:
    """A dtype as messages about GraphDefs call it."""
    name: str = dtype.base_dtype.name
    return _SPELLED.get(name, name)


class Importer:
    """Adds GraphDefs to one graph; keeps where each imported name went.

    prefix: put before every node name, '' or ending in '/'.  A node whose name is taken, or a scope's of other nodes,
    gets ``_1``, ``_2``, … appended.
    allow_unknown: keep nodes of unknown ops (`spec` None, one output per use) instead of raising.
    origins: note the importing line as the one that built the nodes; a server's is of no use to anyone, and its nodes
    keep their names.
    """

    def __init__(
        self,
        graph: Graph,
        prefix: str = "",
        input_map: Mapping[str, Any] | None = None,
        *,
        allow_unknown: bool = False,
        origins: bool = True,
    ) -> None:
        self.graph = graph
        self.prefix = prefix
        self.input_map = dict(input_map or {})
        self.allow_unknown = allow_unknown
        self._origins = origins
        self.ops: dict[str, Operation] = {}
        self._used: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._waited_for: list[Operation] = []  # what the control scopes of the import say
        graph.has_runtime_names = graph.has_runtime_names or not origins

    def add(self, graph_def: Any, wanted: Iterable[str] = ()) -> list[Tensor | Operation]:
        """Add every node of `graph_def`; what its names `wanted` became.  On an error nothing was added."""
        nodes = list(graph_def.node)
        if graph_def.HasField("versions"):
            self._check_versions(graph_def.versions)
        names = {node.name for node in nodes}
        if self._origins:
            check_groups(nodes, names)
        if len(names) != len(nodes):
            twice = Counter(node.name for node in nodes).most_common(1)[0][0]
            raise ValueError(f"Node {twice!r} is not unique: the GraphDef has two of that name")
        if self._origins:
            self._choose_names([node.name for node in nodes])
        if graph_def.HasField("library"):
            self.graph.library.add_definitions(graph_def.library)
        with self.graph._mutation_lock(), self.graph._lock:  # as other threads make no nodes
            return self._added(nodes, names, wanted)

    def _added(
        self, nodes: list[Any], names: set[str], wanted: Iterable[str]
    ) -> list[Tensor | Operation]:
        before = len(self.graph)
        self._waited_for = self.graph._controls_beside(set()) if self._origins else []
        backward: list[tuple[Operation, int, str]] = []
        try:
            for node in topological(nodes, names):
                backward.extend(self._add_node(node, names))
            for op, index, text in backward:
                op.inputs[index] = None  # type: ignore[call-overload]
                op._set_input(index, self._tensor(text, op.name))
            found = [self.element(name) for name in wanted]
        except BaseException:
            self.graph.forget_operations_since(before)
            raise
        if self._origins:
            for op in self.graph.operations_since(before):
                self.graph._names.setdefault(op.name.lower(), 1)
        return found

    def _choose_names(self, names: Sequence[str]) -> None:
        """Note which nodes cannot have the name they ask for.  Raises ValueError if it is none."""
        for name in names:
            if not is_node_name(name):
                raise ValueError(f"Node {name!r}: Node name contains invalid characters")
        there = self.graph.names_and_scopes(self.prefix)
        if there.isdisjoint(names):
            return
        asked = {*names, *(name[:at] for name in names for at, c in enumerate(name) if c == "/")}
        for name in names:
            chosen, count = name, 0
            while chosen in there or (count and chosen in asked):
                count += 1
                chosen = f"{name}_{count}"
            if count:
                self._renamed[name] = chosen
                asked.add(chosen)

    def _check_versions(self, versions: Any) -> None:
        from headrace.graph.graph import GRAPH_DEF_VERSION

        if GRAPH_DEF_VERSION in versions.bad_consumers:
            raise ValueError(
                f"GraphDef disallows consumer version {GRAPH_DEF_VERSION}: headrace would read it wrongly"
            )
        if versions.min_consumer > GRAPH_DEF_VERSION:
            raise ValueError(
                f"GraphDef min consumer version {versions.min_consumer} above current version {GRAPH_DEF_VERSION}: "
                "what made it is newer than headrace"
            )

    def _add_node(self, node: Any, names: set[str]) -> list[tuple[Operation, int, str]]:
        spec = spec_of(node.op, self.graph)
        if spec is None and not self.allow_unknown:
            raise errors.not_found(
                f"Op type not registered '{node.op}' in headrace: that of node {node.name!r}; "
                "see `headrace ops` for what is, or remove the node from what is fetched",
                node=node.name,
                op_type=node.op,
                device=node.device or None,
            )
        inputs, controls, later = self._inputs(node, names)
        controls += [op for op in self._waited_for if op not in controls]
        try:
            attrs = _attrs_of(node, spec)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{error} (node {node.name!r} of the GraphDef)") from None
        if spec is not None:
            types = [t for definition in spec.outputs for t in arg_types(definition, attrs)]
            self._check_inputs(node, spec, attrs, inputs)
        else:
            types = []
        if (self.prefix or self._renamed) and "_class" in attrs:
            attrs["_class"] = [self._moved_group(group) for group in attrs["_class"]]
        name = self._final_name(node.name)
        device = canonical(node.device)  # ValueError where it makes no sense
        if not self._origins:
            device = node.device
        infer, self.graph.infer_shapes = (
            self.graph.infer_shapes,
            self.graph.infer_shapes and not later,
        )
        try:
            op = self.graph.add_operation(
                name,
                node.op,
                spec,
                inputs,
                attrs,
                types,
                control_inputs=controls,
                device=None if self.graph._device_stack else device,
            )
        finally:
            self.graph.infer_shapes = infer
        if self.graph._device_stack and device:
            op.device = merged_device(op.device, device)
        if not self._origins:
            op._where = None
        if later and MERGE in op.traits:
            op.outputs[1]._raw = ()
        if self._origins and "_output_shapes" in node.attr:
            add_noted_shapes(op, node)
        self.ops[node.name] = op
        return [(op, index, text) for index, text in later]

    def _inputs(
        self, node: Any, names: set[str]
    ) -> tuple[list[Tensor], list[Operation], list[tuple[int, str]]]:
        """(inputs, control inputs, places and texts of inputs that are among `names` but come later)."""
        inputs: list[Tensor] = []
        controls: list[Operation] = []
        later: list[tuple[int, str]] = []
        for text in node.input:
            if text.startswith("^"):
                controls.append(self._control(text, node.name))
            elif controls:
                raise ValueError(
                    f"Node {node.name!r}: Control dependencies must come after regular dependencies: {text!r} comes "
                    "after one"
                )
            elif self._is_later(text, names):
                later.append((len(inputs), text))
                inputs.append(None)  # type: ignore[arg-type]
            else:
                inputs.append(self._tensor(text, node.name))
        return inputs, controls, later

    def _final_name(self, name: str) -> str:
        return self.prefix + self._renamed.get(name, name)

    def _is_later(self, text: str, names: set[str]) -> bool:
        """Whether an input refers to a node of this GraphDef that comes later (a loop)."""
        node = self._node_of(text)
        return node in names and node not in self.ops and _normal(text) not in self.input_map

    def _moved_group(self, group: Any) -> Any:
        if isinstance(group, bytes) and group.startswith(b"loc:@"):
            name = group[5:].decode()
            return b"loc:@" + (self.prefix + self._renamed.get(name, name)).encode()
        return group

    def _check_inputs(
        self, node: Any, spec: OpSpec, attrs: dict[str, Any], inputs: list[Tensor]
    ) -> None:
        wanted = [t for definition in spec.inputs for t in arg_types(definition, attrs)]
        if len(wanted) != len(inputs):
            text = ", ".join(map(_spelled, wanted))
            raise ValueError(
                f"NodeDef expected inputs {text!r} do not match {len(inputs)} inputs specified: "
                f"node {node.name!r} ({node.op}) has {len(inputs)}, and its op and attrs ask for {len(wanted)}"
            )
        for index, (kind, tensor) in enumerate(zip(wanted, inputs, strict=True)):
            if tensor is None or (not self.ops and not self.input_map):
                continue
            differ = (
                not kind.is_compatible_with(tensor._dtype)
                and tensor._dtype.base_dtype is not kind.base_dtype
            )
            if differ or (self._origins and kind._is_ref_dtype and not tensor._dtype._is_ref_dtype):
                raise ValueError(
                    f"Input {index} of node {self._final_name(node.name)} was passed {_spelled(tensor._dtype)} "
                    f"from {tensor.name} incompatible with expected {_spelled(kind)}{'_ref' * kind._is_ref_dtype}: its "
                    f"op is {node.op}"
                )

    @staticmethod
    def _node_of(text: str) -> str:
        return text.partition(":")[0]

    def _control(self, text: str, user: str) -> Operation:
        mapped = self.input_map.get(text)
        if mapped is not None:
            self._used.add(text)
            return mapped.op if isinstance(mapped, Tensor) else mapped
        op = self.ops.get(text[1:])
        if op is None:
            raise ValueError(
                f"Node {user!r}: Unknown input node {text!r}: no node of that name is in the GraphDef"
            )
        return op

    def _tensor(self, text: str, user: str) -> Tensor:
        key = _normal(text)
        mapped = self.input_map.get(key)
        if mapped is not None:
            self._used.add(key)
            assert isinstance(mapped, Tensor)
            return mapped
        node, _, index = key.rpartition(":")
        op = self.ops.get(node)
        if op is None:
            raise ValueError(
                f"Node {user!r}: Unknown input node {text!r}: it is not in the GraphDef"
            )
        if not index.isdigit():
            raise ValueError(f"node {user!r} has the input {text!r}, which is not '<node>:<index>'")
        position = int(index)
        if op.spec is None:
            while len(op.outputs) <= position:
                op.outputs.append(Tensor(op, len(op.outputs), dtypes.variant))
        if position >= len(op.outputs):
            raise ValueError(
                f"node {user!r} has the input {text!r}, but {node!r} has {len(op.outputs)} outputs"
            )
        return op.outputs[position]

    def unused(self) -> set[str]:
        """Names of the input map that nothing used and that the GraphDef does not have."""
        return {key for key in self.input_map if key not in self._used and not self._has(key)}

    def _has(self, key: str) -> bool:
        node, _, index = key.lstrip("^").partition(":")
        op = self.ops.get(node)
        return op is not None and (key.startswith("^") or int(index) < len(op.outputs))

    def element(self, name: Any) -> Tensor | Operation:
        """The imported tensor or operation that `name` of the GraphDef became."""
        text = name.decode() if isinstance(name, bytes) else str(name)
        if ":" in text:
            if text in self.input_map:
                mapped: Tensor = self.input_map[text]
                return mapped
            if not self._has(text):
                raise ValueError(
                    f"Requested return tensor {text!r} not found in graph def: return_elements name what it has"
                )
            return self._tensor(text, "return_elements")
        op = self.ops.get(text)
        if op is None:
            raise ValueError(
                f"Requested return node {text!r} not found in graph def: return_elements name what it has"
            )
        return op


def _attrs_of(node: Any, spec: OpSpec | None) -> dict[str, Any]:
    """The attrs of a NodeDef, whole.  Raises ValueError, TypeError: they are not what the op asks for."""
    known = {}
    for key, value in node.attr.items():
        if key not in _HINTS:
            if spec is not None and key in spec.attrs:
                definition = spec.attrs[key]
                if value.WhichOneof("value") is None and definition.default is not MISSING:
                    continue  # as if it were not there
                attr_values.check_kind(definition, value)
            known[key] = attr_values.from_proto(value)
    return known if spec is None else _completed(spec, known)


def reinfer(graph: Graph) -> None:
    """Recompute all static shapes, after loops were closed or shapes refined."""
    for op in graph.get_operations():
        known = [tensor._raw for tensor in op.outputs]
        infer_shapes(op)
        for tensor, raw in zip(op.outputs, known, strict=True):
            tensor._raw = shape_rules.merge(tensor._raw, raw)
