"""Pictures of whole numbers that are cast to be resized: only what the resized ones are made of is cast.

float32 holds every number of 16 bits, so that the values are those of a cast of the whole picture, whose memory (600 kB
for 224 by 224 pixels, which the system has to clear) is never asked for.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.graph.operation import Operation
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_VIEWS: Final = ("ExpandDims", "Identity", "Reshape", "Squeeze")
_WHOLE: Final = (dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16)


def _match(resize: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The resize, and the cast that is made for it alone."""
    value = resize.inputs[0]
    cast = facts.maker(value)
    if cast is None or cast.op.type != "Cast" or cast.controls or cast in taken:
        return None
    if not _is_exact(cast.op):
        return None
    if not facts.values.changing.isdisjoint(cast.inputs) or not facts.is_for_one(value):
        return None
    return Match((cast, resize), _build)


RULE: Final = Rule("resized-cast", ("ResizeBilinear",), _match)


def _is_exact(cast: Operation) -> bool:
    return cast.attrs["DstT"] is dtypes.float32 and cast.attrs["SrcT"] in _WHOLE


def uncast(ops: Sequence[Operation], fetches: Collection[Tensor]) -> set[Tensor]:
    """Of a function's nodes that are run for many elements: the results of casts, and views of them, of which nothing
    but resized pictures is made, so that they may as well be the numbers before the cast.
    """
    users: dict[Tensor, list[Operation]] = {}
    for op in ops:
        for tensor in op.inputs:
            users.setdefault(tensor, []).append(op)
    found: set[Tensor] = set()
    for op in reversed(ops):
        if op.type not in _VIEWS and not (op.type == "Cast" and _is_exact(op)):
            continue
        (made,) = op.outputs
        if made not in fetches and all(
            made not in user.inputs[1:]
            and (
                user.type == "ResizeBilinear" or (user.type in _VIEWS and user.outputs[0] in found)
            )
            for user in users.get(made, ())
        ):
            found.add(made)
    for op in ops:  # a view of something else is what it is
        if op.type in _VIEWS and op.inputs[0] not in found:
            found.discard(op.outputs[0])
    return found


def _build(group: Group) -> Kernel:
    cast, resize = group.members
    (images_at,) = group.inputs_of(cast)
    size_at = group.inputs_of(resize)[1]
    kernel: Any = get("ResizeBilinear").kernel
    attrs = {name: resize.op.attrs[name] for name in ("align_corners", "half_pixel_centers")}

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        return (kernel(np, values[images_at], values[size_at], **attrs),)

    return group.kernel(at_once, refuses=True)
