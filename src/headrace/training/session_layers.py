"""The sessions inside a monitored session, one around the other: what each adds to `run`.

| | adds |
|---|---|
| HookedSession | hooks: their fetches and feeds go into the same step, and they hear of what came of it |
| CoordinatedSession | the coordinator: an error of one of its threads is the error of the step |
| RecoverableSession | a new session, restored, where the old one was lost with a task; the step is run again |

Called by: training.monitored_session.  Threads: one at a time.
"""

from __future__ import annotations

import itertools
import logging
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.client.session import BaseSession
from headrace.codec import protos as pb
from headrace.serve.connect.readiness import connect_timeout_s, within
from headrace.training.coordinator import Coordinator
from headrace.training.hooks.protocol import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

__all__ = [
    "LOST_TASK",
    "CoordinatedSession",
    "HookedSession",
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


class HookedSession(WrappedSession):
    """A session whose steps hooks take part in.

    Where hooks ask for the same objects as in the step before, and nothing is fed or traced, the step is one that was
    made ready once.
    """

    def __init__(self, session: Any, hooks: Sequence[SessionRunHook]) -> None:
        super().__init__(session)
        self._hooks = hooks
        self._stop = False
        # What `before_run` and `after_run` of the base class would do is nothing.
        self._before = [(hook, hook.before_run) for hook in hooks if _overrides(hook, "before_run")]
        asking = [id(hook) for hook, _ in self._before]
        self._after = [
            (hook.after_run, asking.index(id(hook)) if id(hook) in asking else None)
            for hook in hooks
            if _overrides(hook, "after_run")
        ]
        self._ready: dict[
            Any, tuple[Callable[[], Any], list[int | None]]
        ] = {}  # by what the caller fetches
        self._ready_for: list[Any] = []  # what hooks asked for then

    def _check_stop(self) -> bool:
        return self._stop

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """The step, with what hooks add.  Raises RuntimeError after the stop, and if two feed the same."""
        if self._stop or self._sess is None:
            raise RuntimeError(
                "Run called even after should_stop requested. A loop asks should_stop() before each step"
            )
        context = SessionRunContext(_new(SessionRunArgs, (fetches, feed_dict, None)), self._sess)
        asked, fed = self._asked(context)
        shown = pb.RunOptions() if options is None else options
        metadata = pb.RunMetadata() if run_metadata is None else run_metadata
        plain = options is None and run_metadata is None and feed_dict is None
        found = self._run_again(fetches, asked) if plain else None
        if found is None:
            found = self._run_with(asked, fed, fetches, feed_dict, shown, metadata, not plain)
        values, places = found
        for after_run, n in self._after:
            place = None if n is None else places[n]
            results = None if place is None else values[place]
            after_run(context, _new(SessionRunValues, (results, shown, metadata)))
        self._stop = context._stop_requested
        return values[0]

    def _asked(self, context: SessionRunContext) -> tuple[list[Any], dict[Any, Any]]:
        """What each hook asks for, and what they feed.  Raises RuntimeError as soon as two feed the same."""
        asked = []
        fed: dict[Any, Any] = {}
        for _, before_run in self._before:
            request = before_run(context)
            asked.append(request)
            if request is not None and request.feed_dict:
                _refuse_same(fed, request.feed_dict, "Same tensor is fed by two hooks.")
                fed.update(request.feed_dict)
        return asked, fed

    def _run_with(
        self,
        asked: list[Any],
        fed: dict[Any, Any],
        fetches: Any,
        feed_dict: Any,
        options: pb.RunOptions,
        metadata: pb.RunMetadata,
        told: bool,
    ) -> tuple[list[Any], list[int | None]]:
        """Values, the caller's first, and where each hook's are.  told: somebody reads options or metadata."""
        wanted = [fetches]
        places: list[int | None] = []
        for request in asked:
            fetched = request is not None and request.fetches is not None
            places.append(len(wanted) if fetched else None)
            if request is None:
                continue
            if fetched:
                wanted.append(request.fetches)
            if request.options:
                _merge(options, request.options)
                told = True
        if fed and feed_dict:
            _refuse_same(fed, feed_dict, "Same tensor is fed by a SessionRunHook and user.")
            fed.update(feed_dict)
        if told:
            values = self._sess.run(wanted, fed or feed_dict, options, metadata)
        else:  # a plain step is a faster one
            values = self._sess.run(wanted, fed or feed_dict)
        return values, places

    def _run_again(self, fetches: Any, asked: list[Any]) -> Any:
        """As `_run_with`; None if it is another step than the one before."""
        last = self._ready_for
        if len(last) != len(asked) or not all(map(operator.is_, asked, last)):
            self._ready_for = asked
            self._ready.clear()
            return None
        key = fetches
        if type(fetches) is list:
            key = (list, *fetches)
        elif type(fetches) is dict:
            key = (dict, *fetches.items())
        try:
            call = self._ready.get(key)
        except TypeError:
            return None
        if call is None:
            if type(self._sess).run is not BaseSession.run or len(self._ready) >= _MOST_READY:
                return None
            if any(r is not None and (r.feed_dict or r.options) for r in asked):
                return None
            extra = [r.fetches for r in asked if r is not None and r.fetches is not None]
            numbers = itertools.count(1)
            places = [None if r is None or r.fetches is None else next(numbers) for r in asked]
            call = self._ready[key] = (self._sess.make_callable([fetches, *extra]), places)
        if self._sess._closed:  # by a hook; `run` says so as it always does
            return None
        return call[0](), call[1]


_MOST_READY = 64
_new = tuple.__new__


def _overrides(hook: Any, method: str) -> bool:
    own = getattr(hook, method)
    return getattr(own, "__func__", own) is not getattr(SessionRunHook, method)


def _refuse_same(one: Mapping[Any, Any], other: Mapping[Any, Any], text: str) -> None:
    both = [key for key in one if key in other]
    if both:
        raise RuntimeError(f"{text} Conflict(s): {both}")


def _merge(options: pb.RunOptions, wanted: pb.RunOptions) -> None:
    """Have `options` ask for what `wanted` asks for, too."""
    options.trace_level = max(options.trace_level, wanted.trace_level)
    options.timeout_in_ms = max(options.timeout_in_ms, wanted.timeout_in_ms)
    options.inter_op_thread_pool = max(options.inter_op_thread_pool, wanted.inter_op_thread_pool)
    options.output_partition_graphs |= wanted.output_partition_graphs
    watches = options.debug_options.debug_tensor_watch_opts
    watches.extend(wanted.debug_options.debug_tensor_watch_opts)
    options.debug_options.reset_disk_byte_usage |= wanted.debug_options.reset_disk_byte_usage
    options.report_tensor_allocations_upon_oom |= wanted.report_tensor_allocations_upon_oom
