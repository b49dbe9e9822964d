"""The sessions inside a monitored session, one around the other: what each adds to `run`.

| | adds |
|---|---|
| `hooked_session` | hooks: their fetches and feeds go into the same step, and they hear of what came of it |
| CoordinatedSession | the coordinator: an error of one of its threads is the error of the step |
| RecoverableSession | a new session, restored, where the old one was lost with a task; the step is run again |

Called by: training.monitored_session.  Threads: one at a time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from headrace.base import errors
from headrace.serve.connect.readiness import connect_timeout_s, within
from headrace.training.coordinator import Coordinator

__all__ = [
    "LOST_TASK",
    "CoordinatedSession",
    "RecoverableSession",
    "StepContext",
    "WrappedSession",
]

log = logging.getLogger("headrace")

LOST_TASK = (errors.AbortedError, errors.UnavailableError)
"""Errors of a session that a task was lost to; a new one may work."""


class StepContext:
    """What `run_step_fn` gives its function."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Any]) -> None:
        self._session = session
        self._run_with_hooks = run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The `tf.Session` underneath: what is run in it calls no hooks."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """As `MonitoredSession.run`."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> None:
        """Leave the `with` block of the session as if all were done: raises StopIteration."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class WrappedSession:
    """Hands everything to the session inside; closed when that is None."""

    def __init__(self, session: Any) -> None:
        self._sess = session
        self._inner_may_stop = isinstance(session, WrappedSession)

    @property
    def graph(self) -> Any:
        """Of the session inside.  Raises AttributeError when that is closed."""
        return self._sess.graph

    @property
    def sess_str(self) -> Any:
        """The target of the session inside.  Raises AttributeError when that is closed."""
        return self._sess.sess_str

    def should_stop(self) -> bool:
        """Whether no further step should be run."""
        if self._check_stop():
            return True
        if self._sess is None:
            return True
        return self._inner_may_stop and self._sess.should_stop()

    def _check_stop(self) -> bool:
        """What this layer says."""
        return False

    def close(self) -> None:
        """Close the session inside; that its task has gone is no error then."""
        if self._sess is None:
            return
        try:
            self._sess.close()
        except LOST_TASK as error:
            log.error("while a session was closed whose task has gone: %s", error)
        finally:
            self._sess = None

    def _settle(self) -> None:
        """Have hooks know what they would if they had been called in each step."""
        if isinstance(self._sess, WrappedSession):
            self._sess._settle()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As `tf.Session.run`."""
        return self._sess.run(*args, **kwargs)

    def run_step_fn(
        self,
        step_fn: Callable[[StepContext], Any],
        raw_session: Callable[[], Any],
        run_with_hooks: Callable[..., Any] | None,
    ) -> Any:
        """`step_fn` of a context with what `raw_session()` gives."""
        return step_fn(StepContext(raw_session(), run_with_hooks or self.run))


class RecoverableSession(WrappedSession):
    """A session that is made anew when a task was lost.

    A task is waited for as long as connecting may take (HEADRACE_CONNECT_TIMEOUT_S), then the session is made again,
    until it has been tried for `max_recovery_secs`, which ends the last attempt too: then what the longest attempt
    raised is raised, for one that had no time found nothing out.
    For the first session connecting may take no longer than it may for any, nor than `max_wait_secs`.
    """

    def __init__(
        self, creator: Any, max_recovery_secs: float | None, max_wait_secs: float | None
    ) -> None:
        """Either: None for ever."""
        self._creator = creator
        limits = [limit for limit in (connect_timeout_s(), max_wait_secs) if limit is not None]
        super().__init__(self._create(min(limits, default=None), max_wait_secs))
        self._max_recovery_secs = max_recovery_secs
        self._inner_may_stop = True

    def _create(self, limit_s: float | None, attempt_s: float | None) -> Any:
        """limit_s: no attempt begins later; attempt_s: none lasts longer than until then."""
        began = time.monotonic()
        longest_s, telling = 0.0, None
        while True:
            waited_s = time.monotonic() - began
            try:
                with within(None if attempt_s is None else attempt_s - waited_s):
                    return self._creator.create_session()
            except (*LOST_TASK, errors.DeadlineExceededError) as error:
                lasted_s = time.monotonic() - began - waited_s
                if telling is None or lasted_s >= longest_s:
                    longest_s, telling = lasted_s, error
                waited_s += lasted_s
                late = not isinstance(error, LOST_TASK)  # and so would be another attempt
                if late or (limit_s is not None and waited_s >= limit_s):
                    log.error("for %.0f s no session could be made; it is given up", waited_s)
                    try:
                        raise telling
                    finally:
                        telling = None  # whose traceback holds this frame
                log.info(
                    "a task was lost while a session was made; it is made again. Error: %s", error
                )

    def _recreate(self) -> Any:
        return self._create(self._max_recovery_secs, self._max_recovery_secs)

    def _check_stop(self) -> bool:
        try:
            return bool(self._sess._check_stop()) if self._sess is not None else True
        except LOST_TASK as error:
            log.info(
                "a task was lost while it was asked whether to stop; the session is made again. Error: %s",
                error,
            )
            self.close()
            self._sess = self._recreate()
            return False
        except Exception:  # the next step raises it
            return True

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """Again in a new session, as often as a task is lost meanwhile."""
        while True:
            if self._sess is None:
                self._sess = self._recreate()
            try:
                return self._sess.run(fetches, feed_dict, options, run_metadata)
            except LOST_TASK as error:
                self._lost(error)

    def run_step_fn(self, step_fn: Any, raw_session: Any, run_with_hooks: Any) -> Any:
        """As `run`: the whole function again."""
        while True:
            if self._sess is None:
                self._sess = self._recreate()
            try:
                return self._sess.run_step_fn(step_fn, raw_session, self._sess.run)
            except LOST_TASK as error:
                self._lost(error)

    def _lost(self, error: BaseException) -> None:
        log.info(
            "a task was lost, or a connection to it; a new session goes on from the last checkpoint. Error: %s",
            error,
        )
        self.close()
        self._sess = None


class CoordinatedSession(WrappedSession):
    """A session with threads that feed it."""

    def __init__(self, session: Any, coord: Coordinator, stop_grace_period_secs: float) -> None:
        super().__init__(session)
        self._coord = coord
        self._stop_grace_period_secs = stop_grace_period_secs

    def _check_stop(self) -> bool:
        """Raises what the threads reported."""
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    def close(self) -> None:
        """Stop the threads, wait for them as long as their grace lasts, and close.  Raises what they reported."""
        self._coord.request_stop()
        try:
            self._coord.join(
                stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True
            )
        finally:
            try:
                super().close()
            except Exception as error:
                log.debug("ignored while closing: %s", error)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """The thread's error, if one of them lost its task: the step only failed because of it."""
        try:
            return self._sess.run(*args, **kwargs)
        except LOST_TASK:
            raise
        except Exception as error:
            try:
                self._coord.raise_requested_exception()
            except LOST_TASK:
                raise
            except Exception as reported:
                if reported is not error:
                    log.debug("a thread had failed before the step did: %s", reported)
            raise error.with_traceback(error.__traceback__) from error.__cause__
