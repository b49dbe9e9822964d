"""`tf.nondifferentiable_batch_function`: rows of several steps are computed on together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.support.limits import deadline_that_says

FOREVER = 60_000_000


def doubled(**limits: Any) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
    """A placeholder of rows, and twice these beside how many rows the batch had."""
    given = {"num_batch_threads": 1, "max_batch_size": 4, "batch_timeout_micros": FOREVER} | limits

    @tf.nondifferentiable_batch_function(**given)
    def double(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return 2.0 * rows, tf.fill(tf.shape(rows)[:1], tf.shape(rows)[0])

    x = tf.placeholder(tf.float32, [None])
    return x, double(x)


def together(session: tf.Session, fetches: Any, x: tf.Tensor, *fed: list[float]) -> list[Any]:
    """What steps that run at once give, each fed its own."""
    with ThreadPoolExecutor(len(fed)) as pool:
        return list(pool.map(lambda rows: session.run(fetches, {x: rows}), fed))


def test_steps_that_run_at_once_share_a_batch() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, (twice, rows) = doubled()
        found = together(session, [twice, rows], x, [1, 2], [3], [4])
    assert [each[0].tolist() for each in found] == [[2, 4], [6], [8]]
    assert [each[1].tolist() for each in found] == [[4, 4], [4], [4]]


def test_sessions_of_one_server_share_batches() -> None:
    with tf.Graph().as_default() as graph, tf.train.Server.create_local_server() as server:
        x, (twice, rows) = doubled()

        def client(fed: list[float]) -> Any:
            with tf.Session(server.target, graph) as session:
                return session.run([twice, rows], {x: fed})

        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(client, [[1, 2], [3, 4]])
    assert [one[0].tolist(), other[0].tolist()] == [[2, 4], [6, 8]]
    assert [one[1].tolist(), other[1].tolist()] == [[4, 4]] * 2


def test_a_batch_does_not_wait_longer_than_its_time_and_is_filled_up() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, (twice, rows) = doubled(batch_timeout_micros=1, allowed_batch_sizes=[3, 4])
        twice, rows = session.run([twice, rows], {x: [5, 6]})
    assert twice.tolist() == [10, 12]
    assert rows.tolist() == [3, 3]


def test_a_request_that_is_larger_than_a_batch_is_computed_in_parts() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, (twice, rows) = doubled(
            batch_timeout_micros=1, max_batch_size=7, allowed_batch_sizes=[2, 3]
        )
        twice, rows = session.run([twice, rows], {x: range(7)})
    assert twice.tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert rows.tolist() == [3] * 6 + [2]


def test_what_the_function_captures_is_passed_as_it_is() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("weights", initializer=[[1.0, 2.0], [3.0, 4.0]])

        @tf.nondifferentiable_batch_function(2, 2, FOREVER)
        def model(rows: tf.Tensor, names: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"logits": tf.matmul(rows, weights), "names": names}

        x, names = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.string, [None])
        out = model(x, names)
        session.run(tf.global_variables_initializer())
        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(
                lambda fed: session.run(out, {x: [fed[0]], names: [fed[1]]}),
                [([1, 0], "a"), ([0, 1], "b")],
            )
    assert one["logits"].tolist() == [[1, 2]]
    assert (one["names"].tolist(), other["names"].tolist()) == ([b"a"], [b"b"])
    assert other["logits"].tolist() == [[3, 4]]


def test_a_step_that_gives_up_leaves_its_batch() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, (twice, rows) = doubled(max_batch_size=2)
        deadline_that_says(
            lambda limited: session.run(twice, {x: [1]}, options=limited), "batch on batches of"
        )
        found = together(session, [twice, rows], x, [2], [3])
    assert [each[0].tolist() for each in found] == [[4], [6]]


def test_requests_that_wait_end_with_their_session() -> None:
    with tf.Graph().as_default(), ThreadPoolExecutor(1) as pool:
        x, (twice, _) = doubled()
        session = tf.Session()
        begun = tf.placeholder(tf.float32, [None])
        waiting = pool.submit(lambda: session.run(twice, {x: [1]}))
        assert session.run(begun, {begun: [1]}).tolist() == [1]
        session.close()
        with pytest.raises((tf.errors.CancelledError, RuntimeError)):
            waiting.result()


def test_an_error_of_the_function_is_that_of_every_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.int32, [None])
        divided = tf.nondifferentiable_batch_function(1, 2, FOREVER)(lambda rows: 6 // rows)(x)

        def outcome(rows: list[int]) -> str:
            try:
                return str(session.run(divided, {x: rows}))
            except tf.errors.InvalidArgumentError as error:
                return error.message.splitlines()[0]

        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(outcome, [[0], [3]]))
        assert session.run(divided, {x: [2, 3]}).tolist() == [3, 2]
    assert all("ivision by zero" in each for each in said)


REFUSED: dict[str, tuple[dict[str, Any], Any, type[Exception], str]] = {
    "too many rows": ({}, range(5), tf.errors.InvalidArgumentError, "Task size 5 is larger"),
    "no limit of rows": ({"max_batch_size": 0}, [1], tf.errors.InvalidArgumentError, "must be positive; was 0"),
    "no time": ({"batch_timeout_micros": -1}, [1], tf.errors.InvalidArgumentError, "non-negative; was -1"),
    "no room": ({"max_enqueued_batches": 0}, [1], tf.errors.InvalidArgumentError, "must be positive; was 0"),
    "sizes that fall": ({"allowed_batch_sizes": [4, 2]}, [1], tf.errors.InvalidArgumentError, "monotonically"),
    "a size above": ({"allowed_batch_sizes": [8]}, [1], tf.errors.InvalidArgumentError, "greater than or equal"),
    "another last size": (
        {"allowed_batch_sizes": [2], "enable_large_batch_splitting": False},
        [1], tf.errors.InvalidArgumentError, "final entry in allowed_batch_sizes must equal",
    ),
    "too many batches": (
        {"max_enqueued_batches": 1, "allowed_batch_sizes": [1]},
        [1, 2], tf.errors.UnavailableError, "queue to which this task was submitted is full",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_batched_is_refused(case: str) -> None:
    limits, fed, kind, phrase = REFUSED[case]
    with tf.Graph().as_default(), tf.Session() as session:
        x, (twice, _) = doubled(**limits)
        with pytest.raises(kind, match=phrase):
            session.run(twice, {x: fed})


@pytest.mark.parametrize(
    ("function", "phrase"),
    [
        (tf.reduce_sum, "Batched output tensor has 0 dimensions"),
        (lambda rows: rows[:1], "0th dimension does not equal the sum"),
    ],
)
def test_a_function_gives_a_row_for_each(function: Callable[..., Any], phrase: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.nondifferentiable_batch_function(1, 4, 1)(function)(tf.constant([1.0, 2.0]))
        with pytest.raises(tf.errors.FailedPreconditionError, match=phrase):
            session.run(made)


def test_no_rows_need_no_batch() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, (twice, _) = doubled()
        assert session.run(twice, {x: []}).shape == (0,)


def test_arguments_are_tensors_and_there_is_no_gradient() -> None:
    with tf.Graph().as_default():
        x, (twice, _) = doubled()
        with pytest.raises(LookupError, match="No gradient defined"):
            tf.gradients(twice, x)
        with pytest.raises(ValueError, match="are supposed to be Tensors"):
            tf.nondifferentiable_batch_function(1, 1, 1)(tf.identity)([1.0])


def test_values_that_were_given_may_change_afterwards() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable([1.0])
        same = tf.nondifferentiable_batch_function(1, 1, FOREVER)(tf.identity)(v + 0.0)
        session.run(v.initializer)
        first = session.run(same)
        session.run(v.assign([2.0]))
        assert np.array_equal([first, session.run(same)], [[1], [2]])
