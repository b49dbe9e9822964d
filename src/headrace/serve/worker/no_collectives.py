"""What a worker answers to TensorFlow's methods for collective ops.

Called by: serve.worker.worker.
"""

from __future__ import annotations

from headrace.base import errors
from headrace.run.scope import Scope


class NoCollectives:
    """Refuses them."""

    def recv_buf(self, request: bytes, scope: Scope) -> bytes:
        """Raises Unimplemented."""
        raise _no_collectives("RecvBuf carries buffers of collective ops")

    def get_step_sequence(self, request: bytes, scope: Scope) -> bytes:
        """Raises Unimplemented."""
        raise _no_collectives("GetStepSequence numbers the steps of collective ops")

    def complete_group(self, request: bytes, scope: Scope) -> bytes:
        """Raises Unimplemented."""
        raise _no_collectives("CompleteGroup gathers the members of a collective op")

    def complete_instance(self, request: bytes, scope: Scope) -> bytes:
        """Raises Unimplemented."""
        raise _no_collectives("CompleteInstance agrees on the shapes of a collective op")


def _no_collectives(what: str) -> errors.OpError:
    return errors.unimplemented(
        f"{what}, which headrace does not have: let workers share variables and accumulators on a ps instead"
    )
