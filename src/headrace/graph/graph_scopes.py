"""The scopes that are in force while a graph is built: devices, control inputs, colocation, containers, attrs.

They are the graph's, so every thread that builds it is inside of them, but for name scopes: those are each thread's.
After `Graph.switch_to_thread_local` devices, control inputs and colocation are each thread's own, too.
Called by: graph.graph (of whose class this is a part), ops, training, users.  Threads: as above.
Source of scoping and merging rules: TF 1.15 behaviour, checked against the oracle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from headrace.base import device as devices
from headrace.graph import scopes
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from headrace.graph.graph import Graph

DeviceFunction = Callable[[Operation], Any]


class _Controller:
    """One `control_dependencies` block."""

    __slots__ = ("clears", "inputs", "seen")

    def __init__(self, inputs: list[Operation], clears: bool) -> None:
        self.inputs = inputs
        self.clears = clears
        self.seen: set[Operation] = set()


class _Stacks:
    """Device, colocation and control-input scopes."""

    def __init__(
        self,
        devices: Sequence[str | DeviceFunction | None] = (),
        colocation: Sequence[Operation] = (),
        controllers: Sequence[_Controller] = (),
    ) -> None:
        self.devices = list(devices)
        self.colocation = list(colocation)
        self.controllers = list(controllers)


class _ThreadStacks(_Stacks, threading.local):
    """Those of each thread, which begin as those of the graph were."""


class _NameStack(threading.local):
    scope = ""


class GraphScopes:
    """The part of `Graph` that its scopes are."""

    def __init__(self) -> None:
        super().__init__()
        self._stacks = _Stacks()
        self._names_here = _NameStack()
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
    def _colocation(self) -> list[Operation]:
        return self._stacks.colocation

    @_colocation.setter
    def _colocation(self, anchors: list[Operation]) -> None:
        self._stacks.colocation = anchors

    @property
    def _controllers(self) -> list[_Controller]:
        return self._stacks.controllers

    @_controllers.setter
    def _controllers(self, controllers: list[_Controller]) -> None:
        self._stacks.controllers = controllers

    @property
    def _this(self) -> Graph:
        return cast("Graph", self)

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
        groups: set[bytes] = set(op.attrs.get("_class", []))
        device = ""
        for anchor in self._colocation:
            groups.update(anchor.colocation_groups())
            device = anchor.device or device
        op.attrs["_class"] = sorted(groups)
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
        if self._default_original_op is not None:
            op._original_op = self._default_original_op

    # -- entering them ------------------------------------------------------------------------

    @contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Nodes made inside get this device; inner scopes override part by part, None clears.

        A function of an operation answers with the whole device, which is kept as it is spelled.
        """
        entry: str | DeviceFunction | None
        if device_name_or_function is None:
            entry = None
        elif callable(device_name_or_function):
            entry = device_name_or_function
        else:
            entry = devices.canonical(_device_text(device_name_or_function))
        self._device_stack.append(entry)
        try:
            yield
        finally:
            self._device_stack.pop()

    @contextmanager
    def control_dependencies(self, control_inputs: Sequence[Any] | None) -> Iterator[None]:
        """Nodes made inside run after `control_inputs`; None clears the outer blocks."""
        if control_inputs is None:
            saved, context = self._controllers, self._control_flow_context
            self._controllers, self._control_flow_context = [], None
            try:
                yield
            finally:
                self._controllers, self._control_flow_context = saved, context
            return
        ops: list[Operation] = []
        for item in control_inputs:
            if hasattr(item, "_handle") or (hasattr(item, "values") and hasattr(item, "indices")):
                item = item.op  # of a resource variable: what makes its handle, or what changed it
            element = self._this.as_graph_element(item)
            op = element.op if isinstance(element, Tensor) else element
            op.attrs.setdefault("_has_manual_control_dependencies", True)
            if op not in ops:
                ops.append(op)
        controller = _Controller(ops, clears=False)
        self._controllers = [*self._controllers, controller]
        try:
            yield
        finally:
            self._controllers = self._controllers[:-1]

    @contextmanager
    def init_scope(self) -> Iterator[None]:
        """Nodes made inside are outside of conditionals and loops, and wait for nothing; names stay.

        Device scopes that a colocation hides come back, if it is in another init_scope or this graph's `as_default`.
        """
        saved = self._device_stack
        hidden = scopes.device_stack_of_default()
        with scopes.graph_as_default(self._this), self.control_dependencies(None):
            self._device_stack = saved or hidden or []
            try:
                yield
            finally:
                self._device_stack = saved

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Nodes made inside are placed with `op`; None clears."""
        if op is None and not ignore_existing:
            raise ValueError("colocate_with(None) needs ignore_existing=True")
        saved = self._colocation
        anchor: Operation | None = None
        if op is not None:
            element = self._this.as_graph_element(
                getattr(op, "op", op) if not isinstance(op, str) else op
            )
            anchor = element.op if isinstance(element, Tensor) else element
        base = [] if ignore_existing else list(saved)
        # The anchor's device counts, and scopes outside this block do not.
        devices_before = self._device_stack
        self._device_stack = []
        if anchor is not None:
            base = [*base, anchor]
        self._colocation = base
        try:
            yield
        finally:
            self._colocation = saved
            self._device_stack = devices_before

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

    @contextmanager
    def _original_op(self, op: Operation) -> Iterator[None]:
        """Nodes made inside are noted to come from `op`, as `_original_op` of theirs."""
        saved = self._default_original_op
        self._default_original_op = op
        try:
            yield
        finally:
            self._default_original_op = saved


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


def _device_text(device: Any) -> str:
    if device is None:
        return ""
    to_string = getattr(device, "to_string", None)
    return str(to_string() if to_string is not None else device)
