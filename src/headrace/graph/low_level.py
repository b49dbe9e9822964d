"""The part of `Graph` that libraries lean on and programs rarely see: nodes made by hand, and how it is kept.

The names are those of TensorFlow 1.15's Graph, underscores included.
Called by: libraries.  Threads: as graph.
Source: TF 1.15 python/framework/ops.py, for behaviour; compared with the oracle
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from headrace.base import errors
from headrace.graph.group_lock import GroupLock
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor
from headrace.run.scope import Scope

if TYPE_CHECKING:
    from headrace.graph.function_library import Function, Library
    from headrace.graph.graph import Graph

F = TypeVar("F")
_MUTATION, _SESSION_RUN = 0, 1
_keys = itertools.count()


class RegisterShape:
    """Decorator of old programs; shapes have long been a matter of the op's schema, and the function is not called.

    An op that headrace has infers its shapes by itself; one that it lacks cannot be made, whatever its shape function.
    """

    def __init__(self, op_type: str) -> None:
        """Raises TypeError unless `op_type` is a string."""
        if not isinstance(op_type, str):
            raise TypeError(f"op_type must be a string, not {op_type!r:.80}")

    def __call__(self, f: F) -> F:
        """The function itself."""
        return f


class LowLevel:
    """The part of `Graph` below what programs use."""

    def __init__(self) -> None:
        super().__init__()
        self._group_lock = GroupLock(
            "a graph", ("changes its nodes", "takes its nodes for a session")
        )
        self._graph_key = f"graph-key-{next(_keys)}/"
        self._library: Library | None = (
            None  # made when somebody asks for it: most graphs have no functions
        )

    @property
    def _whole(self) -> Graph:
        return cast("Graph", self)

    # -- nodes ------------------------------------------------------------------------------

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        dtypes: Sequence[Any] | None = None,
        input_types: Sequence[Any] | None = None,
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        op_def: Any = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Make a node of a type that headrace knows, of tensors and AttrValue protos.

        inputs: all tensors in the order of the op's arguments, lists one after the other.
        dtypes: of the outputs; not looked at, since they follow from the op and its attrs.
        input_types: of the inputs; by default their own.
        attrs: AttrValue protos; those that follow from the inputs' types, and those with defaults, may be left out.
        op_def: the node's schema is that of headrace's op of this type, whatever stands here.
        compute_shapes: shapes are always inferred.  compute_device: whether device scopes apply.
        Raises TypeError (no tensor, no AttrValue, types that differ), ValueError (attrs, number of inputs),
        NotFoundError (a type that headrace does not have), RuntimeError (finalized graph).
        """
        for index, each in enumerate(inputs):
            if not isinstance(each, Tensor):
                raise TypeError(
                    f"Input #{index} is not a tensor: {each!r:.80}; tf.convert_to_tensor makes one"
                )
        from headrace.graph.by_hand import create

        return create(self._whole, op_type, list(inputs), input_types, name, attrs, compute_device)

    @property
    def _nodes_by_name(self) -> Mapping[str, Operation]:
        return MappingProxyType(self._whole._ops)

    @property
    def _nodes_by_id(self) -> dict[int, Operation]:
        return {op._id: op for op in self._whole.get_operations()}

    @property
    def _last_id(self) -> int:
        """The `_id` of the latest node; 0 of an empty graph."""
        return len(self._whole._order)

    _next_id_counter = _last_id

    @property
    def _version(self) -> int:
        return self._whole.version

    @property
    def _names_in_use(self) -> dict[str, int]:
        return self._whole._names

    def _get_operation_by_name_unsafe(self, name: str) -> Operation:
        """The node of that name.  Raises KeyError, TypeError."""
        return self._whole.get_operation_by_name(name)

    _get_operation_by_name = _get_operation_by_name_unsafe

    building_function = _building_function = False
    """Whether the nodes made now are a function's."""

    functional_flow = False
    """Whether branches and loops that are made here are functions, whatever the process's switch."""

    is_loop_body = False
    """Whether its nodes are those of one iteration of a loop that is a function."""

    @property
    def library(self) -> Library:
        """Its functions."""
        found = self._library
        if found is None:
            found = self._library = new_library()
        return found

    def share_library(self, graph: Graph) -> None:
        """From now on its functions are those of `graph`.  For one that has none yet."""
        self._library = graph.library

    @property
    def _functions(self) -> dict[str, Function]:
        return {function.name: function for function in self._library or ()}

    def _is_function(self, name: str) -> bool:
        """Whether it has a function of that name."""
        return self._library is not None and _text(name) in self._library

    def _get_function(self, name: str) -> Function | None:
        """The function of that name, or None."""
        return None if self._library is None else self._library.get(_text(name))

    def _get_op_def(self, type: str) -> Any:
        """The OpDef of an op type, or the signature of a function.  Raises NotFoundError."""
        from headrace.graph.graphdef import op_def, spec_of

        found = spec_of(type, self._whole)
        if found is None:
            raise errors.not_found(
                f"Op type not registered: {type!r} is no op of headrace, and no function of the graph"
            )
        return op_def(found)

    op_def_for_type = _op_def_for_type = _get_op_def

    def _as_graph_def(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> tuple[Any, int]:
        """The graph as a GraphDef, and its version."""
        return self._whole.as_graph_def(from_version, add_shapes), self._version

    def _check_not_finalized(self) -> None:
        """Raises RuntimeError on a finalized graph."""
        if self._whole.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    # -- scopes -----------------------------------------------------------------------------

    @property
    def _attr_scope_map(self) -> dict[str, Any]:
        return self._whole._attr_scopes

    @property
    def _op_to_kernel_label_map(self) -> dict[str, str]:
        return self._whole._kernel_labels

    @property
    def _gradient_override_map(self) -> dict[str, str]:
        return self._whole._gradient_overrides

    def _current_control_dependencies(self) -> set[Operation]:
        """What a node that is made now waits for, whatever its inputs."""
        return {op for controller in self._whole._controllers for op in controller.inputs}

    @contextmanager
    def _colocate_with_for_gradient(
        self, op: Any, gradient_uid: Any = None, ignore_existing: bool = False
    ) -> Iterator[None]:
        """As `colocate_with`, for nodes of a gradient."""
        with self._whole.colocate_with(op, ignore_existing):
            yield

    def _control_dependencies_for_inputs(self, input_ops: Iterable[Operation]) -> list[Operation]:
        """What a node of these inputs' nodes waits for because of the scopes it is made in."""
        return self._whole._controls_beside({*input_ops})

    def _record_op_seen_by_control_dependencies(self, op: Operation) -> None:
        """What takes outputs of `op` need not wait for the scopes' control inputs again."""
        self._whole._seen_by_controls(op)

    def _apply_device_functions(self, op: Operation) -> None:
        """Give `op` the device that the scopes in force say."""
        self._whole._apply_device(op)

    @property
    def _unfeedable_tensors(self) -> set[Tensor]:
        return self._whole._unfeedable

    @property
    def _unfetchable_ops(self) -> set[Operation]:
        return self._whole._unfetchable

    # -- threads ----------------------------------------------------------------------------

    def _mutation_lock(self) -> AbstractContextManager[None]:
        """Held by threads that change nodes which are there already; no session takes nodes meanwhile."""
        return self._group_lock.group(_MUTATION)

    def _session_run_lock(self, scope: Scope | None = None) -> AbstractContextManager[None]:
        """Held by sessions that take new nodes; no thread changes nodes meanwhile.

        Waits no longer than `scope` lasts: entering it then raises the scope's error, which says who holds it.
        """
        return self._group_lock.group(_SESSION_RUN, scope)


def new_library() -> Library:
    """One without functions."""
    from headrace.graph.function_library import Library

    return Library()


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
