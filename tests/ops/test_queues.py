"""Queue objects and their ops in sessions: blocking, sharing, names, and refusal of what does not fit."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from tests.support.limits import deadline_that_says


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def test_elements_of_several_components_pass_through() -> None:
    queue = tf.FIFOQueue(10, [tf.int32, tf.string], shapes=[[2], []])
    one, many = queue.dequeue(), queue.dequeue_many(2)
    assert [t.shape.as_list() for t in (*one, *many)] == [[2], [], [2, 2], [2]]
    with tf.Session() as session:
        session.run(queue.enqueue([[1, 2], "a"]))
        session.run(queue.enqueue_many([[[3, 4], [5, 6]], ["b", "c"]]))
        assert session.run(queue.size()) == 3
        numbers, text = session.run(one)
        assert (numbers.tolist(), text) == ([1, 2], b"a")
        numbers, texts = session.run(many)
        assert (numbers.tolist(), texts.tolist()) == ([[3, 4], [5, 6]], [b"b", b"c"])


def test_named_components_go_in_and_out_as_dicts() -> None:
    queue = tf.FIFOQueue(10, [tf.int32, tf.float32], names=["n", "x"], shapes=[[], []])
    with tf.Session() as session:
        session.run(queue.enqueue({"x": 1.5, "n": 1}))
        session.run(queue.enqueue_many({"n": [2, 3], "x": [2.5, 3.5]}))
        assert session.run(queue.dequeue()) == {"n": 1, "x": 1.5}
        rest = session.run(queue.dequeue_up_to(2))
        assert (rest["n"].tolist(), rest["x"].tolist()) == ([2, 3], [2.5, 3.5])


def test_a_dequeue_waits_for_another_thread() -> None:
    queue = tf.FIFOQueue(1, tf.int32, shapes=[[]])
    value = tf.placeholder(tf.int32, [])
    enqueue, many = queue.enqueue(value), queue.dequeue_many(5)
    with tf.Session() as session:

        def produce() -> None:
            for n in range(5):
                session.run(enqueue, {value: n})

        thread = threading.Thread(target=produce)
        thread.start()
        assert session.run(many).tolist() == [0, 1, 2, 3, 4]
        thread.join(60)


def test_a_closed_queue_drains_before_it_refuses() -> None:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    with tf.Session() as session:
        session.run(queue.enqueue_many([[1, 2, 3]]))
        session.run(queue.close())
        assert session.run(queue.is_closed())
        with pytest.raises(tf.errors.CancelledError, match="closed"):
            session.run(queue.enqueue(4))
        with pytest.raises(tf.errors.OutOfRangeError, match="requested 4, current size 3"):
            session.run(queue.dequeue_many(4))
        assert session.run(queue.dequeue_up_to(4)).tolist() == [1, 2, 3]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(queue.dequeue())


def test_closing_may_cancel_those_who_wait() -> None:
    queue = tf.FIFOQueue(1, tf.int32)
    second = queue.enqueue(2)
    with tf.Session() as session:
        session.run(queue.enqueue(1))
        outcome: list[BaseException] = []

        def blocked() -> None:
            try:
                session.run(second)
            except tf.errors.CancelledError as error:
                outcome.append(error)

        thread = threading.Thread(target=blocked)
        thread.start()
        session.run(queue.close(cancel_pending_enqueues=True))
        thread.join(60)
        assert len(outcome) == 1
        assert session.run(queue.dequeue()) == 1


def test_a_step_with_a_time_limit_takes_nothing() -> None:
    queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    with tf.Session() as session:
        session.run(queue.enqueue_many([[1, 2]]))
        taken = queue.dequeue_many(3)
        deadline_that_says(lambda limited: session.run(taken, options=limited), "dequeue_many")
        assert session.run(queue.dequeue_many(2)).tolist() == [1, 2]


def test_nodes_of_one_shared_name_are_one_queue() -> None:
    one = tf.FIFOQueue(10, tf.int32, shared_name="common")
    other = tf.FIFOQueue(10, tf.int32, shared_name="common")
    apart = tf.FIFOQueue(10, tf.int32)
    differs = tf.FIFOQueue(11, tf.int32, shared_name="common")
    with tf.Session() as session:
        session.run(one.enqueue(5))
        assert session.run([other.size(), apart.size()]) == [1, 0]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"capacity 10.*11"):
            session.run(differs.size())


def test_a_container_separates_queues_of_one_name() -> None:
    one = tf.FIFOQueue(10, tf.int32, shared_name="common")
    with tf.container("elsewhere"):
        other = tf.FIFOQueue(10, tf.int32, shared_name="common")
    with tf.Session() as session:
        session.run(one.enqueue(5))
        assert session.run(other.size()) == 0


def test_a_shuffle_queue_keeps_some_back_and_mixes() -> None:
    queue = tf.RandomShuffleQueue(100, 10, tf.int32, shapes=[[]], seed=3)
    with tf.Session() as session:
        session.run(queue.enqueue_many([list(range(50))]))
        first = session.run(queue.dequeue_many(40)).tolist()
        assert first != sorted(first)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(queue.dequeue(), options=tf.RunOptions(timeout_in_ms=50))
        session.run(queue.close())
        rest = session.run(queue.dequeue_up_to(100)).tolist()
        assert sorted(first + rest) == list(range(50))


def test_queues_of_the_first_generation_work_too() -> None:
    kinds = {"component_types": [tf.int32], "shapes": [[]]}
    for make in (
        get("FIFOQueue")(**kinds),
        get("RandomShuffleQueue")(capacity=9, min_after_dequeue=0, **kinds),
    ):
        assert make.dtype._is_ref_dtype
        queue = tf.QueueBase([tf.int32], [tf.TensorShape([])], None, make)
        put = queue.enqueue_many([[4, 5]])
        assert put.type == "QueueEnqueueMany"
        with tf.Session() as session:
            session.run([put])
            session.run(queue.enqueue(6))
            assert session.run(queue.size()) == 3
            assert sorted(session.run(queue.dequeue_many(3)).tolist()) == [4, 5, 6]
            session.run(queue.close())
            assert session.run(queue.is_closed())


def test_a_queue_can_be_chosen_in_the_step() -> None:
    queues = [tf.FIFOQueue(9, tf.int32, shapes=[[]]) for _ in range(3)]
    which = tf.placeholder(tf.int32, [])
    chosen = tf.QueueBase.from_list(which, queues).dequeue()
    with tf.Session() as session:
        for number, queue in enumerate(queues):
            session.run(queue.enqueue(10 * number))
        assert [session.run(chosen, {which: n}) for n in (2, 0, 1)] == [20, 0, 10]


def test_what_was_put_in_is_not_what_comes_out_by_reference() -> None:
    variable = tf.Variable([1.0, 2.0])
    queue = tf.FIFOQueue(9, tf.float32, shapes=[[2]])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(queue.enqueue(variable))
        session.run(variable.assign([9.0, 9.0]))
        assert session.run(queue.dequeue()).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["Dequeue", "DequeueMany", "DequeueUpTo"])
def test_types_are_compared_in_the_step(kind: str) -> None:
    queue = tf.FIFOQueue(9, [tf.int32, tf.int32], shapes=[[], []])
    dequeue = get(f"Queue{kind}V2")
    arguments = [queue.queue_ref] if kind == "Dequeue" else [queue.queue_ref, 1]
    wrong = dequeue(*arguments, component_types=[tf.int32])
    late = dequeue(*arguments, component_types=[tf.int32] * 2, timeout_ms=5)
    with tf.Session() as session:
        session.run(queue.enqueue([1, 2]))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\(int32, int32\).*\(int32\)"):
            session.run(wrong)
        with pytest.raises(tf.errors.InvalidArgumentError, match="timeout_in_ms"):
            session.run(late)
        assert session.run(queue.size()) == 1


def test_an_enqueue_must_not_ask_for_a_timeout_either() -> None:
    queue = tf.FIFOQueue(9, tf.int32, shapes=[[]])
    one = get("QueueEnqueueV2")(queue.queue_ref, [tf.constant(1)], timeout_ms=5)
    many = get("QueueEnqueueManyV2")(queue.queue_ref, [tf.constant([1])], timeout_ms=5)
    with tf.Session() as session:
        for late in (one, many):
            with pytest.raises(tf.errors.InvalidArgumentError, match="timeout_in_ms"):
                session.run(late)
        assert session.run(queue.size()) == 0


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: tf.FIFOQueue(1, tf.int32).enqueue([1, 2]), ValueError, "2 values.* 1 components"),
    (lambda: tf.FIFOQueue(1, tf.int32).enqueue("x"), TypeError, "int32"),
    (lambda: tf.FIFOQueue(1, tf.int32).enqueue({"a": 1}), ValueError, "must have names"),
    (lambda: tf.FIFOQueue(1, tf.int32, names="a").enqueue(1), ValueError, "dictionary"),
    (lambda: tf.FIFOQueue(1, tf.int32, names="a").enqueue({"b": 1}), ValueError, "'b'.*'a'"),
    (lambda: tf.FIFOQueue(1, tf.int32, shapes=[2]).enqueue([[1]]), ValueError, "incompatible"),
    (lambda: tf.FIFOQueue(1, [tf.int32] * 2).enqueue_many([[1], [1, 2]]), ValueError, "1 and 2|2 and 1"),
    (lambda: tf.FIFOQueue(1, tf.int32).enqueue_many(tf.constant(1)), ValueError, "rank"),
    (lambda: tf.FIFOQueue(1, tf.int32, shapes=[[None]]), ValueError, "fully defined"),
    (lambda: tf.FIFOQueue(1, tf.int32, shapes=[[], []]), ValueError, "2 shapes"),
    (lambda: tf.FIFOQueue(1, tf.int32, shapes=3), TypeError, "3"),
    (lambda: tf.FIFOQueue(1, tf.int32, names=["a", "b"]), ValueError, "2 names"),
    (lambda: tf.FIFOQueue(1, []), ValueError, "component_types"),
    (lambda: tf.FIFOQueue(1, tf.int32).dequeue_many(-1), ValueError, "-1"),
    (lambda: tf.FIFOQueue(1, tf.int32).dequeue_up_to([1]), ValueError, "rank 0"),
    (lambda: tf.QueueBase.from_list(0, []), TypeError, "[Ll]ist of queues"),
    (lambda: tf.PaddingFIFOQueue(1, tf.int32, None), ValueError, "list of shapes"),
    (lambda: tf.PaddingFIFOQueue(1, tf.int32, tf.TensorShape([None])), ValueError, "list of shapes"),
    (lambda: tf.PaddingFIFOQueue(1, tf.int32, [None]), ValueError, "list of shapes"),
    (lambda: tf.PaddingFIFOQueue(1, tf.int32, [tf.TensorShape(None)]), ValueError, "known rank"),
    (lambda: tf.PaddingFIFOQueue(1, tf.int32, [[None], []]), ValueError, "2 shapes"),
    (lambda: tf.PaddingFIFOQueue(1, tf.int32, [[None, 2]]).enqueue([[1, 2, 3]]), ValueError, "incompatible"),
    (lambda: tf.PriorityQueue(1, tf.int32), TypeError, "list with a shape"),
    (lambda: tf.PriorityQueue(1, tf.int32, [[None]]), ValueError, "fully defined"),
    (lambda: tf.PriorityQueue(1, tf.int32, [[]], names=["x"]), ValueError, "1 names"),
    (lambda: tf.PriorityQueue(1, tf.int32, [[]]).enqueue(["a", 1]), TypeError, "int64"),
    (
        lambda: tf.QueueBase.from_list(0, [tf.FIFOQueue(1, tf.int32), tf.FIFOQueue(1, tf.string)]),
        TypeError, "component dtypes",
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_does_not_fit_is_refused_when_the_graph_is_built(number: int) -> None:
    make, error, text = REFUSED[number]
    with pytest.raises(error, match=text):
        make()


STEPS: list[tuple[Any, type[Exception], str]] = [
    (lambda: tf.FIFOQueue(1, tf.int32).dequeue_many(1), tf.errors.InvalidArgumentError, "shapes"),
    (lambda: tf.RandomShuffleQueue(5, 5, tf.int32).size(), tf.errors.InvalidArgumentError, "min_after_dequeue"),
    (lambda: tf.FIFOQueue(1, tf.int32, shared_name="_mine").size(), tf.errors.InvalidArgumentError, "'_mine'"),
    (
        lambda: tf.FIFOQueue(1, tf.int32, shapes=[2]).enqueue(tf.placeholder_with_default([1], None)),
        tf.errors.InvalidArgumentError, r"\[2\]",
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(STEPS)))
def test_what_shows_only_in_the_step_is_an_error_of_the_step(number: int) -> None:
    make, error, text = STEPS[number]
    node = make()
    with tf.Session() as session, pytest.raises(error, match=text):
        session.run(node)


def test_files_are_written_read_and_found(tmp_path: Any) -> None:
    path = str(tmp_path / "new" / "folder" / "file.txt")
    write = tf.write_file(path, b"\x00content")
    with tf.control_dependencies([write]):
        content = tf.read_file(path)
    names = tf.matching_files([str(tmp_path / "*/*/f?l[a-f].txt"), str(tmp_path / "none*")])
    with tf.Session() as session:
        assert session.run(content) == b"\x00content"
        assert session.run(names).tolist() == [path.encode()]
        with pytest.raises(tf.errors.NotFoundError, match="nobody; No such file"):
            session.run(tf.read_file(str(tmp_path / "nobody")))
        with pytest.raises(tf.errors.FailedPreconditionError, match="Is a directory"):
            session.run(tf.write_file(str(tmp_path), "x"))
        with pytest.raises(tf.errors.FailedPreconditionError, match="Not a directory"):
            session.run(tf.write_file(path + "/below", "x"))


def test_an_assertion_fails_with_its_data() -> None:
    fine = tf.Assert(tf.constant(True), ["fine"])
    wrong = tf.Assert(tf.placeholder_with_default(False, []), ["wrong", np.arange(5)], summarize=2)
    with tf.Session() as session:
        session.run(fine)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[wrong\] \[0 1\.\.\.\]"):
            session.run(wrong)


def test_scalar_summaries_hold_tag_and_value() -> None:
    summary = get("ScalarSummary")(["a", "b"], [1.5, 2.5])
    with tf.Session() as session:
        found = tf.Summary.FromString(session.run(summary))
        assert [(v.tag, v.simple_value) for v in found.value] == [("a", 1.5), ("b", 2.5)]
        tags = tf.placeholder_with_default(["a"], None)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[1\] != \[2\]"):
            session.run(get("ScalarSummary")(tags, [1.5, 2.5]))


def test_a_padding_queue_fills_up_what_is_shorter() -> None:
    queue = tf.PaddingFIFOQueue(10, [tf.int32, tf.string], shapes=[[None], [None, 1]])
    batch = queue.dequeue_many(2)
    assert [t.shape.as_list() for t in batch] == [[2, None], [2, None, 1]]
    with tf.Session() as session:
        session.run(queue.enqueue([[1, 2, 3], [["a"]]]))
        session.run(queue.enqueue([[4], [["b"], ["c"]]]))
        numbers, texts = session.run(batch)
        assert numbers.tolist() == [[1, 2, 3], [4, 0, 0]]
        assert texts.tolist() == [[[b"a"], [b""]], [[b"b"], [b"c"]]]


def test_of_a_priority_queue_the_smallest_leaves_first_and_of_equals_the_first() -> None:
    queue = tf.PriorityQueue(10, tf.string, shapes=[[]], names=["when", "what"])
    with tf.Session() as session:
        session.run(queue.enqueue({"when": 5, "what": "last"}))
        session.run(queue.enqueue_many({"when": [3, -1, 3], "what": ["b", "a", "c"]}))
        assert session.run(queue.dequeue()) == {"when": -1, "what": b"a"}
        assert session.run(queue.dequeue_many(3))["what"].tolist() == [b"b", b"c", b"last"]


@pytest.mark.parametrize("name", ["PaddingFIFOQueue", "PriorityQueue"])
def test_the_other_kinds_of_the_first_generation_work_too(name: str) -> None:
    handle = get(name)(component_types=[tf.int32], shapes=[[]])
    types = [tf.int64] * (name == "PriorityQueue") + [tf.int32]
    queue = tf.QueueBase(types, [tf.TensorShape([])] * len(types), None, handle)
    with tf.Session() as session:
        session.run(queue.enqueue_many([[4, 5]] * len(types)))
        found = session.run(queue.dequeue_up_to(2))
        assert np.ravel(found).tolist() == [4, 5] * len(types)
