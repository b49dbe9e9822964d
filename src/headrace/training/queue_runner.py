"""QueueRunner: threads that keep a queue filled by running its enqueue ops.

Each thread runs one enqueue op until the coordinator stops or the input ends (OutOfRange); the last
one to see the input end closes the queue.  One more thread per runner waits for the stop and then
cancels the enqueues that are blocked.
Called by: input producers (make them), programs (`start_queue_runners`).
Threads: starts plain threads, which the caller's coordinator joins.
Source: TF 1.15 python/training/queue_runner_impl.py, for behaviour; the collection's proto is on file
"""

from __future__ import annotations

import functools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import errors
from headrace.client.producers import Producing
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.serve.rpc.status import to_detail
from headrace.training.coordinator import Coordinator
from headrace.training.turns import Turns

__all__ = ["QueueRunner", "add_queue_runner", "start_queue_runners"]

log = logging.getLogger("headrace")

_DEFAULT_CLOSED: tuple[type[errors.OpError], ...] = (errors.OutOfRangeError,)


class QueueRunner:
    """Enqueue ops of one queue and how to close it.

    close_within_s: how long closing is tried again where connections break; close_pause_s: after what pause.
    """

    close_within_s = 2.0
    close_pause_s = 0.3  # more than the pause between two attempts to connect

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: tuple[type[errors.OpError], ...] | None = None,
        queue_runner_def: pb.QueueRunnerDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        """A thread will be started for each of `enqueue_ops`.

        close_op: run when the input ends (default: `queue.close()`).
        cancel_op: run at the coordinator's stop (default: close, cancelling pending enqueues).
        queue_closed_exception_types: errors of an enqueue op that mean the end of the input.
        Raises ValueError, TypeError.
        """
        self._lock = threading.Lock()
        self._runs_per_session: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []
        self._turns: weakref.WeakKeyDictionary[Any, dict[Any, Turns]] = weakref.WeakKeyDictionary()
        self._failures: weakref.WeakKeyDictionary[Any, BaseException] = weakref.WeakKeyDictionary()
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise ValueError(
                    "queue_runner_def and queue are mutually exclusive, and so are enqueue_ops"
                )
            self._init_from_proto(queue_runner_def, import_scope)
            return
        if queue is None or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops: a QueueRunner needs both")
        closed = _DEFAULT_CLOSED
        if queue_closed_exception_types is not None:
            closed = _checked_types(queue_closed_exception_types)
        self._queue = queue
        self._enqueue_ops = list(enqueue_ops)
        self._queue_closed_exception_types = closed
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = (
            queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        )

    def _init_from_proto(self, proto: pb.QueueRunnerDef, import_scope: str | None) -> None:
        if not isinstance(proto, pb.QueueRunnerDef):
            raise TypeError(f"queue_runner_def must be a QueueRunnerDef, not {proto!r:.80}")
        graph = scopes.get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(_with_scope(name, import_scope))

        self._queue = element(proto.queue_name)
        self._enqueue_ops = [element(name) for name in proto.enqueue_op_name]
        self._close_op = element(proto.close_op_name)
        self._cancel_op = element(proto.cancel_op_name)
        self._queue_closed_exception_types = (
            tuple(
                errors.exception_type_from_error_code(code)
                for code in proto.queue_closed_exception_types
            )
            or _DEFAULT_CLOSED
        )

    @property
    def queue(self) -> Any:
        """That it fills."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """Each is run by a thread of its own."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """Run when an enqueue says that there is no more; what is in the queue stays to be taken."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """Run when the coordinator asks to stop: what waits for the queue ends, too."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[errors.OpError], ...]:
        """What an enqueue raises when there is no more, which is no failure."""
        return self._queue_closed_exception_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """What ended the threads of a runner without coordinator."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """The queue's."""
        return str(self._queue.name)

    def producing(self, session: Any) -> Producing:
        """How far it is in a session, for `Session.blocked_steps`."""
        with self._lock:
            started = session in self._runs_per_session
            running = self._runs_per_session.get(session, 0)
            return Producing(started, running, self._failures.get(session))

    # -- running ------------------------------------------------------------------------------

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """The threads that run the enqueue ops in `sess`; [] while earlier ones of it still run.

        With `coord` they are registered there, stop with it and report their errors to it;
        otherwise errors are kept in `exceptions_raised` and raised in the thread.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            if not getattr(sess, "sess_str", "elsewhere"):  # steps are this process's
                ops = self._enqueue_ops
                self._turns[sess] = {op: Turns() for op in ops if ops.count(op) > 1}
            self._exceptions_raised = []
            self._failures.pop(sess, None)
        threads = [
            threading.Thread(
                target=self._run,
                args=(sess, op, coord),
                name=f"QueueRunnerThread-{self.name}-{op.name}",
            )
            for op in self._enqueue_ops
        ]
        if coord is not None:
            threads.append(
                threading.Thread(
                    target=self._close_on_stop,
                    args=(sess, self._cancel_op, coord),
                    name=f"QueueRunnerThread-{self.name}-close_on_stop",
                )
            )
        for thread in threads:
            thread.daemon = daemon
            if coord is not None:
                coord.register_thread(thread)
        known = getattr(sess, "_producers", None)
        if known is not None and self not in known:
            known.append(self)
        if start:
            for thread in threads:
                thread.start()
        return threads

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None = None) -> None:
        """Enqueue until the stop or the end of the input.  The body of a thread."""
        counted = True
        try:
            enqueue = self._enqueuing(sess, enqueue_op, coord)
            while coord is None or not coord.should_stop():
                try:
                    enqueue()
                except self._queue_closed_exception_types as end:
                    counted = False
                    if isinstance(end.__cause__, errors.OpError):  # what the input ended by
                        self._failures.setdefault(sess, end.__cause__)
                    if self._left_last(sess):
                        self._close(sess, self._close_op, self._failures.get(sess))
                    return
        except Exception as error:  # the boundary of the thread
            self._failures.setdefault(sess, error)
            if coord is not None:
                coord.request_stop(error)
                return
            log.error("exception in QueueRunner %s: %s", self.name, error)
            with self._lock:
                self._exceptions_raised.append(error)
            raise
        finally:
            if counted:
                self._left_last(sess)

    def _enqueuing(
        self, sess: Any, enqueue_op: Any, coord: Coordinator | None
    ) -> Callable[[], object]:
        """What a thread does again and again: one step of `enqueue_op`, or many at once where nobody can tell."""
        enqueue = sess.make_callable(enqueue_op)
        turns = self._turns.get(sess, {}).get(enqueue_op)
        if turns is not None:
            enqueue = turns.of(enqueue)
        batch_dequeuer = _batch_dequeuer(sess, enqueue_op, coord)
        return lambda: batch_dequeuer() or enqueue()

    def _left_last(self, sess: Any) -> bool:
        """Count one thread of `sess` less; True if it was the last."""
        with self._lock:
            self._runs_per_session[sess] -= 1
            return self._runs_per_session[sess] == 0

    def _close(self, sess: Any, close_op: Any, reason: BaseException | None) -> None:
        """Close the queue, because of `reason` if there is one.

        Tried again if a connection breaks: consumers elsewhere wait for the queue and for nothing else, and to
        close it twice does no harm.
        """
        options = None
        if reason is not None:
            detail = to_detail(_as_op_error(reason))
            options = pb.RunOptions(headrace_close_reason=detail.SerializeToString())
        until = time.monotonic() + self.close_within_s
        while True:
            try:
                sess.run(close_op) if options is None else sess.run(close_op, options=options)
                return
            except errors.UnavailableError as error:
                if time.monotonic() > until:
                    log.warning("%s could not be closed: %s", self.name, error)
                    return
                threading.Event().wait(self.close_pause_s)  # for the connection to come back
            except Exception as error:  # somebody else has closed it, or the session
                log.debug("ignored while closing %s: %s", self.name, error)
                return

    def _close_on_stop(self, sess: Any, cancel_op: Any, coord: Coordinator) -> None:
        """Wait for the stop, then release whoever is blocked.  The body of a thread."""
        coord.wait_for_stop()
        self._close(sess, cancel_op, coord._failure)

    # -- protos -------------------------------------------------------------------------------

    def to_proto(self, export_scope: str | None = None) -> pb.QueueRunnerDef | None:
        """The QueueRunnerDef; None if the queue is outside `export_scope`."""
        if export_scope is not None and not self.name.startswith(export_scope):
            return None
        proto = pb.QueueRunnerDef(
            queue_name=_without_scope(self.name, export_scope),
            enqueue_op_name=[_without_scope(op.name, export_scope) for op in self._enqueue_ops],
            close_op_name=_without_scope(self._close_op.name, export_scope),
            cancel_op_name=_without_scope(self._cancel_op.name, export_scope),
        )
        proto.queue_closed_exception_types.extend(
            errors.error_code_from_exception_type(kind)  # type: ignore[misc]
            for kind in self._queue_closed_exception_types
        )
        return proto

    @staticmethod
    def from_proto(
        queue_runner_def: pb.QueueRunnerDef, import_scope: str | None = None
    ) -> QueueRunner:
        """The runner that `to_proto` described, over the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def _as_op_error(error: BaseException) -> errors.OpError:
    if isinstance(error, errors.OpError):
        return error
    found = errors.unknown(f"{type(error).__name__}: {error}")
    found.__cause__ = error
    return found


