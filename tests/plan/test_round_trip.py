"""Which steps ask a task twice, before and after the master's own partition, and what goes where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.plan.partition import Partition, partition
from headrace.plan.place import Groups, place
from headrace.plan.prune import needed
from headrace.plan.relay import relay

PS, PS1, WORKER = (
    f"/job:{task}/device:CPU:0"
    for task in ("ps/replica:0/task:0", "ps/replica:0/task:1", "worker/replica:0/task:0")
)
OWN = "/job:worker/replica:0/task:0"


Built = tuple[list[Any], list[Any]]
"""Fetches or targets, and feeds."""


def parts(built: Built) -> list[Partition]:
    fetches, feeds = built
    tensors = [x for x in fetches if isinstance(x, tf.Tensor)]
    targets = [x for x in fetches if not isinstance(x, tf.Tensor)]
    pruned = needed(feeds, tensors, targets, exact=False)
    groups = Groups()
    groups.add(tf.get_default_graph().get_operations())
    ops = list(dict.fromkeys([*pruned.ops, *(tensor.op for tensor in feeds)]))
    devices = place(
        ops, [PS, PS1, WORKER], allow_soft_placement=False, own_task=None, groups=groups
    )
    return partition(pruned, feeds, tensors, devices, lambda device: 7)


def types(part: Partition) -> list[str]:
    return sorted(node.op for node in part.graph_def.node if node.op not in ("_Send", "_Recv"))


Optimizer = Callable[[], Any]


def training(optimizer: Optimizer, tasks: int = 1, resource: bool = False) -> Built:
    """Two variables on `tasks` parameter servers, the loss on the worker."""
    with tf.device(tf.train.replica_device_setter(tasks, worker_device="/job:worker/task:0")):
        x = tf.placeholder(tf.float32, [2], name="x")
        w = tf.Variable([1.0, 2.0], name="w", use_resource=resource)
        b = tf.Variable([0.5, 0.5], name="b", use_resource=resource)
        loss = tf.reduce_sum(tf.square(x * w + b))
        step = tf.train.get_or_create_global_step()
        return [optimizer().minimize(loss, global_step=step), loss], [x]


def of_two_servers() -> Built:
    with tf.device(PS):
        w = tf.Variable(1.0)
    with tf.device(PS1):
        b = tf.Variable(0.5)
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [])
        slope, offset = x * w + b, w + b
    return [w.assign_sub(slope), b.assign_sub(offset)], [x]


def descent() -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


@pytest.mark.parametrize("resource", [False, True], ids=["refs", "resources"])
@pytest.mark.parametrize(
    ("optimizer", "rule"),
    [
        (descent, "GradientDescent"),
        (lambda: tf.train.MomentumOptimizer(0.1, 0.9), "Momentum"),
        (lambda: tf.train.AdamOptimizer(0.1), "Adam"),
    ],
)
def test_a_training_step_reads_computes_and_updates(
    optimizer: Optimizer, rule: str, resource: bool
) -> None:
    with tf.Graph().as_default():
        before, own, after = _in_order(parts(training(optimizer, 1, resource)))
    applied = f"{'Resource' * resource}Apply{rule}"
    assert (before.task, own.task, after.task) == (after.task, OWN, before.task)
    assert types(after).count(applied) == 2
    assert applied not in types(before)
    assert "Mul" in types(own)
    assert (
        len(before.given) == 2
    )  # w and b; that they were read before they are updated goes without saying
    assert len(after.taken) == 2  # a gradient each; what is constant is in both


def test_each_of_several_parameter_servers_gets_what_is_its_own() -> None:
    with tf.Graph().as_default():
        made, stages = relay(parts(of_two_servers()), OWN) or ([], [])
    assert [[made[index].task for index in stage] for stage in stages] == [
        ["/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"],
        [OWN],
        ["/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"],
    ]
    before, (own,), after = [[made[index] for index in stage] for stage in stages]
    assert list(own.taken) == [key for part in before for key in part.given]
    assert list(own.given) == [key for part in after for key in part.taken]
    assert all(part.given for part in before)
    assert all(part.taken for part in after)


def test_nothing_is_sent_or_received_any_more() -> None:
    with tf.Graph().as_default():
        for part in _in_order(parts(training(descent))):
            transfers = [node for node in part.graph_def.node if node.op in ("_Send", "_Recv")]
            assert transfers
            assert all(node.attr["client_terminated"].b for node in transfers)
            names = {node.name for node in part.graph_def.node}
            for node in part.graph_def.node:
                assert names.issuperset(x.lstrip("^").partition(":")[0] for x in node.input)


def test_what_is_fetched_and_fed_is_where_it_is_made_and_used() -> None:
    with tf.Graph().as_default():
        with tf.device(PS):
            w = tf.Variable(1.0)
            early, late = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
            both = tf.placeholder(tf.float32, [])
            first = tf.identity(both)
        with tf.device(WORKER):
            y = w + early
        with tf.device(PS):
            update = w.assign_add(y + late * both)
        built = [update, y, w.value(), first], [early, late, both]
        before, own, after = _in_order(parts(built))
    assert set(before.feeds) == {early, both}
    assert set(after.feeds) == {late, both}
    assert set(own.fetches) == {y}
    assert set(before.fetches) == {w.value(), first}
    assert [tensor.op.type for tensor in after.fetches] == ["AssignAdd"]


def _there_and_back(first: Any = None, last: Callable[[Any], Any] | None = None) -> Any:
    """A variable of the ps, one more, and what becomes of that there."""
    with tf.device(PS):
        x = tf.Variable(1.0) if first is None else first()
    with tf.device(WORKER):
        y = x + 1.0
    with tf.device(PS):
        return y * 2.0 if last is None else last(y)


def dequeued_there() -> list[Any]:
    queue = [tf.FIFOQueue(1, [tf.float32], shapes=[[]])]
    return [_there_and_back(lambda: queue[0].dequeue())]


def enqueued_there() -> list[Any]:
    queue = [tf.FIFOQueue(1, [tf.float32], shapes=[[]])]
    return [_there_and_back(last=lambda y: queue[0].enqueue(y))]


def dequeued_here_beside_it() -> list[Any]:
    """The update must not wait for the dequeue, which may wait for who sees the update."""
    with tf.device(WORKER):
        dequeued = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    return [dequeued, _there_and_back()]


def a_constant_beside_a_dequeue() -> list[Any]:
    with tf.device(WORKER):
        dequeued, one = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue(), tf.constant(1.0)
    with tf.device(PS):
        return [dequeued, tf.Variable(0.0).assign(one)]


def work_there_that_could_begin_at_once() -> list[Any]:
    return [_there_and_back(lambda: tf.random_uniform([]))]


def large_work_there_afterwards() -> list[Any]:
    return [_there_and_back(last=lambda y: tf.matmul([[y]], [[y]]))]


def an_old_value_is_needed_after_it_has_changed() -> list[Any]:
    with tf.device(PS):
        w = tf.Variable(1.0, use_resource=True)
        old = w.read_value()
    return [_there_and_back(lambda: old, lambda y: y + old)]


def sent_there_and_back_again() -> list[Any]:
    z = _there_and_back()
    with tf.device(WORKER):
        return [z + 1.0]


def from_one_ps_to_the_other() -> list[Any]:
    z = _there_and_back()
    with tf.device(PS1):
        v = tf.Variable(1.0).value()
    with tf.device(PS):
        return [z + v]


def counted_on_one_ps_after_updates_of_the_other() -> list[Any]:
    return training(descent, tasks=2)[0]


def too_many_for_one_message() -> list[Any]:
    with tf.device(PS):
        variables = [tf.Variable(1.0) for _ in range(33)]
    with tf.device(WORKER):
        made = [variable + 1.0 for variable in variables]
    with tf.device(PS):
        return [v.assign(y) for v, y in zip(variables, made, strict=True)]


@pytest.mark.parametrize(
    "build",
    [
        dequeued_there,
        enqueued_there,
        dequeued_here_beside_it,
        a_constant_beside_a_dequeue,
        work_there_that_could_begin_at_once,
        large_work_there_afterwards,
        an_old_value_is_needed_after_it_has_changed,
        sent_there_and_back_again,
        from_one_ps_to_the_other,
        counted_on_one_ps_after_updates_of_the_other,
        too_many_for_one_message,
    ],
)
def test_others_talk_to_each_other(build: Callable[[], list[Any]]) -> None:
    with tf.Graph().as_default():
        made = parts((build(), []))
        before = [part.graph_def.SerializeToString() for part in made]
        assert relay(made, OWN) is None
        assert [part.graph_def.SerializeToString() for part in made] == before


def test_a_dequeue_that_everything_sent_comes_after_does_no_harm() -> None:
    with tf.Graph().as_default():
        with tf.device(WORKER):
            example = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
        built = [_there_and_back(last=lambda y: tf.Variable(0.0).assign(y))]
        with tf.device(PS):
            w = tf.Variable(1.0)
        with tf.device(WORKER):
            gradient = w * example
        with tf.device(PS):
            update = w.assign_sub(gradient)
        assert relay(parts(([update], [])), OWN) is not None
        assert relay(parts(([update, *built], [])), OWN) is None


def _in_order(made: list[Partition]) -> list[Partition]:
    found, stages = relay(made, OWN) or ([], [])
    assert [len(stage) for stage in stages] == [1, 1, 1]
    return [found[stage[0]] for stage in stages]
