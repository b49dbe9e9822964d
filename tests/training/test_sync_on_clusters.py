"""Replicas in step on clusters: several ps, partitioned variables, backup workers, a worker that is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import Cluster, ProcessCluster, in_process, processes
from tests.support.limits import deadline_that_says
from tests.training.trainings import training

pytestmark = pytest.mark.timeout(400)  # a busy machine starts processes slowly
STEPS = 8
RATE = 0.1
SOON = {"HEADRACE_BLOCKED_AFTER_S": "1"}
GIVE, TAKE = "ResourceAccumulatorApplyGradient", "ResourceAccumulatorTakeGradient"
CHIEF = "/job:worker/replica:0/task:0"


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def batches(workers: int) -> list[tuple[Any, Any]]:
    """Inputs [4, 6] and targets [4] of each worker."""
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((4, 6), np.float32), rng.standard_normal(4, np.float32))
        for _ in range(workers)
    ]


class Model:
    """Linear regression whose weights lie on all ps in parts; in step with `total` others if that is given."""

    def __init__(self, parts: int, aggregate: int = 0, total: int = 0) -> None:
        self.x = tf.placeholder(tf.float32, [None, 6])
        self.y = tf.placeholder(tf.float32, [None])
        self.step = tf.train.get_or_create_global_step()
        whole = tf.get_variable(
            "w", [6, 1], initializer=tf.constant_initializer(0.5),
            partitioner=tf.fixed_size_partitioner(parts) if parts > 1 else None,
        )  # fmt: skip
        guess = tf.reshape(tf.matmul(self.x, tf.convert_to_tensor(whole)), [-1])
        self.loss = tf.reduce_mean(tf.square(guess - self.y))
        optimizer: Any = tf.train.GradientDescentOptimizer(RATE)
        self.sync: Any = None
        if aggregate:
            self.sync = optimizer = tf.train.SyncReplicasOptimizer(optimizer, aggregate, total)
        self.train = optimizer.minimize(self.loss, self.step)


def alone() -> list[float]:
    """The losses of one worker on the joined batch."""
    joined = [np.concatenate(parts) for parts in zip(*batches(2), strict=True)]
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(1)
        session.run(tf.global_variables_initializer())
        fed = dict(zip((model.x, model.y), joined, strict=True))
        return [float(session.run([model.loss, model.train], fed)[0]) for _ in range(STEPS)]


def work(
    tasks: Cluster,
    index: int,
    steps: int,
    together: threading.Barrier,
    losses: list[float],
    **sync: int,
) -> None:
    """A worker: between-graph, with a graph of its own."""
    x, y = batches(2)[index]
    with tf.Graph().as_default():
        setter = tf.train.replica_device_setter(
            worker_device=f"/job:worker/task:{index}", cluster=tasks.spec
        )
        with tf.device(setter):
            model = Model(2, **sync)
        hook = model.sync.make_session_run_hook(index == 0, num_tokens=0)
        with tf.train.MonitoredTrainingSession(
            tasks.target(f"worker:{index}"), is_chief=index == 0, hooks=[hook]
        ) as session:
            for _ in range(steps):
                together.wait(60)  # so that nobody takes two tokens of a step
                loss, _ = session.run([model.loss, model.train], {model.x: x, model.y: y})
                losses.append(float(loss))
            together.wait(60)


def test_two_workers_in_step_have_the_losses_of_one_with_the_joined_batch() -> None:
    together = threading.Barrier(2)
    losses: list[list[float]] = [[], []]
    with in_process({"ps": 2, "worker": 2}) as tasks:
        threads = [
            threading.Thread(
                target=work,
                args=(tasks, n, STEPS, together, losses[n]),
                kwargs={"aggregate": 2, "total": 2},
            )
            for n in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert np.allclose(np.mean(losses, axis=0), alone(), rtol=1e-5)


def test_a_step_whose_time_is_over_in_a_barrier_says_whose_gradients_are_missing() -> None:
    """Both the step of a worker, which waits for a token, and the take that the tokens wait for."""
    with ExitStack() as stack:
        tasks = stack.enter_context(in_process({"ps": 1, "worker": 2}))
        workers = []
        for index in range(2):
            stack.enter_context(tf.Graph().as_default())
            with tf.device(
                tf.train.replica_device_setter(1, worker_device=f"/job:worker/task:{index}")
            ):
                model = Model(1, aggregate=2, total=2)
            session = stack.enter_context(tf.Session(tasks.target(f"worker:{index}")))
            if not index:
                session.run(tf.global_variables_initializer())
            session.run([tf.local_variables_initializer(), model.sync.chief_init_op])
            fed = dict(zip((model.x, model.y), batches(2)[index], strict=True))
            workers.append((session, model, fed))
        first, model, fed = workers[0]
        tokens = model.sync.get_chief_queue_runner().enqueue_ops
        handing = [
            threading.Thread(target=session.run, args=(each.train, data))
            for session, each, data in workers
        ]
        for thread in handing:
            thread.start()
        first.run(tokens)
        for thread in handing:
            thread.join()
        first.run([op for op in first.graph.get_operations() if op.type == GIVE], fed)
        missing = "there is no gradient of /job:worker/replica:0/task:1 yet; its latest came"
        for step in (tokens, model.train):  # the second gives one more gradient each time
            deadline_that_says(
                lambda options, step=step: first.run(step, fed, options=options),  # type: ignore[misc]
                missing,
            )


@pytest.mark.parametrize("victim", ["worker:1"])
def test_the_others_go_on_without_a_backup_worker_that_was_killed(
    tmp_path: Path, victim: str
) -> None:
    """Of three, two a step are enough."""
    with training({"ps": 1, "worker": 3}, tmp_path, sync=[2, 3]) as job:
        others = [job.tasks["worker:0"], job.tasks["worker:2"]]
        job.tasks[victim].wait_for_steps(3)
        job.tasks[victim].kill()
        for other in others:
            assert other.wait_for_steps(5, len(other.lines))
            assert len(other.sessions()) == 1


def test_a_worker_that_was_killed_inside_a_barrier_is_waited_for(tmp_path: Path) -> None:
    """Two of two: the other goes on as soon as it is back."""
    with training({"ps": 1, "worker": 2}, tmp_path, sync=[2, 2]) as job:
        chief, worker = job.tasks["worker:0"], job.tasks["worker:1"]
        worker.wait_for_steps(3)
        worker.kill()
        made = len(chief.steps())
        again = job.start("worker:1")
        again.wait_for_steps(3)
        chief.wait_for("steps", lambda: len(chief.steps()) > made + 3)
        assert len(chief.sessions()) == 1


@pytest.mark.parametrize(("victim", "other"), [("worker:1", "worker:0"), ("worker:0", "worker:1")])
def test_who_waits_in_a_barrier_for_a_worker_that_was_killed_is_told_whom_the_log_names(
    tmp_path: Path, victim: str, other: str
) -> None:
    """Of the worker or the chief; it goes on when that is back."""
    with training({"ps": 1, "worker": 2}, tmp_path, SOON, sync=[2, 2]) as job:
        job.tasks["worker:1"].wait_for_steps(3)
        job.tasks[victim].kill()
        waits = job.tasks[other]
        gone = f"/job:worker/replica:0/task:{victim[-1]}"
        waits.wait_for(
            "the name of the other",
            lambda: [x for x in waits.log if f"{gone}, which does not answer" in x],
        )
        job.start(victim).wait_for_steps(2)
        waits.wait_for_steps(2, len(waits.lines))


@pytest.mark.parametrize("taken", [False, True])
def test_who_waits_for_a_token_is_told_that_nobody_takes_gradients_out_any_more(
    taken: bool,
) -> None:
    """The chief is killed when the gradients of both are there, or have just been taken out by it."""
    with ExitStack() as stack:
        tasks = stack.enter_context(processes({"ps": 1, "worker": 2}))
        members = [Member(stack, tasks, index) for index in range(2)]
        chief, worker = members
        for member in members:
            member.run(GIVE)
        chief.session.run([chief.tokens, chief.token])
        for member in members:
            member.session.run(member.model.sync.local_step_init_op)
            member.run(GIVE)
        if taken:
            chief.run(TAKE)
        tasks.kill("worker:0")
        worker.session._limit_missing_members(0.1)
        with pytest.raises(tf.errors.DeadlineExceededError) as late:
            worker.session.run(worker.model.train, worker.fed)
        assert f"{CHIEF} did not come back within 0.1 s" in str(late.value)
        assert f"nobody takes gradients out any more: that was up to {CHIEF}" in str(late.value)


class Member:
    """A worker between graphs, of two in step."""

    def __init__(self, stack: ExitStack, tasks: ProcessCluster, index: int) -> None:
        self.graph = tf.Graph()
        place = tf.train.replica_device_setter(1, worker_device=f"/job:worker/task:{index}")
        with self.graph.as_default(), tf.device(place):
            self.model = Model(1, aggregate=2, total=2)
            self.tokens = self.model.sync.get_chief_queue_runner().enqueue_ops
            self.token = self.model.sync._token_queue.dequeue_many(2)
            init = tf.group(tf.local_variables_initializer(), self.model.sync.chief_init_op)
            everything = tf.global_variables_initializer()
        self.session = stack.enter_context(
            tf.Session(tasks.target(f"worker:{index}"), graph=self.graph)
        )
        self.fed = dict(zip((self.model.x, self.model.y), batches(2)[index], strict=True))
        if not index:
            self.session.run(everything)
        self.session.run(init)

    def run(self, kind: str) -> None:
        """All nodes of a kind."""
        self.session.run([op for op in self.graph.get_operations() if op.type == kind], self.fed)


@pytest.mark.parametrize(("victim", "other"), [("worker:1", "worker:0"), ("worker:0", "worker:1")])
def test_a_worker_that_does_not_come_back_to_a_barrier_is_an_error_that_names_it(
    tmp_path: Path, victim: str, other: str
) -> None:
    jobs = {"ps": 1, "worker": 2}
    options = {"max_recovery_secs": 2}  # the first session may take its time on a busy machine
    with training(jobs, tmp_path, SOON, sync=[2, 2], options=options) as job:
        job.tasks["worker:1"].wait_for_steps(3)
        job.tasks[victim].kill()
        assert job.tasks[other].join() == 1
        assert (
            f"DeadlineExceededError: /job:worker/replica:0/task:{victim[-1]} did not come back within 2.0 s"
            in job.tasks[other].log[-1]
        )
