"""Parked: what waits in branches and loops.

In a branch that is no loop's, a node waits as one outside does: the branch is a waiter, which is done at once where it
is not taken.  In a loop it keeps the step's thread until it is done: nothing else of the step could begin or end
meanwhile (`plan.waiting_order`).
Called by: plan.emit (makes the kernels).  Threads: the step's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.base import errors
from headrace.run.exec.branches import Conditions
from headrace.run.exec.instructions import Kernel, Registers
from headrace.run.exec.kernel import NodeInfo, StepState
from headrace.run.exec.program import Waiter
from headrace.run.exec.straight import Code
from headrace.run.exec.waiting import Waiting, given_up
from headrace.run.pending import Pending
from headrace.run.uninterrupted import takes

_NOT_TAKEN: Final = object()


def guarded(conditions: Conditions, before: Code, waiter: Waiter, after: Code) -> Waiter:
    """`before`, `waiter` and, when that is done, `after`, if all conditions hold."""
    start, store, pick = waiter.kernel, waiter.store, waiter.pick

    @takes
    def begin(r: Registers) -> Any:
        if any(r[register] is not wanted for register, wanted in conditions):
            return _NOT_TAKEN
        before.run(r)
        return start(*pick(r))

    def finish(r: Registers, result: Any) -> None:
        if result is not _NOT_TAKEN:
            store(r, result)
            after.run(r)

    return Waiter(waiter.node, begin, waiter.inputs, finish, waiter.outputs, nested=True)


def looping(node: NodeInfo, loop: Kernel) -> Waiter:
    """A loop in which something may wait."""
    return Waiter(node, loop, (), _nothing, nested=True)


def _nothing(r: Registers, result: Any) -> None:
    """A loop has written what it gives."""


def in_place(waiter: Waiter) -> Callable[[Registers], None]:
    """A kernel that waits until `waiter` is done."""
    start, store, pick, node = waiter.kernel, waiter.store, waiter.pick, waiter.node

    @takes
    def run(r: Registers) -> None:
        found = start(*pick(r))
        if isinstance(found, Pending):
            if not found.done:
                try:
                    _Parked(r[0], node, found).wait()
                except BaseException:
                    # Ctrl-C may have come before that had taken it over.
                    found.abandon(errors.cancelled("the step was interrupted"))
                    raise
            found = found.result()
        store(r, found)

    return run


class _Parked(Waiting):
    """A step in a loop."""

    def __init__(self, step: StepState, node: NodeInfo, pending: Pending[Any]) -> None:
        super().__init__(step)
        self._node, self._pending = node, pending

    @takes
    def wait(self) -> None:
        """Until it is done; raises the error of the step's scope if that ends before."""
        unregister = None
        try:
            unregister = self._step.scope.on_cancel(lambda: self._put(-1))
            self._pending.on_done(lambda _: self._put(0))
            if self._channels is not None:
                self._channels.flush()
            self._next()
        except BaseException as error:
            self._abandon_all([self._pending], error)
            raise
        finally:
            if unregister is not None:
                unregister()

    def waits(self) -> list[tuple[NodeInfo, Pending[Any]]]:
        """See `long_waits.Waiting`."""
        return [(self._node, self._pending)]

    def _given_up(self, error: errors.OpError) -> errors.OpError:
        return given_up(error, self.waits(), self._step)
