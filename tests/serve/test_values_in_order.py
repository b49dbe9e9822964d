"""Values that pass between tasks by their order alone are not taken for each other."""

from __future__ import annotations

from itertools import permutations

import pytest

import headrace as tf
from tests.serve.clusters import in_process

ORDERS = [*permutations(range(3))]
TASKS = ["/job:worker/task:1", "/job:worker/task:2", "/job:ps"]
TIMES = 3  # from the second time on nothing is named any more


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_what_several_tasks_give_and_one_gives_on(order: tuple[int, ...]) -> None:
    with in_process({"ps": 1, "worker": 3}) as cluster, tf.Graph().as_default():
        made = []
        for place in order:
            with tf.device(TASKS[place]):
                made.append(tf.constant(place))
        with tf.device("/job:worker/task:0"):
            together = tf.stack(made)
        with tf.device("/job:ps"):
            back = tf.identity(together)
        with tf.Session(cluster.target("worker:0")) as session:
            for _ in range(TIMES):
                assert session.run(back).tolist() == [*order]
                assert session.run(together).tolist() == [*order]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("where", ["/job:ps", "/job:worker/task:0"])
def test_feeds_that_are_named_in_any_order(where: str, order: tuple[int, ...]) -> None:
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        with tf.device(where):
            fed = [tf.placeholder(tf.int32, []) for _ in order]
            together = tf.stack(fed)
        with tf.Session(cluster.target("worker:0")) as session:
            for _ in range(TIMES):
                assert session.run(together, {fed[n]: n for n in order}).tolist() == [0, 1, 2]
