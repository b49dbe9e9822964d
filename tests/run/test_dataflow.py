"""Branches and loops, as either executor runs them; and what only the general one does."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from headrace.plan.compile import compile_program
from headrace.plan.prune import needed
from headrace.run.exec.dataflow import DataflowProgram
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.scope import Scope

Execute = Callable[..., Any]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def switch(data: Any, pred: Any) -> Any:
    return get("Switch")(data, pred)


def counted(limit: Any, body: Callable[[Any], Any], start: Any = 0) -> Any:
    return tf.while_loop(lambda i: i < limit, body, [start])


# -- branches -------------------------------------------------------------------------------------


def test_only_the_branch_that_is_taken_runs(execute: Execute) -> None:
    pred = tf.placeholder(tf.bool, [])
    ran = [tf.Variable(0, name=name) for name in ("yes", "no")]
    for variable in ran:
        execute([], targets=[variable.initializer])
    result = tf.cond(pred, lambda: ran[0].assign_add(1), lambda: ran[1].assign_add(10))
    assert execute(result, {pred: np.bool_(True)}) == 1
    assert execute(result, {pred: np.bool_(False)}) == 10
    assert execute(result, {pred: np.bool_(False)}) == 20
    assert [int(v) for v in execute([v.value() for v in ran])] == [1, 20]


def test_a_dead_value_makes_dead_what_depends_on_it(execute: Execute) -> None:
    no, yes = switch(tf.constant(5), tf.constant(True))
    touched = tf.Variable(0)
    execute([], targets=[touched.initializer])
    with tf.control_dependencies([no + 1]):
        dead = touched.assign(1).op
    with tf.control_dependencies([yes + 1]):
        alive = tf.identity(yes)
    assert execute([alive, touched.value()], targets=[dead]) == [5, 0]


def test_a_merge_takes_the_live_input_and_says_which(execute: Execute) -> None:
    pred = tf.placeholder(tf.bool, [])
    no, yes = switch(tf.constant(5), pred)
    value, index = get("Merge")([no * 2, yes * 3])
    assert execute([value, index], {pred: np.bool_(True)}) == [15, 1]
    assert execute([value, index], {pred: np.bool_(False)}) == [10, 0]


def test_a_fetch_of_a_branch_that_is_not_taken_is_an_error_that_names_it(execute: Execute) -> None:
    no, _ = switch(tf.constant(5), tf.constant(True))
    untaken = tf.add(no, 1, name="untaken")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"untaken:0.*not taken") as caught:
        execute(untaken)
    assert caught.value.node == "untaken"


def test_a_predicate_that_is_a_variable_is_read_when_the_branch_is_chosen(execute: Execute) -> None:
    flag = tf.Variable(True)
    execute([], targets=[flag.initializer])
    flipped = tf.cond(flag, lambda: flag.assign(False), lambda: flag.assign(True))
    assert [bool(execute(flipped)) for _ in range(3)] == [False, True, False]


def test_a_variable_reaches_a_branch_as_a_reference(execute: Execute) -> None:
    variable = tf.Variable([1.0, 2.0])
    execute([], targets=[variable.initializer])
    with tf.control_dependencies([variable.assign_add([10.0, 10.0])]):
        late = tf.cond(
            tf.constant(True), lambda: tf.identity(variable) * 1.0, lambda: tf.zeros([2])
        )
    assert execute(late).tolist() == [11.0, 12.0]


def test_branches_inside_branches(execute: Execute) -> None:
    x = tf.placeholder(tf.int32, [])
    deep = tf.case(
        [(x < 1, lambda: tf.cond(x < 0, lambda: -x, lambda: x + 100)), (x < 3, lambda: x * 10)],
        default=lambda: tf.cond(x > 5, lambda: x * x, lambda: x),
    )
    found = [int(execute(deep, {x: np.int32(value)})) for value in (-2, 0, 1, 2, 4, 7)]
    assert found == [2, 100, 10, 20, 4, 49]


def test_an_error_in_a_branch_names_the_node(execute: Execute) -> None:
    x = tf.placeholder(tf.int32, [])
    safe = tf.cond(x > 0, lambda: tf.floordiv(10, x, name="divided"), lambda: x)
    assert execute(safe, {x: np.int32(0)}) == 0
    unsafe = tf.cond(x < 1, lambda: tf.floordiv(10, x, name="divided"), lambda: x)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        execute(unsafe, {x: np.int32(0)})
    assert caught.value.node == "cond_1/divided"


# -- loops ----------------------------------------------------------------------------------------


def test_a_loop_runs_as_often_as_its_condition_says(execute: Execute) -> None:
    limit = tf.placeholder(tf.int32, [])
    loop = tf.while_loop(lambda i, a: i < limit, lambda i, a: (i + 1, a * 2), [0, 1])
    for times in (0, 1, 2, 13):
        assert [int(v) for v in execute(loop, {limit: np.int32(times)})] == [times, 2**times]


def test_loop_variables_change_together(execute: Execute) -> None:
    _, a, b = tf.while_loop(lambda i, a, b: i < 5, lambda i, a, b: (i + 1, b, a + b), [0, 1, 1])
    assert [int(v) for v in execute([a, b])] == [8, 13]


def test_an_invariant_is_the_same_in_all_iterations(execute: Execute) -> None:
    x = tf.placeholder(tf.float32, [2])
    _, total = tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a + x * 1.0), [0, tf.zeros([2])]
    )
    assert execute(total, {x: np.array([1, 2], np.float32)}).tolist() == [3.0, 6.0]


def test_loops_inside_loops(execute: Execute) -> None:
    def inner(i: Any) -> Any:
        return tf.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, s + i * j), [0, 0])[1]

    _, total = tf.while_loop(lambda i, s: i < 6, lambda i, s: (i + 1, s + inner(i)), [0, 0])
    assert execute(total) == sum(i * j for i in range(6) for j in range(i))


def test_a_loop_in_a_branch_and_a_branch_in_a_loop(execute: Execute) -> None:
    x = tf.placeholder(tf.int32, [])

    def body(i: Any, s: Any) -> Any:
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: s + i, lambda: s * 2)

    def loop() -> Any:
        return tf.while_loop(lambda i, s: i < x, body, [0, 1])[1]

    result = tf.cond(x > 3, loop, lambda: -x)
    assert execute(result, {x: np.int32(2)}) == -2
    assert execute(result, {x: np.int32(6)}) == ((((1 + 0) * 2 + 2) * 2 + 4) * 2)


def test_a_loop_that_is_entered_by_dead_values_is_over_at_once(execute: Execute) -> None:
    pred = tf.placeholder(tf.bool, [])
    never = tf.cond(pred, lambda: counted(5, lambda i: i + 1), lambda: tf.constant(-1))
    assert execute(never, {pred: np.bool_(False)}) == -1
    assert execute(never, {pred: np.bool_(True)}) == 5


def test_state_in_a_loop_changes_in_every_iteration(execute: Execute) -> None:
    variable = tf.Variable(0)
    execute([], targets=[variable.initializer])

    def body(i: Any) -> Any:
        with tf.control_dependencies([variable.assign_add(i)]):
            return i + 1

    assert execute(counted(5, body)) == 5
    assert execute(variable.value()) == 10


def test_a_loop_may_hand_on_a_variable(execute: Execute) -> None:
    variable = tf.Variable(3.0)
    execute([], targets=[variable.initializer])
    loop = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, variable), [0, 1.0])
    other = tf.while_loop(lambda i, a: a < 20.0, lambda i, a: (i + 1, a * 2.0), [0, variable])
    assert execute(loop[1]) == 3.0
    assert [float(v) for v in execute(other)] == [3.0, 24.0]


def test_an_error_in_an_iteration_names_the_node(execute: Execute) -> None:
    loop = counted(9, lambda i: i + 1 + 0 * tf.floordiv(6, 3 - i, name="divided"))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        execute(loop, None)
    assert caught.value.node == "while/divided"
    assert caught.value.built_at is not None
    assert __file__ in caught.value.built_at


def test_a_loop_without_end_can_be_cancelled(execute: Execute) -> None:
    started = threading.Event()
    loop = counted(1, lambda i: i * 1)
    scope = Scope()

    def stop() -> None:
        started.wait()
        scope.cancel(tf.errors.CancelledError(None, None, "enough"))

    thread = threading.Thread(target=stop)
    thread.start()
    started.set()
    with pytest.raises(tf.errors.CancelledError, match="enough"):
        execute(loop, None, (), scope)
    thread.join()


def test_a_loop_without_end_ends_with_the_deadline(execute: Execute) -> None:
    inner = lambda i: counted(2, lambda j: j * 1)  # noqa: E731
    with pytest.raises(tf.errors.DeadlineExceededError):
        execute(counted(1, inner), None, (), Scope(0.05))


def test_what_does_not_need_a_loop_does_not_wait_for_its_end(execute: Execute) -> None:
    """The loop goes on until it sees what runs beside it."""
    seen = tf.Variable(0)
    execute([], targets=[seen.initializer])

    def until_seen(i: Any) -> Any:
        return tf.logical_and(seen + 0 < 1, i >= 0)

    loop = tf.while_loop(until_seen, lambda i: i + 1, [tf.constant(0)])
    one = x = tf.placeholder(tf.int32, [])
    for _ in range(5):  # the loop could begin before
        one = one * x
    values = execute([loop, seen.assign(one)], {x: np.int32(1)}, (), Scope(30.0))
    assert values[1] == 1


def test_memory_does_not_grow_with_iterations(execute: Execute) -> None:
    limit = tf.placeholder(tf.int32, [])
    start = tf.zeros([100, 100])
    loop = tf.while_loop(lambda i, a: i < limit, lambda i, a: (i + 1, a + 1.0), [0, start])

    def most(times: int) -> int:
        gc.collect()
        tracemalloc.start()
        execute(loop, {limit: np.int32(times)})
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    most(2)
    assert most(400) < most(20) + 200_000  # 40 kB an iteration would be 15 MB


def test_what_a_loop_gives_is_the_callers_own(execute: Execute) -> None:
    x = tf.placeholder(tf.float32, [2])
    fed = np.array([1, 2], np.float32)
    result = execute(
        tf.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a), [0, x])[1], {x: fed}
    )
    result[0] = 7
    assert fed.tolist() == [1, 2]


def test_gradient_loops_see_the_iterations_backwards(execute: Execute) -> None:
    x = tf.placeholder(tf.float64, [])
    loop = tf.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, tf.cond(i < 2, lambda: a * a, lambda: a * x)),
        [0, x],
    )
    (slope,) = tf.gradients(loop[1], x)  # x, x^2, x^4, x^5, x^6
    assert execute(slope, {x: np.float64(2)}) == 6 * 2.0**5


@pytest.mark.parametrize("taken", [True, False])
def test_the_gradient_of_rows_that_a_branch_looks_up(execute: Any, taken: bool) -> None:
    """What it knows of the shape of all rows is there whichever branch is taken."""
    x, pred = tf.placeholder(tf.float64, [4, 2]), tf.placeholder(tf.bool, [])
    rows = tf.cond(pred, lambda: tf.gather(x, [1, 1, 3]), lambda: 2 * x[:3])
    with pytest.warns(UserWarning, match="of unknown shape"):
        (slope,) = tf.gradients(rows, x)
    found = execute(slope, {x: np.ones((4, 2)), pred: np.bool_(taken)})
    assert found[:, 0].tolist() == ([0, 2, 0, 1] if taken else [2, 2, 2, 0])


# -- what may wait in several iterations is the general executor's (else: test_parked) ------------------


def test_a_node_that_waits_inside_a_loop_is_waited_for_in_every_iteration(general: Any) -> None:
    queue = tf.FIFOQueue(10, tf.int32, [[]], shared_name="q")
    put = tf.placeholder(tf.int32, [None])
    fill = queue.enqueue_many([put])
    loop = tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s * 10 + queue.dequeue()), [0, 0])
    program = general.compile([loop[1]])
    found: list[Any] = []

    def consume() -> None:
        found.extend(program.run(StepState(general.runtime, Scope(), 1, Rendezvous()), []))

    thread = threading.Thread(target=consume)
    thread.start()
    for part in ([1, 2], [3], [4]):
        general([], {put: np.array(part, np.int32)}, targets=[fill])
    thread.join()
    assert found == [1234]


def test_a_wait_in_a_loop_ends_with_the_scope_and_says_where_it_was(execute: Any) -> None:
    queue = tf.FIFOQueue(10, tf.int32, [[]], name="empty")
    loop = tf.while_loop(lambda i: i < 4, lambda i: i + queue.dequeue(name="wait"), [0])
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"while/wait.*empty"):
        execute(loop, None, (), Scope(0.02))


@pytest.mark.parametrize("parallel", [1, 3])
def test_no_more_iterations_are_under_way_than_may_be(general: Any, parallel: int) -> None:
    begun, queue = tf.Variable(0), tf.FIFOQueue(100, tf.int32, [[]], shared_name="slow")
    put = tf.placeholder(tf.int32, [None])

    def body(i: Any, total: Any) -> Any:
        with tf.control_dependencies([begun.assign_add(1)]):
            return i + 1, total + queue.dequeue()

    _, total = tf.while_loop(lambda i, _: i < 9, body, [0, 0], parallel_iterations=parallel)
    general([], targets=[begun.initializer])
    with pytest.raises(tf.errors.DeadlineExceededError):
        general(total, None, (), Scope(0.02))
    assert general(begun.value()) == parallel
    general([], {put: np.arange(9, dtype=np.int32)}, targets=[queue.enqueue_many([put])])
    assert general(total) == sum(range(9))


class NotedChannels:
    """Channels that note what is asked of them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.holds = False

    def flush(self) -> None:
        self.asked.append("flush")


