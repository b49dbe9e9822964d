"""Expansion: nodes that call functions, replaced by what they call.

An `Expansion` copies nodes into a graph of its own and asks each node that calls functions (`CALLS_FUNCTION`) to put
there what it stands for instead: the body of a function, or branches and loops of Switch, Merge and Enter around bodies
(`OpSpec.expand`).  So whoever plans, places and runs steps sees no calls, and a function costs what its nodes cost.
Within its own body a function is not put again: there its call is one node still, which runs it as a step of its own
(`ops.flow.step_calls`).
A node of a body is called ``call/node``, has the device that it asks for or else that of the call, and, if it does
more than compute, waits for what the call waits for and runs whenever the call would.
Called by: plan.wanted, graph.function_gradients.  Threads: as who plans; what is read must not change meanwhile.
Source of names and order: what TF 1.15's core/common_runtime/function.cc and lower_if_while.cc make, for behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.device import merge as merged_device
from headrace.base.traits import (
    CALLS_FUNCTION,
    CALLS_USER,
    CONTROL_FLOW,
    ENTER,
    MAY_WAIT,
    NEXT_ITERATION,
)
from headrace.codec import protos as pb
from headrace.graph import registry
from headrace.graph.attrs import to_proto
from headrace.graph.build import add_node
from headrace.graph.function_instances import referring
from headrace.graph.function_library import Body, Function, has_effects, reaches
from headrace.graph.graph import Graph
from headrace.graph.handles import behind
from headrace.graph.operation import Operation, infer_shapes
from headrace.graph.tensor import Tensor

_DEEPEST = 100
"""So many calls inside each other become nodes; those inside them are made when the step runs."""

MOST_NODES = 1 << 20
"""So many nodes may calls become: a few functions that call each other twice would fill any memory."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a call has become: its outputs, and what has run when all that it does is done (if nothing, its outputs)."""

    outputs: Sequence[Tensor]
    done: Sequence[Operation] = ()


class Site:
    """Where the nodes go that a call becomes.

    name: of the call, and what their names begin with.  inputs: of the call.  controls: what it waits for.
    pivot: in a branch or loop, what nodes without inputs wait for so that they are in it, too.
    """

    def __init__(
        self,
        to: Expansion,
        name: str,
        device: str,
        inputs: Sequence[Tensor],
        controls: Sequence[Operation],
        pivot: Operation | None,
        within: Sequence[Function],
        where: Any,
    ) -> None:
        """within: the functions in whose bodies the call is, the outermost first."""
        self._to, self.name, self.device = to, name, device
        self.inputs, self.controls, self.pivot = inputs, controls, pivot
        self._within, self._where = within, where

    @property
    def graph(self) -> Graph:
        """That they are in."""
        return self._to.graph

    def node(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        name: str,
        controls: Sequence[Operation] = (),
        beside: Operation | None = None,
        **attrs: Any,
    ) -> Operation:
        """One more node, of op `kind`; placed with `beside` instead of with the call."""
        spec = registry.get(kind)
        waits = [*controls] if inputs or self.pivot is None else [*controls, self.pivot]
        if beside is not None:
            attrs["_class"] = [b"loc:@" + beside.name.encode()]
        op = add_node(
            self.graph,
            spec,
            self._to.free_name(f"{self.name}/{name}"),
            list(inputs),
            attrs,
            control_inputs=waits,
            device=self.device if beside is None else beside.device,
            apply_scopes=False,
        )
        op._where = self._where
        infer_shapes(op)
        return op

    def inside(self, part: str, controls: Sequence[Operation], pivot: Operation | None) -> Site:
        """The same in a branch or in a part of a loop."""
        return Site(
            self._to,
            f"{self.name}/{part}" if part else self.name,
            self.device,
            self.inputs,
            controls,
            pivot,
            self._within,
            self._where,
        )

    def body(self, function: Function, inputs: Sequence[Tensor]) -> Replaced:
        """The nodes of a function's body, copied here with these arguments.

        Inside its own body, which would never end to be copied, there is one node that calls it in the step.
        """
        body = function.body
        if len(inputs) != len(body.inputs):
            raise errors.invalid_argument(
                f"Expected {len(body.inputs)} arguments of the function that {self.name!r} calls, but got "
                f"{len(inputs)}",
                node=self.name,
            )
        inlined = _Inlined(self._to, self, (*self._within, function))
        inlined.take(body, inputs)
        if function in self._within or len(self._within) >= _DEEPEST:
            return self._called(function, inputs)
        return inlined.run(body)

    def _called(self, function: Function, inputs: Sequence[Tensor]) -> Replaced:
        body = function.body
        effects = bool(body.effects())
        waits = reaches(function, {MAY_WAIT, CALLS_USER})
        kind = "StatefulPartitionedCall" if effects else "PartitionedCall"
        op = self.node(
            "HeadraceWaitingCall" if waits else kind,
            inputs,
            "call",
            self.controls if effects or waits else (),
            f=function.reference,
            Tin=[tensor.dtype.base_dtype for tensor in inputs],
            Tout=[tensor.dtype.base_dtype for tensor in body.outputs],
        )
        for tensor, inside in zip(op.outputs, body.outputs, strict=True):
            tensor._raw = inside._raw
        return Replaced(op.outputs, [op] if effects or waits else [])


