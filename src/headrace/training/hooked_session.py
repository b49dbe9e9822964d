"""A session whose steps hooks take part in: the innermost layer of a monitored session.

Called by: training.monitored_session.  Threads: one at a time.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.client.session import BaseSession
from headrace.codec import protos as pb
from headrace.training.hooks.protocol import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from headrace.training.hooks.resting import Resting, resting
from headrace.training.session_layers import WrappedSession

__all__ = ["HookedSession"]


class HookedSession(WrappedSession):
    """A session whose steps hooks take part in.

    Where hooks ask for the same objects as in the step before, and nothing is fed or traced, the step is one that was
    made ready once.  Hooks that have nothing to do but to see whether something is due are left out until it is
    (`hooks.resting`).
    """

    def __init__(self, session: Any, hooks: Sequence[SessionRunHook]) -> None:
        super().__init__(session)
        self._hooks = hooks
        self._stop = False
        # What `before_run` and `after_run` of the base class would do is nothing.
        self._before = [(hook, hook.before_run) for hook in hooks if _overrides(hook, "before_run")]
        asking = [id(hook) for hook, _ in self._before]
        self._after = [
            (hook.after_run, asking.index(id(hook)) if id(hook) in asking else None, hook)
            for hook in hooks
            if _overrides(hook, "after_run")
        ]
        self._ready: dict[
            Any, tuple[Callable[[], Any], list[int | None]]
        ] = {}  # by what the caller fetches
        self._ready_for: list[Any] = []  # what hooks asked for then
        self._resting: _AtRest | None = None
        self._last_at_rest: _AtRest | None = None
        self._calls_at_rest: dict[Any, Callable[[], Any]] = {}  # by what is fetched
        self._steps_until_rest = self._steps_between_rests = 1

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
        shown = pb.RunOptions() if options is None else options
        metadata = pb.RunMetadata() if run_metadata is None else run_metadata
        plain = options is None and run_metadata is None and feed_dict is None
        given: dict[int, Any] = {}
        if self._resting is not None:
            values = self._run_at_rest(self._resting, context, fetches, given) if plain else None
            if values is not None:
                return self._told(context, values, shown, metadata)
            self._wake()
        asked, fed = self._asked(context, given)
        found = self._run_again(fetches, asked) if plain else None
        if found is None:
            found = self._run_with(asked, fed, fetches, feed_dict, shown, metadata, not plain)
        values, places = found
        for after_run, n, _ in self._after:
            place = None if n is None else places[n]
            results = None if place is None else values[place]
            after_run(context, _new(SessionRunValues, (results, shown, metadata)))
        self._stop = context._stop_requested
        self._steps_until_rest -= 1
        if plain and self._steps_until_rest <= 0:
            self._rest(asked)
        return values[0]

    def _asked(
        self, context: SessionRunContext, given: dict[int, Any]
    ) -> tuple[list[Any], dict[Any, Any]]:
        """What each hook asks for, and what they feed.  Raises RuntimeError as soon as two feed the same.

        given: what some of them have asked for already, by their places.
        """
        asked = []
        fed: dict[Any, Any] = {}
        for at, (_, before_run) in enumerate(self._before):
            request = given[at] if at in given else before_run(context)
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
        key = _key(fetches)
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

    # -- while hooks rest ----------------------------------------------------------------------

    def _rest(self, asked: list[Any]) -> None:
        """Leave out hooks that have nothing to do from now on, if there are any.  asked: what hooks asked for last."""
        self._steps_until_rest = self._steps_between_rests
        found = None
        if type(self._sess).run is BaseSession.run:
            found = resting(self._hooks)
        if found is not None:
            made = _at_rest(found, self._before, self._after, asked)
            if made is not None:
                last = self._last_at_rest
                if last is None or not last.asks_as(made):
                    self._calls_at_rest.clear()
                self._resting = self._last_at_rest = made
                return
        self._steps_between_rests = min(2 * self._steps_between_rests, _MOST_BETWEEN_RESTS)

    def _wake(self) -> None:
        """Call all hooks again, in the next step or what is left of this one."""
        at_rest, self._resting = self._resting, None
        if at_rest is None:
            return
        at_rest.hooks.end()
        between = self._steps_between_rests
        rested = at_rest.hooks.ran > _WORTH_IT
        self._steps_between_rests = 1 if rested else min(2 * between, _MOST_BETWEEN_RESTS)
        self._steps_until_rest = self._steps_between_rests

    def _run_at_rest(
        self, at_rest: _AtRest, context: SessionRunContext, fetches: Any, given: dict[int, Any]
    ) -> list[Any] | None:
        """The values of a step: the caller's, those of hooks that do not rest, and the global step.

        None where hooks have to be asked what they want; those of `given` have been.
        """
        if at_rest.hooks.over():
            return None
        for at, before_run, expected in at_rest.before:
            request = given[at] = before_run(context)
            if request is not expected:
                return None
        try:
            key = _key(fetches)
            call = self._calls_at_rest.get(key)
        except TypeError:
            return None
        if call is None:
            if len(self._calls_at_rest) >= _MOST_READY:
                return None
            wanted = [fetches, *at_rest.extra]
            call = self._calls_at_rest[key] = self._sess.make_callable(wanted)
        if self._sess._closed:
            return None
        try:
            values: list[Any] = call()
        except BaseException:
            self._wake()
            raise
        return values

    def _told(
        self, context: SessionRunContext, values: list[Any], shown: Any, metadata: Any
    ) -> Any:
        """Tell hooks of a step that ran while some rested: all of them, if something is due now."""
        at_rest = self._resting
        assert at_rest is not None
        stale = values[-1]
        if at_rest.hooks.goes_on(stale):
            for after_run, place in at_rest.after:
                results = None if place is None else values[place]
                after_run(context, _new(SessionRunValues, (results, shown, metadata)))
        else:
            self._wake()
            for after_run, place, hook in at_rest.everybody:
                if hook is not None:
                    results = at_rest.hooks.results(hook, stale)
                else:
                    results = None if place is None else values[place]
                after_run(context, _new(SessionRunValues, (results, shown, metadata)))
        self._stop = context._stop_requested
        return values[0]

    def _settle(self) -> None:
        self._wake()

    def close(self) -> None:
        """See `WrappedSession.close`."""
        self._wake()
        super().close()


class _AtRest(NamedTuple):
    """How steps run while some hooks rest.

    before: the others that are asked, with their places among all, and what they asked for the last time.
    extra: what is fetched beside what the caller wants.  after: who is told, and which value they fetched.
    everybody: as `after`, once something is due; with the hook, if it is one that rests.
    """

    hooks: Resting
    before: list[tuple[int, Callable[..., Any], Any]]
    extra: list[Any]
    after: list[tuple[Callable[..., Any], int | None]]
    everybody: list[tuple[Callable[..., Any], int | None, Any]]

    def asks_as(self, other: _AtRest) -> bool:
        """Whether the same is fetched."""
        return len(self.extra) == len(other.extra) and all(
            map(operator.is_, self.extra, other.extra)
        )


def _at_rest(
    hooks: Resting,
    before: Sequence[tuple[Any, Callable[..., Any]]],
    after: Sequence[tuple[Callable[..., Any], int | None, Any]],
    asked: Sequence[Any],
) -> _AtRest | None:
    """None if a hook that does not rest asks for more than values."""
    made = _AtRest(hooks, [], [], [], [])
    places: dict[int, int] = {}
    for at, ((hook, before_run), request) in enumerate(zip(before, asked, strict=True)):
        if hook in hooks:
            continue
        made.before.append((at, before_run, request))
        if request is None:
            continue
        if request.feed_dict or request.options:
            return None
        if request.fetches is not None:
            made.extra.append(request.fetches)
            places[at] = len(made.extra)
    if hooks.read is not None:
        made.extra.append(hooks.read)
    for after_run, asked_at, hook in after:
        place = None if asked_at is None else places.get(asked_at)
        rests = hook in hooks
        made.everybody.append((after_run, place, hook if rests else None))
        if not rests:
            made.after.append((after_run, place))
    return made


def _key(fetches: Any) -> Any:
    """By what the caller fetches, a step that was made ready is found."""
    if type(fetches) is list:
        return (list, *fetches)
    if type(fetches) is dict:
        return (dict, *fetches.items())
    return fetches


_MOST_READY = 64
_WORTH_IT = 4  # steps; shorter rests take more than they give
_MOST_BETWEEN_RESTS = 1024
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
