"""What a hook is: five methods that a monitored session calls, and what it hands them.

Order: `begin` once, while the graph may still change; `after_create_session` for every session that is made, those
made after a failure too; `before_run` and `after_run` around every step; `end` once, unless an error ended the work.
Each is called for all hooks in the order in which they were given.
Called by: training.hooked_session, training.monitored_session.  Threads: the caller's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.codec import protos as pb

__all__ = ["SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues"]


class _Args(NamedTuple):
    fetches: Any
    feed_dict: Any
    options: Any


class SessionRunArgs(_Args):
    """What to add to a step: fetches, feeds and options, as `Session.run` takes them."""

    __slots__ = ()

    def __new__(
        cls, fetches: Any, feed_dict: Any = None, options: pb.RunOptions | None = None
    ) -> SessionRunArgs:
        """fetches: None to add none."""
        return super().__new__(cls, fetches, feed_dict, options)


class SessionRunValues(NamedTuple):
    """What came of a step: values of the fetches that the hook added (None if it added none), the options that the
    step ran with, and its metadata (empty unless the options asked for a trace).
    """

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """The step that is about to run, or just ran: what the caller asked for, and how to make it the last."""

    __slots__ = ("_original_args", "_session", "_stop_requested")

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """What the caller passed to `run`."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The `tf.Session` underneath: what is run in it calls no hooks."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether a hook has asked for the stop in this step."""
        return self._stop_requested

    def request_stop(self) -> None:
        """From this step on the session's `should_stop()` is True."""
        self._stop_requested = True


class SessionRunHook:
    """Does nothing; a hook overrides what it needs."""

    def begin(self) -> None:
        """Called once, before there is a session: the only moment at which nodes can be added."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """`session` is new and initialized, `coord` is its Coordinator; the graph is finalized."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Returns what to add to the step that is about to run; None adds nothing."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """The step ran; it is not called after a step that failed."""

    def end(self, session: Any) -> None:
        """The work is over, without an error; `session` is still open."""
