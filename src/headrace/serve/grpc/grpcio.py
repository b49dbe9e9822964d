"""grpcio, imported in one place: its C core's own log lines are off unless asked for, and so is its asyncio part.

Nobody here uses `grpc.aio`, which takes a third of the time of the import; whoever asks it for something in this
process loads it then.
Called by: the gRPC transport.  A user who sets GRPC_VERBOSITY keeps their setting.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_LATER = "grpc.aio"


class _Later:
    """A finder (`importlib.abc.MetaPathFinder`, whose module takes 4 ms to load) of `grpc.aio`, to be loaded when
    something in it is asked for.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of that module alone."""
        spec = PathFinder.find_spec(fullname, path) if fullname == _LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


os.environ.setdefault("GRPC_VERBOSITY", "NONE")
_later = _Later()
sys.meta_path.insert(0, _later)
try:
    import grpc
finally:
    sys.meta_path.remove(_later)

__all__ = ["grpc"]