class Expansion:
    """See the module header.  graph: where the copies are."""

    def __init__(self, most: int = MOST_NODES, inside: Function | None = None) -> None:
        """most: nodes that it may have.  inside: the function whose body is copied, if it is one's."""
        self._most = most
        self._within: tuple[Function, ...] = () if inside is None else (inside,)
        self.graph = Graph()
        self.graph.has_runtime_names = True
        self.graph.infer_shapes = False
        self.graph.strict_shapes = False
        self.effects: list[Operation] = []
        """What runs because a call does, whichever outputs are wanted."""
        self.copies: dict[Operation, Operation] = {}
        """Of the nodes of the program that call nothing."""
        self._tensors: dict[Tensor, Tensor] = {}
        self._done: dict[Operation, Sequence[Operation]] = {}
        self._taken: set[str] = set()
        self._flows = False

    # -- the nodes of a program ---------------------------------------------------------------

    def copy(
        self,
        ops: Sequence[Operation],
        controls: Mapping[Operation, Sequence[Operation]],
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
    ) -> None:
        """Copy `ops`, inputs first but for what closes a loop, and the nodes of what is fed."""
        graphs = {op.graph for op in ops} | {tensor.graph for tensor in feeds}
        for graph in graphs:
            self.graph.share_library(graph)
        self._taken.update(op.name for op in ops)
        self._flows = any(CONTROL_FLOW in op.traits for op in ops)
        known = set(ops)
        fed = set(feeds)
        for tensor in feeds:
            if tensor.op not in known:
                self._stand_in(tensor.op)
        later: list[tuple[Operation, int, Tensor]] = []
        named = fed.union(fetches)
        for op in ops:
            if CALLS_FUNCTION in op.traits:
                self._replace(op, controls[op], named)
            else:
                self._copy(op, controls[op], later)
        self._close(later)

    def _stand_in(self, op: Operation) -> None:
        """A node whose outputs are fed does not run: its inputs do not matter."""
        if op in self._done:
            return
        copy = self._added(op, op.name, [], [], op.device)
        self._map(op, copy)

    def _copy(
        self,
        op: Operation,
        controls: Iterable[Operation],
        later: list[tuple[Operation, int, Tensor]],
    ) -> None:
        inputs = [self._tensors.get(tensor) for tensor in op.inputs]
        waits = [each for control in controls for each in self._done.get(control, ())]
        copy = self._added(op, op.name, inputs, waits, op.device)
        later.extend((copy, at, op.inputs[at]) for at, found in enumerate(inputs) if found is None)
        self._map(op, copy)

    def _map(self, op: Operation, copy: Operation) -> None:
        self._done[op] = (copy,)
        self.copies[op] = copy
        for tensor, other in zip(op.outputs, copy.outputs, strict=True):
            other._raw = tensor._raw
            self._tensors[tensor] = other

    def _added(
        self,
        op: Operation,
        name: str,
        inputs: Sequence[Tensor | None],
        controls: Sequence[Operation],
        device: str,
    ) -> Operation:
        made = self.graph.add_operation(
            name,
            op.type,
            op.spec,
            list(inputs),  # type: ignore[arg-type]
            op.attrs,
            [tensor._dtype for tensor in op.outputs],
            control_inputs=list(dict.fromkeys(controls)),
            device=device,
            apply_scopes=False,
        )
        made._where = op._where
        return made

    def _close(self, later: Iterable[tuple[Operation, int, Tensor]]) -> None:
        """Give inputs that come from later nodes to those that take them."""
        for op, at, tensor in later:
            op.inputs[at] = None  # type: ignore[call-overload]
            op._set_input(at, self._tensors[tensor])

    def _replace(self, op: Operation, controls: Iterable[Operation], named: set[Tensor]) -> None:
        """What a call of the program stands for; outputs that are fed or fetched keep their names."""
        waits = [each for control in controls for each in self._done.get(control, ())]
        inputs = [self._tensors[tensor] for tensor in op.inputs]
        site = Site(self, op.name, op.device, inputs, waits, None, self._within, op._where)
        if self._flows:
            site.pivot = self._pivot(site)
        found = self._expanded(site, op)
        if has_effects(op):
            self.effects.extend(found.done)
        self._done[op] = found.done
        for tensor, other in zip(op.outputs, found.outputs, strict=True):
            self._tensors[tensor] = other
        kept = [tensor for tensor in op.outputs if tensor in named]
        if kept:
            self._keep_names(op, kept)

    def _pivot(self, site: Site) -> Operation | None:
        """What is there when the call is made, in its branch and iteration; None if nothing says when that is."""
        for tensor in site.inputs:
            if not tensor.dtype._is_ref_dtype:
                return site.node("Identity", [tensor], "pivot", T=tensor.dtype.base_dtype)
        return site.controls[0] if site.controls else None

    def _keep_names(self, op: Operation, kept: Sequence[Tensor]) -> None:
        """A node of the call's name that hands on those of its outputs; what it gives at other places nobody takes."""
        values = [self._tensors[kept[0]]] * len(op.outputs)
        for tensor in kept:
            values[tensor.value_index] = self._tensors[tensor]
        first = values[kept[0].value_index].op
        made = add_node(
            self.graph,
            registry.get("IdentityN"),
            op.name,
            values,
            {
                "T": [each.dtype.base_dtype for each in values],
                "_class": [b"loc:@" + first.name.encode()],
            },
            device=first.device,
            apply_scopes=False,
        )
        made._where = op._where
        for tensor in kept:
            other = made.outputs[tensor.value_index]
            other._raw = self._tensors[tensor]._raw
            self._tensors[tensor] = other

    def free_name(self, name: str) -> str:
        """`name`, or one like it that nothing has, for one more node.  Raises ResourceExhausted (too many)."""
        if len(self.graph) >= self._most:
            raise errors.resource_exhausted(
                f"the functions that a step calls have more than {self._most} nodes, each call's counted; "
                f"{name[:200]!r} would be one more",
                node=name[:200],
            )
        found, count = name, 0
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found

    def tensor(self, tensor: Tensor) -> Tensor:
        """What a tensor of the program has become."""
        return self._tensors[tensor]

    def done(self, op: Operation) -> Sequence[Operation]:
        """What has run when a node of the program has."""
        return self._done[op]

    # -- the nodes of functions ---------------------------------------------------------------

    def _expanded(self, site: Site, op: Operation) -> Replaced:
        assert op.spec is not None
        if op.spec.expand_fn is None:
            raise errors.unimplemented(
                f"{op.name!r} ({op.type}) calls a function in a way that headrace does not have",
                node=op.name,
                op_type=op.type,
                built_at=op.built_at,
            )
        found: Replaced = op.spec.expand_fn(site, op)
        if not found.done:
            found = Replaced(found.outputs, list({tensor.op: None for tensor in found.outputs}))
        if site.controls and op.control_inputs:
            return _after(site, found)
        return found


