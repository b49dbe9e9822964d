"""A hook that feeds every step.

Called by: programs.  Threads: the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook

__all__ = ["FeedFnHook"]


class FeedFnHook(SessionRunHook):
    """Feeds each step what `feed_fn()` gives then: a dict from tensors to values."""

    def __init__(self, feed_fn: Callable[[], Mapping[Any, Any]]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Feeds, and no fetches."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
