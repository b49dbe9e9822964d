"""A stack: what a loop remembers for its gradient, last in, first out.

Called by: ops.flow.stacks.  Threads: the one that runs the step.  Ends by: close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes, errors
from headrace.run.state.resources import Resource
from headrace.run.state.rows import cut
from headrace.run.uninterrupted import changes


@changes
class Stack(Resource):
    """Values of one dtype; at most `limit` of them, any number if it is negative."""

    def __init__(self, name: str, dtype: dtypes.DType, limit: int) -> None:
        super().__init__(name)
        self.dtype = dtype
        self._limit = limit
        self._values: list[Any] = []
        self._closed = False
        self.append: Callable[[Any], None] = self.push if limit >= 0 else self._values.append
        """As `push`."""

    def push(self, value: Any) -> None:
        """Raises InvalidArgument if the stack is full or closed."""
        if self._closed:
            raise self._gone()
        if 0 <= self._limit <= len(self._values):
            raise errors.invalid_argument(
                f"stack {self.name!r} is full: its max_size is {self._limit}"
            )
        self._values.append(value)

    def pop(self) -> Any:
        """Raises InvalidArgument if the stack is empty or closed."""
        if self._closed:
            raise self._gone()
        if not self._values:
            raise errors.invalid_argument(
                f"stack {self.name!r} is empty, and there is nothing to pop"
            )
        return cut(self._values.pop())

    # -- all at once (`run.state.cells`) -------------------------------------------------------------------------------

    @property
    def limit(self) -> int:
        """How many there may be; negative: any number."""
        return self._limit

    @property
    def is_closed(self) -> bool:
        """Whether it refuses values."""
        return self._closed

    def contents(self) -> Sequence[Any]:
        """The values, the first one first."""
        return self._values

    def become(self, values: Sequence[Any]) -> None:
        """Hold these."""
        self._values[:] = values

    def _gone(self) -> errors.OpError:
        return errors.invalid_argument(f"stack {self.name!r} has already been closed")

    def close(self) -> None:
        """Forget the values; later pushes and pops fail."""
        self._closed = True
        self.append = self.push
        self._values.clear()
