"""The scopes that are in force while a graph is built: devices, control inputs, colocation, containers, attrs.

They are the graph's, so every thread that builds it is inside of them, but for name scopes: those are each thread's.
After `Graph.switch_to_thread_local` devices, control inputs and colocation are each thread's own, too.
Called by: graph.graph (of whose class this is a part), ops, training, users.  Threads: as above.
Source of scoping and merging rules: TF 1.15 behaviour, checked against the oracle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from headrace.base import device as devices
from headrace.graph import blocks
from headrace.graph.blocks import Controller
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor

DeviceFunction = Callable[[Operation], Any]


class _Stacks:
    """Device, colocation and control-input scopes."""

    def __init__(
        self,
        devices: Sequence[str | DeviceFunction | None] = (),
        colocation: Sequence[Operation] = (),
        controllers: Sequence[Controller] = (),
    ) -> None:
        self.devices = list(devices)
        self.colocation = list(colocation)
        self.controllers = list(controllers)


class _ThreadStacks(_Stacks, threading.local):
    """Those of each thread, which begin as those of the graph were."""


class _Here(threading.local):
    """Of each thread.  where: what nodes are made for, if that is known; else it is looked for, frame by frame."""

    scope = ""
    where: tuple[str, int] | None = None


class GraphScopes:
    """The part of `Graph` that its scopes are."""

    def __init__(self) -> None:
        super().__init__()
        self._stacks = _Stacks()
        self._names_here = _Here()
        self._container = ""
        self._attr_scopes: dict[str, Any] = {}
        self._kernel_labels: dict[str, str] = {}
        self._gradient_overrides: dict[str, str] = {}
        self._default_original_op: Operation | None = None
        self._control_flow_context: Any = None

    def switch_to_thread_local(self) -> None:
        """From now on device, control-input and colocation scopes are those of the thread that enters them.

        Other threads begin with the scopes that the graph is in now.
        """
        if not isinstance(self._stacks, _ThreadStacks):
            now = self._stacks
            self._stacks = _ThreadStacks(now.devices, now.colocation, now.controllers)

    @property
    def _stack_state_is_thread_local(self) -> bool:
        return isinstance(self._stacks, _ThreadStacks)

    @property
    def _name_stack(self) -> str:
        return self._names_here.scope

    @_name_stack.setter
    def _name_stack(self, scope: str) -> None:
        self._names_here.scope = scope

    @property
    def _device_stack(self) -> list[str | DeviceFunction | None]:
        return self._stacks.devices

    @_device_stack.setter
    def _device_stack(self, entries: list[str | DeviceFunction | None]) -> None:
        self._stacks.devices = entries

    @property
    def _controllers(self) -> list[Controller]:
        return self._stacks.controllers

    # -- what they do to a node ---------------------------------------------------------------

    def _scope_controls(self, inputs: list[Tensor]) -> list[Operation]:
        """Control inputs from the scopes, leaving out those that an input already waits for."""
        return self._controls_beside({tensor.op for tensor in inputs if tensor is not None})

    def _controls_beside(self, input_ops: set[Operation]) -> list[Operation]:
        found: list[Operation] = []
        for controller in self._controllers:
            if controller.seen and not controller.seen.isdisjoint(input_ops):
                continue
            found.extend(op for op in controller.inputs if op not in input_ops and op not in found)
        return found

    def _apply_device(self, op: Operation) -> None:
        device = ""
        for entry in reversed(self._device_stack):
            if entry is None:
                break
            if callable(entry):
                # A device function sees what the scopes inside it asked for, and answers whole.
                op.device = device
                device = _answered(entry(op))
            elif entry:
                device = devices.merge(entry, device)
        op.device = device

    def _apply_colocation(self, op: Operation) -> None:
        anchors, had = self._stacks.colocation, op.attrs.get("_class")
        device = ""
        if len(anchors) == 1 and not had:
            groups = anchors[0].colocation_groups()
            device = anchors[0].device
        else:
            groups = [*(had or ())]
            for anchor in anchors:
                groups += anchor.colocation_groups()
                device = anchor.device or device
        op.attrs["_class"] = sorted(set(groups)) if len(groups) > 1 else groups
        if device:
            op.device = device  # the innermost anchor's, whatever device scopes say

    def _seen_by_controls(self, op: Operation) -> None:
        """`op` waits for the scopes' control inputs, so what takes its outputs need not."""
        for controller in self._controllers:
            controller.seen.add(op)

    def _apply_attrs(self, op: Operation) -> None:
        """Attrs from `_attr_scope`, where the node does not have them.  Raises TypeError."""
        for key, value in self._attr_scopes.items():
            if key in op.attrs:
                continue
            if callable(value):
                value = value(op.node_def)
                if value is None:
                    continue
                if not hasattr(value, "WhichOneof"):
                    raise TypeError(
                        f"the function for attr {key!r} of _attr_scope must return an AttrValue or None, not "
                        f"{value!r:.80}"
                    )
                op._set_attr(key, value)
            else:
                op.attrs[key] = value
        label = self._kernel_labels.get(op.type)
        if label is not None:
            op.attrs["_kernel"] = label.encode()
        override = self._gradient_overrides.get(op.type)
        if override is not None:
            op.attrs["_gradient_op_type"] = override.encode()

    # -- entering them ------------------------------------------------------------------------

    def device(self: Any, device_name_or_function: Any) -> AbstractContextManager[None]:
        """Nodes made inside get this device; inner scopes override part by part, None clears.

        A function of an operation answers with the whole device, which is kept as it is spelled.
        """
        return blocks.Placed(self, device_name_or_function)

    def control_dependencies(
        self: Any, control_inputs: Iterable[Any] | None
    ) -> AbstractContextManager[None]:
        """Nodes made inside run after `control_inputs`; None clears the outer blocks."""
        return blocks.Controlled(self, control_inputs)

    def init_scope(self: Any) -> AbstractContextManager[None]:
        """Nodes made inside are outside of conditionals and loops, and wait for nothing; names stay.

        Device scopes that a colocation hides come back, if it is in another init_scope or this graph's `as_default`.
        """
        return blocks.Lifted(self)

    def colocate_with(
        self: Any, op: Any, ignore_existing: bool = False
    ) -> AbstractContextManager[None]:
        """Nodes made inside are placed with `op`; None clears."""
        return blocks.Colocated(self, op, ignore_existing)

    def _together_with(self: Any, ops: Sequence[Operation]) -> AbstractContextManager[None]:
        """As `colocate_with` each of these nodes."""
        return blocks.Together(self, ops)

    @contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Stateful nodes made inside keep their state in this container."""
        old = self._container
        self._container = container_name
        try:
            yield container_name
        finally:
            self._container = old

    @contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Inside, ops of these types use the gradient registered under another name."""
        if not isinstance(op_type_map, dict) or not all(
            isinstance(name, str) for pair in op_type_map.items() for name in pair
        ):
            raise TypeError(
                "op_type_map must be a dictionary mapping strings to strings: op types to names of gradients"
            )
        saved = self._gradient_overrides
        self._gradient_overrides = {**saved, **op_type_map}
        try:
            yield
        finally:
            self._gradient_overrides = saved

    @contextmanager
    def _attr_scope(self, attr_map: dict[str, Any]) -> Iterator[None]:
        """Nodes made inside get these attrs, unless they have them anyway.

        attr_map: from a name to an AttrValue, to a function of a NodeDef that gives one or None, or to None, which
        takes an outer scope's back.  Raises TypeError, KeyError (nothing to take back).
        """
        fits = isinstance(attr_map, dict) and all(
            isinstance(name, str)
            and (value is None or callable(value) or hasattr(value, "WhichOneof"))
            for name, value in attr_map.items()
        )
        if not fits:
            raise TypeError(
                "attr_map must be a dict from attr names to AttrValue protos, functions that give one, or None, not "
                f"{attr_map!r:.80}"
            )
        from headrace.graph.attrs import from_proto

        saved = self._attr_scopes
        inside = dict(saved)
        for name, value in attr_map.items():
            if value is None:
                del inside[name]
            else:
                inside[name] = value if callable(value) else from_proto(value)
        self._attr_scopes = inside
        try:
            yield
        finally:
            self._attr_scopes = saved

    @contextmanager
    def _kernel_label_map(self, op_to_kernel_label_map: dict[str, str]) -> Iterator[None]:
        """Nodes of these types made inside ask for the kernel with this label; '' is the usual one.

        headrace's ops have one kernel each, so a step with a node that asks for another is refused.
        Raises TypeError.
        """
        if not isinstance(op_to_kernel_label_map, dict) or not all(
            isinstance(name, str) for pair in op_to_kernel_label_map.items() for name in pair
        ):
            raise TypeError(
                "op_to_kernel_label_map must be a dict from op type to label, all strings"
            )
        saved = self._kernel_labels
        self._kernel_labels = {**saved, **op_to_kernel_label_map}
        try:
            yield
        finally:
            self._kernel_labels = saved

    def _original_op(self: Any, op: Operation) -> AbstractContextManager[None]:
        """Nodes made inside are noted to come from `op`, as `_original_op` of theirs."""
        return blocks.MadeFor(self, op)

    def _located(self: Any, where: tuple[str, int] | None) -> AbstractContextManager[None]:
        """Nodes made inside are built at this file and line; None: where their callers are.

        For many nodes of one call, around code of headrace that calls nobody else's.
        """
        return blocks.Located(self, where)


def _answered(device: Any) -> str:
    """The text that a device function returned.  Raises TypeError if that is no device."""
    text = getattr(device, "to_string", lambda: device)()
    if isinstance(text, bytes):
        text = text.decode()
    if not isinstance(text, str):
        raise TypeError(
            f"a device function must return a device string or a DeviceSpec, not {device!r}; "
            "return op.device to leave a node where it is"
        )
    return text
