"""Resource variables: reads are values, handles are resources, names are shared, wrong uses are told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace as tf
from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.graph.registry import get
from headrace.library.variables.resource_variables import ResourceVariable
from headrace.plan import check
from headrace.run.state import variable as run

BIG = 5000  # elements: lent, not copied


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[tf.Graph]:
    monkeypatch.setattr(check, "enabled", True)
    with tf.Graph().as_default() as graph:
        yield graph


def var(value: Any, **others: Any) -> Any:
    return tf.Variable(value, use_resource=True, **others)


def started() -> Any:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


# -- reads are values -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, BIG])
def test_an_update_does_not_change_what_was_read_before_it(size: int) -> None:
    x = var(np.zeros(size))
    before = x.read_value()
    with tf.control_dependencies([before]):
        after = x.assign_add(np.ones(size))
    with tf.control_dependencies([after]):
        again = before + 0.0
    with started() as session:
        for step in range(3):
            old, new, still = session.run([before, after, again])
            assert (old == step).all()
            assert (new == step + 1).all()
            assert (still == step).all()


UPDATES: list[Callable[[Any], Any]] = [
    lambda x: x.assign(np.ones(BIG)),
    lambda x: x.assign_sub(np.ones(BIG)),
    lambda x: tf.scatter_add(x, [1], [1.0]),
    lambda x: x.scatter_nd_update([[1]], [1.0]),
    lambda x: x[1:3].assign([1.0, 1.0]),
    lambda x: tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(x)),
]


@pytest.mark.parametrize("update", UPDATES)
def test_every_kind_of_update_leaves_what_was_fetched_and_read_alone(
    update: Callable[[Any], Any],
) -> None:
    x = var(np.zeros(BIG))
    read = x.read_value()
    with tf.control_dependencies([read]):
        changed = update(x)
    with tf.control_dependencies([changed]):
        again = tf.identity(read)
    with started() as session:
        fetched = session.run(x)
        assert not session.run(again).any()
        assert session.run(x).any()
        assert not fetched.any()


def test_a_fetched_value_is_the_callers_own() -> None:
    x = var(np.zeros(BIG))
    with started() as session:
        session.run(x)[:] = 7
        assert not session.run(x).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.bool_, ml_dtypes.bfloat16, np.int64])
def test_a_large_value_is_lent_and_the_next_update_works_on_a_copy(dtype: Any) -> None:
    x = run.ResourceVariable("x", dtypes.from_numpy(np.dtype(dtype)), None)
    x.assign(np.zeros((2, BIG), dtype))
    first = x.array
    view = x.read().reshape(-1)[3:]
    assert view.dtype == dtype
    assert first is not None
    assert np.shares_memory(view, first)
    assert x.read() is not None, "a second reader shares"
    owned = x.writable()
    assert owned is not first
    owned[...] = 1
    assert not view.astype(bool).any()
    assert x.writable() is owned, "nobody looks into the new one"
    second = x.read()
    x.assign(np.zeros((2, BIG), dtype))
    assert second.astype(bool).all()


def test_once_nobody_looks_any_more_updates_are_in_place() -> None:
    x = run.ResourceVariable("x", dtypes.float32, None)
    x.assign(np.zeros(BIG, np.float32))
    array = x.array
    part = x.read()[::2]
    del part
    assert x.writable() is array
    x.assign(np.ones(BIG, np.float32))
    assert x.array is array


def test_a_lent_value_is_read_only() -> None:
    x = run.ResourceVariable("x", dtypes.float32, None)
    x.assign(np.zeros(BIG, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        x.read()[0] = 1


def test_a_variable_that_is_changed_row_by_row_is_copied_by_its_readers() -> None:
    x = run.ResourceVariable("x", dtypes.float32, None)
    x.assign(np.zeros(BIG, np.float32))
    array = x.writable(sparse=True)
    assert array is not None
    seen = x.read()
    assert not np.shares_memory(seen, array)
    assert x.writable(sparse=True) is array


def test_values_read_while_others_update_are_whole() -> None:
    x = var(np.zeros(BIG))
    add = x.assign_add(np.ones(BIG), read_value=False)
    torn = []
    with started() as session:

        def read() -> None:
            for _ in range(100):
                value = session.run(x)
                if not (value == value[0]).all():
                    torn.append(value)

        def update() -> None:
            for _ in range(100):
                session.run(add)

        threads = [threading.Thread(target=work) for work in (read, read, update, update)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (session.run(x) == 200).all()
    assert not torn


# -- names and handles ------------------------------------------------------------------------


def handle(name: str, dtype: Any = tf.float32, shape: Any = None, **attrs: Any) -> Any:
    return get("VarHandleOp")(dtype=dtype, shape=shape, shared_name=name, **attrs)


def read(handle: Any, dtype: Any = tf.float32) -> Any:
    return get("ReadVariableOp")(handle, dtype=dtype)


def test_handles_of_one_name_and_container_mean_one_variable() -> None:
    x = var([1.0], name="x")
    with tf.container("box"):
        y = var([2.0], name="y")
        same_y = read(handle("y"))
    other_y = get("VarIsInitializedOp")(handle("y"))
    with started() as session:
        assert session.run([read(handle("x")), same_y, other_y]) == [[1], [2], False]
        assert session.run(x) == session.run(y) - 1


def test_a_reference_variable_and_a_resource_variable_of_one_name_are_two() -> None:
    x = tf.Variable([1.0], name="x", use_resource=False)
    other = handle("x")
    with started() as session:
        assert not session.run(get("VarIsInitializedOp")(other))
        session.run(get("AssignVariableOp")(other, np.array([5.0], np.float32)))
        assert session.run([x, read(other)]) == [[1], [5]]


def test_a_variable_can_be_destroyed_and_assigned_again() -> None:
    x = var([1.0])
    destroy = get("DestroyResourceOp")(x.handle, ignore_lookup_error=False)
    quiet = get("DestroyResourceOp")(x.handle)
    with started() as session:
        session.run(destroy)
        assert not session.run(x.is_initialized())
        session.run(quiet)
        with pytest.raises(tf.errors.NotFoundError):
            session.run(destroy)
        session.run(x.initializer)
        assert session.run(x) == [1]


def test_a_queue_can_be_destroyed_by_its_handle() -> None:
    queue = get("FIFOQueueV2")(component_types=[tf.float32], shared_name="q")
    size = get("QueueSizeV2")(queue)
    with tf.Session() as session:
        session.run(get("QueueEnqueueV2")(queue, [np.float32(1)]))
        assert session.run(size) == 1
        session.run(get("DestroyResourceOp")(queue))
        assert session.run(size) == 0, "a new one"


def test_a_handle_can_be_fetched_and_fed() -> None:
    x = var([1.0, 2.0], name="x")
    fed = tf.placeholder(tf.resource, [])
    doubled = read(fed) * 2.0
    with started() as session:
        message = session.run(x.handle)
        assert isinstance(message, pb.ResourceHandleProto)
        assert (message.container, message.name) == ("localhost", "x")
        assert session.run(doubled, {fed: message}).tolist() == [2, 4]
        message.name = "y"
        with pytest.raises(tf.errors.NotFoundError, match=r"'y'.*fetch its handle again"):
            session.run(doubled, {fed: message})
        message.device = "/job:ps/replica:0/task:3/device:CPU:0"
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"task:3.*own task"):
            session.run(doubled, {fed: message})
        with pytest.raises(TypeError, match="feed the handle"):
            session.run(doubled, {fed: 3})


def test_what_is_behind_a_handle_is_known_through_what_passes_it_on() -> None:
    x = handle("x", shape=[2, None])
    assert read(tf.identity(x)).shape.as_list() == [2, None]
    assert read(tf.placeholder(tf.resource)).shape.ndims is None
    assert get("VariableShape")(x).shape == [2]
    with pytest.raises(ValueError, match=r"holds float32.*int32"):
        read(tf.identity(x), tf.int32)


def test_optimized_graphs_may_make_and_read_several_at_once() -> None:
    handles = get("_VarHandlesOp")(
        containers=[b"", b""], shared_names=[b"a", b"b"], N=2,
        dtypes=[tf.float32, tf.int32], shapes=[tf.TensorShape([1]), tf.TensorShape([])],
    )  # fmt: skip
    values = get("_ReadVariablesOp")(handles, dtypes=[tf.float32, tf.int32])
    assert [value.shape.as_list() for value in values] == [[1], []]
    with tf.Session() as session:
        session.run(get("AssignVariableOp")(handle("a"), np.array([1.5], np.float32)))
        session.run(get("AssignVariableOp")(handle("b", tf.int32), np.int32(3)))
        assert session.run(values) == [[1.5], 3]


# -- wrong uses -------------------------------------------------------------------------------


def test_wrong_uses_of_a_variable_are_told() -> None:
    x = var([1.0, 2.0], name="x")
    anything = tf.placeholder(tf.float32)
    unknown = handle("x")
    queue = get("FIFOQueueV2")(component_types=[tf.float32])
    cases: list[tuple[Any, type[Exception], str]] = [
        (read(handle("x", tf.int32), tf.int32), tf.errors.InvalidArgumentError, "holds float32"),
        (read(queue), tf.errors.InvalidArgumentError, "not a variable"),
        (read(handle("z")), tf.errors.FailedPreconditionError, "uninitialized value z"),
        (get("VariableShape")(handle("z")), tf.errors.NotFoundError, "z"),
        (
            get("AssignVariableOp")(unknown, anything, validate_shape=True),
            tf.errors.InvalidArgumentError,
            r"\[2\].*\[3\]",
        ),
        (get("AssignAddVariableOp")(unknown, anything), tf.errors.InvalidArgumentError, r"\[3\]"),
        (
            get("ResourceApplyGradientDescent")(unknown, np.float32(1), anything),
            tf.errors.InvalidArgumentError,
            r"\[2\].*\[3\]",
        ),
    ]
    with started() as session:
        for node, error, text in cases:
            with pytest.raises(error, match=text):
                session.run(node, {anything: [1.0, 2.0, 3.0]})
        assert session.run(x).tolist() == [1, 2]


def test_an_assignment_through_a_looser_handle_may_change_the_shape() -> None:
    x = var([1.0, 2.0], name="x")
    with started() as session:
        session.run(get("AssignVariableOp")(handle("x"), np.ones(3, np.float32)))
        assert session.run(get("VariableShape")(handle("x"))).tolist() == [3]
    assert x.shape == [2]


# -- the class --------------------------------------------------------------------------------


def test_the_default_kind_can_be_chosen() -> None:
    try:
        tf.enable_resource_variables()
        assert tf.resource_variables_enabled()
        assert isinstance(tf.Variable(1.0), ResourceVariable)
        assert isinstance(tf.get_variable("x", []), ResourceVariable)
        with tf.variable_scope("s", use_resource=False):
            assert not isinstance(tf.Variable(1.0), ResourceVariable)
    finally:
        tf.disable_resource_variables()
    assert not isinstance(tf.Variable(1.0), ResourceVariable)
    with tf.variable_scope("s", use_resource=True):
        assert isinstance(tf.Variable(1.0), ResourceVariable)


def test_a_variable_comes_back_from_its_definition() -> None:
    for caching in (None, "/cpu:0"):
        x = var([1.0, 2.0], trainable=False, caching_device=caching)
        definition = x.to_proto()
        assert definition.is_resource
        y = tf.Variable.from_proto(definition)
        assert isinstance(y, ResourceVariable)
        assert (y.handle, y.initializer, y.initial_value) == (
            x.handle,
            x.initializer,
            x.initial_value,
        )
        assert y.shape == x.shape
        assert not y.trainable
        assert (y.value() is x.value()) == (caching is not None)


def test_a_variable_is_no_python_bool_or_sequence() -> None:
    x = var([True])
    for use in (bool, list, len):
        with pytest.raises(TypeError):
            use(x)
    assert x != var([True])
    assert x == x


def test_an_initialized_value_does_not_need_the_variable() -> None:
    x = var([3.0])
    start = x.initialized_value()
    with tf.Session() as session:
        assert session.run(start) == [3]
        session.run(x.initializer)
        session.run(x.assign([4.0]))
        assert session.run(start) == [4]


def test_load_and_evaluation() -> None:
    x = var([3.0])
    with tf.Session() as session:
        x.load([5.0], session)
        assert x.eval(session) == [5]
        assert tf.report_uninitialized_variables().eval(session=session).size == 0


def test_a_gradient_with_respect_to_a_variable_is_that_of_its_reads() -> None:
    x = var([1.0, 2.0, 3.0])
    y = tf.reduce_sum(x * x) + tf.reduce_sum(tf.gather(x, [1, 1]) * 10.0)
    with started() as session:
        dense = tf.convert_to_tensor(tf.gradients(tf.reduce_sum(x * x), x)[0])
        assert session.run(dense).tolist() == [2, 4, 6]
        whole = tf.gradients(y, x)[0]
        assert session.run(tf.convert_to_tensor(whole)).tolist() == [2, 24, 6]
        picked = tf.gradients(tf.gather_nd(x, [[2], [0]]) * [3.0, 4.0], x.handle)[0]
        assert [v.tolist() for v in session.run([picked.indices, picked.values])] == [
            [2, 0],
            [3, 4],
        ]


def test_a_handle_can_be_fed_and_fetched_by_a_partial_run() -> None:
    x, y = var([1.0, 2.0], name="x"), var([5.0, 6.0], name="y")
    amount = tf.placeholder(tf.float32, [2])
    total = x.read_value() + amount
    with started() as session:
        other = session.run(y.handle)
        run_ = session.partial_run_setup([total, y.handle], [x.handle, amount])
        assert session.partial_run(run_, y.handle).name == "y"
        session.partial_run(run_, [], {x.handle: other})
        assert session.partial_run(run_, total, {amount: [1.0, 1.0]}).tolist() == [6, 7]


def test_a_handle_that_waited_in_a_queue_is_the_same_variable() -> None:
    x = var([1.0, 2.0])
    queue = tf.FIFOQueue(3, [tf.resource, tf.int32], shapes=[[], []])
    put = queue.enqueue([x.handle, 3])
    got, number = queue.dequeue()
    added = get("AssignAddVariableOp")(got, tf.constant([1.0, 1.0]))
    with started() as session:
        session.run([put])
        session.run(put)
        assert session.run([read(got), number])[0].tolist() == [1, 2]
        session.run(added)
        assert session.run(x).tolist() == [2, 3]


def test_a_loop_sums_gradients_of_a_variable_of_unknown_shape() -> None:
    start = tf.placeholder_with_default([[1.0, 2.0]], [None, 2])
    x = var(start, validate_shape=False)
    _, y = tf.while_loop(
        lambda i, y: i < 3, lambda i, y: [i + 1, y + tf.reduce_sum(x * x)], [0, tf.constant(0.0)]
    )
    with started() as session:
        assert session.run([y, *tf.gradients(y, x)])[1].tolist() == [[6, 12]]


def test_updates_in_place_are_refused_with_what_to_write_instead() -> None:
    x = var([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"x\.assign_add\(y\)"):
        x += 1.0
    with pytest.raises(RuntimeError, match=r"x\.assign\(x \* y\)"):
        x *= 2.0
    with pytest.raises(NotImplementedError, match="eval"):
        np.asarray(x)
