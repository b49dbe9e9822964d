"""Steps on many tasks: all are asked before any answer is read, and the first failure ends all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers
from headrace.serve.rpc.gather import Gather
from tests.serve.clusters import Cluster, in_process
from tests.support.until import until

TASKS = 5
SOON_S = 60.0


class Answer:
    """A request that has been sent (`rpc.gather.Begun`); a socket's other end is its answer."""

    def __init__(self, stack: ExitStack) -> None:
        self._here, self._there = map(stack.enter_context, socket.socketpair())
        self.name = "a task"
        self.over = self.given_up = self.closed = False
        self.reply: Any = None
        self.error: errors.OpError | None = None

    def answers(self, text: str) -> None:
        """`!` and a message is an error."""
        self._there.send(text.encode())

    def fileno(self) -> int:
        return self._here.fileno()

    def read(self, limit_s: float, scope: Scope) -> bool:
        self._here.settimeout(limit_s)
        try:
            text = self._here.recv(100).decode()
        except (BlockingIOError, TimeoutError):
            return False
        self.over = True
        if text.startswith("!"):
            self.error = errors.internal(text[1:])
        else:
            self.reply = text
        return True

    def give_up(self) -> None:
        self.given_up = True
        self.answers("!cancelled there")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def asked() -> Iterator[list[Answer]]:
    with ExitStack() as stack:
        yield [Answer(stack) for _ in range(3)]


def gathered(asked: Sequence[Answer | Pending[str]], scope: Scope) -> list[Any]:
    with Gather(scope, 0.01) as gather:
        for each in asked:
            gather.add(each)
        return gather.replies()


class TestGather:
    def test_replies_are_in_the_order_of_the_requests(self, asked: list[Answer]) -> None:
        for number in (2, 0, 1):
            asked[number].answers(f"reply {number}")
        assert gathered(asked, Scope()) == ["reply 0", "reply 1", "reply 2"]
        assert all(each.closed and not each.given_up for each in asked)

    def test_a_failure_is_noticed_while_others_take_long(self, asked: list[Answer]) -> None:
        asked[2].answers("!no")
        with pytest.raises(errors.InternalError, match="no"):
            gathered(asked, Scope())
        assert [each.given_up for each in asked] == [True, True, False]
        assert all(each.closed for each in asked)

    def test_the_end_of_the_scope_ends_all(self, asked: list[Answer]) -> None:
        scope = Scope()
        asked[0].answers("reply")

        def end() -> None:
            until(lambda: asked[0].over)
            scope.cancel(errors.cancelled("by a friend"))

        ending = threading.Thread(target=end)
        ending.start()
        with pytest.raises(errors.CancelledError, match="by a friend"):
            gathered(asked, scope)
        ending.join()
        assert [each.given_up for each in asked] == [False, True, True]

    def test_past_the_deadline_who_was_asked_has_a_moment_to_say_why(
        self, asked: list[Answer]
    ) -> None:
        with pytest.raises(errors.DeadlineExceededError, match="an answer of a task"):
            gathered(asked, Scope(0.02))
        assert all(each.given_up and each.closed for each in asked)

    def test_a_failure_that_others_read_ends_all(self, asked: list[Answer]) -> None:
        elsewhere: Pending[str] = Pending(WaitInfo("a call", "a task"), lambda _: True)
        elsewhere.reject(errors.internal("elsewhere"))
        with pytest.raises(errors.InternalError, match="elsewhere"):
            gathered([*asked, elsewhere], Scope())
        assert all(each.given_up and each.closed for each in asked)

    def test_each_may_answer_for_itself_where_no_failure_ends_others(
        self, asked: list[Answer]
    ) -> None:
        asked[0].answers("!no")
        asked[1].answers("one")
        asked[2].answers("two")
        with Gather(Scope(), 0.01, first_ends_all=False) as gather:
            for each in asked:
                gather.add(each)
            with pytest.raises(errors.InternalError, match="no"):
                gather.replies()
            assert gather.found() == [None, "one", "two"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)  # through sockets
    with in_process({"ps": TASKS, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


def variables() -> list[Any]:
    found = []
    for task in range(TASKS):
        with tf.device(f"/job:ps/task:{task}"):
            found.append(tf.Variable(float(task)))
    return found


def test_every_task_is_asked_before_any_answer_is_read(cluster: Cluster) -> None:
    queues = []
    for task in range(TASKS):
        with tf.device(f"/job:ps/task:{task}"):
            queues.append(tf.FIFOQueue(1, tf.int32, [], shared_name=f"queue {task}"))
    taken = [queue.dequeue() for queue in queues]
    put = [queue.enqueue(number) for number, queue in enumerate(queues)]
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(2):  # by name and by number
            found: list[Any] = []
            step = threading.Thread(target=lambda found=found: found.extend(session.run(taken)))
            step.start()
            for each in reversed(put):  # the first task answers last
                session.run(each)
            step.join(SOON_S)
            assert found == [*range(TASKS)]


def test_the_failure_of_one_task_ends_a_step_that_others_would_wait_in(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        waits = tf.FIFOQueue(1, tf.int32, [], shared_name="empty").dequeue()
    with tf.device("/job:ps/task:3"):
        fails = tf.check_numerics(tf.log(tf.Variable(0.0)), "no number")
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            begun = time.monotonic()
            with pytest.raises(errors.InvalidArgumentError, match="no number"):
                session.run([waits, fails])
            assert time.monotonic() - begun < SOON_S


def test_an_initializer_of_variables_on_many_tasks_needs_no_word_between_them(
    cluster: Cluster,
) -> None:
    found = variables()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(found) == [*range(TASKS)]
    for task in range(TASKS):
        peers = cluster.servers[f"ps:{task}"].worker.peers._peers
        assert [*peers] == [f"/job:ps/replica:0/task:{task}"]


def test_what_waits_for_nodes_on_several_tasks_and_is_waited_for_runs(cluster: Cluster) -> None:
    found = variables()
    more = [each.assign_add(1.0) for each in found]
    with tf.device("/job:ps/task:1"), tf.control_dependencies([tf.group(*more)]):
        after = tf.identity(found[1].read_value() if hasattr(found[1], "read_value") else found[1])
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(after) == 2.0
        assert session.run(found) == [each + 1.0 for each in range(TASKS)]
