"""Pictures of whole numbers that are cast to be resized: only what the resized ones are made of is cast.

float32 holds every number of 16 bits, so that the values are those of a cast of the whole picture, whose memory (600 kB
for 224 by 224 pixels, which the system has to clear) is never asked for.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.graph.registry import get
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel

_WHOLE: Final = (dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16)


def _match(resize: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The resize, and the cast that is made for it alone."""
    value = resize.inputs[0]
    cast = facts.maker(value)
    if cast is None or cast.op.type != "Cast" or cast.controls or cast in taken:
        return None
    attrs = cast.op.attrs
    if attrs["DstT"] is not dtypes.float32 or attrs["SrcT"] not in _WHOLE:
        return None
    if not facts.values.changing.isdisjoint(cast.inputs) or not facts.is_for_one(value):
        return None
    return Match((cast, resize), _build)


RULE: Final = Rule("resized-cast", ("ResizeBilinear",), _match)


def _build(group: Group) -> Kernel:
    cast, resize = group.members
    (images_at,) = group.inputs_of(cast)
    size_at = group.inputs_of(resize)[1]
    kernel: Any = get("ResizeBilinear").kernel
    attrs = {name: resize.op.attrs[name] for name in ("align_corners", "half_pixel_centers")}

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        return (kernel(np, values[images_at], values[size_at], **attrs),)

    return group.kernel(at_once, refuses=True)
