"""The functions of a graph: FunctionDefs by name, and the body of each as a graph when somebody needs it.

A function is known by its FunctionDef (it was imported), by its body (it was built here), or both; either is made of
the other when first asked for.  All graphs that are built inside each other share one library.  It only grows.
Called by: graph, ops.flow.functional, plan, client (shipping), serve (receiving).  Threads: any; one lock a library.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.base import errors
from headrace.base.traits import CALLS_FUNCTION, STATEFUL, Traits
from headrace.codec import protos as pb
from headrace.graph import function_instances as instances
from headrace.graph.attrs import to_proto
from headrace.graph.registry import OPS, OpSpec

if TYPE_CHECKING:
    from headrace.graph.graph import Graph
    from headrace.graph.operation import Operation
    from headrace.graph.tensor import Tensor

GRADIENT: Final = "SymbolicGradient"
"""The function that an attr names so, with an attr `f`, is the gradient of `f`."""

_DEFINING = threading.RLock()
"""Whoever makes a FunctionDef asks the functions that are called, which may call each other: one lock for all."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a function is made of.

    inputs: placeholders, in the order of the arguments.  control_outputs: what has to run whichever outputs are wanted.
    """

    graph: Graph
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    control_outputs: Sequence[Operation] = ()

    def effects(self) -> list[Operation]:
        """Its nodes that do more than compute, and those that it names as its control outputs."""
        found = dict.fromkeys(self.control_outputs)
        arguments = {tensor.op for tensor in self.inputs}
        for op in self.graph.get_operations():
            if op not in arguments and has_effects(op):
                found[op] = None
        return list(found)


class Function:
    """One of them.

    name: in its library.  gradient: the name of the function that is its gradient, '' if nobody said so;
    python_gradient: a function of a calling operation and the gradients of its outputs that builds it.
    built: the body as a program built it, which knows more of branches and loops than a definition says.
    reference: how an attr names it.  generic: of one that was made of a function with attrs, that function.
    """

    def __init__(
        self,
        name: str,
        library: Library,
        definition: pb.FunctionDef | None = None,
        body: Body | None = None,
        define: Callable[[Function], pb.FunctionDef] | None = None,
        reference: pb.NameAttrList | None = None,
        generic: Function | None = None,
    ) -> None:
        """define: makes the definition of one that has a body only."""
        self.name = name
        self.reference = pb.NameAttrList(name=name) if reference is None else reference
        self.generic = generic
        self.library = library
        self.gradient = ""
        self.python_gradient: Callable[..., Any] | None = None
        self.built = body
        self._definition = definition
        self._body = body
        self._define = define
        self._defining = False
        self._spec: OpSpec | None = None
        self._lock = threading.RLock()
        self.cache: dict[Any, Any] = {}
        """What others have made of it, by keys of their own."""

    @property
    def definition(self) -> pb.FunctionDef:
        """Its FunctionDef, which is not to be changed."""
        with _DEFINING:
            if self._definition is None:
                assert self._define is not None
                self._defining = True
                try:
                    self._definition = self._define(self)
                finally:
                    self._defining = False
            return self._definition

    @property
    def body(self) -> Body:
        """Its body.  Raises InvalidArgument if the FunctionDef makes no sense, NotFound (an op that is not known)."""
        with self._lock:
            if self._body is None:
                from headrace.graph.function_def import imported_body

                self._body = imported_body(self.definition, self.library)
            return self._body

    @property
    def attrs(self) -> Sequence[pb.OpDef.AttrDef]:
        """What makes it another function for each of its callers; nothing, for most."""
        return () if self._definition is None else self._definition.signature.attr

    def instance(self, given: Mapping[str, pb.AttrValue], user: str = "") -> Function:
        """What it is for a caller, `user`, who gives these attrs.  Raises InvalidArgument: one is missing."""
        if not self.attrs:
            return self
        values = instances.values_for(self.definition, given, user)
        key = tuple(values[each].SerializeToString(deterministic=True) for each in sorted(values))
        found: Function = self.cached(("instance", key), lambda: self._made_for(values))
        return found

    def _made_for(self, values: Mapping[str, pb.AttrValue]) -> Function:
        from headrace.graph.function_def import definition_of, imported_body

        body = imported_body(self.definition, self.library, values=values)
        return Function(
            instances.name_for(self.definition, values),
            self.library,
            body=body,
            define=lambda made: definition_of(made.name, body, attrs=self.definition.attr),
            reference=instances.referring(self.name, values),
            generic=self,
        )

    def freeze(self) -> None:
        """Be what the body is now, whatever becomes of its graph."""
        with self._lock:
            if self._define is not None:
                self._definition = self.definition
                self._define = self._body = self.built = None

    @property
    def signature(self) -> pb.OpDef:
        """Its arguments and results, as an op's."""
        return self.definition.signature

    @property
    def is_stateful(self) -> bool:
        """Whether a call does more than compute; what calls itself does what else it does."""
        with _DEFINING:
            return not self._defining and self.signature.is_stateful

    @property
    def spec(self) -> OpSpec:
        """The op that calls it by its name."""
        with self._lock:
            if self._spec is None:
                self._spec = call_spec(self)
            return self._spec

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """`cache[key]`, made once."""
        with self._lock:
            if key not in self.cache:
                self.cache[key] = make()
            return self.cache[key]


