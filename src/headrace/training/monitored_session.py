"""Sessions that are watched over: hooks around every step, queue runners started, lost tasks survived.

MonitoredSession goes on in a new session, restored from the last checkpoint, when a task was lost;
SingularMonitoredSession does not.  `MonitoredTrainingSession` is the first, with the hooks that a training wants.
Called by: programs.  Threads: one at a time; queue runners have theirs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import errors
from headrace.client.session import BaseSession
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.training.coordinator import Coordinator
from headrace.training.hooked_session import HookedSession
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.queue_runner import start_queue_runners
from headrace.training.scaffold import Scaffold
from headrace.training.session_creators import ChiefSessionCreator, SessionCreator
from headrace.training.session_layers import (
    CoordinatedSession,
    RecoverableSession,
    StepContext,
    WrappedSession,
)

__all__ = ["MonitoredSession", "SingularMonitoredSession"]


class _CoordinatedSessionCreator(SessionCreator):
    """A session of `creator`, with its queue runners started and its hooks told."""

    def __init__(
        self,
        creator: SessionCreator,
        hooks: Sequence[SessionRunHook],
        grace_s: float,
        max_recovery_secs: float | None,
    ) -> None:
        self._creator = creator
        self._hooks = hooks
        self._grace_s = grace_s
        self._max_recovery_secs = max_recovery_secs
        self.coord: Coordinator | None = None
        self.tf_sess: Any = None

    def create_session(self) -> CoordinatedSession:
        self.tf_sess = self._creator.create_session()
        if self._max_recovery_secs is not None and isinstance(self.tf_sess, BaseSession):
            self.tf_sess._limit_missing_members(self._max_recovery_secs)
        self.coord = Coordinator(clean_stop_exception_types=())
        if scopes.get_default_graph().get_collection(GraphKeys.QUEUE_RUNNERS):
            start_queue_runners(sess=self.tf_sess, coord=self.coord)
        for hook in self._hooks:
            hook.after_create_session(self.tf_sess, self.coord)
        return CoordinatedSession(
            HookedSession(self.tf_sess, self._hooks), self.coord, self._grace_s
        )


class _MonitoredSession:
    """See the module."""

    StepContext = StepContext

    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Sequence[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
        max_recovery_secs: float | None = None,
        max_wait_secs: float | None = None,
    ) -> None:
        self._graph_was_finalized = scopes.get_default_graph().finalized
        self._hooks = list(hooks or ())
        for hook in self._hooks:
            hook.begin()
        self._coordinated_creator = _CoordinatedSessionCreator(
            session_creator or ChiefSessionCreator(),
            self._hooks,
            stop_grace_period_secs,
            max_recovery_secs,
        )
        self._sess: Any = (
            RecoverableSession(self._coordinated_creator, max_recovery_secs, max_wait_secs)
            if should_recover
            else self._coordinated_creator.create_session()
        )

    @property
    def graph(self) -> Any:
        """None once it is closed."""
        session = self._tf_sess()
        return None if session is None else session.graph

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: pb.RunOptions | None = None,
        run_metadata: pb.RunMetadata | None = None,
    ) -> Any:
        """A step, as `tf.Session.run`, with hooks.

        Raises RuntimeError when it is closed or told to stop, what the step raises, and what hooks raise.
        """
        if self._sess is None:
            raise RuntimeError("Session is closed: a monitored session runs no more steps then")
        return self._sess.run(fetches, feed_dict, options, run_metadata)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """`step_fn(step_context)`: several steps as one, of which only `step_context.run_with_hooks` calls hooks.

        It is called again if a task is lost meanwhile.  Raises ValueError for a function of other arguments.
        """
        arguments = tuple(_argument_names(step_fn))
        if arguments not in (("step_context",), ("self", "step_context")):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments "
                f"if it's an instance method. Got {arguments} instead."
            )
        if self._sess is None:
            raise RuntimeError("Session is closed: a monitored session runs no more steps then")
        return self._sess.run_step_fn(step_fn, self._tf_sess, run_with_hooks=None)

    def should_stop(self) -> bool:
        """Whether a hook, a thread or an error asked for the end, or the session is closed."""
        return self._sess is None or self._sess.should_stop()

    def close(self) -> None:
        """Tell hooks of the end, stop the threads, close the session.  Raises what hooks and threads raise,
        RuntimeError if it is closed already.
        """
        self._close_internal()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        ended = kind is not None and issubclass(kind, (errors.OutOfRangeError, StopIteration))
        self._close_internal(None if ended else kind)
        return kind is None or ended

    def _close_internal(self, failed: Any = None) -> None:
        try:
            if isinstance(self._sess, WrappedSession):
                self._sess._settle()
            if failed is None:
                for hook in self._hooks:
                    hook.end(self._coordinated_creator.tf_sess)
        finally:
            try:
                if self._sess is None:
                    raise RuntimeError("Session is already closed.")
                self._sess.close()
            finally:
                self._sess = None
                self._coordinated_creator.tf_sess = None
                self._coordinated_creator.coord = None
                if not self._graph_was_finalized:
                    scopes.get_default_graph()._unsafe_unfinalize()

    def _is_closed(self) -> bool:
        return self._coordinated_creator.tf_sess is None

    def _tf_sess(self) -> Any:
        return self._coordinated_creator.tf_sess


def _argument_names(function: Any) -> list[str]:
    """Of a function as it was defined: with the self of a bound method.  Raises TypeError for what is none."""
    if inspect.ismethod(function):
        return list(inspect.signature(function.__func__).parameters)
    if not inspect.isfunction(function) and callable(function):
        return ["self", *inspect.signature(function).parameters]
    return list(inspect.signature(function).parameters)


class MonitoredSession(_MonitoredSession):
    """Goes on when a task was lost: see the module.

    A step that raises OutOfRangeError or StopIteration ends the `with` block as if all were done.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
        *,
        max_recovery_secs: float | None = None,
        max_wait_secs: float | None = None,
    ) -> None:
        """Blocks until the session is ready.  session_creator: a ChiefSessionCreator if None.

        stop_grace_period_secs: how long threads may take to end.
        max_recovery_secs: how long a new session is tried for after a task was lost (None: for ever); then the error
        that names the task is raised.  As long a step may wait at a barrier (tf.train.SyncReplicasOptimizer) for
        tasks that do not answer; then it raises a DeadlineExceededError that names them.
        max_wait_secs: how long the first session is tried for; None: as long as a later one.
        """
        if max_wait_secs is None:
            max_wait_secs = max_recovery_secs
        limits = max_recovery_secs, max_wait_secs
        super().__init__(session_creator, hooks, True, stop_grace_period_secs, *limits)


class SingularMonitoredSession(_MonitoredSession):
    """Raises when a task was lost: see the module."""

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: pb.ConfigProto | None = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        """As a MonitoredSession with a ChiefSessionCreator of these."""
        creator = ChiefSessionCreator(
            scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path
        )
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The `tf.Session` underneath."""
        return self._tf_sess()
