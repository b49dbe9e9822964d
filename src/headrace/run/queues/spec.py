"""QueueSpec: what the nodes that make a queue say of it.

Called by: ops (queue kernels), run.queues.queue and its kinds.  Threads: any; it never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape

UNBOUNDED: Final = 2**31 - 1
"""The capacity that a negative one means, as in TensorFlow."""


class QueueSpec(NamedTuple):
    """What a queue node asks for; nodes that share a queue must ask for the same."""

    component_types: tuple[dtypes.DType, ...]
    shapes: tuple[tuple[int | None, ...], ...] | None
    """None: unknown, each element may have shapes of its own, and dequeue_many is refused.  Sizes
    that are None vary from element to element, which only a PaddingFIFOQueue allows."""
    capacity: int = UNBOUNDED
    min_after_dequeue: int = 0
    seed: int = 0
    seed2: int = 0

    @property
    def fixed_shapes(self) -> tuple[tuple[int, ...], ...] | None:
        """The shapes if every size of every one is known."""
        if self.shapes is None:
            return None
        fixed = tuple(tuple(d for d in shape if d is not None) for shape in self.shapes)
        return fixed if fixed == self.shapes else None

    def beside(
        self, wanted: QueueSpec, shapes_agree: bool
    ) -> list[tuple[str, object, object, str]]:
        """What queues of this spec and of that one must have in common: what it is, both sides' value, and a verb."""
        pairs: list[tuple[str, object, object, str]] = [
            ("capacity", self.capacity, wanted.capacity, "was"),
            ("component types", _names(self), _names(wanted), "were"),
            ("min_after_dequeue", self.min_after_dequeue, wanted.min_after_dequeue, "was"),
        ]
        if (wanted.seed, wanted.seed2) != (0, 0):
            pairs.append(
                ("random seeds", (self.seed, self.seed2), (wanted.seed, wanted.seed2), "are")
            )
        if not shapes_agree:
            pairs.append(("component shapes", _shape_texts(self), _shape_texts(wanted), "were"))
        return pairs

    @classmethod
    def make(
        cls,
        component_types: Sequence[dtypes.DType],
        shapes: Sequence[Shape] = (),
        capacity: int = -1,
        min_after_dequeue: int = 0,
        seed: int = 0,
        seed2: int = 0,
        sizes_vary: bool = False,
    ) -> QueueSpec:
        """From a node's attrs: no shapes means unknown ones.  Raises InvalidArgument."""
        if shapes and len(shapes) != len(component_types):
            raise errors.invalid_argument(
                f"a queue of {len(component_types)} components was given {len(shapes)} shapes; "
                "give one for each component, or none"
            )
        known = []
        for number, shape in enumerate(shapes):
            if shape is None or (None in shape and not sizes_vary):
                raise errors.invalid_argument(
                    f"component {number} of a queue has shape {shape_rules.text(shape)}, which is "
                    + ("of unknown rank" if sizes_vary else "not fully defined")
                    + "; give every dimension, or no shapes at all"
                )
            known.append(shape)
        capacity = UNBOUNDED if capacity < 0 else capacity
        if min_after_dequeue < 0:
            raise errors.invalid_argument(f"min_after_dequeue {min_after_dequeue} must be >= 0")
        return cls(
            tuple(t.base_dtype for t in component_types),
            tuple(known) if shapes else None,
            capacity,
            min_after_dequeue,
            seed,
            seed2,
        )


def _names(spec: QueueSpec) -> str:
    return ", ".join(t.name for t in spec.component_types)


def _shape_texts(spec: QueueSpec) -> str:
    return f"[{','.join(map(shape_rules.text, spec.shapes or ()))}]"
