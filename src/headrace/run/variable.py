"""Variable: one mutable array, kept in a container, shared by everyone who names it.

A step passes the Variable itself along reference edges and takes `array` when a plain consumer
runs.  What leaves the step or the device is a `snapshot`, made under the lock that updates hold, so
that it is never torn.
Called by: ops (state kernels), run's executor (dereferencing, fetches, sends).
Threads: any; `lock` is held for the time of one update or one copy.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.run.resources import Resource

Array = np.ndarray[Any, Any]


class Variable(Resource):
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
                self._check_shape(np.shape(value))
            self.array = np.array(value, dtype=self.dtype.np)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
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