def _batch_dequeuer(sess: Any, enqueue_op: Any, coord: Coordinator | None) -> Callable[[], int]:
    """Runs many steps of `enqueue_op` at once where nobody can tell, and says how many; 0: run one."""
    make = getattr(sess, "_batch_dequeuer", None)
    known = coord is None or type(coord) is Coordinator
    batch_dequeuer = (
        make(enqueue_op) if known and make and isinstance(enqueue_op, Operation) else None
    )
    if batch_dequeuer is None:
        return lambda: 0
    return functools.partial(
        batch_dequeuer, _at_any_time if coord is None else coord._unless_stopped
    )


def _at_any_time(act: Callable[[], int]) -> int:
    return act()


def _checked_types(types: Any) -> tuple[type[errors.OpError], ...]:
    if (
        not isinstance(types, tuple)
        or not types
        or not all(isinstance(kind, type) and issubclass(kind, errors.OpError) for kind in types)
    ):
        raise TypeError(
            f"queue_closed_exception_types must be a tuple of tf.errors types, not {types!r}"
        )
    return types


def _with_scope(name: str, scope: str | None) -> str:
    return f"{scope.rstrip('/')}/{name}" if scope else name


def _without_scope(name: str, scope: str | None) -> str:
    return name.removeprefix(scope.rstrip("/") + "/") if scope else name


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Let `start_queue_runners` start this one."""
    scopes.get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Create (and start) the threads of all collected runners of the session's graph.

    Without `sess`, in the default session: ValueError if there is none.
    """
    session = scopes.require_session(sess, "start queue runners")
    if not hasattr(session, "graph") or not hasattr(session, "make_callable"):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(session)}")
    runners: list[QueueRunner] = session.graph.get_collection(collection)
    with session.graph.as_default():
        return [
            thread
            for runner in runners
            for thread in runner.create_threads(session, coord=coord, daemon=daemon, start=start)
        ]
