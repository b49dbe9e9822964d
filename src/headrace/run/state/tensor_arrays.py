"""A TensorArray: values by index, each written and, unless told otherwise, read once.

It is made by a node of a step and is gone with the step.  Its gradient is another one of the same size, made when it
is first asked for, in which values written to one index add up.
Called by: ops.flow.tensor_array_ops.  Threads: the one that runs the step.  Ends by: close.
Source: TF 1.15 core/kernels/tensor_array.h, for behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.run.state.resources import Resource
from headrace.run.state.rows import cut, whole_of
from headrace.run.uninterrupted import changes

Array = np.ndarray[Any, Any]

EMPTY: Final = 0
WRITTEN: Final = 1
READ: Final = 2
CLEARED: Final = 3
"""What was done to an element last."""


@changes
class TensorArray(Resource):
    """`shape`: what all elements have; with `identical` the first one that is written decides what it leaves open."""

    def __init__(
        self,
        name: str,
        dtype: dtypes.DType,
        shape: Shape,
        size: int,
        *,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        identical: bool = False,
        adds_up: bool = False,
    ) -> None:
        """adds_up: writes to one index are summed, as in a gradient."""
        super().__init__(name)
        self.dtype = dtype
        self.shape = shape
        self._values: list[Any] = [None] * size
        self._states = [EMPTY] * size
        self._shapes: list[Shape] = [None] * size  # of what was written, or, in a gradient, will be
        self._dynamic = dynamic_size
        self._clears = clear_after_read
        self._identical = identical
        self._adds_up = adds_up
        self._gradients: dict[str, TensorArray] = {}
        self._closed = False

    @property
    def dynamic(self) -> bool:
        """Whether a write beyond the end makes it grow."""
        return self._dynamic

    def size(self) -> int:
        """Number of elements, written or not."""
        self._check_open()
        return len(self._values)

    def write(self, index: int, value: Any) -> None:
        """Raises InvalidArgument (index, shape, written or read before)."""
        self._check_open()
        self._write(index, value)

    def write_all(self, indices: Iterable[int], values: Iterable[Any]) -> None:
        """Write values[i] at indices[i]; see `write`."""
        self._check_open()
        for index, value in zip(indices, values, strict=True):
            self._write(index, value)

    def _write(self, index: int, value: Any) -> None:
        if not 0 <= index < len(self._values):
            if index < 0 or not self._dynamic:
                fixed = "" if self._dynamic else " and dynamic_size is false"
                raise self._bad(
                    f"Tried to write to index {index} but array is not resizeable and size is: "
                    f"{len(self._values)}{fixed}"
                )
            missing = index + 1 - len(self._values)
            self._values.extend([None] * missing)
            self._states.extend([EMPTY] * missing)
            self._shapes.extend([None] * missing)
        if value.shape != self.shape and not shape_rules.compatible(self.shape, value.shape):
            raise self._bad(
                f"Could not write to TensorArray index {index} because the value shape is "
                f"{shape_rules.text(value.shape)} "
                f"and the elements have shape {shape_rules.text(self.shape)}; infer_shape=False lets them differ"
            )
        state = self._states[index]
        if state in (READ, CLEARED):
            raise self._bad(
                f"Could not write to TensorArray index {index} because it has already been read"
            )
        if state == WRITTEN:
            if not self._adds_up:
                raise self._bad(
                    f"Could not write to TensorArray index {index} because it has already been written to"
                )
            held = cut(self._values[index])
            if held.shape != value.shape:
                raise self._bad(
                    f"Could not aggregate to TensorArray index {index}: a value of shape {list(value.shape)} "
                    "does not add "
                    f"up with what is there, of shape {list(held.shape)}"
                )
            self._values[index] = held + cut(value)
            return
        if self._identical and not shape_rules.is_fully_defined(self.shape):
            self.shape = value.shape
        self._values[index] = value
        self._states[index] = WRITTEN
        self._shapes[index] = value.shape

    def expect(self, shape: Shape) -> None:
        """From now on elements have this shape, as far as it is known.  Raises InvalidArgument: they have another."""
        try:
            self.shape = shape_rules.merge(self.shape, shape)
        except ValueError as error:
            raise self._bad(
                f"PartialTensorShape: Incompatible shapes during merge: {shape_rules.text(self.shape)} vs. "
                f"{shape_rules.text(shape)}"
            ) from error

    def read(self, index: int) -> Any:
        """The element; zeros for one that was never written, if its shape is known.

        Raises InvalidArgument (index, never written, cleared by a read before).
        """
        self._check_open()
        return self._read(index)

    def read_all(self, indices: Iterable[int]) -> list[Any]:
        """The elements at `indices`; see `read`."""
        self._check_open()
        return [self._read(index) for index in indices]

    def _read(self, index: int) -> Any:
        if not 0 <= index < len(self._values):
            raise errors.invalid_argument(
                f"Tried to read from index {index} but array size is: {len(self._values)}, that of TensorArray "
                f"{self.name!r}"
            )
        state = self._states[index]
        if state == CLEARED:
            raise self._bad(
                f"Could not read index {index} twice because it was cleared after a previous read "
                "(perhaps try setting clear_after_read = false?)"
            )
        if state == EMPTY:
            self._values[index] = self._unwritten(index)
        value = cut(self._values[index])
        self._has_read(index)
        return value

    def _has_read(self, index: int) -> None:
        if self._clears:
            self._values[index] = None
            self._states[index] = CLEARED
        else:
            self._states[index] = READ

    def read_whole(self, indices: Sequence[int]) -> Any:
        """As `read_all`: the array [n, …] whose rows the elements are; None if they are not, or others are wanted."""
        self._check_open()
        whole, count = whole_of(self._values), len(self._values)
        if whole is None or list(indices) != list(range(count)):
            return None
        if whole.shape[0] != count:  # there is room for more
            if not isinstance(whole, np.ndarray):
                return None
            whole = whole[:count]
        for index in indices:
            self._has_read(index)
        return whole

    def _unwritten(self, index: int) -> Any:
        shape = self.shape if self._shapes[index] is None else self._shapes[index]
        missing = f"could not read index {index} because it has not been written to"
        if not shape_rules.is_fully_defined(shape):
            raise self._bad(
                f"{missing}, and the elements' shape {shape_rules.text(shape)} is not known enough for zeros; "
                "give the array its element_shape"
            )
        if self.dtype.np.hasobject:
            raise self._bad(f"{missing}, and {self.dtype.name} has no zero")
        return np.zeros(shape, self.dtype.np)

    # -- all at once (`run.state.cells`) -------------------------------------------------------------------------------

    @property
    def clears(self) -> bool:
        """Whether what is read is gone."""
        return self._clears

    @property
    def adds_up(self) -> bool:
        """Whether writes to one index are summed."""
        return self._adds_up

    @property
    def is_closed(self) -> bool:
        """Whether it refuses to be used."""
        return self._closed

    def contents(self) -> Sequence[Any]:
        """The elements; None for those that are not there."""
        return self._values

    def marks(self) -> Sequence[int]:
        """What was done to each."""
        return self._states

    def shapes_written(self) -> Iterator[Shape]:
        """Shapes of elements that were written, whether or not they are still there."""
        for state, shape in zip(self._states, self._shapes, strict=True):
            if state != EMPTY and shape is not None:
                yield shape

    def shapes_unwritten(self) -> Iterator[Shape]:
        """Shapes of zeros that reads of the others give, as far as they are known."""
        for state, shape in zip(self._states, self._shapes, strict=True):
            if state == EMPTY:
                yield self.shape if shape is None else shape

    def become(self, values: Sequence[Any], marks: Sequence[int]) -> None:
        """Hold these elements, to which that was done."""
        missing = len(values) - len(self._values)
        self._shapes.extend([None] * missing)
        for index, (value, mark) in enumerate(zip(values, marks, strict=True)):
            if mark != EMPTY:
                self._shapes[index] = value.shape
                if self._identical and not shape_rules.is_fully_defined(self.shape):
                    self.shape = value.shape
        self._values = [
            None if mark in (EMPTY, CLEARED) else value
            for value, mark in zip(values, marks, strict=True)
        ]
        self._states = list(marks)

    def gradient(self, source: str, prepend: tuple[int, ...] = ()) -> TensorArray:
        """The array of gradients that `source`, a call of tf.gradients, keeps; from now on the size is fixed.

        prepend: dimensions that the gradients have before those of the elements.
        """
        self._check_open()
        self._dynamic = False
        found = self._gradients.get(source)
        if found is None:
            shape = shape_rules.concatenate(prepend, self.shape)
            found = self._gradients[source] = TensorArray(
                f"{self.name}@{source}",
                self.dtype,
                shape,
                len(self._values),
                identical=self._identical,
                adds_up=True,
                clear_after_read=False,
            )
            found._shapes = [shape_rules.concatenate(prepend, written) for written in self._shapes]
        return found

    def _bad(self, text: str) -> errors.OpError:
        return errors.invalid_argument(f"TensorArray {self.name}: {text}")

    def _check_open(self) -> None:
        if self._closed:
            raise errors.invalid_argument(f"TensorArray {self.name} has already been closed")

    def close(self) -> None:
        """Forget the elements; later reads and writes fail."""
        self._closed = True
        self._values.clear()
        self._states.clear()
