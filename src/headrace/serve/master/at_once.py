"""Steps with a number that their master answers without a thread that waits: their one part lies on its own task, and
is answered so there.

What would be checked for any step of the session is checked here, in one function: each more touches as much memory as
all the rest.
Called by: serve.master.master (binds them).  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.master.plans import BoundPlan, PreparedSignature
from headrace.serve.observe.counting import NOW_AND_THEN
from headrace.serve.rpc.again import (
    Array,
    AtOnce,
    AtOnceOrLater,
    ChangesAgain,
    CopiesAgain,
    ReadsAgain,
    RunsAgain,
    WaitsAgain,
)
from headrace.serve.rpc.brief import part_of

if TYPE_CHECKING:
    from headrace.serve.master.master import Master
    from headrace.serve.master.master_session import MasterSession


class _Step:
    """A step of a session.  None: it is to be run as any other."""

    def __init__(
        self, master: Master, session: MasterSession, prepared: PreparedSignature, bound: BoundPlan
    ) -> None:
        self._master = master
        self._session = session
        self._prepared = prepared
        self._bound = bound
        self._plan = bound.plan

    def may_run(self) -> bool:
        """Whether all is as it was when it was bound, and the session's steps run.  It counts as used then."""
        session, prepared, plan = self._session, self._prepared, self._plan
        if (
            self._master.refusing is not None
            or session.closed is not None
            or session.leaving.any
            or plan.stale
            or prepared.bound is not self._bound
            or session.prepared_by_number.get(prepared.number) is not prepared
        ):
            return False
        session.used = prepared.used = plan.used = True
        return True


def _count(session: MasterSession) -> None:
    """A step that took no time, if somebody watches."""
    meter = session.meter
    if meter is not None and not meter.tick() & NOW_AND_THEN:
        meter.check()


class _AtOnce(AtOnce):
    """One whose part is answered at once."""

    def __init__(self, step: _Step, session: MasterSession, part: AtOnce) -> None:
        self._may_run = step.may_run
        self._session = session
        self.values = part.values
        self._part = part
        self._contents = part.contents

    def contents(self) -> bytes | None:
        """See `AtOnce`."""
        if not self._may_run():
            return None
        found = self._contents()
        if found is not None:  # else it is run, and counted, as any other
            meter = self._session.meter  # as `_count`, which would be a call more
            if meter is not None and not meter.tick() & NOW_AND_THEN:
                meter.check()
        return found

    def holds(self) -> bool:
        """See `AtOnce`."""
        return self._may_run() and self._part.holds()


class StepReads(_AtOnce, ReadsAgain):
    """One that changes nothing."""


class StepChanges(_AtOnce, ChangesAgain):
    """One that changes something."""


class StepCopies(CopiesAgain):
    """One that gives one large value."""

    def __init__(
        self, step: _Step, session: MasterSession, part: CopiesAgain, otherwise: RunsAgain
    ) -> None:
        self._may_run = step.may_run
        self._session = session
        self.dtype, self.shape = part.dtype, part.shape
        self._part = part
        self.otherwise = otherwise

    def copy_to(self, target: Array) -> bool:
        """See `CopiesAgain`."""
        if not (self._may_run() and self._part.copy_to(target)):
            return False
        _count(self._session)
        return True

    def holds(self) -> bool:
        """See `CopiesAgain`."""
        return self._may_run() and self._part.holds()


class StepWaits(WaitsAgain):
    """One that may have to wait."""

    def __init__(
        self, step: _Step, session: MasterSession, part: WaitsAgain, otherwise: RunsAgain
    ) -> None:
        self._may_run = step.may_run
        self._session = session
        self._part = part
        self.otherwise = otherwise

    @property
    def values(self) -> Sequence[Any]:
        """See `WaitsAgain`."""
        return self._part.values

    def holds(self) -> bool:
        """See `WaitsAgain`."""
        return self._may_run() and self._part.holds()

    def ready(self) -> bool:
        """See `WaitsAgain`."""
        return self._part.ready()

    def begin(self, scope: Scope) -> bytes | Pending[Any] | None:
        """See `WaitsAgain`."""
        if not self._may_run():
            return None
        found = self._part.begin(scope)
        if found.__class__ is Pending:
            self._session.book(scope)  # who closes the session meanwhile ends the part
        elif found is not None:
            self._count()
        return found

    def keeps_place(self, pending: Pending[Any]) -> bool:
        """See `WaitsAgain`."""
        return self._part.keeps_place(pending)

    def end(self, pending: Pending[Any], scope: Scope) -> bytes | None:
        """See `WaitsAgain`."""
        try:
            found = self._part.end(pending, scope)
        finally:
            self._session.unbook(scope)
        if found is not None:
            self._count()
        return found

    def _count(self) -> None:
        """It has ended; one that is answered as any other is counted there."""
        meter = self._session.meter
        if meter is not None and not meter.tick() & NOW_AND_THEN:
            meter.check()


def step_at_once(
    master: Master, session: MasterSession, number: int, otherwise: RunsAgain
) -> AtOnceOrLater | None:
    """The step of that number, if it has run and nothing has to be waited for, or one thing alone.

    otherwise: what runs it where a thread may wait.
    """
    prepared = session.prepared_by_number.get(number)
    bound = None if prepared is None else prepared.bound
    if prepared is None or bound is None or prepared.feeds:
        return None
    plan = bound.plan
    if len(plan.parts) != 1 or not (plan.ends_itself and bound.is_whole):
        return None
    (part,) = plan.parts
    if part.task != session.own_task:
        return None
    found = session.cluster.own_worker.bind_part(part_of((part.graph_handle, 0, [], 0)))
    step = _Step(master, session, prepared, bound)
    if isinstance(found, ReadsAgain):
        return StepReads(step, session, found)
    if isinstance(found, ChangesAgain):
        return StepChanges(step, session, found)
    if isinstance(found, CopiesAgain):
        return StepCopies(step, session, found, otherwise)
    if isinstance(found, WaitsAgain) and not session.limited:
        return StepWaits(step, session, found, otherwise)
    return None
