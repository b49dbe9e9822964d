"""What comes out of a kernel untyped: an error of tf.errors that names the node and keeps the cause, however it ran."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from tests.serve.clusters import in_process

TOO_MUCH = 1 << 50  # elements: more than any machine has addresses for


def plain(x: tf.Tensor) -> Any:
    return tf.matrix_inverse(x, name="it")


def in_a_branch(x: tf.Tensor) -> Any:
    return tf.cond(x[0, 0] > 0, lambda: tf.matrix_inverse(x, name="it"), lambda: x)


def in_a_loop(x: tf.Tensor) -> Any:
    return tf.while_loop(
        lambda i, a: i < 2,
        lambda i, a: (i + 1, tf.matrix_inverse(a, name="it")),
        [0, x],
        [tf.TensorShape([]), tf.TensorShape(None)],
    )[1]


def behind_a_queue(x: tf.Tensor) -> Any:
    queue = tf.FIFOQueue(1, [tf.float32])
    with tf.control_dependencies([queue.enqueue([x])]):
        return tf.matrix_inverse(queue.dequeue(), name="it")


def in_a_long_line(x: tf.Tensor) -> Any:
    for _ in range(30):
        x = tf.reverse(x, [0])
    return tf.matrix_inverse(x, name="it")


GRAPHS = [plain, in_a_branch, in_a_loop, behind_a_queue, in_a_long_line]
FAILURES = {
    ZeroDivisionError: tf.errors.InternalError,
    KeyError: tf.errors.InternalError,
    IndexError: tf.errors.InternalError,
    AttributeError: tf.errors.InternalError,
    OverflowError: tf.errors.InternalError,
    MemoryError: tf.errors.ResourceExhaustedError,
    ValueError: tf.errors.InvalidArgumentError,
}


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Exception]], None]:
    """Makes the kernel of MatrixInverse raise, from now on."""

    def fail(kind: type[Exception]) -> None:
        def kernel(xp: Any, input: Any, *, adjoint: bool) -> Any:
            raise kind("as the test wants")

        monkeypatch.setattr(get("MatrixInverse"), "kernel", kernel)

    return fail


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("kind", FAILURES)
def test_a_kernels_failure_is_typed_names_the_node_and_keeps_its_cause(
    kind: type[Exception], graph: Callable[..., Any], failing: Callable[..., None]
) -> None:
    failing(kind)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, None)
        wanted = graph(tf.reshape(x, [2, 2]))
        with tf.Session() as session:
            for _ in range(3):  # rows are made after the first run
                with pytest.raises(FAILURES[kind], match="as the test wants") as caught:
                    session.run(wanted, {x: np.eye(2)})
                assert caught.value.op_type == "MatrixInverse"
                assert caught.value.node is not None
                assert type(caught.value.__cause__) is kind
                assert ("report it" in caught.value.message) is (
                    FAILURES[kind] is tf.errors.InternalError
                )


def too_large(dims: Any) -> tf.Tensor:
    return tf.fill(dims, np.float32(1), name="large")


def test_an_allocation_that_fails_is_resource_exhausted_and_says_how_much() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.int64)
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"4\.00 PiB") as caught:
            session.run(too_large(fed), {fed: [TOO_MUCH]})
        assert caught.value.node == "large"


def test_an_allocation_that_fails_while_constants_are_folded_is_the_steps_error() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.ResourceExhaustedError, match=r"4\.00 PiB") as caught:
            session.run(too_large(tf.constant([TOO_MUCH], tf.int64)))
        assert caught.value.node == "large"


@pytest.mark.parametrize("dims", [[2**62], [2**62, 2], [2**31, 2**31], [2**63 - 1]], ids=str)
def test_more_than_there_are_addresses_is_a_typed_error(dims: list[int]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.int64)
        with pytest.raises((tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError)):
            session.run(too_large(fed), {fed: dims})


def test_an_allocation_that_fails_on_a_server_is_resource_exhausted_too() -> None:
    with in_process({"worker": 1}) as cluster, tf.Graph().as_default():
        fed = tf.placeholder(tf.int64)
        with tf.Session(cluster.target("worker:0")) as session:
            with pytest.raises(tf.errors.ResourceExhaustedError, match=r"4\.00 PiB") as caught:
                session.run(too_large(fed), {fed: [TOO_MUCH]})
            assert caught.value.node == "large"
            assert session.run(tf.constant(1)) == 1


def test_a_function_for_which_there_is_no_thread_is_resource_exhausted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(1, [tf.float32], [[]])
        called = [
            tf.py_func(lambda x: x, [queue.dequeue()], tf.float32, name=name) for name in ("a", "b")
        ]
        enqueue = queue.enqueue([1.0])
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            with pytest.raises(tf.errors.ResourceExhaustedError, match="no memory for one"):
                session.run([*called, enqueue])
