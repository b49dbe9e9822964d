"""A session from its making to its end: which graph, which default, what it keeps, how it closes."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.client.in_flight import StepsInFlight
from headrace.codec import protos as pb
from tests.waiting_steps import WaitingSteps, waiting_steps  # noqa: F401  (a fixture)

WITHIN_S = 60.0


# -- making ---------------------------------------------------------------------------------------


def test_it_is_of_the_default_graph_unless_told_otherwise(graph: tf.Graph) -> None:
    other = tf.Graph()
    with tf.Session() as session:
        assert session.graph is graph
    with tf.Session(graph=other) as session:
        assert session.graph is other
        assert tf.get_default_graph() is other
    assert tf.get_default_graph() is graph


MADE_WRONGLY: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"graph": 3}, TypeError, 'Argument `graph` must be a tf.Graph, but got "int"'),
    ({"target": 3}, TypeError, 'Argument `target` must be a string, but got "int"'),
    ({"config": {}}, TypeError, 'Argument `config` must be a tf.ConfigProto, but got "dict"'),
    ({"target": "http://x:1"}, tf.errors.NotFoundError, "No session factory registered"),
    ({"target": "grpc://nowhere"}, tf.errors.InvalidArgumentError, "as a host-port pair"),
]


@pytest.mark.parametrize(("arguments", "error", "phrase"), MADE_WRONGLY)
def test_arguments_that_make_no_session(
    graph: tf.Graph, arguments: dict[str, Any], error: type[Exception], phrase: str
) -> None:
    with pytest.raises(error, match=phrase):
        tf.Session(**arguments)


@pytest.mark.parametrize("target", ["", b"", "local"])
def test_targets_of_this_process(graph: tf.Graph, target: Any) -> None:
    with tf.Session(target) as session:
        assert session.run(tf.constant(1)) == 1
        assert [device.name for device in session.list_devices()] == [
            "/job:localhost/replica:0/task:0/device:CPU:0"
        ]


def test_it_says_what_it_is_of(session: tf.Session) -> None:
    tf.constant(1, name="only")
    assert session.sess_str == ""
    assert [node.name for node in session.graph_def.node] == ["only"]


# -- the default ----------------------------------------------------------------------------------


def test_a_session_is_the_default_inside_its_blocks(graph: tf.Graph) -> None:
    one = tf.constant(1)
    with pytest.raises(ValueError, match="No default session is registered"):
        one.eval()
    with tf.Session() as outer:
        assert tf.get_default_session() is outer
        inner = tf.Session()
        with inner.as_default():
            assert tf.get_default_session() is inner
            assert one.eval() == 1
        assert tf.get_default_session() is outer
        assert inner.run(one) == 1  # as_default closes nothing
        inner.close()
    assert tf.get_default_session() is None


def test_it_is_entered_once_and_leaves_as_it_was_even_by_an_error(graph: tf.Graph) -> None:
    session = tf.Session()
    with pytest.raises(RuntimeError, match="Session context managers are not re-entrant"), session:
        session.__enter__()
    assert tf.get_default_session() is None
    assert tf.get_default_graph() is graph
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
        session.run(tf.constant(1))


def test_default_sessions_are_each_threads_own(session: tf.Session) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(tf.get_default_session()))
    thread.start()
    thread.join(WITHIN_S)
    assert found == [None]
    assert tf.get_default_session() is session


def test_sessions_are_left_in_the_order_they_were_entered(graph: tf.Graph) -> None:
    first, second = tf.Session(), tf.Session()
    outer, inner = first.as_default(), second.as_default()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(AssertionError, match="Nesting violated for default stack"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    assert tf.get_default_session() is None
    first.close()
    second.close()


def test_an_interactive_session_is_the_default_until_it_is_closed(graph: tf.Graph) -> None:
    other = tf.Graph()
    session = tf.InteractiveSession(graph=other)
    assert tf.get_default_graph() is other
    assert tf.constant(3).eval() == 3
    session.close()
    session.close()
    assert tf.get_default_session() is None
    assert tf.get_default_graph() is graph


def test_what_is_evaluated_belongs_to_the_sessions_graph(session: tf.Session) -> None:
    with tf.Graph().as_default():
        other = tf.constant(1)
    with pytest.raises(ValueError, match="the tensor's graph is different from the session's"):
        other.eval()
    with pytest.raises(ValueError, match="Cannot use the given session to execute operation"):
        other.op.run(session=session)


# -- steps ----------------------------------------------------------------------------------------


def test_an_empty_graph_has_nothing_to_run(session: tf.Session) -> None:
    with pytest.raises(RuntimeError, match="The Session graph is empty"):
        session.run([])
    tf.constant(1)
    assert session.run([]) == []


def test_the_graph_may_grow_between_steps(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [])
    tensor, expected = x, 2.0
    for _ in range(5):
        assert session.run(tensor, {x: 2.0}) == expected
        tensor, expected = tensor * 3.0, expected * 3.0


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ({"options": 3}, "options must be a tf.RunOptions, not int"),
        ({"run_metadata": 3}, "run_metadata must be a tf.RunMetadata, not int"),
    ],
)
def test_options_and_metadata_are_protos(
    session: tf.Session, arguments: dict[str, Any], phrase: str
) -> None:
    one = tf.constant(1)
    for _ in range(2):
        with pytest.raises(TypeError, match=phrase):
            session.run(one, **arguments)
        assert session.run(one) == 1


def test_metadata_is_filled_anew_by_each_step(session: tf.Session) -> None:
    one, metadata = tf.constant(1, name="one"), tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(one, options=options, run_metadata=metadata)
    (device,) = metadata.step_stats.dev_stats
    assert "one" in {node.node_name for node in device.node_stats}
    session.run(one, run_metadata=metadata)
    assert not metadata.step_stats.dev_stats


def test_an_error_names_the_operation_and_leaves_the_session_usable(session: tf.Session) -> None:
    index = tf.placeholder(tf.int32, [])
    picked = tf.gather([10, 20], index, name="picked")
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError) as told:
            session.run(picked, {index: 5})
        assert told.value.op is picked.op
        assert told.value.node_def.name == "picked"
        assert session.run(picked, {index: 1}) == 20


# -- callables ------------------------------------------------------------------------------------


def test_a_callable_takes_values_in_order_and_gives_the_nest(session: tf.Session) -> None:
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    call = session.make_callable({"difference": x - y, "fed": [x]}, [x, y])
    assert call(5.0, 3.0) == {"difference": 2.0, "fed": [5.0]}
    assert call(1.0, 3.0) == {"difference": -2.0, "fed": [1.0]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="takes 2 values, one a feed, not 3"):
        call(1.0, 2.0, 3.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value"):
        call(1.0)
    with pytest.raises(TypeError, match="accept_options=True"):
        call(1.0, 2.0, options=tf.RunOptions())
    with pytest.raises(TypeError, match="`feed_list` must be a list or tuple"):
        session.make_callable(x, x)  # type: ignore[arg-type]


def test_a_callable_without_feeds_takes_options_if_it_was_asked_to(session: tf.Session) -> None:
    one = tf.constant(1, name="one")
    metadata = tf.RunMetadata()
    call = session.make_callable(one, accept_options=True)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    assert call(options=options, run_metadata=metadata) == 1
    assert metadata.step_stats.dev_stats
    assert session.make_callable(one)() == 1
    assert session.make_callable(one.op)() is None


def of_options(session: tf.Session, **fields: Any) -> Callable[..., Any]:
    return session._make_callable_from_options(pb.CallableOptions(**fields))


def test_a_callable_of_options_names_what_it_takes_and_gives(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    counter = tf.Variable(0, name="counter")
    session.run(counter.initializer)
    count = tf.assign_add(counter, 1, name="count")
    tf.add(x, 1.0, name="more")
    tf.multiply(x, 2.0, name="twice")
    fetch = ["more:0", "twice:0", "more:0"]
    call = of_options(session, feed=["x:0"], fetch=fetch, target=["count"])
    assert call(np.float32(2.0)) == [3.0, 4.0, 3.0]
    assert session.run(counter) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="takes 1 feeds, x:0; 2 were given"):
        call(np.float32(1.0), np.float32(1.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="is float64, the tensor float32"):
        call(1.0)
    assert session.run(counter) == 1
    assert session.run(count) == 2


def test_a_callable_may_tie_one_tensor_to_another(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    tf.multiply(x, 2.0, name="twice")
    tf.constant(21.0, name="given")
    options = pb.CallableOptions(fetch=["twice:0"])
    options.tensor_connection.add(from_tensor="given:0", to_tensor="x:0")
    assert session._make_callable_from_options(options)() == [42.0]


@pytest.mark.parametrize(
    ("fields", "error", "phrase"),
    [
        ({"fetch": ["nowhere:0"]}, tf.errors.InvalidArgumentError, "no tensor 'nowhere:0'"),
        ({"fetch": ["one:3"]}, tf.errors.OutOfRangeError, r"'one' \(Const\) has 1 outputs"),
        ({"target": ["nowhere"]}, tf.errors.NotFoundError, "no operation 'nowhere'"),
        (
            {"feed": ["one:0"] * 2, "fetch": ["two:0"]},
            tf.errors.InvalidArgumentError,
            "one:0 is fed twice",
        ),
        (
            {"feed": ["one:0"], "fetch": ["one:0"]},
            tf.errors.InvalidArgumentError,
            "one:0 is both fed and fetched",
        ),
    ],
)
def test_options_that_make_no_sense_make_no_callable(
    session: tf.Session, fields: dict[str, Any], error: type[Exception], phrase: str
) -> None:
    tf.constant(1, name="one")
    tf.constant(2, name="two")
    with pytest.raises(error, match=phrase):
        of_options(session, **fields)
    with pytest.raises(TypeError, match="must be a CallableOptions proto, not dict"):
        session._make_callable_from_options({})  # type: ignore[arg-type]


# -- the end --------------------------------------------------------------------------------------


def test_what_was_made_of_a_closed_session_is_over(graph: tf.Graph) -> None:
    one = tf.constant(1)
    session = tf.Session()
    runs = session.make_callable(one, [one]), session.make_callable(one, [one], accept_options=True)
    assert [run(7) for run in runs] == [7, 7]
    calls = {
        "quick": session.make_callable(one),
        "with options": session.make_callable(one, accept_options=True),
        "of options": of_options(session, fetch=[one.name]),
    }
    assert [call() for call in calls.values()] == [1, 1, [1]]
    assert session.run(one) == 1
    session.close()
    session.close()
    for call in calls.values():
        with pytest.raises(tf.errors.CancelledError, match="Session has been closed"):
            call()
    for run in runs:
        with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
            run(7)
    for refused in (
        lambda: session.make_callable(one),
        session.list_devices,
        session.blocked_steps,
    ):
        with pytest.raises(tf.errors.CancelledError, match="Session has been closed"):
            refused()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
        session.run(one)


def test_closing_ends_a_step_that_waits_in_another_thread(
    graph: tf.Graph,
    waiting_steps: WaitingSteps,  # noqa: F811
) -> None:
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    take = queue.dequeue(name="take")
    session = tf.Session()
    ended: list[BaseException] = []

    def step() -> None:
        with pytest.raises(tf.errors.CancelledError) as told:
            session.run(take)
        ended.append(told.value)

    thread = threading.Thread(target=step)
    thread.start()
    waiting_steps.until("take")
    session.close()
    thread.join(WITHIN_S)
    (error,) = ended
    assert isinstance(error, tf.errors.CancelledError)
    assert error.node == "take"


def test_each_session_has_variables_of_its_own(graph: tf.Graph) -> None:
    variable = tf.Variable(1)
    with tf.Session() as one, tf.Session() as other:
        one.run(variable.initializer)
        one.run(tf.assign(variable, 5))
        with pytest.raises(tf.errors.FailedPreconditionError):
            other.run(variable)
        other.run(variable.initializer)
        assert [one.run(variable), other.run(variable)] == [5, 1]


def test_reset_closes_the_sessions_of_this_process(graph: tf.Graph) -> None:
    one = tf.constant(1)
    session = tf.Session()
    tf.Session.reset("")
    with pytest.raises(tf.errors.CancelledError, match="closed"):
        session.run(one + 1)
    session.close()
    with pytest.raises(TypeError, match="that is no target"):
        tf.Session.reset(3)  # type: ignore[arg-type]


def test_a_session_that_nobody_has_any_more_is_freed_with_its_state(graph: tf.Graph) -> None:
    variable = tf.Variable(np.zeros(10))
    session = tf.Session()
    session.run(variable.initializer)
    call = session.make_callable(variable)
    gone = weakref.ref(session)
    del session
    assert call().tolist() == [0.0] * 10
    del call
    gc.collect()
    assert gone() is None


def test_steps_under_way_are_counted_by_thread() -> None:
    steps = StepsInFlight()
    inside, enough = threading.Event(), threading.Event()

    def step() -> None:
        with steps, steps:
            inside.set()
            enough.wait(WITHIN_S)

    assert steps.wait_until_none(0.0)
    thread = threading.Thread(target=step)
    thread.start()
    assert inside.wait(WITHIN_S)
    with steps:  # one's own does not count
        assert not steps.wait_until_none(0.01)
        enough.set()
        assert steps.wait_until_none(WITHIN_S)
    thread.join(WITHIN_S)