def test_what_was_sent_leaves_before_something_is_computed(graph: tf.Graph) -> None:
    """That may take long.  What only moves values on does not."""
    x = tf.placeholder(tf.float32, [])
    sent = get("_Send")(
        get("Switch")(x, x > 0)[1],
        tensor_name="x",
        send_device="/job:a",
        send_device_incarnation=1,
        recv_device="/job:b",
    )
    with tf.control_dependencies([sent]):
        y = tf.tanh(tf.identity(x))
    channels = NotedChannels()

    class Sending(Rendezvous):
        def send(self, key: str, value: Any, dead: bool = False) -> None:
            channels.asked.append("send")

    pruned = needed([x], [y], [], exact=True)
    devices = dict.fromkeys(pruned.ops, "/job:a")
    program = compile_program(pruned, [x], [y], devices=devices, memos={}, dataflow=True)
    with Scope() as scope:
        step = StepState(Runtime("/job:a"), scope, 1, Sending(), None, "", False, channels)
        assert program.run(step, [np.float32(0.5)]) == [np.tanh(np.float32(0.5))]
    assert channels.holds
    assert channels.asked[channels.asked.index("send") + 1] == "flush"


def test_a_branch_that_is_not_taken_does_not_wait(execute: Any) -> None:
    queue = tf.FIFOQueue(10, tf.int32, [[]])
    pred = tf.placeholder(tf.bool, [])
    result = tf.cond(pred, queue.dequeue, lambda: tf.constant(-1))
    assert execute(result, {pred: np.bool_(False)}) == -1
    execute([], targets=[queue.enqueue(7)])
    assert execute(result, {pred: np.bool_(True)}) == 7


