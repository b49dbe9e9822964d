"""Nodes made by hand: a type, tensors and AttrValue protos, as `Graph.create_op` takes them.

Called by: graph.low_level.  Threads: as graph.
Source: TF 1.15 python/framework/ops.py and c/c_api.cc, for behaviour; compared with the oracle
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.base import dtypes, errors
from headrace.graph.attrs import from_proto
from headrace.graph.build import add_node, arg_types
from headrace.graph.graphdef import spec_of
from headrace.graph.operation import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.schemas import MISSING, ArgDef
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from headrace.graph.graph import Graph


def create(
    graph: Graph,
    op_type: str,
    inputs: list[Tensor],
    input_types: Sequence[Any] | None,
    name: str | None,
    attrs: Mapping[str, Any] | None,
    compute_device: bool,
) -> Operation:
    """See `Graph.create_op`."""
    graph._check_not_finalized()
    wanted = op_type if name is None else name
    chosen = wanted[:-1] if wanted.endswith("/") else graph.unique_name(wanted)
    spec = spec_of(op_type, graph)
    if spec is None:
        raise errors.not_found(
            f"Op type not registered: headrace has no op {op_type!r}", node=chosen, op_type=op_type
        )
    _check_tensors(graph, chosen, inputs, input_types)
    known = _known(spec, attrs or {})
    _infer(spec, chosen, inputs, known)
    device = None if compute_device else ""
    try:
        return add_node(graph, spec, chosen, inputs, known, device=device)
    except TypeError as error:  # of an attr that is missing or not allowed
        raise ValueError(f"{error} (node {chosen!r})") from None


def _check_tensors(
    graph: Graph, name: str, inputs: list[Tensor], input_types: Sequence[Any] | None
) -> None:
    for tensor in inputs:
        if tensor.graph is not graph and not graph.building_function:
            raise ValueError(
                f"{tensor.name} must be from the same graph as the node {name!r} that takes it"
            )
    if input_types is None:
        return
    expected = [dtypes.as_dtype(each) for each in input_types]
    found = [tensor.dtype for tensor in inputs]
    if len(expected) != len(found) or not all(
        one.is_compatible_with(other) for one, other in zip(expected, found, strict=True)
    ):
        raise TypeError(
            f"in op {name!r}, input types ({[each.name for each in found]}) are not compatible with expected types "
            f"({[each.name for each in expected]})"
        )


def _known(spec: OpSpec, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attrs as a node holds them.  Raises TypeError, ValueError."""
    known = {}
    for key, value in attrs.items():
        if not hasattr(value, "WhichOneof"):
            raise TypeError(
                f"attr {key!r} of a node made by hand is an AttrValue proto, not {value!r:.80}"
            )
        definition = spec.attrs.get(key)
        if definition is None and not key.startswith("_"):
            raise ValueError(
                f"NodeDef mentions attr {key!r} not in Op {spec.name}, which has {', '.join(spec.attrs) or 'none'}"
            )
        known[key] = from_proto(value)
        if definition is not None and not _is_of(definition.kind, value):
            raise ValueError(
                f"attr {key!r} of op {spec.name} is of type {definition.kind}, and the AttrValue holds "
                f"{value.WhichOneof('value') or 'nothing'}"
            )
    return known


_FIELDS = {
    "type": "type",
    "int": "i",
    "float": "f",
    "bool": "b",
    "string": "s",
    "shape": "shape",
    "tensor": "tensor",
    "func": "func",
}


def _is_of(kind: str, value: Any) -> bool:
    held = value.WhichOneof("value")
    return bool(held == ("list" if kind.startswith("list(") else _FIELDS[kind]))


def _infer(spec: OpSpec, name: str, inputs: list[Tensor], known: dict[str, Any]) -> None:
    """Let the inputs say the attrs that were left out, and check their types.  Raises ValueError, TypeError."""
    at = 0
    for definition in spec.inputs:
        count = _count(spec, definition, known)
        taken = inputs[at : at + count]
        if len(taken) < count:
            break
        at += count
        types = [tensor.dtype.base_dtype for tensor in taken]
        if definition.type_attr is not None and types:
            known.setdefault(definition.type_attr, types[0])
        expected = arg_types(definition, known)
        for tensor, kind in zip(taken, expected, strict=True):
            if kind.base_dtype != tensor.dtype.base_dtype or (
                definition.is_ref and not tensor.dtype._is_ref_dtype
            ):
                raise ValueError(
                    f"input {definition.name!r} of node {name!r} ({spec.name}) was passed {tensor.dtype.name} from "
                    f"{tensor.name}, incompatible with expected {kind.name}"
                )
    else:
        if at == len(inputs):
            return
    wanted = ", ".join(definition.name for definition in spec.inputs) or "none"
    raise ValueError(
        f"node {name!r} ({spec.name}) was passed {len(inputs)} inputs; its op and attrs ask for others: {wanted}"
    )


def _count(spec: OpSpec, definition: ArgDef, known: dict[str, Any]) -> int:
    """How many tensors an argument is."""
    attr = definition.number_attr or definition.type_list_attr
    if attr is None:
        return 1
    value = known.get(attr, spec.attrs[attr].default)
    if value is MISSING:
        raise ValueError(
            f"op {spec.name} needs a value for attr {attr!r}, which says how many tensors "
            f"its argument {definition.name!r} is"
        )
    return value if isinstance(value, int) else len(value)