def has_effects(op: Operation) -> bool:
    """Whether a node of a body runs for what it does, not only for its outputs."""
    if op.spec is None:
        return True
    if STATEFUL not in op.traits or CALLS_FUNCTION not in op.traits:
        return STATEFUL in op.traits
    library = op.graph.library
    return any(
        function.is_stateful
        for name in names_of(op.type, op.attrs.values())
        if (function := library.get(name)) is not None
    )


def reaches(function: Function, traits: Traits) -> bool:
    """Whether a node of its body has one of these traits, or one of the functions that it calls."""
    seen: set[Function] = set()
    waiting = [function]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        for op in each.body.graph.get_operations():
            if not traits.isdisjoint(op.traits):
                return True
            if CALLS_FUNCTION in op.traits:
                waiting.extend(_called_by(op))
    return False


def _called_by(op: Operation) -> Iterator[Function]:
    library = op.graph.library
    for value in op.attrs.values():
        for named in value if isinstance(value, list) else (value,):
            if isinstance(named, pb.NameAttrList):
                yield library.find(named, op.name)
    function = library.get(op.type)
    if function is not None:
        given = {key: to_proto(value) for key, value in op.attrs.items()}
        yield function.instance(given, op.name)


class Library:
    """See the module header."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}
        self._lock = threading.RLock()

    def fork(self) -> Library:
        """One that begins with the same functions, and gets others of its own."""
        made = Library()
        made._functions.update(self._functions)
        return made

    def __len__(self) -> int:
        return len(self._functions)

    def __bool__(self) -> bool:
        return bool(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def __iter__(self) -> Iterator[Function]:
        return iter([*self._functions.values()])

    def get(self, name: str) -> Function | None:
        """The function of that name."""
        return self._functions.get(name)

    def find(self, reference: pb.NameAttrList | str, user: str = "") -> Function:
        """What an attr names.  Raises NotFound, InvalidArgument (its attrs), naming `user`, the node that has it."""
        if isinstance(reference, str):
            reference = pb.NameAttrList(name=reference)
        name = reference.name
        found = self._functions.get(name)
        if found is None and name == GRADIENT and "f" in reference.attr:
            from headrace.graph.function_gradients import gradient_of

            return gradient_of(self.find(reference.attr["f"].func, user))
        if found is None:
            raise errors.not_found(
                f"Function {name} is not defined{f': node {user!r} calls it' if user else ''}; the graph's library has "
                f"{', '.join(sorted(self._functions)) or 'no function'}",
                node=user or None,
            )
        return found.instance(reference.attr, user)

    def free_name(self, name: str) -> str:
        """`name` with a number that no function has yet."""
        with self._lock:
            count = len(self._functions)
            while f"{name}_{count}" in self._functions:
                count += 1
            return f"{name}_{count}"

    def since(self, count: int) -> list[Function]:
        """Those that came after the first `count`."""
        return [*self._functions.values()][count:]

    def add(self, function: Function) -> Function:
        """Add one that was built here.  Raises ValueError: there is one of that name."""
        with self._lock:
            if function.name in self._functions:
                raise ValueError(
                    f"Cannot add function {function.name!r}: a function of that name is in the graph already"
                )
            self._functions[function.name] = function
        return function

    def add_definitions(self, proto: pb.FunctionDefLibrary) -> None:
        """Add what a GraphDef brings; one that is here already must be the same.

        Raises InvalidArgument: another one of that name, or an op's name.
        """
        with self._lock:
            for definition in proto.function:
                self._add_definition(definition)
            for each in proto.gradient:
                function = self._functions.get(each.function_name)
                if function is None:
                    raise errors.invalid_argument(
                        f"the library has a gradient of {each.function_name!r}, which is no function of it"
                    )
                if function.gradient not in ("", each.gradient_func):
                    raise errors.invalid_argument(
                        f"Cannot assign gradient function '{each.gradient_func}' to '{each.function_name}' because it "
                        f"already has gradient function '{function.gradient}'"
                    )
                function.gradient = each.gradient_func

    def _add_definition(self, definition: pb.FunctionDef) -> None:
        name = definition.signature.name
        known = self._functions.get(name)
        if known is not None:
            if not same_function(known.definition, definition):
                raise errors.invalid_argument(
                    f"Cannot add function '{name}' because a different function with the same name already exists."
                )
            return
        if dict.__contains__(OPS, name):
            raise errors.invalid_argument(
                f"Cannot add function '{name}' because an op with the same name already exists."
            )
        self._functions[name] = Function(
            name, self, pb.FunctionDef.FromString(definition.SerializeToString())
        )

    def proto(self, functions: Iterable[Function] | None = None) -> pb.FunctionDefLibrary:
        """All of them, or these, as a message."""
        found = pb.FunctionDefLibrary()
        for function in self if functions is None else functions:
            found.function.append(function.definition)
            if function.gradient:
                found.gradient.add(function_name=function.name, gradient_func=function.gradient)
        return found

    def reachable(self, ops: Iterable[Operation]) -> list[Function]:
        """What these nodes call, and what that calls."""
        return self.closure(name for op in ops for name in names_of(op.type, op.attrs.values()))

    def needed_by(self, nodes: Iterable[pb.NodeDef]) -> list[Function]:
        """What these nodes call, and what that calls."""
        return self.closure(name for node in nodes for name in _names_of(node))

    def closure(self, names: Iterable[str]) -> list[Function]:
        """The functions of these names, and all that they call, gradients too."""
        found: dict[str, Function] = {}
        waiting = [*names]
        while waiting:
            function = self._functions.get(waiting.pop())
            if function is None or function.name in found:
                continue
            found[function.name] = function
            if function.gradient:
                waiting.append(function.gradient)
            for node in function.definition.node_def:
                waiting.extend(_names_of(node))
        return [each for each in self if each.name in found]


def same_function(one: pb.FunctionDef, other: pb.FunctionDef) -> bool:
    """Whether both say the same; what is only known of arguments, the order of nodes and attrs of '_' do not count."""
    return one == other or _compared(one) == _compared(other)


def _compared(definition: pb.FunctionDef) -> Any:
    return (
        definition.signature.SerializeToString(deterministic=True),
        _public(definition.attr),
        dict(definition.ret),
        dict(definition.control_ret),
        {node.name: _node_compared(node) for node in definition.node_def},
    )


def _node_compared(node: pb.NodeDef) -> Any:
    data = [text for text in node.input if not text.startswith("^")]
    controls = {text for text in node.input if text.startswith("^")}
    return node.op, node.device, data, controls, _public(node.attr)


def _public(attrs: Any) -> dict[str, bytes]:
    return {
        key: value.SerializeToString(deterministic=True)
        for key, value in attrs.items()
        if not key.startswith("_")
    }


def names_of(op_type: str, values: Iterable[Any]) -> Iterator[str]:
    """The functions that a node may call: by its type, and by its attrs."""
    yield op_type
    for value in values:
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, pb.NameAttrList):
                yield from _named(each)


def _named(reference: pb.NameAttrList) -> Iterator[str]:
    yield reference.name
    for _, attr in sorted(reference.attr.items()):  # a map has another order in each process
        yield from _names_in(attr)


def _names_of(node: pb.NodeDef) -> Iterator[str]:
    yield node.op
    for _, attr in sorted(node.attr.items()):
        yield from _names_in(attr)


def _names_in(attr: pb.AttrValue) -> Iterator[str]:
    if attr.HasField("func"):
        yield from _named(attr.func)
    elif attr.HasField("list"):
        for each in attr.list.func:
            yield from _named(each)


def call_spec(function: Function) -> OpSpec:
    """The op whose nodes are calls of the function by its name."""
    return called_by_name(function.signature, lambda: function.python_gradient)


def called_by_name(
    signature: pb.OpDef, python_gradient: Callable[[], Callable[..., Any] | None]
) -> OpSpec:
    """The op whose nodes are calls of the function of that signature, wherever there is one when they run."""
    from headrace.graph.expansion import call, symbolic_gradient

    traits = {CALLS_FUNCTION, STATEFUL} if signature.is_stateful else {CALLS_FUNCTION}
    spec = OpSpec(
        signature.name,
        instances.arguments_text(signature.input_arg),
        instances.arguments_text(signature.output_arg),
        instances.attrs_text(signature.attr),
        kernel=None,
        shape=None,
        traits=traits,
        where=f"the library of a graph, function {signature.name}",
    )
    spec.expand(call)

    def differentiate(op: Operation, *grads: Any) -> Any:
        made_by = python_gradient()
        return symbolic_gradient(op, grads) if made_by is None else made_by(op, *grads)

    spec.gradient(differentiate)
    return spec
