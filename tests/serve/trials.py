"""A test of the contract over connections that break: what may come of it instead of what is written, and what must
be true afterwards.

The test holds as written, or ends with the error of a fault: Unavailable or Aborted, naming a task, after a connection
was broken.  Where it looks at errors or waits for steps in other threads, such an error ends it there.  Whatever else
ends it, an assertion first of all, is a failure, which says how to repeat it.
Afterwards connections last, and then: steps that nobody wants end; no queue has operations that wait for them; a new
session works on every task; every partition of a step was begun once at most, and no more steps than were asked for.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headrace as tf
from headrace.client import remote
from headrace.client.engine import Step
from headrace.client.remote import RemoteEngine
from headrace.run.exec.dataflow import DataflowProgram
from headrace.run.exec.kernel import StepState
from headrace.run.exec.program import Program
from headrace.run.queues.queue import Queue
from headrace.run.scope import Scope
from headrace.run.state.wait_queues import WaitingResource
from headrace.serve.worker import worker as worker_module
from headrace.serve.worker.worker import Worker
from tests.serve.broken_steps import HUNG_AFTER_S, names_in
from tests.serve.clusters import Cluster
from tests.serve.conftest import Background
from tests.serve.proxies import Faults
from tests.support.until import until

WORD_WITHIN_S = 30.0  # of a step in another thread, which a fault has ended
FAULT = (tf.errors.UnavailableError, tf.errors.AbortedError)


class Trial:
    """Of one test.  again: how to repeat it.  ended_by: the error of a fault, if it did not hold as written."""

    def __init__(self, cluster: Cluster, faults: Faults, again: str) -> None:
        self._cluster = cluster
        self._faults = faults
        self._again = again
        self._books = Books()
        self._watching: list[Any] = []
        self._lost_by: BaseException | None = None  # a step in another thread
        self._step_lost = threading.Event()
        self.ended_by: BaseException | None = None

    @contextmanager
    def of(self, item: pytest.Function) -> Iterator[None]:
        """Around the test's function."""
        self._watching = [each for each in item.funcargs.values() if hasattr(each, "give_up")]
        try:
            with pytest.MonkeyPatch.context() as patched:
                self._stop_at_faults(patched)
                self._books.keep(patched)
                self._faults.begin()
                try:
                    yield
                except (Exception, pytest.fail.Exception) as error:
                    self.ended_by = self._fault_behind(error)
                    if self.ended_by is None:
                        raise
                finally:
                    self._faults.end()
                    for engine in list(remote._open_engines):
                        engine.close()
            self._books.check()
            self._check_cluster(asked="ask" in item.funcargs)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"connections broken: {self._faults.done}; again: {self._again}")
            raise

    def _fault_behind(self, error: BaseException) -> BaseException | None:
        """The error of a fault by which a test may end so."""
        found = self._behind(error)
        if found is not None or not isinstance(error, Exception):  # pytest's: the time is over
            return found
        # It may be about a step in another thread, which is just ending.
        self._step_lost.wait(WORD_WITHIN_S)
        return self._lost_by

    def _behind(self, error: BaseException) -> BaseException | None:
        """The fault's error: as it came, or as pytest.raises met it, which expected another one."""
        return next((each for each in (error, error.__context__) if self._of_fault(each)), None)

    def _of_fault(self, error: object) -> bool:
        """Whether a fault may end the test so, itself or as the cause: it names a task."""
        while isinstance(error, tf.errors.OpError) and not isinstance(error, FAULT):
            error = error.__cause__
        if not isinstance(error, FAULT) or not self._faults.done:
            return False
        return any(name in str(error) for name in names_in(self._cluster))

    def _stop_at_faults(self, patched: pytest.MonkeyPatch) -> None:
        """What came of a thread ends the test, and what waits for it, if it was a fault."""
        run, found = Background._run, Background.error

        def watched(background: Background) -> None:
            run(background)
            if self._of_fault(background._error):
                self._lost_by = background._error
                self._step_lost.set()
                for each in self._watching:
                    each.give_up(background._error)

        def error(background: Background) -> Any:
            error = found(background)
            if self._of_fault(error):
                raise error
            return error

        leave = tf.Session.__exit__

        def left(session: tf.Session, kind: Any, failure: Any, trace: Any) -> Any:
            if isinstance(failure, Exception) and self._faults.done and not self._behind(failure):
                self._step_lost.wait(WORD_WITHIN_S)  # before closing ends what may just be ending
            return leave(session, kind, failure, trace)

        patched.setattr(tf.Session, "__exit__", left)
        patched.setattr(Background, "_run", watched)
        patched.setattr(Background, "error", error)

    def _check_cluster(self, asked: bool) -> None:
        """asked: the test is a client of its own, and does not close what it opens."""
        for job, addresses in self._cluster.spec.items():
            for index in range(len(addresses)):
                task = f"{job}:{index}"
                server = self._cluster.servers.get(task)
                if server is None or server.worker.closed or server.worker._refusing:
                    if server is not None:
                        server.stop()
                    self._cluster.start(task)
        if not asked:
            for server in self._cluster.servers.values():
                _check_idle(server.worker)
        _check_new_session(self._cluster)