def _after(site: Site, found: Replaced) -> Replaced:
    """What a call has become whose outputs are there, whatever they are made of, after what the call waits for."""
    outputs = []
    for at, tensor in enumerate(found.outputs):
        kind = tensor.dtype.base_dtype
        if kind is not dtypes.resource:
            passed = site.node("Identity", [tensor], f"output{at}", site.controls, T=kind)
            passed.outputs[0]._raw = tensor._raw
            tensor = passed.outputs[0]
        outputs.append(tensor)
    return Replaced(outputs, list(dict.fromkeys((*found.done, *site.controls))))


class _Inlined:
    """One body that is being copied to a site."""

    def __init__(self, to: Expansion, site: Site, within: Sequence[Function]) -> None:
        """within: the functions around its nodes, its own last."""
        self._to, self._site, self._within = to, site, within
        self._tensors: dict[Tensor, Tensor] = {}
        self._done: dict[Operation, Sequence[Operation]] = {}
        self._names: dict[bytes, bytes] = {}

    def take(self, body: Body, arguments: Sequence[Tensor]) -> None:
        for inside, outside in zip(body.inputs, arguments, strict=True):
            if inside.dtype.base_dtype is not outside.dtype.base_dtype:
                raise errors.invalid_argument(
                    f"Expected input of type {inside.dtype.base_dtype.name} for argument {inside.op.name!r} of the "
                    f"function that {self._site.name!r} calls, but got {outside.dtype.base_dtype.name}",
                    node=self._site.name,
                )
            self._tensors[inside] = outside
            self._done[inside.op] = (outside.op,)

    def run(self, body: Body) -> Replaced:
        later: list[tuple[Operation, int, Tensor]] = []
        effects = body.effects()
        for op in _inputs_first(body.graph.get_operations()):
            if op in self._done:
                continue
            if CALLS_FUNCTION in op.traits:
                self._replace(op)
            else:
                self._copy(op, later)
        for copy, at, tensor in later:
            copy.inputs[at] = None  # type: ignore[call-overload]
            copy._set_input(at, self._tensors[tensor])
        outputs = [self._tensors[tensor] for tensor in body.outputs]
        done = list(dict.fromkeys(each for op in effects for each in self._done[op]))
        return Replaced(outputs, done)

    def _waits(self, op: Operation) -> list[Operation]:
        site = self._site
        waits = [each for control in op.control_inputs for each in self._done[control]]
        if site.pivot is not None and not waits and not op.inputs:
            waits.append(site.pivot)
        if has_effects(op):
            waits.extend(site.controls)
        return waits

    def _replace(self, op: Operation) -> None:
        site = self._site
        inputs = [self._tensors[tensor] for tensor in op.inputs]
        name = self._to.free_name(f"{site.name}/{op.name}")
        device = merged_device(site.device, op.device)
        inner = Site(
            self._to,
            name,
            device,
            inputs,
            self._waits(op),
            site.pivot,
            self._within,
            op._where or site._where,
        )
        found = self._to._expanded(inner, op)
        self._done[op] = found.done
        self._tensors.update(zip(op.outputs, found.outputs, strict=True))

    def _copy(self, op: Operation, later: list[tuple[Operation, int, Tensor]]) -> None:
        site, to = self._site, self._to
        inputs = [self._tensors.get(tensor) for tensor in op.inputs]
        name = to.free_name(f"{site.name}/{op.name}")
        self._names[op.name.encode()] = name.encode()
        device = merged_device(site.device, op.device)
        copy = to._added(op, name, inputs, self._waits(op), device)
        copy.attrs = self._attrs(op)
        copy._where = op._where or site._where
        self._done[op] = (copy,)
        for tensor, other in zip(op.outputs, copy.outputs, strict=True):
            other._raw = tensor._raw
            self._tensors[tensor] = other
        if None in inputs:
            later.extend(
                (copy, at, op.inputs[at]) for at, found in enumerate(inputs) if found is None
            )
            return
        infer_shapes(copy)  # the arguments may say more than the function knew
        for tensor, other in zip(op.outputs, copy.outputs, strict=True):
            if shape_rules.compatible(tensor._raw, other._raw):
                other._raw = shape_rules.merge(tensor._raw, other._raw)
            else:
                other._raw = tensor._raw

    def _attrs(self, op: Operation) -> dict[str, Any]:
        """With names that are its own: of nodes that it is placed with, and of a loop."""
        attrs = op.attrs
        if "_class" in attrs:
            groups = [
                b"loc:@" + self._names[group[5:]]
                for group in attrs["_class"]
                if group.startswith(b"loc:@") and group[5:] in self._names
            ]
            attrs = {**attrs, "_class": groups}
        if ENTER in op.traits:
            attrs = {**attrs, "frame_name": self._site.name.encode() + b"/" + attrs["frame_name"]}
        return attrs


