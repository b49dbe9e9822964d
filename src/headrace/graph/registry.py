"""The registry: what an op is.  One `OpSpec` an op, made where the op's block stands.

A block is ``@op(name, inputs=…, outputs=…, attrs=…, shape=…, traits=…)`` over the kernel function, and
``@that.gradient`` below it.  Arguments and attrs are strings (`graph.schemas`).

Traits (`base.traits`) are what others may count on.  The first parameter of a kernel says what it needs: ``xp`` (the
array namespace; a pure function of arrays) or ``ctx`` (the runtime: resources, step, node).  Its keyword-only
parameters are attrs.
Ops of files that few programs need come when one of them is asked for (`Registry`).
Called by: ops (at import), graph (building), plan (binding).  Threads: any; filled at import, then read.
"""

from __future__ import annotations

import inspect
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.base.shapes import Shape
from headrace.base.traits import (
    MAY_WAIT,
    NEVER_FOLDED,
    NONE,
    OF_RAGGED,
    OF_SPARSE,
    OF_TWO_RAGGED,
    POLLS,
    STATEFUL,
    Trait,
    Traits,
)
from headrace.graph.making import Making
from headrace.graph.ragged import ELEMENTWISE, ONE, TAKING_RAGGED, TWO, any_ragged
from headrace.graph.schemas import MISSING, ArgDef, AttrDef, parse_args, parse_attrs
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

    from headrace.graph.shape_fns import ShapeContext

ShapeFn = Callable[["ShapeContext"], "Shape | list[Shape]"]
Gradient = Callable[..., Any]
Knowing = Callable[[Any, Sequence[Any]], "Callable[..., Any] | None"]
Same = Callable[[Any, Sequence[Any]], "int | None"]
Prompt = Callable[[dict[str, Any], tuple[bool, ...]], Callable[..., Any]]
F = TypeVar("F", bound=Callable[..., Any])

_RAGGED = {OF_RAGGED: ONE, OF_TWO_RAGGED: TWO}
_NOT_FOLDED = (NEVER_FOLDED, STATEFUL, MAY_WAIT, POLLS)


class _SignatureOf:
    """What `inspect` and editors show of an op: its inputs, the name, and those attrs that its inputs do not tell."""

    def __get__(self, spec: OpSpec | None, owner: type[OpSpec]) -> inspect.Signature | None:
        if spec is None:
            return None
        given, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        told = {arg.type_attr for arg in spec.inputs} | {arg.number_attr for arg in spec.inputs}
        told |= {arg.type_list_attr for arg in spec.inputs}
        parameters = [inspect.Parameter(arg.name, given) for arg in spec.inputs]
        parameters.append(inspect.Parameter("name", given, default=None))
        for attr in spec.attrs.values():
            if attr.name not in told:
                default = inspect.Parameter.empty if attr.default is MISSING else attr.default
                parameters.append(inspect.Parameter(attr.name, named, default=default))
        return inspect.Signature(parameters)


