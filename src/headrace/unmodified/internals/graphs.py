"""tensorflow.python.framework and .layers: small functions about graphs, shapes and conditions.

Called by: programs.  Threads: as the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.base.shapes import Dimension, TensorShape
from headrace.graph.const_value import as_shape, constant_value
from headrace.graph.graph import Graph
from headrace.graph.operation import Operation
from headrace.graph.registry import OPS
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.ops.flow.control_flow import smart_cond as _smart_cond
from headrace.run.devices.table import of_name

DEFAULT_GRAPH_SEED: Final = 87654321
_numbers = itertools.count()


def uid() -> int:
    """A number that this process has not given before."""
    return next(_numbers)


def get_all_collection_keys() -> list[Any]:
    """Of the default graph."""
    return list(get_default_graph().get_all_collection_keys())


def get_name_scope() -> str:
    """The name scope of the default graph where the program is now; "" at the top."""
    return str(get_default_graph().get_name_scope())


def name_from_scope_name(name: str) -> str:
    """A scope's name without the slash at its end."""
    return name.removesuffix("/")


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """A node's name without the scope that it was exported from."""
    if not export_scope:
        return name
    scope = export_scope.removesuffix("/") + "/"
    for mark in ("", "^", "loc:@"):
        if name.startswith(mark + scope):
            return mark + name[len(mark + scope) :]
    return name


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """A node's name within the scope that it is imported into."""
    if not import_scope:
        return name
    scope = import_scope.removesuffix("/")
    for mark in ("^", "loc:@"):
        if name.startswith(mark):
            return f"{mark}{scope}/{name[len(mark) :]}"
    return f"{scope}/{name}"


def graph_from_inputs(op_input_list: Sequence[Any], graph: Graph | None = None) -> Graph:
    """The graph that the inputs are of, else the default one.  Raises ValueError where they are of several."""
    found = graph
    for each in op_input_list:
        its = each.graph if isinstance(each, Tensor | Operation) else None
        if its is not None and found is not None and its is not found:
            raise ValueError(f"{each!r} must be from the same graph as {op_input_list[0]!r}")
        found = its or found
    return found or get_default_graph()


def as_dimension(value: Any) -> Dimension:
    """A Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def scalar() -> TensorShape:
    """[]"""
    return TensorShape([])


def vector(length: Any) -> TensorShape:
    """[length]"""
    return TensorShape([length])


def matrix(rows: Any, cols: Any) -> TensorShape:
    """[rows, cols]"""
    return TensorShape([rows, cols])


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """The shape that an int tensor [rank] holds, as far as it is known before the graph runs."""
    return TensorShape(as_shape(tensor))


def smart_constant_value(pred: Any) -> bool | None:
    """Whether `pred` is true, where that is known before the graph runs; else None.  Raises TypeError."""
    if isinstance(pred, bool | int):
        if pred not in (0, 1):
            raise TypeError(
                f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred}"
            )
        return bool(pred)
    if isinstance(pred, Tensor):
        known = constant_value(pred)
        return None if known is None else bool(known)
    if hasattr(pred, "dtype") and getattr(pred, "shape", None) == ():
        return bool(pred)
    raise TypeError(
        f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {type(pred)}"
    )


layer_constant_value = smart_constant_value


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """One of the functions where `pred` is known before the graph runs, else tf.cond."""
    known = smart_constant_value(pred)
    if true_fn is None or false_fn is None:
        raise TypeError("`true_fn` and `false_fn` must be callable.")
    if known is None:
        return _smart_cond(pred, true_fn, false_fn)
    return true_fn() if known else false_fn()


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """`n` integers: the one that was given, or those.  Raises ValueError."""
    if isinstance(value, int):
        return (value,) * n
    try:
        found = tuple(int(each) for each in value)
    except (TypeError, ValueError):
        found = ()
    if len(found) != n:
        raise ValueError(
            f"The `{name}` argument must be a tuple of {n} integers. Received: {value}"
        )
    return found


def apply_op(op_type_name: str, name: str | None = None, **keywords: Any) -> Any:
    """Add a node of the op, whose inputs and attrs are `keywords`.

    Returns what it outputs: a tensor, a list of them, or the Operation.
    """
    spec = OPS.get(op_type_name)
    if spec is None:
        raise RuntimeError(f"Unrecognized Op name {op_type_name}: headrace has no such op")
    inputs = [keywords.pop(arg.name) for arg in spec.inputs]
    return spec(*inputs, name=name, **keywords)


class OpDefLibrary:
    """Makes nodes by the names of their ops."""

    def apply_op(self, op_type_name: str, name: str | None = None, **keywords: Any) -> Any:
        """As the function `apply_op`."""
        return apply_op(op_type_name, name, **keywords)

    def add_op_list(self, op_list: Any) -> None:
        """Nothing: all ops are known."""


def get_registered_ops() -> dict[str, Any]:
    """An OpDef for each op that headrace has."""
    from headrace.graph.graphdef import op_def

    return {name: op_def(spec) for name, spec in OPS.items()}


@dataclass(frozen=True)
class LocalDevice:
    """A device of this process; memory_limit in bytes."""

    name: str
    device_type: str
    memory_limit: int
    incarnation: int
    physical_device_desc: str = ""


def list_local_devices(session_config: Any = None) -> list[LocalDevice]:
    """What devices this process has."""
    from headrace.client.session import Session

    with Session(graph=Graph(), config=session_config) as session:
        found = session.list_devices()
    return [
        LocalDevice(
            "/" + each.name.rpartition("/")[2],
            each.device_type,
            each.memory_limit_bytes,
            each.incarnation,
            of_name(each.name).description,
        )
        for each in found
    ]
