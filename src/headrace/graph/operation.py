"""Operation: one node of a graph.

Made by `Graph.add_operation` only.  Called by: graph, ops, plan, client.  Threads: as the graph.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from operator import attrgetter
from types import FrameType
from typing import TYPE_CHECKING, Any

from headrace.base import device as devices
from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.traits import NONE, STATEFUL, Trait
from headrace.graph import scopes
from headrace.graph.registry import OpSpec
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor

if TYPE_CHECKING:
    from headrace.graph.graph import Graph

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_PROGRAMS = os.path.join(_PACKAGE, "tools")  # programs that use headrace, though inside it


def where_built(frame: FrameType | None = None) -> tuple[str, int] | None:
    """File and line of the nearest caller outside headrace (inside it: the outermost frame).

    frame: where to begin; by default with who called who asks.
    """
    if frame is None:
        frame = sys._getframe(2)
    filename = frame.f_code.co_filename
    while _is_ours[filename] and (back := frame.f_back) is not None:
        frame = back
        filename = frame.f_code.co_filename
    return filename, frame.f_lineno


def is_ours(kind: type) -> bool:
    """Whether headrace has the class and all that it extends, so that its methods are none of the program's."""
    modules = {each.__module__.partition(".")[0] for each in kind.__mro__}
    return modules <= {__name__.partition(".")[0], "abc", "builtins", "typing"}


def traits_among(ops: Iterable[Operation]) -> frozenset[Trait]:
    """Traits that the op of at least one of the nodes has."""
    return NONE.union(*set(map(_traits, ops)))


_traits = attrgetter("traits")


class _Ours(dict[str, bool]):
    """Whether a file is headrace's; asked for every frame below every node."""

    def __missing__(self, filename: str) -> bool:
        ours = filename.startswith(_PACKAGE) and not filename.startswith(_PROGRAMS)
        self[filename] = ours
        return ours


_is_ours = _Ours()


