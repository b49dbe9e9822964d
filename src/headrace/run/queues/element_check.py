"""Element check: whether what is put into a queue has the types and shapes of its elements, or the error.

Called by: run.queues.queue.  Threads: any; it never changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.run.queues.spec import QueueSpec


class ElementCheck:
    """The check of one queue; `queue` is what errors call it."""

    __slots__ = ("_arity", "_columns", "_elements", "_types", "queue")

    def __init__(self, queue: str, spec: QueueSpec) -> None:
        self.queue = queue
        self._types = spec.component_types
        self._arity = len(spec.component_types)
        unknown: tuple[None, ...] = (None,) * self._arity
        self._columns = tuple(
            zip([t.np for t in spec.component_types], spec.shapes or unknown, strict=True)
        )
        self._elements = tuple(
            [
                (*column, _scalar_of(kind))
                for kind, column in zip(self._types, self._columns, strict=True)
            ]
        )

    def element(self, components: Sequence[Any]) -> errors.OpError | None:
        """What is wrong with an element, None if nothing is."""
        if len(components) == self._arity:
            try:
                for value, (dtype, shape, scalar) in zip(components, self._elements):  # noqa: B905
                    if value.__class__ is scalar and not shape:
                        continue
                    if value.dtype is not dtype or (shape is not None and value.shape != shape):
                        break
                else:
                    return None
            except AttributeError:  # a resource handle, which is no array
                pass
        return self.explained("enqueue", components, ())

    def batch(self, components: Sequence[Any]) -> errors.OpError | None:
        """What is wrong with a batch of elements, None if nothing is."""
        if len(components) == self._arity:
            try:
                size = len(components[0])
                for value, (dtype, shape) in zip(components, self._columns):  # noqa: B905
                    if value.dtype is not dtype or value.shape[1:] != shape or len(value) != size:
                        break
                else:
                    return None
            except (AttributeError, TypeError):  # a handle, a scalar
                pass
        count: tuple[int, ...] = np.shape(components[0])[:1] if components else ()
        if not count and len(components) == self._arity:
            return errors.invalid_argument(
                "Shape mismatch in tuple component 0. A batch was expected, got []: "
                f"enqueue_many into {self.queue} takes its elements along axis 0 of each component, and a scalar has "
                "none; use enqueue for one element"
            )
        return self.explained("enqueue_many", components, count)

    def explained(
        self, kind: str, components: Sequence[Any], leading: tuple[int, ...]
    ) -> errors.OpError | None:
        """`leading`: the dimensions of a component before those of an element."""
        if len(components) != self._arity:
            return errors.invalid_argument(
                f"Wrong number of components in tuple. Expected {self._arity}, got {len(components)}: "
                f"{kind} into {self.queue}"
            )
        for number, (value, (dtype, shape)) in enumerate(
            zip(components, self._columns, strict=True)
        ):
            given: np.dtype[Any] = getattr(value, "dtype", np.dtype(object))
            if given != dtype:
                want = self._types[number].name
                return errors.invalid_argument(
                    f"Type mismatch in tuple component {number}. Expected {want}, got {_type_name(given)}: "
                    f"{kind} into {self.queue}"
                )
            found: tuple[int, ...] = getattr(value, "shape", ())
            element = found[len(leading) :] if shape is None else shape
            if not shape_rules.compatible(found, leading + element):
                return errors.invalid_argument(
                    f"Shape mismatch in tuple component {number}. Expected {shape_rules.text(leading + element)}, got "
                    f"{shape_rules.text(found)}: {kind} into {self.queue}"
                )
        return None


def _type_name(dtype: np.dtype[Any]) -> str:
    try:
        return dtypes.from_numpy(dtype).name
    except TypeError:
        return str(dtype)


def _scalar_of(dtype: dtypes.DType) -> type | None:
    """The class that only NumPy scalars of that type have."""
    return None if dtype.np.hasobject or dtype.np.fields else dtype.np.type
