"""Queues, one sentence per rule.  A Pending that is not done stands for a caller who would block."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import RandomShuffleQueue
from headrace.run.queues.spec import UNBOUNDED, QueueSpec
from headrace.run.scope import Scope

GIVEN_UP = errors.aborted("given up")


def fifo(capacity: int = 3, **more: Any) -> Queue:
    return FIFOQueue("q", QueueSpec.make([dtypes.int32], [()], capacity, **more))


def shuffle(capacity: int = 10, min_after_dequeue: int = 2, seed: int = 7) -> Queue:
    spec = QueueSpec.make([dtypes.int32], [()], capacity, min_after_dequeue, seed)
    return RandomShuffleQueue("q", spec)


def put(queue: Queue, *numbers: int) -> Pending[None]:
    if len(numbers) == 1:
        return queue.enqueue((np.int32(numbers[0]),))
    return queue.enqueue_many((np.array(numbers, np.int32),))


def value(pending: Pending[Any]) -> Any:
    (component,) = pending.result()
    return component.tolist()


def drain(queue: Queue) -> list[int]:
    queue.close(cancel_pending_enqueues=True)
    return [value(queue.dequeue()) for _ in range(queue.size())]


def fails(pending: Pending[Any], kind: type[errors.OpError], *words: str) -> None:
    assert pending.done, "it waits instead of failing"
    assert type(pending.error) is kind, pending.error
    for word in words:
        assert word in str(pending.error)


# ---- waiting ------------------------------------------------------------------------------------


def test_elements_leave_in_the_order_they_came() -> None:
    queue = fifo()
    put(queue, 1)
    put(queue, 2, 3)
    assert [value(queue.dequeue()) for _ in range(3)] == [1, 2, 3]


def test_a_dequeue_waits_for_an_enqueue() -> None:
    queue = fifo()
    pending = queue.dequeue()
    assert not pending.done
    assert put(queue, 5).done
    assert value(pending) == 5
    assert queue.size() == 0


def test_an_enqueue_waits_for_room() -> None:
    queue = fifo(capacity=1)
    put(queue, 1)
    pending = put(queue, 2)
    assert not pending.done
    assert value(queue.dequeue()) == 1
    assert pending.done
    assert value(queue.dequeue()) == 2


def test_waiting_enqueues_hold_copies() -> None:
    queue = FIFOQueue("q", QueueSpec.make([dtypes.int32], [(2,)], 0))
    queue.capacity = 0
    buffer = np.array([1, 2], np.int32)
    queue.enqueue((buffer,))
    queue.enqueue_many((buffer[None],))
    buffer[:] = 0
    queue.capacity = 2
    assert [value(queue.dequeue()) for _ in range(2)] == [[1, 2], [1, 2]]


def test_dequeues_are_served_in_the_order_of_arrival() -> None:
    queue = fifo()
    waiting = [queue.dequeue() for _ in range(3)]
    put(queue, 1, 2, 3)
    assert [value(p) for p in waiting] == [1, 2, 3]


def test_an_enqueue_does_not_overtake_a_waiting_enqueue_many() -> None:
    queue = fifo(capacity=2)
    many, one = put(queue, 0, 1, 2, 3), put(queue, 9)
    assert [value(queue.dequeue()) for _ in range(3)] == [0, 1, 2]
    assert many.done
    assert one.done
    assert [value(queue.dequeue()) for _ in range(2)] == [3, 9]


def test_a_dequeue_does_not_overtake_a_waiting_dequeue_many() -> None:
    queue = fifo()
    many, one = queue.dequeue_many(3), queue.dequeue()
    put(queue, 1, 2)
    assert not one.done
    put(queue, 3, 4)
    assert value(many) == [1, 2, 3]
    assert value(one) == 4


def test_a_waiting_dequeue_many_sets_elements_aside_and_so_makes_room() -> None:
    queue = fifo(capacity=2)
    many = queue.dequeue_many(5)
    assert put(queue, 0, 1, 2, 3).done
    assert queue.size() == 0
    assert not many.done
    assert put(queue, 4, 5).done
    assert value(many) == [0, 1, 2, 3, 4]
    assert queue.size() == 1


def test_dequeue_up_to_waits_for_all_while_the_queue_is_open() -> None:
    queue = fifo()
    put(queue, 1)
    pending = queue.dequeue_up_to(2)
    assert not pending.done
    put(queue, 2)
    assert value(pending) == [1, 2]


def test_no_elements_are_there_at_once_even_when_closed_or_behind_others() -> None:
    queue = fifo(capacity=0)
    empty = (np.zeros((0,), np.int32),)
    queue.dequeue()
    put(queue, 1)
    assert queue.enqueue_many(empty).done
    assert value(queue.dequeue_many(0)) == []
    queue.close()
    assert queue.enqueue_many(empty).error is None
    assert queue.dequeue_up_to(0).result()[0].dtype == np.int32


def test_a_queue_of_capacity_0_takes_nothing_and_one_below_0_takes_all() -> None:
    assert not put(fifo(capacity=0), 1).done
    for capacity in (-1, -5):
        queue = fifo(capacity)
        assert queue.capacity == UNBOUNDED
        assert put(queue, *range(1000)).done


# ---- closing ------------------------------------------------------------------------------------


def test_a_closed_queue_drains_before_it_refuses() -> None:
    queue = fifo()
    put(queue, 1, 2)
    assert queue.close().done
    assert queue.is_closed()
    assert [value(queue.dequeue()) for _ in range(2)] == [1, 2]
    fails(queue.dequeue(), errors.OutOfRangeError, "FIFOQueue 'q'", "requested 1, current size 0")


def test_a_closed_queue_takes_nothing() -> None:
    queue = fifo()
    queue.close()
    fails(put(queue, 1), errors.CancelledError, "'q' is closed")
    fails(put(queue, 1, 2), errors.CancelledError, "'q' is closed")


def test_waiting_dequeues_fail_when_the_queue_closes() -> None:
    queue = fifo()
    waiting = [queue.dequeue(), queue.dequeue_many(2), queue.dequeue_up_to(2)]
    queue.close()
    for pending in waiting:
        fails(pending, errors.OutOfRangeError)


def test_dequeue_many_on_a_closed_queue_with_too_few_puts_them_back() -> None:
    queue = fifo()
    put(queue, 1, 2)
    waiting = queue.dequeue_many(3)
    assert queue.size() == 0
    queue.close()
    fails(waiting, errors.OutOfRangeError, "requested 3, current size 2")
    assert queue.size() == 2
    fails(queue.dequeue_many(3), errors.OutOfRangeError)
    assert value(queue.dequeue_many(2)) == [1, 2]


def test_dequeue_up_to_on_a_closed_queue_gives_the_rest_then_fails() -> None:
    queue = fifo()
    put(queue, 1, 2)
    first, second = queue.dequeue_up_to(3), queue.dequeue_up_to(3)
    queue.close()
    assert value(first) == [1, 2]
    fails(second, errors.OutOfRangeError, "requested 3, current size 0")


def test_a_close_waits_for_the_enqueues_before_it() -> None:
    queue = fifo(capacity=1)
    many, closing, late = put(queue, 1, 2), queue.close(), put(queue, 3)
    assert not closing.done
    assert not queue.is_closed()
    assert value(queue.dequeue()) == 1
    assert many.error is None
    assert closing.error is None
    assert queue.is_closed()
    fails(late, errors.CancelledError, "is closed")
    assert value(queue.dequeue()) == 2


def test_a_close_that_cancels_ends_waiting_enqueues_and_closes() -> None:
    queue = fifo(capacity=2)
    waiting = [put(queue, 0, 1, 2), put(queue, 9), queue.close()]
    assert queue.close(cancel_pending_enqueues=True).error is None
    for pending in waiting:
        fails(pending, errors.CancelledError, "'q'", "cancelled")
    assert [value(queue.dequeue()) for _ in range(2)] == [0, 1], "what went in stays in"
    fails(queue.dequeue(), errors.OutOfRangeError)


def test_closing_twice_is_cancelled_unless_it_cancels() -> None:
    queue = fifo()
    assert queue.close().error is None
    fails(queue.close(), errors.CancelledError, "already closed")
    assert queue.close(cancel_pending_enqueues=True).error is None


def test_a_close_may_be_abandoned_while_it_waits() -> None:
    queue = fifo(capacity=1)
    put(queue, 1)
    put(queue, 2)
    closing = queue.close()
    assert closing.abandon(GIVEN_UP)
    queue.dequeue()
    queue.dequeue()
    assert not queue.is_closed()


# ---- abandoning ---------------------------------------------------------------------------------


def test_an_abandoned_dequeue_takes_nothing() -> None:
    queue = fifo()
    pending = queue.dequeue()
    assert pending.abandon(GIVEN_UP)
    put(queue, 1)
    assert pending.error is GIVEN_UP
    assert queue.size() == 1


def test_an_abandoned_dequeue_many_gives_its_elements_back_in_front() -> None:
    queue = fifo()
    put(queue, 1, 2)
    pending = queue.dequeue_many(5)
    put(queue, 3)
    assert queue.size() == 0
    pending.abandon(GIVEN_UP)
    put(queue, 4)
    assert drain(queue) == [1, 2, 3]


def test_those_behind_an_abandoned_dequeue_many_are_served() -> None:
    queue = fifo()
    many, one = queue.dequeue_many(3), queue.dequeue()
    put(queue, 1)
    many.abandon(GIVEN_UP)
    assert value(one) == 1


def test_what_an_abandoned_dequeue_many_gives_back_may_exceed_the_capacity() -> None:
    queue = fifo(capacity=2)
    many = queue.dequeue_many(5)
    put(queue, 0, 1, 2, 3)
    put(queue, 4, 5, 6)
    assert value(many) == [0, 1, 2, 3, 4]
    many = queue.dequeue_many(4)
    put(queue, 7)
    put(queue, 8, 9, 10, 11)
    assert value(many) == [5, 6, 7, 8]
    many = queue.dequeue_many(9)
    put(queue, 12, 13)
    many.abandon(GIVEN_UP)
    assert queue.size() == 5
    assert not put(queue, 14).done
    assert [value(queue.dequeue()) for _ in range(6)] == [9, 10, 11, 12, 13, 14]


def test_an_abandoned_enqueue_puts_nothing() -> None:
    queue = fifo(capacity=1)
    put(queue, 1)
    pending, behind = put(queue, 2), put(queue, 3)
    pending.abandon(GIVEN_UP)
    assert [value(queue.dequeue()) for _ in range(2)] == [1, 3]
    assert behind.error is None


def test_what_went_in_before_an_enqueue_many_was_abandoned_stays() -> None:
    queue = fifo(capacity=2)
    pending, behind = put(queue, 0, 1, 2, 3), put(queue, 9)
    pending.abandon(GIVEN_UP)
    assert [value(queue.dequeue()) for _ in range(3)] == [0, 1, 9]
    assert behind.done


def test_one_in_the_middle_of_the_line_may_be_abandoned() -> None:
    queue = fifo()
    first, second, third = (queue.dequeue() for _ in range(3))
    second.abandon(GIVEN_UP)
    put(queue, 1, 2)
    assert (value(first), value(third)) == (1, 2)


def test_what_is_served_cannot_be_abandoned() -> None:
    queue = fifo()
    pending = queue.dequeue()
    put(queue, 1)
    assert not pending.abandon(GIVEN_UP)
    assert value(pending) == 1


def test_a_wait_that_times_out_says_everything_and_leaves_no_trace() -> None:
    queue = fifo()
    put(queue, 1)
    with pytest.raises(
        errors.DeadlineExceededError,
        match=r"dequeue_many\(3\) on FIFOQueue 'q'.*holds 0 of at most 3, 1 of 3 set aside",
    ):
        queue.dequeue_many(3).wait(Scope(timeout_s=0.01))
    assert drain(queue) == [1]


def test_callbacks_run_without_the_queues_lock() -> None:
    queue = fifo(capacity=1)
    seen: list[int] = []

    def answer(pending: Pending[Any]) -> None:
        put(queue, value(pending) + 1)
        seen.append(queue.size())

    queue.dequeue().on_done(answer)
    put(queue, 1)
    assert seen == [1]
    assert drain(queue) == [2]


# ---- arguments ----------------------------------------------------------------------------------

PAIR = QueueSpec.make([dtypes.float32, dtypes.string], [(2,), ()])
VEC, TEXT = np.zeros(2, np.float32), np.array(b"x", object)
VECS, TEXTS = np.zeros((3, 2), np.float32), np.array([b"x"] * 3, object)

BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("enqueue", (VEC,), "Wrong number of components in tuple. Expected 2, got 1"),
    ("enqueue", (VEC, TEXT, TEXT), "Expected 2, got 3"),
    ("enqueue", (), "Expected 2, got 0"),
    (
        "enqueue",
        (VEC.astype(np.float64), TEXT),
        "Type mismatch in tuple component 0. Expected float32, got float64",
    ),
    ("enqueue", (VEC, np.float32(1)), "component 1. Expected string, got float32"),
    ("enqueue", (VECS, TEXT), "Shape mismatch in tuple component 0. Expected [2], got [3,2]"),
    ("enqueue", (VEC, TEXTS), "component 1. Expected [], got [3]"),
    ("enqueue_many", (), "Expected 2, got 0"),
    ("enqueue_many", (VECS, TEXTS[:2]), "component 1. Expected [3], got [2]"),
    ("enqueue_many", (VECS[:, :1], TEXTS), "component 0. Expected [3,2], got [3,1]"),
    (
        "enqueue_many",
        (np.float32(1), TEXTS),
        "Shape mismatch in tuple component 0. A batch was expected",
    ),
    ("enqueue_many", (VECS, TEXT), "component 1. Expected [3], got []"),
    (
        "enqueue_many",
        (TEXTS, TEXTS),
        "Type mismatch in tuple component 0. Expected float32, got string",
    ),
]


@pytest.mark.parametrize(("kind", "components", "words"), BAD)
@pytest.mark.parametrize("closed", [False, True])
def test_what_does_not_fit_is_refused_with_both_sides(
    kind: str, components: tuple[Any, ...], words: str, closed: bool
) -> None:
    queue = FIFOQueue("pair", PAIR)
    if closed:
        queue.close()
    fails(getattr(queue, kind)(components), errors.InvalidArgumentError, "'pair'", words)
    assert queue.size() == 0


def test_a_negative_count_is_refused() -> None:
    fails(
        fifo().dequeue_many(-1),
        errors.InvalidArgumentError,
        "DequeueManyOp requested -1 < 0 elements",
    )
    fails(
        fifo().dequeue_up_to(-2),
        errors.InvalidArgumentError,
        "DequeueUpToOp requested -2 < 0 elements",
    )


@pytest.mark.parametrize("kind", [FIFOQueue, RandomShuffleQueue])
def test_without_shapes_elements_differ_and_leave_one_by_one(kind: type[Queue]) -> None:
    queue = kind("q", QueueSpec.make([dtypes.int32], seed=1))
    queue.enqueue((np.int32(1),))
    queue.enqueue((np.array([2, 3], np.int32),))
    queue.enqueue_many((np.array([[4], [5]], np.int32),))
    for pending in (queue.dequeue_many(2), queue.dequeue_up_to(2)):
        fails(
            pending, errors.InvalidArgumentError, "require the components to have specified shapes"
        )
    got = [value(queue.dequeue()) for _ in range(4)]
    assert sorted(map(str, got)) == ["1", "[2, 3]", "[4]", "[5]"]
    if kind is FIFOQueue:
        assert got == [1, [2, 3], [4], [5]]
    assert not queue.dequeue().done


SPECS: list[tuple[dict[str, Any], str]] = [
    ({"shapes": [(None, 2)]}, "component 0 of a queue has shape [?,2]"),
    ({"shapes": [None]}, "<unknown>"),
    ({"shapes": [(), ()]}, "1 components was given 2 shapes"),
    ({"min_after_dequeue": -1}, "-1 must be >= 0"),
]


@pytest.mark.parametrize(("attrs", "words"), SPECS)
def test_a_spec_that_cannot_be_is_refused(attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as raised:
        QueueSpec.make([dtypes.int32], **attrs)
    assert words in str(raised.value)


@pytest.mark.parametrize(("capacity", "keep"), [(3, 3), (3, 5), (0, 0)])
def test_a_shuffle_queue_must_be_able_to_give(capacity: int, keep: int) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"{keep} must be < capacity {capacity}"):
        shuffle(capacity, keep)


def test_running_out_of_memory_is_an_error_of_the_operation_alone() -> None:
    queue = FIFOQueue("q", QueueSpec.make([dtypes.int32], [(2**28,)]))
    huge = np.broadcast_to(np.int32(0), (2**20, 2**28))
    fails(queue.enqueue_many((huge,)), errors.ResourceExhaustedError, "1048576 elements", "'q'")
    assert queue.size() == 0
    assert not queue.dequeue().done


# ---- diagnosis ----------------------------------------------------------------------------------


def test_a_queue_describes_itself_and_who_waits() -> None:
    queue = shuffle(capacity=4, min_after_dequeue=2)
    put(queue, 1)
    queue.dequeue_many(3)
    queue.dequeue()
    described = queue.describe()
    infos = described.pop("pending_dequeues")
    assert described.pop("moved_at") >= 0.0
    assert described == {
        "kind": "RandomShuffleQueue",
        "name": "q",
        "container": "localhost",
        "gathered": 0,
        "entered": 1,
        "size": 1,
        "capacity": 4,
        "closed": False,
        "min_after_dequeue": 2,
        "pending_enqueues": [],
    }
    assert [i.kind for i in infos] == ["dequeue_many(3)", "dequeue"]
    assert "it holds 1 of at most 4, 2 must stay while it is open; an enqueue" in str(infos[0])
    assert "1 more wait before this" in str(infos[1])


def test_a_waiting_enqueue_many_says_how_far_it_came() -> None:
    queue = fifo(capacity=2)
    info = put(queue, 1, 2, 3).wait_info
    assert info is not None
    assert "it holds 2 of at most 2, 2 of 3 went in; a dequeue would make room" in str(info)
    queue.dequeue()
    assert "being released" in info.detail


def test_a_waiting_thread_is_released_by_another() -> None:
    queue = fifo(capacity=1)
    got: list[int] = []
    thread = threading.Thread(
        target=lambda: got.extend(queue.dequeue().wait(Scope(60))[0] for _ in range(100))
    )
    thread.start()
    for number in range(100):
        put(queue, number).wait(Scope(60))
    thread.join()
    assert got == list(range(100))