class OpSpec:
    """Everything about one op; calling it adds a node to the default graph.

    `gradient` is None (none registered: asking for one raises LookupError), `NO_GRADIENT`, or a
    function ``(op, *output_gradients) -> gradient or tuple of gradients, None where there is none``.
    """

    def __init__(
        self,
        name: str,
        inputs: str,
        outputs: str,
        attrs: str,
        *,
        kernel: Callable[..., Any] | None,
        shape: ShapeFn | None,
        traits: Traits = NONE,
        bare: str | None = None,
        differentiable: bool = True,
        where: str = "",
    ) -> None:
        """See `op`.  where: the file and line of its block."""
        self.name = name
        self._texts = (inputs, outputs, attrs)
        self.kernel = kernel
        self.shape_fn = shape
        self.traits = frozenset(traits)
        self.foldable = self.traits.isdisjoint(_NOT_FOLDED)
        self.bare = bare
        self.differentiable = differentiable
        self._ragged: Any = next(
            (how for each, how in _RAGGED.items() if each in self.traits), None
        )
        self.where = where
        self.gradient_fn: Gradient | None = None
        self.into_fn: Callable[..., Any] | None = None
        self.alike_fn: Callable[..., Any] | None = None
        self.knowing_fn: Knowing | None = None
        self.same_fn: Same | None = None
        self.prompt_fn: Prompt | None = None
        self.unread_fn: Callable[..., Any] | None = None
        self.finish_fn: Callable[[Any], Any] | None = None
        self.expand_fn: Callable[..., Any] | None = None
        self.ahead_fn: Callable[..., Any] | None = None
        self._making: Making | None = None
        self._takes_others = self._ragged is not None or OF_SPARSE in self.traits

    @property
    def making(self) -> Making:
        """What adding a node has to know, found when the first one is added."""
        found = self._making
        if found is None:
            found = self._making = Making(self)
        return found

    @cached_property
    def inputs(self) -> tuple[ArgDef, ...]:
        """Parsed from the schema when first asked for."""
        return tuple(_listed(arg, self.attrs) for arg in parse_args(self._texts[0]))

    @cached_property
    def outputs(self) -> tuple[ArgDef, ...]:
        """See `inputs`."""
        return tuple(_listed(arg, self.attrs) for arg in parse_args(self._texts[1]))

    @cached_property
    def attrs(self) -> dict[str, AttrDef]:
        """See `inputs`; by name."""
        return parse_attrs(self._texts[2])

    @cached_property
    def single_inputs(self) -> bool:
        """Whether every input is one plain tensor: no lists, no references."""
        return not any(definition.is_list or definition.is_ref for definition in self.inputs)

    @cached_property
    def single_places(self) -> dict[str, int]:
        """Of the inputs before a list, and of the first list: their positions, by name."""
        found = {}
        for place, definition in enumerate(self.inputs):
            found[definition.name] = place
            if definition.is_list:
                break
        return found

    @cached_property
    def takes_ref(self) -> bool:
        """Whether an input is a reference."""
        return self.making.takes_ref

    @cached_property
    def single_output(self) -> bool:
        """Whether the op has one output, which is no list: the kernel returns it as it is."""
        return self.making.output is not None

    @cached_property
    def outputs_type(self) -> Any:
        """The named tuple of several outputs, called like the op."""
        return namedtuple(self.name, [output.name for output in self.outputs], rename=True)

    @cached_property
    def takes_ctx(self) -> bool:
        """True when the kernel's first parameter asks for the runtime instead of `xp`."""
        return self._parameters[0].name == "ctx"

    @cached_property
    def kernel_attrs(self) -> tuple[str, ...]:
        """The attrs that the kernel wants as keyword arguments."""
        return tuple(p.name for p in self._parameters if p.kind is p.KEYWORD_ONLY)

    @property
    def ahead_attrs(self) -> tuple[str, ...]:
        """The attrs that `ahead_fn` wants as keyword arguments."""
        assert self.ahead_fn is not None
        parameters = inspect.signature(self.ahead_fn).parameters.values()
        return tuple([each.name for each in parameters if each.kind is each.KEYWORD_ONLY])

    @property
    def _parameters(self) -> list[inspect.Parameter]:
        assert self.kernel is not None, f"op {self.name} has no kernel"
        return list(inspect.signature(self.kernel).parameters.values())

    # What an op lends to others beside its kernel: ``@that.gradient`` and so on, below the block.  The functions are in
    # `gradient_fn` and so on; None where there is none.

    def gradient(self, function: Gradient) -> Gradient:
        """Decorator: the gradient, as `OpSpec` says."""
        return self._lend("gradient_fn", function)

    def ragged_by(self, module: str, function: str) -> None:
        """Called with ragged tensors, the op is made of others by that function, as of `graph.ragged.of_ragged_by`."""
        TAKING_RAGGED.add(function)
        self._ragged = (module, function)
        self._takes_others = True

    def into(self, function: F) -> F:
        """Decorator: an elementwise kernel's work where attrs are at their defaults, or what an assignment makes of
        the variable's elements and those of the value; its last parameter is `out`.
        """
        return self._lend("into_fn", function)

    def alike(self, function: F) -> F:
        """Decorator: a kernel whose result, of equal elements, has one of them in memory, for who can use that."""
        return self._lend("alike_fn", function)

    def knowing(self, function: Knowing) -> Knowing:
        """Decorator: (operation, its inputs where they are constants, else None) -> a kernel of all inputs that uses
        that, or None.
        """
        return self._lend("knowing_fn", function)

    def same(self, function: Same) -> Same:
        """Decorator: (operation, its inputs where they are constants, else None) -> the input that its only output is
        equal to, bit by bit, or None.
        """
        return self._lend("same_fn", function)

    def prompt(self, function: Prompt) -> Prompt:
        """Decorator: (attrs, which inputs nobody will ever change) -> the kernel of a node that may wait, which gives
        its result itself, not a Pending, if that is there at once.
        """
        return self._lend("prompt_fn", function)

    def unread(self, function: F) -> F:
        """Decorator: the kernel that gives values which are still in their file, or takes one into a variable.

        That of who gives them has one more attr, `unread`: for each output whether it may be left there.
        """
        return self._lend("unread_fn", function)

    def finish(self, function: F) -> F:
        """Decorator: what a Pending of the kernel gives -> what the kernel would have given."""
        return self._lend("finish_fn", function)

    def expand(self, function: F) -> F:
        """Decorator: (where its nodes go, the node) -> what stands for a node that calls functions; see
        `graph.expansion`.
        """
        return self._lend("expand_fn", function)

    def takes_ahead(self, function: F) -> F:
        """Decorator: (ctx, inputs…; attrs) -> an array of all that the kernel asks of the runtime in a step.

        Given that as one more input it asks nothing, so that it may run elsewhere and later (`plan.draws`).
        """
        return self._lend("ahead_fn", function)

    def _lend(self, what: str, function: F) -> F:
        if getattr(self, what) is not None:
            raise ValueError(f"op {self.name} has a {what} already")
        setattr(self, what, function)
        return function

    def __call__(self, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
        """Add a node: `inputs` in the order of the schema (lists where it says ``N * T``) or by name, then `name`.

        Returns the output tensor, a list of them when the schema says so, a named tuple when it has several outputs,
        or the Operation when it has none.  Raises TypeError or ValueError on a bad input or attr.
        """
        if len(inputs) != (self._making or self.making).count:
            inputs, name = self._arranged(inputs, name, attrs)
        if self._takes_others:
            found = self._of_others(inputs, attrs, name)
            if found is not NotImplemented:
                return found
        return _apply()(self, inputs, attrs, name)

    def _of_others(self, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        """What is made of ragged and sparse tensors; NotImplemented if there are none among the inputs."""
        if self._ragged is not None and any_ragged(inputs):
            if isinstance(self._ragged, tuple):
                named = {arg.name: each for arg, each in zip(self.inputs, inputs, strict=True)}
                module, function = self._ragged
                return getattr(import_module(module), function)(self, named)
            return ELEMENTWISE[self._ragged](self, inputs, {"name": name, **attrs})
        if OF_SPARSE in self.traits and inputs[0].__class__ is not Tensor:
            from headrace.graph.sparse import SparseTensor, of_values

            if isinstance(inputs[0], SparseTensor):
                if attrs:
                    raise TypeError(f"op {self.name} has no attr {min(attrs)!r}")
                return of_values(self, inputs[0], name, self.name)
        return NotImplemented

    def _arranged(
        self, inputs: tuple[Any, ...], name: str | None, attrs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], str | None]:
        """The inputs, of which some may stand in `attrs` by their names, and the name, which may come last."""
        count = len(self.inputs)
        if len(inputs) == count + 1 and name is None and isinstance(inputs[-1], str | None):
            return inputs[:-1], inputs[-1]
        rest = [arg.name for arg in self.inputs[len(inputs) :]]
        if not attrs.keys() >= set(rest):
            return inputs, name
        return (*inputs, *[attrs.pop(each) for each in rest]), name

    __signature__ = _SignatureOf()

    def __repr__(self) -> str:
        return f"<op {self.name}>"


@cache
def _apply() -> Callable[..., Any]:
    from headrace.graph.build import apply  # a statement that takes a microsecond of each node's 30

    return apply


def _listed(arg: ArgDef, attrs: dict[str, AttrDef]) -> ArgDef:
    if arg.type_attr is not None and attrs[arg.type_attr].kind == "list(type)":
        return ArgDef(arg.name, type_list_attr=arg.type_attr, is_ref=arg.is_ref)
    return arg


class Registry(dict[str, OpSpec]):
    """All ops by name, also those that no file has registered yet: `rest` is called before one is said not to be there.

    A file of ops may ask while it is imported for ops of files that it imports, and for no others.
    """

    rest: Callable[[], None] | None = None
    """Imports the files of ops that have not been imported; None once all are here."""

    _lock = threading.RLock()

    def complete(self) -> Registry:
        """This, with all ops.  Waits for a thread that is importing them."""
        if self.rest is not None:
            with self._lock:
                if self.rest is not None:
                    self.rest()
                    self.rest = None
        return self

    def __missing__(self, name: str) -> OpSpec:
        found: OpSpec | None = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None, /) -> Any:
        """The op, after all files were imported if it is not among those here."""
        found = super().get(name)
        if found is None and self.rest is not None:
            found = super(Registry, self.complete()).get(name)
        return default if found is None else found

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or super(Registry, self.complete()).__contains__(name)

    def __iter__(self) -> Iterator[str]:
        return super(Registry, self.complete()).__iter__()

    def __len__(self) -> int:
        return super(Registry, self.complete()).__len__()

    def keys(self) -> dict_keys[str, OpSpec]:
        """Names of all ops, which imports files that nobody has asked for yet."""
        return super(Registry, self.complete()).keys()

    def values(self) -> dict_values[str, OpSpec]:
        """See `keys`."""
        return super(Registry, self.complete()).values()

    def items(self) -> dict_items[str, OpSpec]:
        """See `keys`."""
        return super(Registry, self.complete()).items()


