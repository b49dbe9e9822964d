"""Queues on the ps: every operation, and what waits, is cancelled, or finds its queue closed.

Nothing here sleeps: whoever has to know that a step has begun takes a token from a second queue, which that step
puts there before it waits.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table, Unless

TABLE = Table()
ENDS_WITHIN_S = 60.0
LIMITS_MS = (300, 3000, 30_000)
"""Of steps that are to run into them in a certain place: who comes there late, on a busy machine, gets more time."""


def fifo(tf: Any, capacity: int = 10, name: str = "queue", **kwargs: Any) -> Any:
    kwargs.setdefault("dtypes", tf.float32)
    kwargs.setdefault("shapes", [[]])
    with tf.device(PS):
        return tf.FIFOQueue(capacity, shared_name=name, **kwargs)


class InThread:
    """A call in a thread of its own; `outcome` is its value, or the name of the class that it raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._call()
        except Exception as error:
            self._outcome = type(error).__name__

    def outcome(self) -> Any:
        self._thread.join(ENDS_WITHIN_S)
        if self._thread.is_alive():
            raise RuntimeError(f"still blocked after {ENDS_WITHIN_S:.0f} s")
        return self._outcome


class Begun:
    """Tokens of steps that are about to wait."""

    def __init__(self, tf: Any) -> None:
        self._queue = fifo(tf, 100, "begun")
        self._tf = tf
        self._take, self._size = self._queue.dequeue(), self._queue.size()

    def before(self, make: Callable[[], Any]) -> Any:
        """What `make` makes, waiting until the token has been put."""
        with self._tf.control_dependencies([self._queue.enqueue(1.0)]):
            return make()

    def wait(self, session: Any, count: int = 1) -> None:
        """Block until `count` more steps have begun."""
        for _ in range(count):
            session.run(self._take)

    def came(self, session: Any) -> bool:
        """Whether a step has begun since the last time."""
        count = int(session.run(self._size))
        self.wait(session, count)
        return count > 0


def given_up(give_up: Callable[[int], Any], session: Any, put: Any, size: Any) -> Any:
    """How a dequeue on an empty queue ends when it is given up; an element that was put then is still there.

    give_up(limit_ms): how it ended, None if it had not begun.  Who gives up a step over gRPC tells its tasks, and waits
    for none: the dequeue may take what is put at that very moment.  Now and then it does, but not each time.
    """
    for limit_ms in LIMITS_MS:
        ended = give_up(limit_ms)
        if ended is not None:
            session.run(put)
            if session.run(size):
                return ended
    return "takes an element each time"


@TABLE.gives([[1.0, 2.0, 3.0], 0])
def elements_come_in_order(tf: Any, here: Here) -> Any:
    q = fifo(tf)
    put, take, size = [q.enqueue(float(i)) for i in (1, 2, 3)], q.dequeue(), q.size()
    with tf.Session(here.worker) as session:
        for each in put:
            session.run(each)
        return [[session.run(take) for _ in range(3)], session.run(size)]


@TABLE.gives([[[1, 2], [3, 4]], [[5, 6]], 1])
def many_at_once(tf: Any, here: Here) -> Any:
    q = fifo(tf, dtypes=tf.int32, shapes=[[2]])
    put = q.enqueue_many([[[1, 2], [3, 4], [5, 6], [7, 8]]])
    two, one = q.dequeue_many(2), q.dequeue_many(1)
    with tf.Session(here.worker) as session:
        session.run(put)
        return [session.run(two), session.run(one), session.run(q.size())]


@TABLE.gives([[1.0, 2.0], [3.0], "OutOfRangeError"])
def up_to_so_many_of_a_closed_queue(tf: Any, here: Here) -> Any:
    q = fifo(tf)
    put, take = q.enqueue_many([[1.0, 2.0, 3.0]]), q.dequeue_up_to(2)
    with tf.Session(here.worker) as session:
        session.run(put)
        session.run(q.close())
        seen = [session.run(take), session.run(take)]
        return [*seen, InThread(lambda: session.run(take)).outcome()]


@TABLE.gives([[[1, b"one"], [2, b"two"]], {"number": 3, "text": b"three"}])
def elements_have_components(tf: Any, here: Here) -> Any:
    q = fifo(tf, dtypes=[tf.int64, tf.string], shapes=[[], []], names=["number", "text"])
    put = q.enqueue_many({"number": [1, 2, 3], "text": ["one", "two", "three"]})
    take = q.dequeue()
    with tf.Session(here.worker) as session:
        session.run(put)
        pairs = [session.run([take["number"], take["text"]]) for _ in range(2)]
        return [pairs, session.run(take)]