class Operation:
    """A node.  `spec` is None only for ops that this process does not know (see graphdef)."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_control_flow_context",
        "_where",
        "attrs",
        "control_inputs",
        "device",
        "graph",
        "id",
        "inputs",
        "name",
        "outputs",
        "spec",
        "traits",
        "type",
    )

    _flow_graphs: Any = None
    """Of a branch or loop of functions: their bodies as graphs, once somebody knows them."""

    _original_op: Operation | None = None
    """What it was made on behalf of: of a node of a gradient, the node that was differentiated."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        op_type: str,
        spec: OpSpec | None,
        inputs: list[Tensor],
        control_inputs: list[Operation],
        attrs: dict[str, Any],
        output_types: Sequence[dtypes.DType],
    ) -> None:
        self.graph = graph
        self.name = name
        self.type = op_type
        self.spec = spec
        self.traits = NONE if spec is None else spec.traits
        self.inputs = inputs
        self.control_inputs = control_inputs
        self.attrs = attrs
        self.device = ""
        self.id = -1
        self._where: tuple[str, int] | None = None
        self._control_flow_context: Any = None  # the cond branch or loop it was made in
        if len(output_types) == 1:
            self.outputs = [Tensor(self, 0, output_types[0])]
        else:
            self.outputs = [Tensor(self, index, dtype) for index, dtype in enumerate(output_types)]

    @property
    def built_at(self) -> str | None:
        """``file:line`` of the user's code that made this node."""
        return None if self._where is None else f"{self._where[0]}:{self._where[1]}"

    def __getitem__(self, attr: str) -> Any:
        """The value of an attr, as kernels see it."""
        return self.attrs[attr]

    # What has attrs by name is no sequence.
    __iter__ = None

    def get_attr(self, name: str) -> Any:
        """The value of an attr as TensorFlow's get_attr gives it (protos for shapes and tensors).

        Raises ValueError if the operation has no such attr.
        """
        from headrace.graph.attrs import public_value

        if name not in self.attrs:
            raise ValueError(
                f"Operation {self.name!r} has no attr named {name!r}: it is a {self.type}"
            )
        return public_value(self, name)

    def _set_attr(self, name: str, value: Any) -> None:
        """Set an attr, to an AttrValue or what a node holds for one.

        Steps that a session has planned keep the old value, as they keep old inputs and control inputs.
        """
        from headrace.graph.attrs import from_proto

        is_proto = hasattr(value, "WhichOneof") and not hasattr(value, "name")  # a function has one
        self.attrs[name] = from_proto(value) if is_proto else value
        self.graph.version += 1

    def _clear_attr(self, name: str) -> None:
        """Remove an attr, if it is there."""
        self.attrs.pop(name, None)
        self.graph.version += 1

    def _get_attr_type(self, name: str) -> dtypes.DType:
        found: dtypes.DType = self.get_attr(name)
        return found

    def _get_attr_bool(self, name: str) -> bool:
        return bool(self.get_attr(name))

    def _get_attr_int(self, name: str) -> int:
        return int(self.get_attr(name))

    @property
    def _id(self) -> int:
        """Its number in the graph, from 1 on."""
        return self.id + 1

    _id_value = _id

    @property
    def _is_stateful(self) -> bool:
        return STATEFUL in self.traits

    @property
    def _input_types(self) -> list[dtypes.DType]:
        return [tensor.dtype.base_dtype for tensor in self.inputs]

    @property
    def _output_types(self) -> list[int]:
        return [tensor.dtype.as_datatype_enum for tensor in self.outputs]

    @property
    def _control_outputs(self) -> list[Operation]:
        """The nodes that wait for this one without taking an output of it."""
        return [op for op in self.graph.get_operations() if self in op.control_inputs]

    @property
    def _control_inputs(self) -> list[Operation]:
        return self.control_inputs

    @property
    def _outputs(self) -> list[Tensor]:
        return self.outputs

    @property
    def _node_def(self) -> Any:
        return self.node_def

    @property
    def _op_def(self) -> Any:
        return self.op_def

    @property
    def traceback(self) -> list[tuple[str, int, str, str | None]]:
        """Where it was made: (file, line, function, text) of the program's line, which is all that is kept."""
        import linecache

        if self._where is None:
            return []
        file, line = self._where
        return [(file, line, "<unknown>", linecache.getline(file, line).strip() or None)]

    def colocation_groups(self) -> list[bytes]:
        """The ``loc:@node`` groups this node belongs to; its own when nothing else was said."""
        groups = self.attrs.get("_class")
        if groups:
            found = [group for group in groups if group.startswith(b"loc:@")]
            if found:
                return found
        return [b"loc:@" + self.name.encode()]

    @property
    def node_def(self) -> Any:
        """This node as a NodeDef proto."""
        from headrace.graph.graphdef import node_def

        return node_def(self)

    @property
    def op_def(self) -> Any:
        """The schema as an OpDef proto."""
        from headrace.graph.graphdef import op_def

        if self.spec is None:
            raise errors.not_found(f"op {self.type} is not registered", node=self.name)
        return op_def(self.spec)

    def values(self) -> tuple[Tensor, ...]:
        """The outputs."""
        return tuple(self.outputs)

    def run(self, feed_dict: dict[Any, Any] | None = None, session: Any = None) -> None:
        """Run this operation in `session` or the default one."""
        found = scopes.session_of(session, self.graph, "execute operation", "run()", self.name)
        found.run(self, feed_dict)

    def _add_control_inputs(self, ops: Sequence[Operation]) -> None:
        """Have it wait for these, too.  Raises TypeError (no operation), ValueError (another graph's)."""
        for op in ops:
            if not isinstance(op, Operation):
                raise TypeError(f"op must be an Operation: {op!r:.80} is a {type(op).__name__}")
            if op.graph is not self.graph:
                raise ValueError(f"{op.name!r} must be from the same graph as {self.name!r}")
        with self.graph._mutation_lock():
            self.control_inputs.extend(op for op in ops if op not in self.control_inputs)
            self.graph.version += 1

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _remove_all_control_inputs(self) -> None:
        self.control_inputs.clear()
        self.graph.version += 1

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def _update_input(self, index: int, tensor: Tensor) -> None:
        """Take another tensor as input `index`.

        Raises TypeError (no tensor), ValueError (another graph's), OutOfRangeError (no such input),
        InvalidArgumentError (another dtype, a shape that cannot be that of the input).
        """
        if not isinstance(tensor, Tensor):
            raise TypeError(f"tensor must be a Tensor: {tensor!r:.80} is a {type(tensor).__name__}")
        if tensor.graph is not self.graph:
            raise ValueError(f"{tensor.name} must be from the same graph as {self.name!r}")
        if not 0 <= index < len(self.inputs):
            raise errors.out_of_range(
                f"Cannot update edge. Input index [{index}] is greater than the number of total inputs "
                f"[{len(self.inputs)}] of {self.name!r}",
                node=self.name,
            )
        old = self.inputs[index]
        if old.dtype.base_dtype != tensor.dtype.base_dtype:
            raise errors.invalid_argument(
                f"Cannot update edge, incompatible types: input {index} of {self.name!r} is {old.dtype.name}, and "
                f"{tensor.name} is {tensor.dtype.name}",
                node=self.name,
            )
        if not shape_rules.compatible(old.raw_shape, tensor.raw_shape):
            raise errors.invalid_argument(
                f"Cannot update edge, incompatible shapes: {tensor.shape} of {tensor.name} and {old.shape} of "
                f"{old.name}, which is input {index} of {self.name!r}",
                node=self.name,
            )
        with self.graph._mutation_lock():
            self._set_input(index, tensor)

    def _set_input(self, index: int, tensor: Tensor) -> None:
        """Replace an input, whatever it was."""
        old = self.inputs[index]
        if old is not None and self in old._consumers:
            old._consumers.remove(self)
        self.inputs[index] = tensor
        tensor._consumers.append(self)
        self.graph.version += 1

    def _add_inputs(self, tensors: Sequence[Tensor]) -> None:
        """Take these, too, after the inputs that there are; attrs that count them are the caller's business."""
        for tensor in tensors:
            self.inputs.append(tensor)
            tensor._consumers.append(self)
        self.graph.version += 1

    def _add_outputs(self, like: Sequence[Tensor]) -> None:
        """Give more outputs, of the dtypes and shapes of these; attrs that count them are the caller's business."""
        for tensor in like:
            made = Tensor(self, len(self.outputs), tensor.dtype.base_dtype)
            made._raw = tensor._raw
            self.outputs.append(made)
        self.graph.version += 1

    def _set_device(self, device: Any) -> None:
        self.device = devices.canonical(str(device) if device is not None else "")
        self.graph.version += 1

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r} type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)


def infer_shapes(op: Operation) -> None:
    """Set the static shapes of `op`'s outputs, if its op says them.  Raises ValueError naming the node."""
    spec = op.spec
    if spec is None or spec.shape_fn is None:
        return
    try:
        found = spec.shape_fn(ShapeContext(op))
    except ValueError as error:
        if not op.graph.strict_shapes:
            return
        sizes = ", ".join(shape_rules.text(t.raw_shape) for t in op.inputs)
        names = ", ".join(t.name for t in op.inputs)
        raise ValueError(
            f"{error} (for {op.name!r} (op: {op.type!r}) with input shapes: {sizes}; the inputs are {names})"
        ) from None
    outputs = op.outputs
    if not outputs:
        return  # it was asked for its checks
    if isinstance(found, list):
        for tensor, shape in zip(outputs, found, strict=True):
            tensor._raw = shape
    else:
        outputs[0]._raw = found
