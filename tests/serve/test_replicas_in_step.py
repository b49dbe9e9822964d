"""SyncReplicasOptimizer on a cluster: a parameter server and two workers, each with its own graph."""

from __future__ import annotations

import threading
from typing import Any

import headrace as tf
from tests.serve.clusters import in_process

STEPS = 4


class Replica:
    """A worker's graph: v -= the mean of what the workers feed to x."""

    def __init__(self, cluster: dict[str, list[str]], task: int) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            place = tf.train.replica_device_setter(
                cluster=cluster, worker_device=f"/job:worker/task:{task}"
            )
            with tf.device(place):
                self.step = tf.train.get_or_create_global_step()
                self.v = tf.get_variable("v", [1], initializer=tf.zeros_initializer())
                self.x = tf.placeholder(tf.float32, [])
                inner = tf.train.GradientDescentOptimizer(1.0)
                optimizer = tf.train.SyncReplicasOptimizer(inner, 2, 2)
                self.train = optimizer.minimize(tf.reduce_sum(self.v * self.x), self.step)
            self.hook = optimizer.make_session_run_hook(is_chief=task == 0)
            self.hook.begin()
            self.init = tf.global_variables_initializer()
            self.local_init = tf.local_variables_initializer()


def test_every_step_is_the_mean_of_two_gradients() -> None:
    with in_process({"ps": 1, "worker": 2}) as cluster:
        replicas = [Replica(cluster.spec, task) for task in range(2)]
        sessions = [
            tf.Session(cluster.target(f"worker:{task}"), graph=replica.graph)
            for task, replica in enumerate(replicas)
        ]
        coord, far_enough = tf.train.Coordinator(), threading.Event()
        sessions[0].run(replicas[0].init)
        for replica, session in zip(replicas, sessions, strict=True):
            session.run(replica.local_init)
            replica.hook.after_create_session(session, coord)

        def work(replica: Replica, session: tf.Session, value: float) -> None:
            while not far_enough.is_set():
                try:
                    session.run(replica.train, {replica.x: value})
                    if session.run(replica.step) >= STEPS:
                        far_enough.set()
                except (tf.errors.OpError, RuntimeError):
                    if not far_enough.is_set():  # then the sessions are closed
                        raise

        threads = [
            threading.Thread(target=work, args=(*each, 2.0))
            for each in zip(replicas, sessions, strict=True)
        ]
        for thread in threads:
            thread.start()
        assert far_enough.wait(60)
        coord.request_stop()
        found: list[Any] = sessions[0].run([replicas[0].v, replicas[0].step])
        for session in sessions:
            session.close()
        for thread in threads:
            thread.join(60)
        coord.join()
    assert found[1] >= STEPS
    updates = found[0][0] / -2.0
    assert updates == round(updates), "a gradient was lost from a mean, or counted twice"
    assert abs(updates - found[1]) <= 1, "v and the step are read while an update may be under way"
