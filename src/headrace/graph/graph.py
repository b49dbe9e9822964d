"""Graph: what the user wrote, in the order it was written.

A graph only grows.  Nodes are made by `graph.build` (from op calls) and `graph.graphdef` (import);
both end in `Graph.add_operation`, which gives the node its device, control inputs, colocation
and static shapes.
Called by: ops, plan, client, training.  Threads: a graph is built by one thread at a time (a lock
keeps names unique); sessions read it from any thread.
Source of naming, scoping and merging rules: TF 1.15 behaviour, checked against the oracle.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.blocks import Named
from headrace.graph.graph_scopes import GraphScopes
from headrace.graph.low_level import LowLevel
from headrace.graph.operation import Operation, infer_shapes, where_built
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor

__all__ = ["GRAPH_DEF_VERSION", "Graph", "Operation"]

GRAPH_DEF_VERSION = 2474
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0

FINALIZED = "Graph is finalized and cannot be modified. Nothing is added to it any more"
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*\Z")
_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.\\/>-]*\Z")
_NODE_NAMES: set[str] = set()
"""Names that `is_node_name` is true of: programs ask for the same ones again and again."""
_MOST_NAMES = 4096
_CHARACTERS = "letters, digits, '_', '.', '-', '/', '\\' and '>'"
_FIRST = f"it begins with a letter, a digit or '.', and goes on with {_CHARACTERS}"


def is_node_name(name: str) -> bool:
    """Whether a node of a program may be called so."""
    # As most are, which is seen at once.
    plain = name.isascii() and name.replace("/", "_").isidentifier()
    return (plain and name[0] not in "_/") or _NAME.match(name) is not None


class Graph(GraphScopes, LowLevel):
    """Nodes by name, and the scopes in force while it is built."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._ops: dict[str, Operation] = {}
        self._order: list[Operation] = []
        self._names: dict[str, int] = {}
        self._collections: dict[Any, list[Any]] = {}
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()
        self._finalized = False
        self.infer_shapes = True
        self.strict_shapes = True  # False: a node whose shapes cannot fit fails when it runs
        self.has_runtime_names = False  # names that begin with '_', which programs cannot give
        self.version = 0
        self._as_bytes: dict[bool, tuple[tuple[int, int], bytes]] = {}
        """By whether shapes are added: version and number of the nodes that were asked for last, as a GraphDef."""
        self.seed: int | None = None
        self._implicit_seeds = 0
        self.versions: dict[str, int] = {"producer": GRAPH_DEF_VERSION, "min_consumer": 0}

    # -- nodes ------------------------------------------------------------------------------

    def add_operation(
        self,
        name: str,
        op_type: str,
        spec: OpSpec | None,
        inputs: list[Tensor],
        attrs: dict[str, Any],
        output_types: Sequence[dtypes.DType],
        *,
        control_inputs: list[Operation] | None = None,
        device: str | None = None,
        apply_scopes: bool = True,
    ) -> Operation:
        """Make a node whose `name` is final and unique.

        With `apply_scopes` the device, control-dependency and colocation scopes in force apply.
        Raises ValueError (bad name, shapes that cannot fit), RuntimeError (finalized graph).
        """
        if self._finalized:
            raise RuntimeError(FINALIZED)
        if not is_node_name(name) and not (self.has_runtime_names or op_type.startswith("_")):
            raise ValueError(f"`{name}` is not a valid node name: {_FIRST}")
        with self._lock:
            if name in self._ops:
                raise ValueError(f"Duplicate node name in graph: {name!r} is there already")
            controls = [*control_inputs] if control_inputs else []
            stacks = self._stacks
            if apply_scopes and stacks.controllers:
                for extra in self._scope_controls(inputs):
                    if extra not in controls:
                        controls.append(extra)
            op = Operation(self, name, op_type, spec, inputs, controls, attrs, output_types)
            op._where = self._names_here.where or where_built()
            op.id = len(self._order)
            if self.infer_shapes and spec is not None and spec.shape_fn is not None:
                infer_shapes(op)  # device functions may ask for the shapes
            if device is not None:
                op.device = device
            elif stacks.devices:
                self._apply_device(op)
            if apply_scopes:
                if stacks.colocation:
                    self._apply_colocation(op)
                if self._default_original_op is not None:
                    op._original_op = self._default_original_op
                if self._attr_scopes or self._kernel_labels or self._gradient_overrides:
                    self._apply_attrs(op)
            inside = False  # whether an input comes from a branch or loop
            for tensor in inputs:
                if tensor is not None:
                    tensor._consumers.append(op)
                    if tensor.op._control_flow_context is not None:
                        inside = True
            if stacks.controllers:
                self._seen_by_controls(op)
            self._ops[name] = op
            self._order.append(op)
            self.version += 1
            if apply_scopes:
                context = op._control_flow_context = self._control_flow_context
                if inside:
                    from headrace.graph.control_flow import check_inputs

                    check_inputs(op)
                if context is not None:
                    context.add_op(op)
            return op

    def forget_operations_since(self, count: int) -> None:
        """Take back all nodes but the first `count`, which nothing has used yet."""
        with self._lock:
            for op in self._order[count:]:
                del self._ops[op.name]
                for tensor in op.inputs:
                    if tensor is not None and op in tensor._consumers:
                        tensor._consumers.remove(op)
            del self._order[count:]
            self.version += 1

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def get_operations(self) -> list[Operation]:
        """All nodes in the order they were made."""
        return list(self._order)

    def operations_since(self, count: int) -> list[Operation]:
        """Nodes made after the first `count`."""
        return self._order[count:]

    def __len__(self) -> int:
        return len(self._order)

    def __bool__(self) -> bool:
        return True

    def get_operation_by_name(self, name: str) -> Operation:
        """The node.  Raises KeyError, TypeError."""
        if not isinstance(name, str):
            raise TypeError(
                f"Operation names are strings (or similar), not {type(name).__name__}: {name!r:.80}"
            )
        element = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(element, Operation)
        return element

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor ``node:index``.  Raises KeyError, ValueError, TypeError."""
        if not isinstance(name, str):
            raise TypeError(
                f"Tensor names are strings (or similar), not {type(name).__name__}: {name!r:.80}"
            )
        element = self.as_graph_element(name, allow_operation=False)
        assert isinstance(element, Tensor)
        return element

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """The Tensor or Operation of this graph that `obj` (one, its name, a variable) means.

        Raises KeyError (no such name), ValueError (malformed, another graph's), TypeError.
        """
        if (
            (obj.__class__ is Operation and allow_operation)
            or (obj.__class__ is Tensor and allow_tensor)
        ) and obj.graph is self:
            return obj
        wanted = " or ".join(
            kind for kind, ok in (("Tensor", allow_tensor), ("Operation", allow_operation)) if ok
        )
        if not wanted:
            raise ValueError(
                "allow_tensor and allow_operation can't both be False: nothing is left"
            )
        if hasattr(obj, "_as_graph_element"):
            obj = obj._as_graph_element()
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation, wanted)
        if (isinstance(obj, Tensor) and allow_tensor) or (
            isinstance(obj, Operation) and allow_operation
        ):
            if obj.graph is not self:
                raise ValueError(
                    f"{type(obj).__name__} {obj} is not an element of this graph: it was made in another tf.Graph"
                )
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {wanted}: {obj!r:.80}")

    def _element_by_name(
        self, name: str, allow_tensor: bool, allow_operation: bool, wanted: str
    ) -> Tensor | Operation:
        if ":" in name and allow_tensor:
            node, _, index = name.rpartition(":")
            if not index.isdigit():
                raise ValueError(
                    f"The name {name!r} looks a like a Tensor name, but is not a valid one: "
                    "those are '<op_name>:<output_index>'"
                )
            op = self._ops.get(node)
            if op is None:
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist: "
                    f"there is no operation {node!r} in the graph"
                )
            if int(index) >= len(op.outputs):
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist: "
                    f"{node!r} ({op.type}) has {len(op.outputs)} outputs"
                )
            return op.outputs[int(index)]
        if ":" in name:
            raise ValueError(
                f"Name {name!r} appears to refer to a Tensor, not a {wanted}: it has a ':'"
            )
        if not allow_operation:
            if name in self._ops:
                raise ValueError(
                    f"The name {name!r} refers to an Operation, not a Tensor; tensors are named "
                    f"'<op_name>:<output_index>', such as '{name}:0'"
                )
            raise ValueError(
                f"The name {name!r} looks like an (invalid) Operation name, not a Tensor: "
                "tensors are named '<op_name>:<output_index>'"
            )
        op = self._ops.get(name)
        if op is None:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph")
        return op

    # -- names ------------------------------------------------------------------------------

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` inside the current name scope, with ``_1``, ``_2``, … appended if it is taken."""
        scope = self._names_here.scope
        if scope:
            name = f"{scope}/{name}"
        names, key = self._names, name.lower()
        with self._lock:
            if mark_as_used and key not in names:
                names[key] = 1
                return name
            return self._free_name(name, mark_as_used)

    def _free_name(self, name: str, mark_as_used: bool) -> str:
        names = self._names
        base = key = name.lower()
        count = names.get(key, 0)
        if not count:
            if mark_as_used:
                names[key] = 1
            return name
        while key in names:
            key = f"{base}_{count}"
            count += 1
        if mark_as_used:
            names[key] = 1
            names[base] = count
        return f"{name}_{count - 1}"

    def name_scope(self, name: str | bytes | None) -> AbstractContextManager[str]:
        """Nest names under `name`; None or '' goes to the root, a trailing '/' re-enters a scope."""
        return Named(self, name.decode() if isinstance(name, bytes) else name)

    def _scope_of(self, name: str | None) -> str:
        """The scope that `name_scope(name)` is about to open."""
        if not name:
            return ""
        self.check_scope_name(name)
        return name[:-1] if name.endswith("/") else self.unique_name(name)

    def check_scope_name(self, name: str) -> None:
        """Raises ValueError unless a scope may be called so inside the current one."""
        if name in _NODE_NAMES:
            return
        if is_node_name(name):
            if len(_NODE_NAMES) < _MOST_NAMES:
                _NODE_NAMES.add(name)
        elif not self._names_here.scope:
            raise ValueError(f"{name!r} is not a valid root scope name: {_FIRST}")
        elif not _SCOPE_NAME.match(name):
            raise ValueError(f"{name!r} is not a valid scope name: it consists of {_CHARACTERS}")

    def get_name_scope(self) -> str:
        """The current scope, without the trailing '/'."""
        return self._name_stack

    def names_and_scopes(self, prefix: str) -> set[str]:
        """Those of nodes below `prefix` ('' or ending in '/'), and of the scopes that they are in, without it."""
        start = len(prefix)
        found = {name[start:] for name in [*self._ops] if name.startswith(prefix)}
        return found | {name[:at] for name in found for at, c in enumerate(name) if c == "/"}

    def is_name_used(self, name: str) -> bool:
        """Whether a node of that name exists."""
        return name in self._ops

    # -- scopes -----------------------------------------------------------------------------

    def as_default(self) -> Any:
        """Context manager: this graph is the default inside."""
        return scopes.graph_as_default(self)

    # -- collections ------------------------------------------------------------------------

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Append `value` to a collection.  Raises RuntimeError on a finalized graph."""
        if self._finalized:
            raise RuntimeError(FINALIZED)
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Append `value` to each of `names` (a name or several), once each."""
        for name in (names,) if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The list itself; changing it changes the collection."""
        return self._collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of the collection; with `scope`, only items whose name matches that regex."""
        items = self._collections.get(name, [])
        if scope is None:
            return list(items)
        pattern = re.compile(scope)
        return [item for item in items if hasattr(item, "name") and pattern.match(item.name)]

    def get_all_collection_keys(self) -> list[Any]:
        """Names of the collections."""
        return [key for key in [*self._collections] if isinstance(key, str)]

    @property
    def collections(self) -> list[Any]:
        """The keys of all that have been made, empty ones too."""
        return list(self._collections)

    def clear_collection(self, name: Any) -> None:
        """Empty a collection.  Raises RuntimeError on a finalized graph."""
        if self._finalized:
            raise RuntimeError(FINALIZED)
        self._collections.pop(name, None)

    # -- state ------------------------------------------------------------------------------

    def finalize(self) -> None:
        """No node can be added from here on."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    @property
    def finalized(self) -> bool:
        """Whether nodes can no more be added."""
        return self._finalized

    @property
    def graph_def_versions(self) -> Any:
        """Versions as a VersionDef proto."""
        from headrace.codec import protos as pb

        return pb.VersionDef(
            producer=self.versions["producer"], min_consumer=self.versions["min_consumer"]
        )

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """This graph as a GraphDef proto."""
        from headrace.graph.graphdef import graph_def

        return graph_def(self, add_shapes=add_shapes)

    def prevent_feeding(self, tensor: Tensor) -> None:
        """From now on `tensor` cannot be fed."""
        self._unfeedable.add(tensor)

    def is_feedable(self, tensor: Any) -> bool:
        """Whether `tensor` may be fed."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, op: Operation) -> None:
        """From now on `op` cannot be fetched."""
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Whether it may be fetched."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable
