"""Assignments that make their value in the variable's own memory: the same bits, the same errors, nothing torn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as tf
from headrace.ops._kernels import blocks
from headrace.ops.array import constants
from headrace.plan.rules import assignments, elementwise
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.scope import Scope
from headrace.run.state.variable import State, Variable
from tests.plan.programs import DEVICE, compiled, nodes, run

BLOCK = 96
SHAPE = (60, 17)
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is large here is small elsewhere."""
    for module in (elementwise, blocks, assignments):
        if hasattr(module, "BLOCK"):
            monkeypatch.setattr(module, "BLOCK", BLOCK)
        monkeypatch.setattr(module, "LARGE", 3 * BLOCK)
    monkeypatch.setattr("headrace.ops.math.reductions.LARGE", 3 * BLOCK)
    monkeypatch.setattr("headrace.plan.folding.LARGEST", 100)
    with tf.Graph().as_default():
        yield


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Array, Array]]:
    """What was changed by blocks: (from, into)."""
    found: list[tuple[Array, Array]] = []
    rewrite = State.rewrite

    def noted(self: State, change: Callable[[Array, Array], object]) -> None:
        def both(before: Array, after: Array) -> None:
            found.append((before, after))
            change(before, after)

        rewrite(self, both)

    monkeypatch.setattr(State, "rewrite", noted)
    return found


ASSIGNS: list[Callable[[Any, Any], Any]] = [tf.assign, tf.assign_add, tf.assign_sub]
STEPS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a - b, lambda a, b: tf.maximum(a, b),
    lambda a, b: tf.tanh(a), lambda a, b: tf.nn.relu(b), lambda a, b: tf.sigmoid(a),
    lambda a, b: tf.square(a) * 0.5, lambda a, b: tf.exp(-tf.abs(b)), lambda a, b: tf.nn.elu(a),
]  # fmt: skip


class Task:
    """A task's state, and the steps that it runs: nodes together or one by one."""

    def __init__(self, together: bool = True, threads: int = 2) -> None:
        self.runtime = Runtime(DEVICE, workers=WorkerPool(threads))
        self.together = together

    def run(self, fetches: list[Any], feeds: dict[Any, Any] | None = None) -> list[Any]:
        feeds = feeds or {}
        tensors = [tf.convert_to_tensor(fetch) for fetch in fetches]
        program = compiled(tensors, list(feeds), fold=self.together)
        return run(program, self.runtime, list(feeds.values()))

    def initialized(self, *variables: Any) -> Task:
        with Scope() as scope:
            for variable in variables:
                program = compiled([], [], [variable.initializer])
                program.run(StepState(self.runtime, scope, 1), [])
        return self

    def state(self, variable: Any) -> Variable:
        return self.runtime.resources.lookup("", variable.op.name, Variable)

    def __enter__(self) -> Task:
        return self

    def __exit__(self, *error: object) -> None:
        self.runtime.workers.close()


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    which=st.sampled_from(range(3)),
    steps=st.lists(
        st.tuples(st.sampled_from(range(len(STEPS))), st.integers(0, 30), st.integers(0, 30)),
        max_size=7,
    ),
    leased=st.booleans(),
)
def test_any_value_is_assigned_with_the_bits_that_it_has_op_by_op(
    which: int, steps: list[tuple[int, int, int]], leased: bool
) -> None:
    with tf.Graph().as_default():
        x, other = tf.Variable(random(*SHAPE)), tf.Variable(random(*SHAPE, seed=1))
        values = [
            x, other, tf.constant(random(17)), tf.constant(0.5), tf.constant(random(*SHAPE, seed=2)),
            tf.unstack(x)[3], tf.reshape(tf.reshape(x, [-1]), SHAPE),
            tf.fill(SHAPE, 1.5), tf.ones(SHAPE),
        ]  # fmt: skip
        for number, first, second in steps:
            values.append(STEPS[number](values[first % len(values)], values[second % len(values)]))
        value = values[-1] if values[-1].shape == x.shape else values[-1] + tf.zeros(SHAPE)
        update = ASSIGNS[which](x, value)
        found = []
        for together in (True, False):
            with Task(together).initialized(x, other) as task, np.errstate(all="ignore"):
                lease = task.state(x).lease() if leased else None
                kept = None if lease is None else lease.array.copy()
                found.append([task.run([update])[0] for _ in range(3)] + task.run([x]))
                if lease is not None:
                    np.testing.assert_array_equal(lease.array, kept)
    for one, op_by_op in zip(*found, strict=True):
        np.testing.assert_array_equal(one, op_by_op)


def test_the_value_is_made_where_the_variable_is(changes: list[tuple[Array, Array]]) -> None:
    x = tf.Variable(random(*SHAPE))
    update = x.assign(tf.tanh(x) * 0.5 + 1.0)
    assert update.op.name == "Assign"
    assert set(nodes(compiled([], [], [update.op]))) == {x.op.name, f"{x.op.name}/read", "Assign"}
    with Task().initialized(x) as task:
        array = task.state(x).array
        task.run([update])
        ((before, after),) = changes
        assert before is after is array is task.state(x).array


@pytest.mark.parametrize("make", ASSIGNS)
def test_while_somebody_reads_it_is_made_elsewhere(
    make: Any, changes: list[tuple[Array, Array]]
) -> None:
    x = tf.Variable(random(*SHAPE))
    update = make(x, x * 0.5)
    with Task().initialized(x) as task:
        lease = task.state(x).lease()
        task.run([update])
        ((before, after),) = changes
        assert before is not after
        np.testing.assert_array_equal(lease.array, random(*SHAPE))
        lease.release()
        task.run([update])
        assert changes[1][0] is changes[1][1] is after


@pytest.mark.parametrize("make", ASSIGNS)
def test_a_value_alone_is_shared_by_the_threads_too(
    make: Any, changes: list[tuple[Array, Array]]
) -> None:
    x, other = tf.Variable(random(*SHAPE)), tf.Variable(random(*SHAPE, seed=1))
    update = make(x, other)
    with Task().initialized(x, other) as task:
        (found,) = task.run([update])
    ufunc = {"Assign": lambda a, b: b, "AssignAdd": np.add, "AssignSub": np.subtract}
    wanted = ufunc[update.op.type](random(*SHAPE), random(*SHAPE, seed=1))
    np.testing.assert_array_equal(found, wanted)
    assert len(changes) == 1


VIEWS: dict[str, Callable[[Any], Any]] = {
    "a row": lambda x: x - tf.unstack(x)[0],
    "a row that was cut out": lambda x: x - x[0],
    "a number": lambda x: x - tf.unstack(tf.unstack(x)[0])[0],
    "a row behind": lambda x: x - tf.unstack(x)[-1],
    "its elements in another order": lambda x: x + tf.reverse(x, [0]),
    "its elements transposed": lambda x: x + tf.transpose(tf.reshape(x, SHAPE[::-1])),
}


@pytest.mark.parametrize("view", VIEWS)
def test_what_looks_at_other_places_sees_the_variable_as_it_was(view: str) -> None:
    x = tf.Variable(random(*SHAPE))
    update = x.assign(VIEWS[view](x) * 2.0)
    found = []
    for together in (True, False):
        with Task(together).initialized(x) as task:
            found.append(task.run([update])[0])
    np.testing.assert_array_equal(*found)


def test_a_variable_without_a_value_takes_its_first(changes: list[tuple[Array, Array]]) -> None:
    x, other = tf.Variable(random(*SHAPE)), tf.Variable(random(*SHAPE, seed=1))
    with Task().initialized(other) as task:
        (found,) = task.run([x.assign(other * 2.0)])
    np.testing.assert_array_equal(found, random(*SHAPE, seed=1) * 2)
    assert changes == []


def drawn(scale: Any = 3.0) -> Any:
    tf.set_random_seed(5)
    return tf.random_uniform(SHAPE, seed=1) * scale - 1.0


def test_what_is_drawn_first_becomes_the_variables_array(monkeypatch: pytest.MonkeyPatch) -> None:
    adopted: list[Array] = []
    adopt = State.adopt

    def noted(self: State, array: Array, validate_shape: bool = True) -> None:
        adopted.append(array)
        adopt(self, array, validate_shape)

    monkeypatch.setattr(State, "adopt", noted)
    x, draw = tf.Variable(drawn()), drawn()
    with Task().initialized(x) as task:
        first = task.state(x).array
        assert len(adopted) == 1
        assert first is adopted[0]
        assert first.flags.writeable
        assert first.flags.c_contiguous
        found = task.run([x])
        task.initialized(x)  # once more: in its place
        assert task.state(x).array is first
        assert len(adopted) == 1
    with Task(together=False) as apart:
        np.testing.assert_array_equal(found, apart.run([draw]))


def test_numbers_that_others_want_are_theirs() -> None:
    value = drawn()
    numbers = value.op.inputs[0].op.inputs[0]
    assert numbers.op.type == "RandomUniform"
    x, y = tf.Variable(value), tf.Variable(value)
    with Task() as task:
        first, raw = task.run([x.assign(value), numbers])
        np.testing.assert_array_equal(first, raw * np.float32(3) - 1)
        task.run([y.assign(numbers)])
        again, other = task.run([x.assign_add(y), y])
        np.testing.assert_array_equal(again, first + other)
        assert not np.shares_memory(task.state(x).array, task.state(y).array)


@pytest.mark.parametrize("validate", [True, False])
def test_a_first_value_has_the_variables_shape_unless_told_otherwise(validate: bool) -> None:
    x = tf.Variable(random(3, 3))
    update = tf.assign(x, drawn(), validate_shape=False)
    update.op.attrs["validate_shape"] = validate
    texts = []
    for together in (True, False):
        with Task(together) as task:
            if validate:
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    task.run([update])
                texts.append((caught.value.node, caught.value.message))
            else:
                texts.append(task.run([update])[0].tobytes())
    assert texts[0] == texts[1]


