"""Hooks at rest: until when a hook has nothing to do but to look at the global step, or at the clock.

A hook that fetches the step to see whether something is due says in its `_rest` when that will be.  Until then its
`before_run` gives what it gave the last time, and nobody sees what its `after_run` does, so a session may leave both
out, and look at the step and the clock once for all such hooks.  What the hook would have counted meanwhile it is told
in `_rested`, before anything else is called.  Classes that say so list the methods that may be left out: a subclass
with others, or a method that a test has replaced, is called as ever.
Called by: training.hooked_session; hooks make `Rest`s.  Threads: one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook

__all__ = ["Rest", "Resting", "resting"]

_NEVER = float("inf")


class Rest(NamedTuple):
    """What a hook does until something is due.

    args: what it asks for.  read: the tensor of the global step, if it looks at that; nothing else may be in `args`.
    step: something may be due once a step has read so much, or no more than the one before, which has read `last`.
    runs: after so many steps.  before_s, after_s: from this time on, before a step or after it.
    """

    args: SessionRunArgs | None = None
    read: Any = None
    step: float = _NEVER
    last: Any = -1
    runs: float = _NEVER
    before_s: float = _NEVER
    after_s: float = _NEVER


class Resting:
    """Hooks that rest together.

    stale: what the last step has read of the global step.  ran: how many steps they have missed.
    """

    __slots__ = ("_after_s", "_before_s", "_rests", "_runs", "_step", "ran", "read", "stale")

    def __init__(self, rests: dict[int, tuple[Any, Rest]]) -> None:
        """rests: of hooks by their id."""
        self._rests = rests
        each = [rest for _, rest in rests.values()]
        self.read = next((rest.read for rest in each if rest.read is not None), None)
        self._step = min(rest.step for rest in each)
        self._runs = min(rest.runs for rest in each)
        self._before_s = min(rest.before_s for rest in each)
        self._after_s = min(rest.after_s for rest in each)
        self.stale = max(rest.last for rest in each)
        self.ran = 0

    def __contains__(self, hook: object) -> bool:
        return id(hook) in self._rests

    def over(self) -> bool:
        """Whether something may be due before the next step."""
        if self.ran >= self._runs:
            return True
        return self._before_s < _NEVER and time.time() >= self._before_s

    def goes_on(self, stale: Any) -> bool:
        """Whether nothing is due after a step that has read so much; it is counted then."""
        if self.read is not None and (stale >= self._step or stale <= self.stale):
            return False
        if self._after_s < _NEVER and time.time() >= self._after_s:
            return False
        if self.read is not None:
            self.stale = stale
        self.ran += 1
        return True

    def results(self, hook: Any, stale: Any) -> Any:
        """What a step that has read so much gives a hook."""
        _, rest = self._rests[id(hook)]
        if rest.args is None or rest.args.fetches is None:
            return None
        fetches = rest.args.fetches
        return dict.fromkeys(fetches, stale) if isinstance(fetches, dict) else stale

    def end(self) -> None:
        """Tell the hooks what they have missed."""
        for hook, _ in self._rests.values():
            hook._rested(self.ran, self.stale)


def resting(hooks: Sequence[SessionRunHook]) -> Resting | None:
    """Those of a session's hooks that rest from now on; None if there are none.

    One that waits for a time is only left out where no other hook is called before it: that may take its time.
    """
    if len({id(hook) for hook in hooks}) != len(hooks):
        return None  # one that is called twice counts twice
    found: dict[int, tuple[Any, Rest]] = {}
    read = None
    others = False
    for hook in hooks:
        if _does_nothing(hook):
            continue
        rest = _rest_of(hook)
        if rest is not None and others and min(rest.before_s, rest.after_s) < _NEVER:
            rest = None
        if rest is not None and rest.read is not None:
            read = rest.read if read is None else read
            if rest.read is not read:
                rest = None
        if rest is None:
            others = True
        else:
            found[id(hook)] = hook, rest
    return Resting(found) if found else None


def _does_nothing(hook: Any) -> bool:
    """Whether it takes no part in steps."""
    return _is(hook, (SessionRunHook.before_run, SessionRunHook.after_run))


def _rest_of(hook: Any) -> Rest | None:
    """Until when it has nothing to do; None if it has to be called in each step."""
    left_out = getattr(type(hook), "_rests_from", None)
    if left_out is None or not _is(hook, left_out):
        return None
    rest: Rest | None = hook._rest()
    return rest


def _is(hook: Any, methods: tuple[Any, Any]) -> bool:
    """Whether these are what is called before and after its steps."""
    names = ("before_run", "after_run")
    own = getattr(hook, "__dict__", ())
    if any(name in own for name in names):
        return False
    return tuple(getattr(type(hook), name, None) for name in names) == methods