OPS = Registry()


def register(spec: OpSpec) -> OpSpec:
    """Add `spec`; a second op of that name is a programming error that names both places."""
    other = dict.get(OPS, spec.name)
    if other is not None:
        raise ValueError(
            f"op {spec.name} is registered twice: at {other.where} and at {spec.where}"
        )
    OPS[spec.name] = spec
    return spec


def op(
    name: str,
    *,
    inputs: str = "",
    outputs: str = "",
    attrs: str = "",
    shape: ShapeFn | None = None,
    traits: Traits = NONE,
    bare: str | None = None,
    differentiable: bool = True,
) -> Callable[[Callable[..., Any]], OpSpec]:
    """Decorator over a kernel: registers the op and returns its `OpSpec`.

    shape: static shapes from the node; None means unknown.
    traits: what the op says of itself (`headrace.base.traits`).
    bare: the name in `xp` of a function that is the whole kernel.
    differentiable=False: gradients stop here silently, as for an integer function.
    """

    def decorate(kernel: Callable[..., Any]) -> OpSpec:
        code = kernel.__code__
        where = f"{code.co_filename}:{code.co_firstlineno}"
        spec = OpSpec(
            name,
            inputs,
            outputs,
            attrs,
            kernel=kernel,
            shape=shape,
            traits=traits,
            bare=bare,
            differentiable=differentiable,
            where=where,
        )
        spec.__doc__ = kernel.__doc__
        return register(spec)

    return decorate


def get(name: str) -> OpSpec:
    """The spec of op `name`.  Raises KeyError."""
    return OPS[name]


def traits_of(name: str | None) -> frozenset[Trait]:
    """The traits of op `name`; none of one that is not known."""
    spec: OpSpec | None = OPS.get(name) if name else None
    return NONE if spec is None else spec.traits


def flat_arg_index(spec: OpSpec, arg: str) -> int:
    """Position of the single-tensor input `arg` among the inputs, counted from the front.

    Raises KeyError if there is none, ValueError if a list comes before it.
    """
    found = spec.single_places.get(arg)
    if found is not None:
        return found
    if any(definition.name == arg for definition in spec.inputs):
        raise ValueError(f"{spec.name}.{arg} comes after a list input")
    raise KeyError(arg)


def specs() -> Iterator[OpSpec]:
    """All registered ops."""
    return iter(OPS.values())
