"""What a graph knows of a list of tensors: the dtype and shape of its elements.

The op that makes a list says it of its output; what passes lists on is gone back through.
Called by: shape functions of ops.data.  Threads: as graph.
Source: TF 1.15 core/ops/list_ops.cc, where it is called handle data
"""

from __future__ import annotations

from typing import Final

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.base.traits import (
    ENTER,
    EXIT,
    KEEPS_REFS,
    MERGE,
    NEXT_ITERATION,
    PASSES_LIST,
    SWITCH,
)
from headrace.graph.const_value import as_shape
from headrace.graph.handles import standing_for
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor

Elements = tuple[DType, Shape]
_PASSING = frozenset((KEEPS_REFS, SWITCH, MERGE, ENTER, EXIT, NEXT_ITERATION, PASSES_LIST))


def elements_of(handle: Tensor) -> Elements | None:
    """Dtype and shape of the elements of the list that `handle` is, if the graph says."""
    passed: list[Tensor] = []
    found: Elements | None = None
    while (found := handle.__dict__.get("_elements")) is None:
        outside = standing_for(handle)
        if outside is not None and handle not in passed:
            passed.append(handle)
            handle = outside
            continue
        source = handle.op
        if handle in passed or _PASSING.isdisjoint(source.traits) or not source.inputs:
            break
        # What is taken from a list may be a list, too: an element, of which nothing is known.
        if PASSES_LIST in source.traits and handle.value_index:
            break
        if source.inputs[0] is None or source.inputs[0]._dtype is not dtypes.variant:
            break
        passed.append(handle)
        handle = source.inputs[0]
    if found is not None:
        for each in passed:
            each.__dict__["_elements"] = found
    return found


def says_elements(c: ShapeContext, kind: DType, shape: Shape) -> None:
    """The first output is a list of these."""
    c.op.outputs[0].__dict__["_elements"] = (kind, shape)


def static_element_shape(c: ShapeContext, arg: str, *, strict: bool = False) -> Shape:
    """Of an input that is a shape, or the scalar -1 for one that is not known.  Raises ValueError for other scalars.

    strict: also for one that only the step knows, and for what is neither scalar nor vector.
    """
    if strict:
        c.with_rank_at_most(arg, 1)
    given = c.op.inputs[c.index(arg)]
    if given._raw is None:
        value = c.value(arg)
        return None if value is None or not value.ndim else as_shape(given)
    if given._raw:
        return c.shape_value(arg)
    value = c.value(arg)
    if value is None and strict:
        raise ValueError(
            "Received a shape scalar with unknown static value.  A static value of '-1' is required to represent an "
            f"unknown shape: {given.name} is computed in the step"
        )
    if value is not None and int(value) != -1:
        raise ValueError(
            "Received an invalid shape scalar with a static value that is not '-1': "
            f"{given.name} is {int(value)}; a shape is a vector of sizes"
        )
    return None


def known_elements(c: ShapeContext, refusal: str) -> Shape:
    """The shape of the first input's elements.  Raises ValueError for a list of another dtype than `element_dtype`.

    refusal: what begins the message, with {has} and {wanted} for the dtypes.
    """
    found = elements_of(c.op.inputs[0])
    if found is None:
        return None
    kind, shape = found
    wanted = c.attr("element_dtype")
    if kind is not wanted:
        text = refusal.format(has=name_of(kind), wanted=name_of(wanted))
        raise ValueError(f"{text} ({c.op.inputs[0].name} is the list)")
    return shape


def name_of(kind: DType) -> str:
    """Of a dtype, as TensorFlow's shape functions say it."""
    return {"float32": "float", "float64": "double"}.get(kind.name, kind.name)


EXPECTED: Final = "Expected list with element dtype {wanted} but got list with element dtype {has}"
TO_PUSH: Final = (
    "Trying to push to list with wrong element dtype. List has type {has} but trying to push element with type "
    "{wanted}"
)
TO_POP: Final = (
    "Trying to read from list with wrong element dtype. List has type {has} but trying to push element with type "
    "{wanted}"
)
TO_READ: Final = "Trying to read from list with wrong element dtype. List has type {has} but expected type {wanted}"