def _check_idle(worker: Worker) -> None:
    worker._awaited = True
    with worker._idle, Scope(HUNG_AFTER_S) as scope:
        scope.wait_for(worker._idle, lambda: not worker._running, f"steps of {worker.task}")
    # A step has left before it is forgotten, and another task may have to say that it is over.
    until(lambda: not any(each.started for each in list(worker._steps.values())), HUNG_AFTER_S)
    for resource in worker.runtime.resources.all():
        waits = False
        if isinstance(resource, Queue):
            waits = bool(resource._enqueues or resource._dequeues)
        elif isinstance(resource, WaitingResource):
            waits = any(resource._lines)
        assert not waits, f"something waits in {resource.name!r} that nobody asked for"


def _check_new_session(cluster: Cluster) -> None:
    """Steps over all tasks do what they should."""
    first, *_, last = cluster.servers
    with tf.Graph().as_default():
        with tf.device(f"/job:{first.replace(':', '/task:')}"):
            counter = tf.Variable(0, name="counter_of_the_trial")
            queue = tf.FIFOQueue(9, tf.int32, [[]], shared_name="queue_of_the_trial")
            put, size = queue.enqueue(counter.assign_add(1)), queue.size()
            taken = queue.dequeue()
        with tf.device(f"/job:{last.replace(':', '/task:')}"):
            doubled = taken * 2
        options = tf.RunOptions(timeout_in_ms=round(HUNG_AFTER_S * 1000))
        for target in (first, last):
            with tf.Session(cluster.target(target)) as session:
                session.run(counter.initializer, options=options)
                for number in range(1, 5):
                    session.run(put, options=options)
                    assert session.run(doubled, options=options) == 2 * number
                assert session.run(size, options=options) == 0


class OfATask(StepState):
    """A step on a server, not one of a local session."""

    __slots__ = ()


class Books:
    """How many steps clients asked for, and how often each partition was begun in each."""

    def __init__(self) -> None:
        self._asked: list[str] = []
        self._begun: list[tuple[Any, int]] = []  # a partition's program and a step

    def keep(self, patched: pytest.MonkeyPatch) -> None:
        """Count from here."""

        def begun(run: Callable[..., Any]) -> Callable[..., Any]:
            def counted(program: Any, step: StepState, *args: Any, **how: Any) -> Any:
                if isinstance(step, OfATask):
                    self._begun.append((program, step.step_id))
                return run(program, step, *args, **how)

            return counted

        def attempted(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*args: Any) -> Any:
                self._asked.append(call.__name__)
                return call(*args)

            return counted

        step, begin_partial, callable_ = (
            RemoteEngine.step,
            RemoteEngine.begin_partial,
            RemoteEngine.callable,
        )

        def made(*args: Any) -> Step:
            found = step(*args)
            return Step(attempted(found._run), attempted(found.plain))

        def made_callable(*args: Any) -> Any:
            call, release = callable_(*args)
            return attempted(call), release

        patched.setattr(worker_module, "StepState", OfATask)
        for kind in (Program, DataflowProgram):
            patched.setattr(kind, "run", begun(kind.run))
        patched.setattr(RemoteEngine, "step", made)
        patched.setattr(RemoteEngine, "begin_partial", attempted(begin_partial))
        patched.setattr(RemoteEngine, "callable", made_callable)

    def check(self) -> None:
        """Nothing was begun twice."""
        twice = [step for (_, step), times in Counter(self._begun).items() if times > 1]
        assert not twice, f"begun twice: {twice}"
        begun, asked = len({step for _, step in self._begun}), len(self._asked)
        assert not asked or begun <= asked, f"{begun} steps were begun, and {asked} asked for"
