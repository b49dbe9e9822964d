"""What leaves a step for one who only reads it: variables on lease, results as they are, nothing that may change."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.graph.registry import get
from headrace.ops.flow.sendrecv import recv_op, send_op
from headrace.plan import check
from headrace.plan.compile import Compiled, compile_program
from headrace.plan.prune import needed
from headrace.run.exec.kernel import Runtime, StepState
from headrace.run.exec.keys import key
from headrace.run.exec.program import Program, Segment
from headrace.run.exec.rendezvous import Rendezvous
from headrace.run.exec.straight import Code
from headrace.run.scope import Scope
from headrace.run.state.variable import Lease, ResourceVariable, State, Variable

PS, WORKER = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))
SHAPE = (100, 200)


class Task:
    """Runs partitions, straight or on the general executor."""

    def __init__(self, dataflow: bool) -> None:
        self.runtime = Runtime(PS)
        self.rendezvous = Rendezvous()
        self._dataflow = dataflow

    def compiled(self, fetches: list[Any], targets: list[Any]) -> Compiled:
        pruned = needed([], fetches, targets)
        return compile_program(
            pruned, [], fetches, devices={}, memos={}, dataflow=self._dataflow, fold=False
        )

    def run(self, *fetches: Any, lends: bool = True, targets: list[Any] | None = None) -> list[Any]:
        tensors = [each._ref() if isinstance(each, tf.Variable) else each for each in fetches]
        program = self.compiled(tensors, targets or [])
        with Scope() as scope:
            step = StepState(self.runtime, scope, 1, self.rendezvous, lends=lends)
            return program.run(step, [])

    def array(self, name: str, kind: type[State] = Variable) -> Any:
        return self.runtime.resources.lookup("", name, kind).array


@pytest.fixture(params=[False, True], ids=["straight", "dataflow"])
def task(request: pytest.FixtureRequest) -> Iterator[Task]:
    with tf.Graph().as_default():
        yield Task(request.param)


def filled(task: Task, name: str = "v") -> Any:
    """A variable of ones, initialized."""
    made = tf.Variable(tf.ones(SHAPE), name=name)
    task.run(targets=[made.initializer])
    return made


def is_in_place(task: Task, variable: Any) -> bool:
    """Whether an update goes to the array that was there: nobody has a lease."""
    before = task.array(variable.op.name)
    task.run(targets=[variable.assign_add(tf.ones(SHAPE)).op])
    return task.array(variable.op.name) is before


def test_a_fetched_variable_is_leased_to_one_who_reads_and_copied_for_one_who_keeps(
    task: Task,
) -> None:
    v = filled(task)
    (lease,) = task.run(v)
    assert isinstance(lease, Lease)
    assert np.shares_memory(lease.array, task.array("v"))
    assert not is_in_place(task, v)
    assert np.all(lease.array == 1)
    lease.release()
    assert is_in_place(task, v)
    (copy,) = task.run(v, lends=False)
    assert copy.flags.writeable
    assert not np.shares_memory(copy, task.array("v"))
    assert is_in_place(task, v)


def test_an_identity_of_a_variable_is_leased_too(task: Task) -> None:
    v = filled(task)
    (lease,) = task.run(tf.identity(v))
    assert isinstance(lease, Lease)
    assert np.shares_memory(lease.array, task.array("v"))
    lease.release()


def test_a_resource_variable_leaves_without_a_copy_and_stays_what_it_was(task: Task) -> None:
    v = tf.Variable(tf.ones(SHAPE), name="v", use_resource=True)
    task.run(targets=[v.initializer])
    (value,) = task.run(v.read_value())
    assert np.shares_memory(value, task.array("v", ResourceVariable))
    task.run(targets=[v.assign_add(tf.ones(SHAPE)).op])
    assert np.all(value == 1)
    assert np.all(task.array("v", ResourceVariable) == 2)


@pytest.mark.parametrize("lends", [False, True])
def test_what_looks_into_a_variable_is_copied(task: Task, lends: bool) -> None:
    v = filled(task)
    views = [
        tf.reshape(v, [-1]), tf.transpose(v), tf.expand_dims(v, 0), tf.identity(tf.reshape(v, [-1])),
        tf.squeeze(tf.expand_dims(tf.stop_gradient(v), 0)), tf.split(v, 2)[1], tf.bitcast(v, tf.float32),
        tf.cond(tf.constant(True), lambda: tf.reshape(v, [-1]), lambda: tf.zeros([2])),
    ]  # fmt: skip
    for view in views:
        (value,) = task.run(view, lends=lends)
        assert np.all(value == 1)
        assert not np.shares_memory(value, task.array("v")), view.name


def test_constants_are_not_copied_for_one_who_reads(task: Task) -> None:
    constant = tf.constant(np.ones(SHAPE, np.float32))
    first, second = (task.run(tf.reshape(constant, [-1]))[0] for _ in range(2))
    assert np.shares_memory(first, second)
    first, second = (task.run(tf.reshape(constant, [-1]), lends=False)[0] for _ in range(2))
    assert not np.shares_memory(first, second)


def test_a_result_is_handed_over_as_the_kernel_made_it(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = np.ones(3, np.float32)
    monkeypatch.setattr(get("LinSpace"), "kernel", lambda *_: made)
    (given,) = task.run(tf.linspace(0.0, 1.0, 3))
    assert given is made


def test_a_fetch_that_fails_leaves_nothing_leased(task: Task) -> None:
    v = filled(task)
    unset = tf.Variable(tf.ones(SHAPE), name="unset")
    with pytest.raises(errors.FailedPreconditionError, match="unset"):
        task.run(v, unset)
    assert is_in_place(task, v)


def send(tensor: Any, name: str, to: str) -> Any:
    return send_op(
        tensor, tensor_name=name, send_device=PS, send_device_incarnation=1, recv_device=to
    )


def sent(task: Task, tensor: Any, to: str) -> Any:
    """What a Send of `tensor` leaves."""
    name = f"edge_{tensor.op.name}"
    task.run(targets=[send(tensor, name, to)])
    value, dead = task.rendezvous.recv(key(PS, 1, to, name)).result()
    assert not dead
    return value


def test_a_variable_is_leased_to_another_task_and_copied_to_a_device_of_its_own(task: Task) -> None:
    v = filled(task)
    lease = sent(task, tf.identity(v, name="away"), WORKER)
    assert isinstance(lease, Lease)
    assert np.shares_memory(lease.array, task.array("v"))
    assert not is_in_place(task, v)
    assert np.all(lease.array == 1)
    lease.release()
    here = sent(task, tf.identity(v, name="here"), PS.replace("CPU:0", "CPU:1"))
    assert isinstance(here, np.ndarray)
    assert not np.shares_memory(here, task.array("v"))


def test_what_looks_into_a_variable_is_sent_as_a_copy(task: Task) -> None:
    v = filled(task)
    for view in (tf.reshape(v, [-1]), tf.bitcast(v, tf.float32), tf.identity(tf.transpose(v))):
        value = sent(task, view, WORKER)
        assert isinstance(value, np.ndarray)
        assert not np.shares_memory(value, task.array("v"))


def test_a_lease_that_is_received_on_its_own_task_becomes_a_copy(task: Task) -> None:
    v = filled(task)
    lease = sent(task, v, WORKER)
    task.rendezvous.send(key(WORKER, 1, PS, "back"), lease)
    back = recv_op(
        tensor_type=tf.float32, tensor_name="back", send_device=WORKER, send_device_incarnation=1, recv_device=PS,
    )  # fmt: skip
    (value,) = task.run(back)
    assert np.all(value == 1)
    assert value.flags.writeable
    assert is_in_place(task, v)


def test_a_variable_sent_in_a_step_that_has_ended_is_released(task: Task) -> None:
    v = filled(task)
    program = task.compiled([], [send(v, "late", WORKER)])
    over = Rendezvous()
    over.abort(errors.aborted("the step has ended"))
    with Scope() as scope, pytest.raises(errors.AbortedError):
        program.run(StepState(task.runtime, scope, 1, over), [])
    assert is_in_place(task, v)


def test_a_kernel_that_gives_its_input_unsaid_is_found() -> None:
    array = np.ones(SHAPE, np.float32)
    with tf.Graph().as_default():
        made, viewed = tf.nn.relu(tf.constant(array)), tf.reshape(tf.constant(array), [-1])
    check.check_ownership(array.ravel(), [array], viewed.op, single=True)
    check.check_ownership(array.copy(), [array], made.op, single=True)
    with pytest.raises(AssertionError, match="ALIASES"):
        check.check_ownership(array.T, [array], made.op, single=True)


@pytest.mark.parametrize("last", ["once", "again"])
def test_what_was_fed_is_let_go_of_by_the_node_that_uses_it_last(last: str) -> None:
    with tf.Graph().as_default():
        x, y = (tf.placeholder(tf.float32, SHAPE) for _ in "xy")
        fetches = [tf.matmul(x, y, transpose_b=True, name="once")]
        if last == "again":
            with tf.control_dependencies(fetches):
                fetches.append(tf.negative(x, name="again"))
        pruned = needed([x, y], fetches, [])
        program = compile_program(pruned, [x, y], fetches, devices={}, memos={})
    assert isinstance(program, Program)
    ((segment,),) = ([item.work] for item in program.items)
    assert isinstance(segment, Segment)
    registers = [*program.template]
    registers[0] = StepState(Runtime(PS), Scope(), 1)
    registers[1:3] = [np.ones(SHAPE, np.float32), np.ones(SHAPE, np.float32)]
    fed = weakref.ref(registers[1])
    there = {}
    for instruction in segment.code.instructions:
        Code([instruction]).run(registers)
        there[instruction.node.name] = fed() is not None
    assert there == ({"once": False} if last == "once" else {"once": True, "again": False})


def test_a_step_takes_its_arguments_out_of_a_list_that_is_spent() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        total = tf.reduce_sum(x)
        program = compile_program(needed([x], [total], []), [x], [total], devices={}, memos={})
    assert isinstance(program, Program)
    fed: list[Any] = [np.ones(5, np.float32)]
    with Scope() as scope:
        step = StepState(Runtime(PS), scope, 1)
        assert program.run(step, fed) == [5]
        assert len(fed) == 1
        assert program.run(step, fed, spent=fed) == [5]
    assert fed == []
