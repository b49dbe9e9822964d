"""Variables: one mutable array, kept in a container, shared by everyone who names it.

Two kinds, as in TensorFlow.  A step passes a `Variable` itself along reference edges and takes `array` when a plain
consumer runs; what leaves the step or the device is a `snapshot`, made under the lock that updates hold, so that it is
never torn.  A `ResourceVariable` travels as a handle, and what is read of it is a value: later updates do not change
it.  Large values are lent, not copied.  As long as anyone still looks into what was lent, the next update works on a
copy; a training step has dropped its weights by then, and updates them in place.

Called by: ops (state kernels), run's executor (dereferencing, fetches, sends).
Threads: any; `lock` is held for the time of one update or one copy.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.run.resources import Resource

Array = np.ndarray[Any, Any]


_COPIED = 1024  # elements; what is smaller is copied sooner than lent


class State(Resource):
    """`array` is None until the first assignment; afterwards an array of `dtype` that it owns."""

    def __init__(self, name: str, dtype: dtypes.DType, shape: Shape, container: str = "") -> None:
        """`shape` is what the node declares; a value of another shape is refused on assignment."""
        super().__init__(name, container)
        self.dtype = dtype
        self.shape = shape
        self.array: Array | None = None
        self.lock = threading.Lock()

    def require(self) -> Array:
        """The array itself, not a copy.  Raises FailedPrecondition naming the variable."""
        array = self.array
        if array is None:
            raise self.uninitialized()
        return array

    def uninitialized(self) -> errors.OpError:
        """The error for a use before the first assignment."""
        place = "" if self.container == "localhost" else f" in container {self.container!r}"
        return errors.failed_precondition(
            f"attempting to use uninitialized value {self.name}{place}: run its initializer "
            "(such as tf.global_variables_initializer()) first, in a session that shares it"
        )

    def own(self, sparse: bool = False) -> Array:
        """The array, to be changed in place; `lock` is held.  Raises FailedPrecondition.

        sparse: the change is to a few elements of it.
        """
        return self.require()

    def snapshot(self) -> Array:
        """A copy that later updates do not touch.  Raises FailedPrecondition."""
        with self.lock:
            return self.require().copy()

    def assign(self, value: Any, validate_shape: bool = True) -> None:
        """Copy `value` in.  Raises InvalidArgument when the shape is not the variable's.

        With `validate_shape` false any shape is accepted, as TensorFlow's Assign does.
        """
        with self.lock:
            array = self.array
            if array is not None and array.shape == np.shape(value):
                array[...] = value
                return
            if validate_shape:
                self.check_shape(np.shape(value))
            self.array = np.array(value, dtype=self.dtype.np)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        # An unset variable takes what its node declares; a set one keeps its shape.
        wanted: Shape = self.shape if self.array is None else self.array.shape
        if not shape_rules.compatible(wanted, shape):
            raise errors.invalid_argument(
                f"assign requires shapes of both tensors to match: variable {self.name} has shape "
                f"{shape_rules.text(wanted)}, the value {shape_rules.text(shape)}; "
                "use validate_shape=False to let the shape change"
            )

    def reset(self) -> None:
        """Back to uninitialized."""
        with self.lock:
            self.array = None


class Variable(State):
    """What reference edges carry."""


def _nobody() -> None:
    return None


class ResourceVariable(State):
    """What a handle stands for."""

    type_name = "N10tensorflow3VarE"

    def __init__(self, name: str, dtype: dtypes.DType, shape: Shape, container: str = "") -> None:
        super().__init__(name, dtype, shape, container)
        self._lent: Callable[[], Array | None] = _nobody
        self._lends = True

    def read(self) -> Array:
        """The value now, which no update changes; possibly read-only.  Raises FailedPrecondition."""
        with self.lock:
            array = self.require()
            if array.size <= _COPIED or not self._lends or array.dtype.hasobject:
                return array.copy()
            lent = self._lent()
            if lent is None:
                # NumPy's own types have a buffer; those of ml_dtypes are lent as their bits.
                bits = array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
                lent = np.asarray(bits.data)  # every view of it keeps it alive, not `array`
                lent.flags.writeable = False
                self._lent = weakref.ref(lent)
        return lent.view(array.dtype) if array.dtype.kind == "V" else lent

    def own(self, sparse: bool = False) -> Array:
        """See `State.own`: a copy, if the array has been lent and is still looked into."""
        array = self.require()
        if sparse:
            self._lends = (
                False  # a copy of all for a change of a few rows would be repeated for each
            )
        if self._lent() is not None:
            array = self.array = array.copy()
            self._lent = _nobody
        return array

    def assign(self, value: Any, validate_shape: bool = False) -> None:
        """Copy `value` in.  Raises InvalidArgument when its shape changes and `validate_shape` forbids it."""
        shape = np.shape(value)
        with self.lock:
            array = self.array
            self._lends = True
            if validate_shape and array is not None and array.shape != shape:
                self.check_shape(shape)
            if array is not None and array.shape == shape and self._lent() is None:
                array[...] = value
            else:
                self.array = np.array(value, dtype=self.dtype.np)
                self._lent = _nobody

    def reset(self) -> None:
        """Back to uninitialized."""
        with self.lock:
            self.array = None
            self._lent = _nobody