def wrong(make: Any, kind: str) -> tuple[Any, dict[Any, Any], list[Any]]:
    """An update that fails, what it is fed, and the variables that have values."""
    fed = tf.placeholder(tf.float32, None)
    x, other = tf.Variable(random(*SHAPE)), tf.Variable(random(*SHAPE, seed=1))
    feed = random(61, 17) if kind == "shape" else random(17) if kind == "row" else random(*SHAPE)
    value = tf.tanh(fed) * 2.0
    if kind == "no value to read":
        value = value + other
    return make(x, value), {fed: feed}, [] if kind == "no value" else [x]


KINDS = [(make, kind) for make in ASSIGNS for kind in ("shape", "row", "no value to read")]
KINDS += [(make, "no value") for make in ASSIGNS[1:]]  # one that is assigned needs none


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_errors_are_those_of_the_nodes_one_by_one(make: Any, kind: str) -> None:
    update, feeds, initialized = wrong(make, kind)
    texts = []
    for together in (True, False):
        with Task(together).initialized(*initialized) as task:
            with pytest.raises(tf.errors.OpError) as caught:
                task.run([update], feeds)
            texts.append((type(caught.value), caught.value.node, caught.value.message))
            if initialized:
                np.testing.assert_array_equal(task.run(initialized)[0], random(*SHAPE))
    assert texts[0] == texts[1]


EQUAL: dict[str, Callable[[Any, Any], list[Any]]] = {
    "assigned": lambda x, ones: [x.assign(ones)],
    "added": lambda x, ones: [x.assign_add(ones)],
    "computed with": lambda x, ones: [tf.tanh(ones) * x + 2.0],
    "summed with others": lambda x, ones: [tf.reduce_sum(ones * x)],
    "summed alone": lambda x, ones: [tf.reduce_sum(tf.exp(ones) * 2.0)],
    "nothing else": lambda x, ones: [tf.exp(ones) * 2.0],
    "fetched too": lambda x, ones: [ones, x.assign_add(ones)],
    "looked into": lambda x, ones: [tf.reshape(ones, [-1]), tf.tanh(ones) + x],
    "transposed": lambda x, ones: [tf.matmul(ones, ones, transpose_b=True), x.assign_sub(ones)],
}


@pytest.mark.parametrize("use", EQUAL)
def test_equal_elements_may_be_one_in_memory_and_nobody_can_tell(use: str) -> None:
    x = tf.Variable(random(*SHAPE))
    fetches = EQUAL[use](x, tf.fill(SHAPE, 0.75))
    found = []
    for together in (True, False):
        with Task(together).initialized(x) as task:
            found.append(task.run(fetches))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
        assert isinstance(one, np.generic) or one.flags.writeable


def test_equal_elements_take_no_memory_where_only_an_update_wants_them(
    changes: list[tuple[Array, Array]], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = tf.Variable(random(*SHAPE))
    update = x.assign_add(tf.ones(SHAPE))
    made: list[Array] = []
    plain = constants.fill_op.alike_fn
    assert plain is not None
    monkeypatch.setattr(
        constants.fill_op, "alike_fn", lambda *given: made.append(plain(*given)) or made[-1]
    )
    with Task().initialized(x) as task:
        (found,) = task.run([update])
    np.testing.assert_array_equal(found, random(*SHAPE) + np.float32(1))
    assert [array.strides for array in made] == [(0, 0)]
    assert len(changes) == 1


def test_a_value_that_others_want_is_made_for_all() -> None:
    x = tf.Variable(random(*SHAPE))
    value = tf.tanh(x) * 2.0
    with Task().initialized(x) as task:
        updated, wanted = task.run([x.assign(value), value])
    np.testing.assert_array_equal(updated, np.tanh(random(*SHAPE)) * np.float32(2))
    np.testing.assert_array_equal(updated, wanted)


def test_a_value_read_before_another_update_is_not_made_after_it() -> None:
    x, y = tf.Variable(random(*SHAPE)), tf.Variable(random(*SHAPE, seed=1))
    value = tf.tanh(x) * 2.0
    with tf.control_dependencies([value]):
        clear = x.assign(tf.zeros(SHAPE))
    with tf.control_dependencies([clear]):
        update = y.assign(tf.identity(value))
    with Task().initialized(x, y) as task:
        (found,) = task.run([update])
    np.testing.assert_array_equal(found, np.tanh(random(*SHAPE)) * np.float32(2))


def test_who_copies_the_variable_meanwhile_sees_one_value_or_another() -> None:
    x = tf.Variable(np.zeros((400, 400), np.float32))
    update = x.assign(x * 1.0 + 1.0)
    torn: list[Array] = []
    with Task(threads=3).initialized(x) as task:
        program = compiled([], [], [update.op])
        state, ended = task.state(x), threading.Event()

        def read() -> None:
            while not ended.is_set() and not torn:
                array = state.snapshot()
                if array.min() != array.max():
                    torn.append(array)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for _ in range(200):
                run(program, task.runtime, [])
        finally:
            ended.set()
            reader.join()
        assert not torn
        assert state.snapshot().max() == 200
