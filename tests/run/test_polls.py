"""A step whose caller has gone, or whose time is up, ends before its next long kernel; small steps never look."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph import registry
from headrace.plan import compile
from headrace.plan.ir import Step
from headrace.run.exec.program import Program, Segment
from headrace.run.exec.straight import HOT

SIZE = 256


class Products:
    """MatMul's kernel, and what happens in the first product of the step that counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.first: Callable[[], object] | None = None
        spec = registry.get("MatMul")
        original: Any = spec.kernel

        def kernel(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
            self.count += 1
            if self.first is not None and self.count == 1:
                self.first()
            return original(xp, a, b, transpose_a=transpose_a, transpose_b=transpose_b)

        monkeypatch.setattr(spec, "kernel", kernel)

    def in_the_first(self, do: Callable[[], object]) -> None:
        """Have this done in the next product."""
        self.count, self.first = 0, do


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Products:
    return Products(monkeypatch)


def matrix() -> Any:
    return tf.Variable(np.eye(SIZE, dtype=np.float32), name="matrix")


def chain(x: Any) -> Any:
    for _ in range(10):
        x = tf.matmul(x, x)
    return x


def loop(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 10, lambda i, y: (i + 1, tf.matmul(y, x)), [0, x])[1]


def branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: chain(x), lambda: x)


def of_unknown_shapes(x: Any) -> Any:
    return chain(tf.placeholder_with_default(x, [None, None]))


def after_waiting(x: Any) -> Any:
    queue = tf.FIFOQueue(20, [tf.float32], [[SIZE, SIZE]])
    with tf.control_dependencies([queue.enqueue(x)]):
        return chain(queue.dequeue())


BUILDERS = [chain, loop, branch, of_unknown_shapes, after_waiting]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("build", BUILDERS)
def test_closing_the_session_ends_a_step_before_its_next_product(
    build: Callable[[Any], Any], traced: bool, products: Products
) -> None:
    """Traced steps list every node: branches and loops run on the general executor."""
    with tf.Graph().as_default():
        x = matrix()
        y = build(x)
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) if traced else None
        metadata = tf.RunMetadata() if traced else None
        np.testing.assert_array_equal(
            session.run(y, options=options, run_metadata=metadata)[0, :2], [1, 0]
        )
        engine: Any = session._engine
        products.in_the_first(
            lambda: engine.scope.cancel(tf.errors.CancelledError(None, None, "enough"))
        )
        with pytest.raises(
            tf.errors.CancelledError, match="enough; the step had come to"
        ) as caught:
            session.run(y, options=options, run_metadata=metadata)
        assert caught.value.node is not None
        assert products.count == 1
        session.close()


@pytest.mark.parametrize("build", BUILDERS)
def test_the_time_limit_ends_a_step_before_its_next_product(
    build: Callable[[Any], Any], products: Products
) -> None:
    limit_ms = 1
    with tf.Graph().as_default(), tf.Session() as session:
        x = matrix()
        y = build(x)
        session.run(tf.global_variables_initializer())
        session.run(y)
        products.in_the_first(lambda: time.sleep(limit_ms / 1000))
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(y, options=tf.RunOptions(timeout_in_ms=limit_ms))
        assert products.count <= 1  # a busy machine may not even come to the first


def test_ctrl_c_ends_a_step_before_its_next_product(products: Products) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        y = chain(matrix())
        session.run(tf.global_variables_initializer())
        products.in_the_first(lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            session.run(y)
        assert products.count == 1
        assert session.run(y).shape == (SIZE, SIZE)


def test_a_segment_that_was_compiled_to_source_looks_as_well(products: Products) -> None:
    with tf.Graph().as_default():
        y = chain(matrix())
        session = tf.Session()
        session.run(tf.global_variables_initializer())
        for _ in range(HOT + 1):
            session.run(y)
        engine: Any = session._engine
        products.in_the_first(
            lambda: engine.scope.cancel(tf.errors.CancelledError(None, None, "enough"))
        )
        with pytest.raises(tf.errors.CancelledError, match="enough"):
            session.run(y)
        assert products.count == 1
        session.close()


def looks(program: Program) -> list[str]:
    """The nodes before which it looks."""
    found = []
    for item in program.items:
        if isinstance(item.work, Segment):
            for each in item.work.code.instructions:
                if getattr(each.kernel, "__name__", "") == "go_on":
                    found.append(each.node.name)
    return found


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """What is compiled."""
    made: list[Program] = []
    emit = compile.emit

    def noted(*versions: Step) -> Program:
        made.append(emit(*versions))
        return made[-1]

    monkeypatch.setattr(compile, "emit", noted)
    return made


def small_chain() -> Any:
    x = tf.placeholder_with_default(1.0, [])
    for _ in range(1000):
        x = x + 1.0
    return x


def large_product() -> Any:
    x = tf.placeholder_with_default(np.eye(SIZE, dtype=np.float32), [SIZE, SIZE])
    return tf.matmul(x, x)


def small_layer() -> Any:
    x = tf.placeholder_with_default(np.ones((2, 4), np.float32), [2, 4])
    return tf.nn.relu(tf.matmul(x, tf.ones([4, 8])) + tf.zeros([8]))


@pytest.mark.parametrize(
    "build",
    [
        lambda: tf.constant(1),
        small_chain,
        small_layer,
        lambda: tf.shape(tf.placeholder_with_default(np.ones((3, 3)), None)),
        large_product,
    ],
)
def test_a_step_of_small_nodes_or_of_one_large_one_does_not_look(
    build: Callable[[], Any], programs: list[Program]
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        y = build()
        programs.clear()
        session.run(y)
    (program,) = programs
    assert not looks(program)


def test_a_step_looks_before_each_large_node_but_the_first(programs: list[Program]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder_with_default(np.eye(SIZE, dtype=np.float32), [SIZE, SIZE])
        y = x
        for number in range(4):
            y = tf.matmul(y, y, name=f"product_{number}")
        programs.clear()
        session.run(y)
    (program,) = programs
    assert looks(program) == ["product_1", "product_2", "product_3"]


def test_a_step_that_has_ended_calls_no_other_function_of_the_user() -> None:
    called: list[int] = []
    with tf.Graph().as_default(), tf.Session() as session:

        def call(x: Any, number: Any) -> Any:
            called.append(int(number))
            if number == 1:
                session._engine.scope.cancel(tf.errors.CancelledError(None, None, "enough"))
            return x

        y = tf.constant(1.0)
        for number in range(3):
            y = tf.py_func(call, [y, number], tf.float32, name=f"call_{number}")
        with pytest.raises(tf.errors.CancelledError, match=r"enough.*call_2"):
            session.run(y)
    assert called == [0, 1]


def test_many_nodes_of_some_size_are_looked_between_now_and_then(programs: list[Program]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.placeholder_with_default(np.ones(1000, np.float32), [1000])
        for _ in range(200):
            y = tf.reverse(y, [0])
        programs.clear()
        session.run(y)
    (program,) = programs
    assert len(looks(program)) == 200 * 1000 // (1 << 16)
