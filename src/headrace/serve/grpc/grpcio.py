"""grpcio, imported in one place: its C core's own log lines are off unless asked for.

Called by: the gRPC transport.  A user who sets GRPC_VERBOSITY keeps their setting.
"""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

__all__ = ["grpc"]