def _inputs_first(ops: Sequence[Operation]) -> Sequence[Operation]:
    """All of a graph's nodes, each after what it takes; a loop got more inputs if it was differentiated."""
    if all(
        source.id < op.id or NEXT_ITERATION in source.traits
        for op in ops
        for source in _sources(op)
    ):
        return ops
    found: dict[Operation, None] = {}
    for first in ops:
        waiting = [first]
        while waiting:
            op = waiting[-1]
            missing = [
                source
                for source in _sources(op)
                if source not in found and NEXT_ITERATION not in source.traits
            ]
            if missing and op not in found:
                waiting.extend(missing)
            else:
                found[waiting.pop()] = None
    return list(found)


def _sources(op: Operation) -> Iterator[Operation]:
    yield from (tensor.op for tensor in op.inputs)
    yield from op.control_inputs


# -- calls ------------------------------------------------------------------------------------


def call(site: Site, op: Operation) -> Replaced:
    """The `OpSpec.expand` of a node that calls the function of its type."""
    return site.body(op.graph.library.find(_callee(op, None), op.name), site.inputs)


def _callee(op: Operation, named: pb.NameAttrList | None) -> pb.NameAttrList:
    """How an attr names the function of a node: what one of its own says, or by its type, with what it is made for."""
    function = op.graph.library.get(op.type if named is None else named.name)
    name = op.type if named is None else named.name
    given: dict[str, pb.AttrValue] = {}
    for each in () if function is None else function.attrs:
        if named is not None and each.name in named.attr:
            given[each.name] = named.attr[each.name]
        elif named is None and each.name in op.attrs:
            given[each.name] = to_proto(op.attrs[each.name])
    return referring(name, given)


def called(op: Operation, attr: str) -> Function:
    """The function that an attr of a node names.  Raises NotFound."""
    reference = op.attrs[attr]
    assert isinstance(reference, pb.NameAttrList), f"{attr} of {op.name!r} is no function"
    return op.graph.library.find(reference, op.name)


def symbolic_gradient(op: Operation, grads: Sequence[Any]) -> Any:
    """The gradient of a call of a function, by its name or of the one in attr `f`: one SymbolicGradient node."""
    from headrace.graph.function_gradients import note_gradients

    taken = [
        registry.get("ZerosLike")(tensor, name="zeros_like") if grad is None else grad
        for tensor, grad in zip(op.outputs, grads, strict=True)
    ]
    types = []
    for tensor in op.inputs:
        known = behind(tensor)
        types.append(tensor.dtype.base_dtype if known is None else known[0])
    named = None if op.type in op.graph.library else op.attrs.get("f")
    reference = _callee(op, named)
    note_gradients(op.graph.library.find(reference, op.name))
    if "_disable_call_shape_inference" in op.attrs:
        reference.attr["_disable_call_shape_inference"].b = True
    return registry.get("SymbolicGradient")(
        [*op.inputs, *taken], Tout=types, f=reference, name="SymbolicGradient"
    )
