"""Callables of a session on its master: plans that are run by number.

Called by: serve.master.master_session.  Threads: any.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.master.plans import Plan, tensor_name


@dataclass(slots=True)
class PreparedCallable:
    """A plan, the names of its feeds and fetches in order, whether nobody else has it, and how to
    make it again.
    """

    plan: Plan
    feeds: list[str]
    fetches: list[str]
    options: pb.RunOptions
    own: bool
    make: Callable[[Scope], Plan]


class Callables:
    """The callables of one session."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._prepared: dict[int, PreparedCallable] = {}

    def add(
        self, plan: Plan, options: pb.CallableOptions, own: bool, make: Callable[[Scope], Plan]
    ) -> int:
        """Keep a plan for `options`; its number."""
        made = PreparedCallable(
            plan,
            [tensor_name(name) for name in options.feed],
            [tensor_name(name) for name in options.fetch],
            options.run_options,
            own,
            make,
        )
        with self._lock:
            number = next(self._numbers)
            self._prepared[number] = made
        return number

    @property
    def own_plans(self) -> list[Plan]:
        """The plans that nobody else has."""
        with self._lock:
            return [each.plan for each in self._prepared.values() if each.own]

    def get(self, number: int) -> PreparedCallable:
        """Raises InvalidArgument (never made, or released)."""
        found = self._prepared.get(number)
        if found is None:
            raise _unknown(number)
        return found

    def release(self, number: int) -> PreparedCallable:
        """Forget one.  Raises as `get`."""
        with self._lock:
            found = self._prepared.pop(number, None)
        if found is None:
            raise _unknown(number)
        return found

    def close(self) -> list[Plan]:
        """Forget all; the plans that nobody else has."""
        with self._lock:
            known = list(self._prepared.values())
            self._prepared.clear()
        return [each.plan for each in known if each.own]


def _unknown(number: int) -> errors.OpError:
    return errors.invalid_argument(
        f"the session has no callable {number}: it was released, or made by another session"
    )
