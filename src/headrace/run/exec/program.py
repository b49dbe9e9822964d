"""Program: one partition, compiled to straight-line instructions, and how it runs.

A program is a list of items.  An item is a *segment* (instructions that run one after the other
without ever waiting) or a *waiter* (one node that may have to wait: a dequeue, a receive).  Nodes
that depend on the same set of waiters share a segment; an item starts as soon as the waiters it
depends on are done, so nothing waits for a node it does not need.  The thread that calls `run` does
all the work; while nothing is ready it sleeps until any waiter is done.

Registers hold the values of a run: 0 is the StepState, then the arguments, then constants and
results.  Values are as in `run.exec.kernel`; a register may hold a Variable, which instructions
dereference when their node runs.
Called by: client (local sessions), serve.worker.worker.  Threads: `run` in any number of threads at once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.base import errors
from headrace.base.traits import CALLS_USER, RECEIVE, SEND, UPDATES
from headrace.run.exec import polling
from headrace.run.exec.float_warnings import restore_warnings, suppress_warnings
from headrace.run.exec.instructions import Instruction, Kernel, Pick, Registers, picking
from headrace.run.exec.kernel import BARE, NodeInfo, StepState
from headrace.run.exec.outcome import cause, explain, leave, lend, lend_all
from headrace.run.exec.straight import Code
from headrace.run.exec.tuning import Tuner
from headrace.run.exec.waiting import Waiting, given_up
from headrace.run.pending import Pending
from headrace.run.uninterrupted import takes

_AT_EASE: Final = nullcontext()


class Segment:
    """Instructions that never wait.

    computes: more than finding and loading variables.  sends_last: nothing but sends comes after its first send.
    """

    __slots__ = ("code", "computes", "sends_last")

    def __init__(self, instructions: Sequence[Instruction], computes: bool) -> None:
        self.code = Code(instructions)
        self.computes = computes
        sends = [SEND in each.node.traits for each in instructions]
        self.sends_last = all(sends[sends.index(True) :]) if any(sends) else False


@dataclass(slots=True, eq=False, repr=False)
class Waiter:
    """A node that may wait: its kernel returns a Pending, or the result; `store` takes the result.

    nested: it is a branch or a loop in which something may wait; the kernel takes all registers (`run.exec.parked`).
    """

    node: NodeInfo
    kernel: Kernel
    inputs: tuple[int, ...]
    store: Callable[[Registers, Any], None]
    outputs: tuple[int, ...] = ()
    computes: bool = True
    nested: bool = False
    pick: Pick = field(init=False)

    def __post_init__(self) -> None:
        self.pick = _all if self.nested else picking(self.inputs)

    def given(self, r: Registers) -> list[Any]:
        """The values of its inputs, but for the step."""
        return [r[register] for register in self.inputs if register]


def _all(r: Registers) -> Sequence[Any]:
    return (r,)


@dataclass(slots=True, eq=False, repr=False)
class Item:
    """A segment or a waiter, and which items count on it (`wakes`: indices, for waiters)."""

    work: Segment | Waiter
    waits_for: int
    wakes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Return:
    """A value that leaves the step: its register, whether somebody else may hold it too, whether it may alias a
    variable, and the node that made it.
    """

    register: int
    shared: bool
    live: bool
    node: NodeInfo


class Program:
    """See the module header.  `items` are in an order in which dependencies come first."""

    def __init__(
        self,
        template: Registers,
        num_args: int,
        items: list[Item],
        returns: list[Return],
        preloaded: Sequence[tuple[NodeInfo, tuple[int, ...]]] = (),
        scalars: Sequence[int] = (),
        shares: bool = False,
        polls: bool = False,
        into: Callable[..., Any] | None = None,
    ) -> None:
        """preloaded: constants, and the registers that hold their outputs.  scalars: registers of arguments that are
        numbers, which reach the kernels as NumPy scalars.
        shares: some kernels share large work among the task's threads.  polls: some poll the step's scope.
        into: the ufunc by which its only assignment changes its variable.
        """
        self.template = template
        self.num_args = num_args
        self.items = items
        self.returns = returns
        self.preloaded = list(preloaded)
        self._leaving = [(r.register, r.shared, r.node) for r in returns]
        self._lending = [(r.register, r.live, r.node) for r in returns]
        self._only = self._lending[0] if len(returns) == 1 else None
        self._scalars = tuple(scalars)
        self.shares = shares
        self.polls = polls
        self.into = into
        self.tuner: Tuner | None = None  # while another form of it may be quicker, or is
        self.may_wait = any(isinstance(item.work, Waiter) for item in items)
        self.flat = (
            items[0].work if len(items) == 1 and isinstance(items[0].work, Segment) else None
        )
        self._computes = any(item.work.computes for item in items)
        self._early = [
            index
            for index, item in enumerate(items)
            if isinstance(item.work, Waiter)
            and item.waits_for == 0
            and not any(item.work.inputs)
            and not item.work.nested
            and CALLS_USER not in item.work.node.traits  # whose control inputs may compute
        ]
        parks = any(isinstance(item.work, Waiter) and item.work.nested for item in items)
        self.straight = None if self._early or parks else _in_order(items)
        self.stays = not self._early and not any(exchanges(item.work) for item in items)
        """Whether it takes and leaves nothing on the way: a step of it needs no rendezvous."""

    @takes
    def run(
        self,
        step: StepState,
        args: Sequence[Any],
        waiting: AbstractContextManager[object] = _AT_EASE,
        spent: list[Any] | None = None,
    ) -> list[Any]:
        """Run the partition with `args` in its argument registers; returns what leaves the step.

        waiting: entered while the step waits, or may have to; not by steps that find all they want.
        spent: emptied when the arguments are in their registers, so that each goes after its last use.
        The returned arrays belong to the caller, unless `step.lends`.  Raises the OpError of the first node that fails,
        with its node, device and step; waiters still out are abandoned without a trace.
        """
        if self.tuner is not None:
            return self._tuned(self.tuner, step, args, waiting, spent)
        registers = self.template.copy()
        registers[0] = step
        if args:
            registers[1 : 1 + self.num_args] = args
            for register in self._scalars:
                registers[register] = registers[register][()]
            if spent is not None:
                spent.clear()
        if self.items:
            polled = polling.current() if self.polls else None
            was = suppress_warnings() if self._computes else None
            try:
                if self.polls:
                    polling.use(step.scope)
                if step.stats is not None:
                    self._begin(step, registers)
                if self.shares:
                    with step.runtime.workers:
                        self._execute(registers, step, waiting)
                elif self.flat is not None and step.channels is None and step.stats is None:
                    self.flat.code.run(registers)
                else:
                    self._execute(registers, step, waiting)
            except BaseException:
                step.failed()
                raise
            finally:
                if self.polls:
                    polling.use(polled)
                if was is not None:
                    restore_warnings(was)
        elif step.stats is not None:
            self._begin(step, registers)
        if step.lends:
            if step.lends is BARE:
                return [registers[r] for r, _, _ in self._lending]
            if self._only is not None:
                register, live, node = self._only
                return [lend(registers[register], live, node, step)]
            return lend_all(registers, self._lending, step)
        return [leave(registers[r], shared, node, step) for r, shared, node in self._leaving]

    def _tuned(self, tuner: Tuner, *given: Any) -> list[Any]:
        """As `run`, in one of the forms that there are."""
        if tuner.chosen is not None:
            return tuner.chosen(*given)
        plain = tuner.plain
        if plain is None:
            alike = copy.copy(self)
            alike.tuner = None
            plain = tuner.plain = alike.run
        if tuner.over:
            self.tuner = None
            return plain(*given)
        return tuner.run(plain, *given)

    @takes
    def _execute(
        self, registers: Registers, step: StepState, waiting: AbstractContextManager[object]
    ) -> None:
        if self.flat is not None:
            if step.channels is not None:
                step.channels.holds = self.flat.sends_last
            run_segment(self.flat, registers, step)
        elif self.straight is None or step.stats is not None:
            with waiting:
                Execution(self, registers, step).run()
        else:
            stop = self._run_straight(self.straight, registers, step)
            if stop is not None:
                try:
                    with waiting:
                        Execution(self, registers, step).run(*stop)
                except BaseException:
                    # Ctrl-C may have come before the execution had taken it over.
                    stop[1].abandon(errors.cancelled("the step was interrupted"))
                    raise

    @takes
    def _run_straight(
        self, line: list[_InOrder], registers: Registers, step: StepState
    ) -> tuple[int, Pending[Any]] | None:
        """Run the items in their order as far as none has to wait; else which one, and for what."""
        for at, work, kernel, first, second, store in line:
            if store is None:
                work.run(registers)  # type: ignore[union-attr]
                continue
            try:
                if second is not None:
                    found = kernel(registers[first], registers[second])
                else:
                    found = kernel(*work.pick(registers))  # type: ignore[union-attr]
                if isinstance(found, Pending):
                    if not found.done:
                        return at, found
                    found = found.result()
                store(registers, found)
            except Exception as error:  # as in run.exec.straight
                waiter: Any = work
                raise explain(error, waiter.node, waiter.given(registers), step) from cause(error)
        return None

    def lent(self, bare: Sequence[Any], step: StepState) -> list[Any]:
        """What leaves, of a `BARE` step, as any other lends it."""
        return lend_all(bare, [(i, r.live, r.node) for i, r in enumerate(self.returns)], step)

    @property
    def gives_variable(self) -> bool:
        """Whether one thing leaves, a variable that the step has updated."""
        return self._only is not None and UPDATES in self._only[2].traits

    def _begin(self, step: StepState, registers: Registers) -> None:
        """Tell a traced step's statistics where it runs and which constants it has."""
        devices = [node.device for node, _ in self.preloaded]
        for item in self.items:
            work = item.work
            devices += [node.device for node in _nodes(work)]
        step.stats.begin(devices, self.preloaded, registers)


