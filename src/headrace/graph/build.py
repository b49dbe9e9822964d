"""From an op call to a node: convert the inputs, infer the attrs, name it, add it.

Called by: `OpSpec.__call__`.  Threads: as graph.
Source: the rules of TF 1.15's python/framework/op_def_library.py, restated; checked by the oracle
tests that compare GraphDefs.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.attrs import coerce
from headrace.graph.convert import convert, graph_of
from headrace.graph.graph import Graph, Operation
from headrace.graph.making import Making
from headrace.graph.registry import OpSpec
from headrace.graph.schemas import MISSING, ArgDef
from headrace.graph.tensor import Tensor


def apply(spec: OpSpec, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
    """Add a node and return its outputs as `OpSpec.__call__` promises."""
    op = apply_op(spec, inputs, attrs, name)
    outputs = op.outputs
    if (spec._making or spec.making).output is not None:
        return outputs[0]
    definitions = spec.outputs
    if not definitions:
        return op
    if len(definitions) == 1:
        return list(outputs)
    if any(definition.is_list for definition in definitions):
        return spec.outputs_type._make(_grouped(op, outputs))
    return spec.outputs_type._make(outputs)


def _grouped(op: Operation, outputs: list[Tensor]) -> list[Any]:
    assert op.spec is not None
    grouped: list[Any] = []
    start = 0
    for definition in op.spec.outputs:
        if definition.is_list:
            count = len(arg_types(definition, op.attrs))
            grouped.append(outputs[start : start + count])
            start += count
        else:
            grouped.append(outputs[start])
            start += 1
    return grouped


def apply_op(
    spec: OpSpec, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None
) -> Operation:
    """Add a node of `spec`.  Raises TypeError, ValueError."""
    making = spec._making or spec.making
    if len(inputs) != making.count:
        definitions = spec.inputs
        raise TypeError(
            f"op {spec.name} takes {len(definitions)} inputs "
            f"({', '.join(d.name for d in definitions)}), not {len(inputs)}"
        )
    types: dict[str, dtypes.DType] = {}
    graph = _graph_of_tensors(making, inputs, types)
    fit = graph is not None
    tensors = True
    if graph is None:
        tensors, graph = _single_graph(inputs)
    scope = graph.unique_name(spec.name) if name is None else _scope_of(graph, making, spec, name)
    known = _given(spec, attrs) if attrs else {}
    here = graph._names_here
    outer = here.scope
    if not making.is_const:
        here.scope = scope
    try:  # what is made on the way, constants and the nodes that bring values into a loop, is named after this one
        if fit and (not known or known.keys().isdisjoint(types)):
            flat = [*inputs]
            known.update(types)
        elif tensors:
            flat = _infer_from_tensors(spec, spec.inputs, inputs, known)
        else:
            scopes.enter(graph)
            try:
                flat = _convert_inputs(spec, spec.inputs, inputs, known)
            finally:
                scopes.leave(graph)
        if not making.takes_ref:
            return add_node(graph, spec, scope, flat, known)
        pairs = zip(spec.inputs, flat, strict=False)
        states = [tensor.op for definition, tensor in pairs if definition.is_ref]
        with graph._together_with(states):  # an op that takes a reference runs where the state is
            return add_node(graph, spec, scope, flat, known)
    finally:
        here.scope = outer


def _graph_of_tensors(
    making: Making, inputs: tuple[Any, ...], types: dict[str, dtypes.DType]
) -> Graph | None:
    """The graph of inputs that are single tensors of the types that the schema asks for; None if they are not.

    types: what they decide.
    """
    kinds = making.inputs
    if kinds is None:
        return None
    graph = function = scopes.function_being_built()
    for (kind, attr, is_ref), tensor in zip(kinds, inputs, strict=True):
        if tensor.__class__ is not Tensor:
            return None
        if function is None and tensor.op.graph is not graph:
            if graph is not None:
                return None
            graph = tensor.op.graph
        dtype = tensor._dtype
        base = dtype._base
        if is_ref and dtype is base:
            return None
        if kind is None:
            if types.setdefault(attr, base) is not base:
                return None
        elif kind is not base:
            return None
    return scopes.get_default_graph() if graph is None else graph


def _scope_of(graph: Graph, making: Making, spec: OpSpec, name: Any) -> str:
    """The name of a node that is to be called `name`, or like its op where that is empty."""
    if name.__class__ is not str:
        name = _text(name)
    wanted: str = name
    if not making.is_const:
        wanted = name or spec.name
        if wanted is name:
            graph.check_scope_name(wanted)
    return wanted[:-1] if wanted.endswith("/") else graph.unique_name(wanted)


def _given(spec: OpSpec, attrs: dict[str, Any]) -> dict[str, Any]:
    """The attrs of a call as a node holds them."""
    known: dict[str, Any] = {}
    definitions = spec.making.attrs
    for key, value in attrs.items():
        attr = definitions.get(key)
        if attr is None:
            if not key.startswith("_"):
                raise TypeError(f"op {spec.name} has no attr {key!r}")
            known[key] = value
        elif value is not None or attr.default is MISSING:  # None is the default, if there is one
            known[key] = coerce(attr, value, spec.name)
    return known


def _text(name: Any) -> str:
    if isinstance(name, bytes):
        return name.decode()
    if not isinstance(name, str):
        raise TypeError(f"the name of a node is a string, not {name!r:.80}")
    return name


def _single_graph(inputs: tuple[Any, ...]) -> tuple[bool, Graph]:
    """Whether all `inputs` are tensors, and their graph.  Raises ValueError if there are several."""
    graph: Graph | None = scopes.function_being_built()
    if graph is not None:
        return all(isinstance(value, Tensor) for value in inputs), graph
    for value in inputs:
        if not isinstance(value, Tensor) or (graph is not None and value.op.graph is not graph):
            break
        graph = value.op.graph
    else:
        if graph is not None:
            return True, graph
    return all(isinstance(value, Tensor) for value in inputs), graph_of(_flat(inputs))


def add_node(
    graph: Graph, spec: OpSpec, name: str, inputs: list[Tensor], known: dict[str, Any], **extra: Any
) -> Operation:
    """Complete the attrs with defaults, derive output types, add the node under the final `name`."""
    making = spec._making or spec.making
    attrs = _completed(spec, known)
    output_types: list[dtypes.DType]
    if making.output is not None:
        kind, attr, is_ref = making.output
        if kind is None:
            kind = attrs[attr]
        output_types = [kind._as_ref if is_ref else kind]
    else:
        output_types = [t for definition in spec.outputs for t in arg_types(definition, attrs)]
    if making.container and not attrs["container"] and graph._container:
        attrs["container"] = graph._container.encode()
    return graph.add_operation(name, spec.name, spec, inputs, attrs, output_types, **extra)


def _completed(spec: OpSpec, known: dict[str, Any]) -> dict[str, Any]:
    making = spec._making or spec.making
    attrs = making.defaults | known
    if making.checks:
        _check(spec, known)
    else:
        for key, ids in making.allowed:
            if id(attrs[key]) not in ids:
                _check(spec, known)
                break
    if not known.keys() >= making.needed:
        key = next(key for key, value in attrs.items() if value is MISSING)
        raise TypeError(f"NodeDef missing attr {key!r} from Op {spec.name}: it has no default")
    for key in making.lists:
        if key not in known:
            attrs[key] = list(attrs[key])
    return attrs


def _check(spec: OpSpec, known: dict[str, Any]) -> None:
    """Raises TypeError, ValueError: a value that the schema does not allow."""
    definitions = spec.making.attrs
    for key, value in known.items():
        definition = definitions.get(key)
        if definition is None:
            continue
        if definition.allowed is not None and id(value) not in definition.allowed_ids:
            for item in value if isinstance(value, list) else (value,):
                if item not in definition.allowed:
                    raise _not_allowed(spec, definition.name, item, definition.allowed)
        if definition.minimum is not None:
            size = len(value) if isinstance(value, list) else value
            if size < definition.minimum:
                raise _too_few(spec, key, size, definition.minimum, isinstance(value, list))


def _not_allowed(spec: OpSpec, attr: str, value: Any, allowed: tuple[Any, ...]) -> Exception:
    if isinstance(value, dtypes.DType):
        users = [d.name for d in spec.inputs if attr in (d.type_attr, d.type_list_attr)]
        options = ", ".join(sorted(v.name for v in allowed))
        which = f"the type of {', '.join(users)}" if users else "an attr"
        return TypeError(
            f"Value passed to parameter {[*users, attr][0]!r} has DataType {value.name} "
            f"not in list of allowed values: {options} ({which} of op {spec.name})"
        )
    if isinstance(value, bytes):
        options = '", "'.join(v.decode() for v in allowed)
        return ValueError(
            f"Attr {attr!r} of {spec.name!r} Op passed string {value.decode(errors='replace')!r} "
            f'not in: "{options}"'
        )
    return ValueError(f"Attr {attr!r} of {spec.name!r} Op passed {value!r}; allowed: {allowed!r}")


def _too_few(spec: OpSpec, attr: str, size: int, minimum: int, is_list: bool) -> ValueError:
    lists = [d.name for d in spec.inputs if attr == d.number_attr]
    if lists:
        return ValueError(
            f"List argument {lists[0]!r} to {spec.name!r} Op with length {size} shorter than minimum length {minimum}"
        )
    passed = f"list of length {size}" if is_list else f"{size}"
    return ValueError(
        f"Attr {attr!r} of {spec.name!r} Op passed {passed} less than minimum {minimum}"
    )


_MOST_OF_AN_ARGUMENT: Final = 1 << 20
"""Tensors: a number in an attr should not fill the memory."""


def arg_types(definition: ArgDef, attrs: dict[str, Any]) -> list[dtypes.DType]:
    """The dtypes of an argument once the attrs are known: one, N, or a list's.

    Raises ValueError: N is more than any node has.
    """
    if definition.type_list_attr is not None:
        types = list(attrs[definition.type_list_attr])
    else:
        kind = definition.type
        if kind is None:
            assert definition.type_attr is not None
            kind = attrs[definition.type_attr]
        count = 1 if definition.number_attr is None else attrs[definition.number_attr]
        if count > _MOST_OF_AN_ARGUMENT:
            raise ValueError(
                f"Number of outputs is too big: {count} tensors of {definition.name!r}, by attr "
                f"{definition.number_attr!r}; a node has {_MOST_OF_AN_ARGUMENT} at most"
            )
        types = [kind] * count
    if definition.is_ref:
        types = [t._as_ref for t in types]
    return types


def _flat(inputs: tuple[Any, ...]) -> list[Any]:
    flat: list[Any] = []
    for value in inputs:
        if isinstance(value, (list, tuple)):
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def _infer_from_tensors(
    spec: OpSpec, definitions: tuple[ArgDef, ...], inputs: tuple[Any, ...], known: dict[str, Any]
) -> list[Tensor]:
    """The quick way for calls whose inputs are all single tensors."""
    for definition, tensor in zip(definitions, inputs, strict=True):
        if definition.is_list:
            raise _no_list(spec, definition, tensor)
        if definition.is_ref:
            _check_ref(spec, definition, tensor)
        base = tensor._dtype._base
        if definition.type is not None:
            if definition.type is not base:
                raise _wrong_type(spec, definition, tensor._dtype, definition.type, _named(tensor))
        else:
            assert definition.type_attr is not None
            decided = known.setdefault(definition.type_attr, base)
            if decided is not base:
                _check_allowed(spec, known)
                raise _mismatch(spec, definition, tensor._dtype, decided, _named(tensor))
    return list(inputs)


def _convert_inputs(
    spec: OpSpec, definitions: tuple[ArgDef, ...], inputs: tuple[Any, ...], known: dict[str, Any]
) -> list[Tensor]:
    flat: list[Tensor] = []
    for definition, value in zip(definitions, inputs, strict=True):
        if definition.number_attr is not None:
            flat.extend(_convert_list(spec, definition, value, known))
        elif definition.type_list_attr is not None:
            flat.extend(_convert_typed_list(spec, definition, value, known))
        else:
            flat.append(_convert_one(spec, definition, value, known))
    return flat


def _convert_one(spec: OpSpec, definition: ArgDef, value: Any, known: dict[str, Any]) -> Tensor:
    attr = definition.type_attr
    decided = definition.type if attr is None else known.get(attr)
    preferred = allowed = None
    if decided is None and attr is not None:
        default, allowed = spec.attrs[attr].default, spec.attrs[attr].allowed
        preferred = None if default is MISSING else default
    try:
        tensor = convert(
            value,
            None if isinstance(value, Tensor) else decided,
            definition.name,
            preferred if allowed is None else None,
            definition.is_ref,
        )
        if preferred and allowed and tensor._dtype._base not in allowed:
            # An empty list is float32 before it is a shape; TensorFlow's graphs show both, too.
            tensor = convert(value, None, definition.name, preferred, definition.is_ref)
    except ValueError as error:
        _check_allowed(spec, known)
        if decided is not None and (seen := _dtype_alone(value)) is not None:
            if attr is None:
                raise _wrong_type(spec, definition, seen, decided, str(error)) from None
            raise _mismatch(spec, definition, seen, decided, str(error)) from None
        raise ValueError(
            f"Tried to convert {definition.name!r} to a tensor and failed, for op {spec.name}: {error}"
        ) from None
    except TypeError as error:
        _check_allowed(spec, known)
        if decided is None:
            raise TypeError(f"{error} (input {definition.name!r} of op {spec.name})") from None
        if spec.name in ("Add", "AddV2") and (seen := _dtype_alone(value)) is not None:
            # Only here is the first input's type no more than a hint.
            raise _mismatch(spec, definition, seen, decided, str(error)) from None
        raise TypeError(
            f"Expected {decided.name} passed to parameter {definition.name!r} of op {spec.name!r}, "
            f"got {value!r:.80} of type {type(value).__name__!r} instead: {error}"
        ) from None
    _check_ref(spec, definition, tensor)
    base = tensor._dtype._base
    if decided is not None and decided is not base:
        _check_allowed(spec, known)
        if attr is None:
            raise _wrong_type(spec, definition, tensor._dtype, decided, _named(tensor))
        raise _mismatch(spec, definition, tensor._dtype, decided, _named(tensor))
    if attr is not None:
        known[attr] = base
    return tensor


def _convert_list(
    spec: OpSpec, definition: ArgDef, value: Any, known: dict[str, Any]
) -> list[Tensor]:
    if not isinstance(value, (list, tuple)):
        raise _no_list(spec, definition, value)
    attr = definition.type_attr
    decided = definition.type if attr is None else known.get(attr)
    if decided is None:
        # A tensor among them decides the type that plain values are converted to.
        for item in value:
            if hasattr(item, "dtype") and isinstance(item.dtype, dtypes.DType):
                decided = item.dtype.base_dtype
                break
    assert definition.number_attr is not None
    tensors: list[Tensor] = []
    for index, item in enumerate(value):
        try:
            tensor = convert(item, decided, f"{definition.name}_{index}", None, definition.is_ref)
        except (TypeError, ValueError) as error:
            raise TypeError(_unlike(spec, definition, value, decided, error)) from None
        if decided is None:
            decided = tensor._dtype._base
        tensors.append(tensor)
    if attr is not None:
        if decided is None:
            default = spec.attrs[attr].default
            decided = None if default is MISSING else default
        if decided is not None:
            known[attr] = decided
    count = known.setdefault(definition.number_attr, len(tensors))
    if count != len(tensors):
        others = [d.name for d in spec.inputs if d.number_attr == definition.number_attr]
        raise ValueError(
            f"List argument {definition.name!r} to {spec.name!r} Op with length {len(tensors)} "
            f"must match length {count} of argument {others[0]!r}: both have {definition.number_attr} tensors"
        )
    return tensors


def _convert_typed_list(
    spec: OpSpec, definition: ArgDef, value: Any, known: dict[str, Any]
) -> list[Tensor]:
    if not isinstance(value, (list, tuple)):
        raise _no_list(spec, definition, value)
    attr = definition.type_list_attr
    assert attr is not None
    decided = known.get(attr)
    if decided is not None and len(decided) != len(value):
        raise ValueError(
            f"list {definition.name!r} of op {spec.name} must have {len(decided)} tensors, not {len(value)}"
        )
    tensors = []
    for index, item in enumerate(value):
        wanted = None if decided is None else decided[index]
        try:
            tensors.append(convert(item, wanted, f"{definition.name}_{index}"))
        except (TypeError, ValueError) as error:
            raise TypeError(_unlike(spec, definition, value, wanted, error)) from None
    known[attr] = [tensor._dtype._base for tensor in tensors]
    return tensors


def _check_ref(spec: OpSpec, definition: ArgDef, tensor: Tensor) -> None:
    if definition.is_ref and not tensor._dtype._is_ref_dtype:
        raise TypeError(
            f"{spec.name!r} Op requires that input {definition.name!r} be a mutable tensor (e.g.: a tf.Variable), "
            f"and {tensor.name} is a plain {tensor._dtype.name}"
        )


# What is said of inputs that do not fit.


def _no_list(spec: OpSpec, definition: ArgDef, value: Any) -> TypeError:
    return TypeError(
        f"Expected list for {definition.name!r} argument to {spec.name!r} Op, not {value!r:.80}"
    )


def _dtype_alone(value: Any) -> dtypes.DType | None:
    """The dtype that `value` has as a tensor if nothing is asked of it; None if it cannot be one."""
    try:
        return convert(value).dtype
    except (TypeError, ValueError):
        return None


def _check_allowed(spec: OpSpec, known: dict[str, Any]) -> None:
    """Raises TypeError if an input before the one that does not fit is of a type that the op does not take at all."""
    for name, value in known.items():
        attr = spec.attrs.get(name)
        if (
            attr is not None
            and attr.allowed is not None
            and isinstance(value, dtypes.DType)
            and value not in attr.allowed
        ):
            raise _not_allowed(spec, name, value, attr.allowed)


def _named(tensor: Tensor) -> str:
    return f"{tensor.name} is {tensor._dtype.name}"


def _with_remedy(why: str) -> str:
    return why if "convert" in why else f"{why}; tf.cast converts"


def _wrong_type(
    spec: OpSpec, definition: ArgDef, found: dtypes.DType, wanted: dtypes.DType, why: str
) -> TypeError:
    return TypeError(
        f"Input {definition.name!r} of {spec.name!r} Op has type {found.name} "
        f"that does not match expected type of {wanted.name}: {_with_remedy(why)}"
    )


def _mismatch(
    spec: OpSpec, definition: ArgDef, found: dtypes.DType, decided: dtypes.DType, why: str
) -> TypeError:
    others = [
        d.name for d in spec.inputs if d.type_attr == definition.type_attr and d is not definition
    ]
    source = f"argument {others[0]!r}" if others else f"attr {definition.type_attr!r}"
    return TypeError(
        f"Input {definition.name!r} of {spec.name!r} Op has type {found.name} "
        f"that does not match type {decided.name} of {source}: {_with_remedy(why)}"
    )


def _unlike(
    spec: OpSpec, definition: ArgDef, values: Any, decided: dtypes.DType | None, why: Exception
) -> str:
    seen = [_dtype_alone(value) for value in values]
    names = ", ".join(d._base.name if d else "<NOT CONVERTIBLE TO TENSOR>" for d in seen)
    text = f"Tensors in list passed to {definition.name!r} of {spec.name!r} Op have types [{names}]"
    if definition.type_list_attr is not None:
        return f"{text} that are invalid: {why}"
    if definition.type is not None and decided is not None:
        return f"{text} that do not match expected type {decided.name}: {why}"
    users = [d for d in spec.inputs if d.type_attr == definition.type_attr]
    if decided is not None and users[0] is not definition:
        return (
            f"{text} that do not match type {decided.name} inferred from earlier arguments: {why}"
        )
    return f"{text} that don't all match: {why}"