@TABLE.gives([[1.0], [2.0, 3.0]])
def elements_without_shapes_differ_in_shape(tf: Any, here: Here) -> Any:
    q = fifo(tf, shapes=None)
    put = [q.enqueue([[1.0]]), q.enqueue([[2.0, 3.0]])]
    take = q.dequeue()
    with tf.Session(here.worker) as session:
        for each in put:
            session.run(each)
        return [session.run(take) for _ in put]


@TABLE.gives([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
def a_shuffled_queue_loses_nothing(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        q = tf.RandomShuffleQueue(10, 2, tf.float32, shapes=[[]], shared_name="shuffled", seed=1)
    put, take = q.enqueue_many([[float(i) for i in range(8)]]), q.dequeue()
    with tf.Session(here.worker) as session:
        session.run(put)
        session.run(q.close())
        return sorted(session.run(take).item() for _ in range(8))


@TABLE.gives([2, 2, 1.0, 2.0])
def two_masters_share_a_queue(tf: Any, here: Here) -> Any:
    q = fifo(tf)
    put, take, size = q.enqueue_many([[1.0, 2.0]]), q.dequeue(), q.size()
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        one.run(put)
        return [one.run(size), other.run(size), other.run(take), one.run(take)]


@TABLE.gives([[False, True], "CancelledError", 1.0, "OutOfRangeError"])
def a_closed_queue_drains_before_it_refuses(tf: Any, here: Here) -> Any:
    q = fifo(tf)
    put, take, closed = q.enqueue(1.0), q.dequeue(), q.is_closed()
    with tf.Session(here.worker) as session:
        session.run(put)
        before = session.run(closed)
        session.run(q.close())
        return [
            [before, session.run(closed)],
            InThread(lambda: session.run(put)).outcome(),
            session.run(take),
            InThread(lambda: session.run(take)).outcome(),
        ]


@TABLE.gives(7.0)
def a_blocked_dequeue_gets_what_another_session_puts(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    take, put = begun.before(q.dequeue), q.enqueue(7.0)
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run(take))
        begun.wait(other)
        other.run(put)
        return blocked.outcome()


@TABLE.gives([None, [1.0, 2.0]])
def a_blocked_enqueue_waits_for_room(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf, 1), Begun(tf)
    put, late, take = q.enqueue(1.0), begun.before(lambda: q.enqueue(2.0)), q.dequeue()
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        one.run(put)
        blocked = InThread(lambda: one.run(late))
        begun.wait(other)
        first = other.run(take)
        return [blocked.outcome(), [first, other.run(take)]]


@TABLE.gives([float(i) for i in range(20)])
def twenty_blocked_dequeues_are_released_by_one_enqueue_many(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf, 30), Begun(tf)
    take, put = begun.before(q.dequeue), q.enqueue_many([[float(i) for i in range(20)]])
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = [InThread(lambda: one.run(take).item()) for _ in range(20)]
        begun.wait(other, 20)
        other.run(put)
        return sorted(each.outcome() for each in blocked)


@TABLE.gives("OutOfRangeError")
def closing_ends_a_blocked_dequeue(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    take = begun.before(q.dequeue)
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run(take))
        begun.wait(other)
        other.run(q.close())
        return blocked.outcome()


@TABLE.gives([1.0, "CancelledError", 1])
def closing_may_cancel_a_blocked_enqueue(tf: Any, here: Here) -> Any:
    q = fifo(tf, 1)
    late, take, close = (
        q.enqueue_many([[1.0, 2.0, 3.0]]),
        q.dequeue(),
        q.close(cancel_pending_enqueues=True),
    )
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run(late))
        first = other.run(take)  # so the enqueue is in the queue, and waits with 3.0
        other.run(close)
        return [first, blocked.outcome(), other.run(q.size())]


@TABLE.gives([1.0, [2.0, 3.0], None, None, "OutOfRangeError"])
def closing_lets_a_blocked_enqueue_finish(tf: Any, here: Here) -> Any:
    q = fifo(tf, 1)
    late, take, close = q.enqueue_many([[1.0, 2.0, 3.0]]), q.dequeue(), q.close()
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run(late))
        first = other.run(take)
        closing = InThread(lambda: other.run(close))
        rest = [other.run(take), other.run(take)]
        ended = [blocked.outcome(), closing.outcome()]
        return [first, rest, *ended, InThread(lambda: other.run(take)).outcome()]


@TABLE.gives(["DeadlineExceededError", 1.0, 0])
def a_dequeue_that_timed_out_takes_nothing(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    late, take, put, size = begun.before(q.dequeue), q.dequeue(), q.enqueue(1.0), q.size()
    with tf.Session(here.worker) as session:
        session.run(size)  # the limit is not for making the session

        def give_up(limit_ms: int) -> Any:
            options = tf.RunOptions(timeout_in_ms=limit_ms)
            ended = InThread(lambda: session.run(late, options=options)).outcome()
            return ended if begun.came(session) else None

        ended = given_up(give_up, session, put, size)
        return [ended, session.run(take), session.run(size)]


@TABLE.gives(["DeadlineExceededError", 1])
def an_enqueue_that_timed_out_puts_nothing(tf: Any, here: Here) -> Any:
    q = fifo(tf, 1)
    put, late, size = q.enqueue(1.0), q.enqueue(2.0), q.size()
    with tf.Session(here.worker) as session:
        session.run(put)
        options = tf.RunOptions(timeout_in_ms=300)
        return [InThread(lambda: session.run(late, options=options)).outcome(), session.run(size)]


@TABLE.gives(["DeadlineExceededError", 2.0])
def the_timeout_of_a_session_ends_its_steps(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    late, take, put, size = begun.before(q.dequeue), q.dequeue(), q.enqueue(2.0), q.size()

    with tf.Session(here.worker) as patient:
        patient.run(size)

        def give_up(limit_ms: int) -> Any:
            hurried = tf.ConfigProto(operation_timeout_in_ms=limit_ms)
            session = tf.Session(here.worker, config=hurried)
            while InThread(lambda: session.run(size)).outcome() != 0:
                pass  # the limit is not for making the session, on a busy machine
            ended = InThread(lambda: session.run(late)).outcome()
            with contextlib.suppress(tf.errors.DeadlineExceededError):
                session.close()
            return ended if begun.came(patient) else None

        return [given_up(give_up, patient, put, size), patient.run(take)]


@TABLE.gives(["CancelledError", 3.0])
def closing_a_session_cancels_what_it_runs(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    late, take, put, size = begun.before(q.dequeue), q.dequeue(), q.enqueue(3.0), q.size()
    with tf.Session(here.ps) as other:

        def close_meanwhile(_: int) -> Any:
            session = tf.Session(here.worker)
            blocked = InThread(lambda: session.run(late))
            begun.wait(other)
            session.close()
            return blocked.outcome()

        ended = given_up(close_meanwhile, other, put, size)
        return [ended, other.run(take)]


@TABLE.gives([8.0, 3.0, 2])
def what_does_not_wait_for_a_blocked_node_is_done(tf: Any, here: Here) -> Any:
    q, results = fifo(tf), fifo(tf, 10, "results")
    with tf.device(WORKER):
        doubled = tf.constant(4.0) * 2.0
    take, tell = q.dequeue(), results.enqueue(doubled)
    put, hear, size = q.enqueue(3.0), results.dequeue(), results.size()
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run([take, tell])[0])
        heard = other.run(hear)  # while the dequeue waits
        other.run(put)
        taken = blocked.outcome()
        other.run([tell])
        other.run([tell])
        return [heard, taken, other.run(size)]


@TABLE.gives([[0.0, 1.0, 2.0, 3.0, 4.0], True])
def a_queue_runner_fills_a_queue_until_it_is_told_to_stop(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        count = tf.Variable(-1.0, name="count")
        q = tf.FIFOQueue(3, tf.float32, shapes=[[]], shared_name="run")
        put = q.enqueue(count.assign_add(1.0) + 0.0)
    runner = tf.train.QueueRunner(q, [put])
    take = q.dequeue()
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = runner.create_threads(session, coord=coordinator, start=True)
        seen = [session.run(take) for _ in range(5)]
        coordinator.request_stop()
        coordinator.join(threads)
        return [seen, session.run(q.is_closed())]


@TABLE.raises("InvalidArgumentError")
def a_queue_of_another_kind_has_the_name(tf: Any, here: Here) -> Any:
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        session.run(fifo(tf).enqueue(1.0))
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        session.run(fifo(tf, dtypes=tf.int32).enqueue(1))


@TABLE.gives([[1.0, 2.0, 3.0], 1])
def a_blocked_dequeue_many_gathers_what_comes(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    take = begun.before(lambda: q.dequeue_many(3))
    put, two = q.enqueue(1.0), q.enqueue_many([[2.0, 3.0, 4.0]])
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run(take))
        begun.wait(other)
        other.run(put)
        other.run(two)
        return [blocked.outcome(), other.run(q.size())]


@TABLE.gives(["OutOfRangeError", 2, [1.0, 2.0]])
def closing_ends_a_dequeue_many_that_waits_for_more(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    take, put, rest = (
        begun.before(lambda: q.dequeue_many(3)),
        q.enqueue_many([[1.0, 2.0]]),
        q.dequeue_up_to(5),
    )
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run(take))
        begun.wait(other)
        other.run(put)
        other.run(q.close())
        return [blocked.outcome(), other.run(q.size()), other.run(rest)]


@TABLE.gives([[1.0, 2.0], "OutOfRangeError"])
def closing_gives_a_dequeue_up_to_what_there_is(tf: Any, here: Here) -> Any:
    q, begun = fifo(tf), Begun(tf)
    take, put = begun.before(lambda: q.dequeue_up_to(3)), q.enqueue_many([[1.0, 2.0]])
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        blocked = InThread(lambda: one.run(take))
        begun.wait(other)
        other.run(put)
        other.run(q.close())
        return [blocked.outcome(), InThread(lambda: other.run(q.dequeue_up_to(3))).outcome()]


@TABLE.gives(
    ["DeadlineExceededError", [1.0, 2.0, 3.0]],
    unless=Unless("ps", "tensorflow", "what a cancelled dequeue_many had gathered is lost there"),
)
def a_dequeue_many_that_timed_out_puts_back_what_it_had(tf: Any, here: Here) -> Any:
    q = fifo(tf)
    fill, late, all_of_it = q.enqueue_many([[1.0, 2.0, 3.0]]), q.dequeue_many(4), q.dequeue_many(3)
    with tf.Session(here.worker) as session:
        session.run(fill)
        options = tf.RunOptions(timeout_in_ms=300)
        ended = InThread(lambda: session.run(late, options=options)).outcome()
        return [ended, session.run(all_of_it)]


@TABLE.gives(["DeadlineExceededError", [1.0, 2.0]])
def an_enqueue_many_that_timed_out_has_put_what_fitted(tf: Any, here: Here) -> Any:
    q = fifo(tf, 2)
    put, take, size = q.enqueue_many([[1.0, 2.0, 3.0]]), q.dequeue_many(2), q.size()
    with tf.Session(here.worker) as session:
        session.run(size)  # the limit is not for making the session
        for limit_ms in (300, 3000, 30_000):
            options = tf.RunOptions(timeout_in_ms=limit_ms)
            ended = InThread(lambda options=options: session.run(put, options=options)).outcome()
            if session.run(size):
                break  # on a busy machine it may not have come to that within a short limit
        return [ended, session.run(take)]


@TABLE.gives([None, 0, "CancelledError", None])
def a_closed_queue_is_closed_again_only_to_cancel(tf: Any, here: Here) -> Any:
    q = fifo(tf)
    close, cancel = q.close(), q.close(cancel_pending_enqueues=True)
    with tf.Session(here.worker) as session:
        first = session.run(close)
        again = [InThread(lambda op=op: session.run(op)).outcome() for op in (close, cancel)]
        return [first, session.run(q.size()), *again]


@TABLE.gives([[2.0, 3.0], [4.0], 1])
def enough_stays_in_a_shuffled_queue_to_shuffle(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        q = tf.RandomShuffleQueue(10, 2, tf.float32, shapes=[[]], shared_name="shuffled")
    begun = Begun(tf)
    take, rest = begun.before(q.dequeue), q.dequeue_up_to(5)
    fill, more = q.enqueue_many([[2.0, 3.0]]), q.enqueue(4.0)
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        other.run(fill)
        blocked = InThread(lambda: one.run(take))
        begun.wait(other)
        other.run(more)
        taken = float(blocked.outcome())
        other.run(q.close())
        left = sorted(float(value) for value in other.run(rest))
        whole = sorted([taken, *left])
        return [whole[:2], whole[2:], 3 - len(left)]


@TABLE.gives([[1.0, 10.0], "InvalidArgumentError"])
def a_queue_is_chosen_in_the_step(tf: Any, here: Here) -> Any:
    few, many = fifo(tf, name="few"), fifo(tf, name="many")
    puts = [few.enqueue(1.0), many.enqueue(10.0)]
    with tf.device(PS):
        which = tf.placeholder(tf.int32, [])
        take = tf.QueueBase.from_list(which, [few, many]).dequeue()
    with tf.Session(here.worker) as session:
        session.run(puts)
        taken = [session.run(take, {which: number}) for number in (0, 1)]
        return [taken, InThread(lambda: session.run(take, {which: 2})).outcome()]


@TABLE.gives([1, 0])
def a_queue_without_a_shared_name_is_the_sessions_own(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        q = tf.FIFOQueue(5, tf.float32, shapes=[[]])
    put, size = q.enqueue(1.0), q.size()
    with tf.Session(here.worker) as one, tf.Session(here.worker) as other:
        one.run(put)
        return [one.run(size), other.run(size)]