_InOrder = tuple[int, Code | Waiter, Kernel, Any, Any, Callable[[Registers, Any], None] | None]
"""An item: its index; a segment's code; or a waiter, its kernel, the two registers that this takes, if it takes two,
and where its result goes.
"""


def _in_order(items: Sequence[Item]) -> list[_InOrder]:
    line: list[_InOrder] = []
    for at, item in enumerate(items):
        work = item.work
        if isinstance(work, Segment):
            line.append((at, work.code, len, None, None, None))
        else:
            first, second = work.inputs if len(work.inputs) == 2 else (None, None)
            line.append((at, work, work.kernel, first, second, work.store))
    return line


def _nodes(work: Segment | Waiter) -> list[NodeInfo]:
    if isinstance(work, Waiter):
        return [work.node]
    return [each.node for each in work.code.instructions]


def exchanges(work: Segment | Waiter) -> bool:
    return any(SEND in node.traits or RECEIVE in node.traits for node in _nodes(work))


def run_segment(segment: Segment, registers: Registers, step: StepState) -> None:
    """Run a segment's instructions, one by one if somebody takes notes.  Raises OpError with the node's fields."""
    if step.stats is not None:
        step.stats.code(segment.code, registers)
    else:
        segment.code.run(registers)


class Execution(Waiting):
    """One run of a program that has waiters."""

    def __init__(self, program: Program, registers: Registers, step: StepState) -> None:
        super().__init__(step)
        self._items = program.items
        self._early = program._early
        self._registers = registers
        self._left = [item.waits_for for item in program.items]
        self._outstanding: dict[int, Pending[Any]] = {}
        self._started: dict[int, int] = {}
        self._end_times: dict[int, int] = {}  # of traced steps

    @takes
    def run(self, stop: int = 0, waits_for: Pending[Any] | None = None) -> None:
        """Run all, or go on where those before `stop` are done and that one `waits_for` something."""
        unregister = self._step.scope.on_cancel(lambda: self._put(-1))
        try:
            if waits_for is not None:
                self._take_over(stop, waits_for)
            for index in self._early:  # receives are asked for before anything is computed
                self._start(index, self._items[index].work)
            first = 0 if waits_for is None else stop + 1
            self._advance([i for i in range(first, len(self._left)) if self._left[i] == 0])
            while self._outstanding:
                self._advance(self._finish(self._next()))
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            unregister()

    @takes
    def _take_over(self, stop: int, waits_for: Pending[Any]) -> None:
        for item in self._items[:stop]:
            for user in item.wakes:
                self._left[user] -= 1
        self._started[stop] = 0
        self._outstanding[stop] = waits_for
        waits_for.on_done(lambda _: self._put(stop))

    def waits(self) -> list[tuple[NodeInfo, Pending[Any]]]:
        """See `long_waits.Waiting`."""
        return [
            (self._items[index].work.node, pending)  # type: ignore[union-attr]
            for index, pending in self._outstanding.copy().items()
        ]

    def _given_up(self, error: errors.OpError) -> errors.OpError:
        """The scope's error, naming what this step was waiting for."""
        return given_up(error, self.waits(), self._step)

    def _advance(self, ready: list[int]) -> None:
        """Run everything that is ready; a waiter that is done at once counts as an item that ran."""
        ready.sort()
        position = 0
        while position < len(ready):
            index = ready[position]
            position += 1
            work = self._items[index].work
            if isinstance(work, Segment):
                if self._channels is not None:
                    self._channels.flush()
                    self._channels.holds = work.sends_last
                run_segment(work, self._registers, self._step)
            elif index not in self._started and self._start(index, work):
                more = self._finish(index)
                if more:
                    ready[position:] = sorted([*ready[position:], *more])

    @takes
    def _start(self, index: int, work: Segment | Waiter) -> bool:
        """Start a waiter; true if it is done already and to be finished by the caller."""
        assert isinstance(work, Waiter)
        stats = self._step.stats
        self._started[index] = stats.now() if stats is not None else 0
        try:
            pending = work.kernel(*work.pick(self._registers))
        except Exception as error:  # as in run.exec.straight
            given = work.given(self._registers)
            raise explain(error, work.node, given, self._step) from cause(error)
        if not isinstance(pending, Pending):
            pending = Pending.done_with(pending)
        self._outstanding[index] = pending
        if stats is not None:
            pending.on_done(lambda _: self._end_times.__setitem__(index, stats.now()))
        if pending.done and index not in self._early:
            return True
        pending.on_done(lambda _: self._put(index))
        return False

    def _finish(self, index: int) -> list[int]:
        """Store a waiter's result; returns the items that can run now."""
        work = self._items[index].work
        assert isinstance(work, Waiter)
        pending = self._outstanding.pop(index)
        try:
            result = pending.result()
            work.store(self._registers, result)
        except Exception as error:  # as in run.exec.straight
            given = work.given(self._registers)
            raise explain(error, work.node, given, self._step) from cause(error)
        stats = self._step.stats
        if stats is not None:
            made = [(i, self._registers[r]) for i, r in enumerate(work.outputs)]
            stats.add(work.node, self._started[index], self._end_times[index], made)
        ready = []
        for user in self._items[index].wakes:
            self._left[user] -= 1
            if self._left[user] == 0:
                ready.append(user)
        return ready

    @takes
    def _abandon(self, error: BaseException) -> None:
        self._abandon_all(self._outstanding.values(), error)