def test_a_control_trigger_runs_whatever_it_waits_for(general: Any) -> None:
    no, yes = switch(tf.constant(5), tf.constant(True))
    with tf.control_dependencies([no.op, tf.identity(no), tf.identity(yes)]):
        trigger = get("ControlTrigger")()
    with tf.control_dependencies([trigger]):
        after = tf.constant(3) + 0
    assert general(after) == 3


def test_a_merge_in_a_frame_that_no_loop_explains(general: Any) -> None:
    """Frames that are not while loops: Enter and Exit alone, two predicates for one value."""
    entered = get("Enter")(tf.constant(4), frame_name="once")
    left = get("Exit")(entered + entered)
    p, q = tf.placeholder(tf.bool, []), tf.placeholder(tf.bool, [])
    first, second = switch(left, p), switch(left + 1, q)
    value, index = get("Merge")([first[1], second[1]])
    assert general([value, index], {p: np.bool_(False), q: np.bool_(True)}) == [9, 1]
    assert general([value, index], {p: np.bool_(True), q: np.bool_(False)}) == [8, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="not taken"):
        general(value, {p: np.bool_(False), q: np.bool_(False)})


WAITS_OR_UNSTRUCTURED = {
    "a dequeue in a loop, several iterations of which may wait": lambda: tf.while_loop(
        lambda i, _: i < 3,
        lambda i, total: (i + 1, total + tf.FIFOQueue(1, tf.int32, [[]]).dequeue()),
        [0, 0],
    )[1],
    "a merge of two conditions": lambda: get("Merge")(
        [
            switch(tf.constant(1), tf.constant(True))[1],
            switch(tf.constant(1), tf.constant(False))[1],
        ]
    )[0],
    "a frame without a condition": lambda: get("Exit")(
        get("Enter")(tf.constant(4), frame_name="once")
    ),
}


@pytest.mark.parametrize("what", WAITS_OR_UNSTRUCTURED)
def test_what_is_no_block_or_loop_goes_to_the_general_executor(what: str) -> None:
    fetch = WAITS_OR_UNSTRUCTURED[what]()
    pruned = needed([], [fetch], [])
    program = compile_program(pruned, [], [fetch], devices=dict.fromkeys(pruned.ops, ""), memos={})
    assert isinstance(program, DataflowProgram)
