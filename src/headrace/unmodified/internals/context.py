"""tensorflow.python.eager.context: whether operations run at once, which they never do here.

Called by: programs, through the table.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from headrace.base.errors import UnimplementedError
from headrace.graph.scopes import get_default_graph

GRAPH_MODE: Final = 0
EAGER_MODE: Final = 1


class Context:
    """The one context there is: that of graphs."""

    def executing_eagerly(self) -> bool:
        """False: every operation becomes a node."""
        return False

    in_eager_mode = executing_eagerly

    def in_graph_mode(self) -> bool:
        """True: every operation becomes a node."""
        return True

    def num_gpus(self) -> int:
        """How many GPUs this process has devices for."""
        return 0

    def devices(self) -> list[str]:
        """Names of this process's devices."""
        return ["/job:localhost/replica:0/task:0/device:CPU:0"]

    @property
    def scope_name(self) -> str:
        """The name scope where the program is now."""
        scope = get_default_graph().get_name_scope()
        return f"{scope}/" if scope else ""


_context: Final = Context()


def context() -> Context:
    """The context."""
    return _context


def executing_eagerly() -> bool:
    """False: every operation becomes a node."""
    return False


in_eager_mode = executing_eagerly


def in_graph_mode() -> bool:
    """True: every operation becomes a node."""
    return True


def num_gpus() -> int:
    """How many GPUs this process has devices for."""
    return 0


def list_devices() -> list[str]:
    """Names of this process's devices."""
    return _context.devices()


@contextmanager
def graph_mode() -> Iterator[None]:
    """A ``with`` block in which operations become nodes, as everywhere."""
    yield


def eager_mode() -> NoReturn:
    """Raises UnimplementedError."""
    raise UnimplementedError.of(
        "eager execution is not part of headrace: build the operations in a graph and run them in a tf.Session"
    )


enable_eager_execution = eager_mode
