"""What a step on a cluster is asked with and what comes back: limits, options, metadata, values.

Called by: client.remote.  Threads: any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.codec import protos as pb
from headrace.run.scope import Scope


def limit(timeout_ms: int, session: Scope) -> Scope:
    """The scope of one step; 0: it has no limit of its own."""
    return Scope(timeout_ms / 1000 if timeout_ms > 0 else None, session)


def asks_for_more(options: pb.RunOptions) -> bool:
    """Whether a step's options want more than its fetches."""
    return bool(
        options.trace_level or options.output_partition_graphs or options.headrace_close_reason
    )


def fill(metadata: pb.RunMetadata | None, found: pb.RunMetadata | None) -> None:
    """Give the caller what there is, in the place of what was there."""
    if metadata is not None:
        metadata.Clear()
        if found is not None:
            metadata.CopyFrom(found)


def writable(value: Any) -> Any:
    """As the caller may keep it: what another task sent is a view of its message."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return value.copy()
    return value
