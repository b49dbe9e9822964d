"""Lines in the log for steps that are blocked: when, which, and how often."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run import long_waits
from headrace.run.scope import Scope
from headrace.serve.connect.peers import connect
from headrace.serve.observe import reporter
from headrace.serve.observe.blocked import BlockedStep, QueueState
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from tests.serve.clusters import in_process
from tests.serve.conftest import Background


class Lines(logging.Handler):
    """What headrace logs of steps that wait."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if " has waited " in record.getMessage():
            with self._changed:
                self.texts.append(record.getMessage())
                self._changed.notify_all()

    def until(self, count: int) -> list[str]:
        """The lines, when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.texts) >= count, 30), self.texts
            return list(self.texts)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """The log, with a threshold of a moment."""
    before, lines, log = long_waits.threshold_s, Lines(), logging.getLogger("headrace")
    long_waits.report_after(0.01)
    log.addHandler(lines)
    yield lines
    log.removeHandler(lines)
    long_waits.report_after(before)


def step(number: int = 1, **fields: Any) -> BlockedStep:
    """A blocked step of which a test says what matters."""
    queue = fields.pop("queue", None)
    known: dict[str, Any] = {
        "session": "s", "client": "", "task": "t", "device": "d", "node": "n", "op": "O",
        "built_at": "", "waited_s": 10.0, "kind": "dequeue", "on": "q", "wanted": 1, "so_far": 0,
        "detail": "", "unmoved_s": 10.0, "source": "", "cause": "",
    }  # fmt: skip
    known.update(fields)
    return BlockedStep(step=number, queue=queue, **known)


def queue(name: str = "q") -> QueueState:
    return QueueState("FIFOQueue", name, "localhost", 0, 0, 3, 0, False, 0, ())


class Session:
    """Steps that a test says are blocked."""

    def __init__(self, *steps: BlockedStep) -> None:
        self.steps: list[BlockedStep] = list(steps)
        self.error: tf.errors.OpError | None = None

    def blocked_steps(self) -> list[BlockedStep]:
        if self.error is not None:
            raise self.error
        return self.steps


def check(watched: Any, lines: Lines) -> tuple[list[str], float | None]:
    """What one look logs, and after how long the next is due."""
    before = len(lines.texts)
    again = watched.check(10.0)
    return lines.texts[before:], again


def test_a_line_comes_at_the_threshold_and_then_at_growing_intervals(lines: Lines) -> None:
    session = Session()
    watched = reporter._Watched(session, "session")
    said = []
    for waited_s in (6.0, 10.0, 15.0, 20.0, 39.0, 40.0, 79.0, 80.5):
        session.steps = [step(waited_s=waited_s, kind="take")]
        texts, _ = check(watched, lines)
        said += [waited_s] * len(texts)
    assert said == [10.0, 20.0, 40.0, 80.5]


def test_the_next_look_is_when_the_next_line_is_due(lines: Lines) -> None:
    session = Session(step(waited_s=7.0), step(2, waited_s=4.0))
    watched = reporter._Watched(session, "session")
    assert check(watched, lines) == ([], 3.0)
    session.steps = [step(waited_s=11.0), step(2, waited_s=8.0)]
    assert check(watched, lines)[1] == 2.0
    session.steps = []
    assert check(watched, lines) == ([], None)


def test_steps_that_wait_alike_share_a_line(lines: Lines) -> None:
    one, other = queue(), queue("other")
    session = Session(
        step(1, queue=one, kind="enqueue"),
        step(2, queue=one, kind="enqueue_many"),
        step(3, queue=one, kind="dequeue"),
        step(4, queue=other, kind="enqueue"),
        step(5, kind="take"),
        step(6, kind="take"),
    )
    texts, _ = check(reporter._Watched(session, "session"), lines)
    assert [text.partition(" in O")[0].partition(" has")[0] for text in texts] == [
        "a step of session s"
    ] * 5


def test_an_enqueue_into_a_queue_that_moves_is_not_blocked(lines: Lines) -> None:
    session = Session(step(kind="enqueue", queue=queue(), waited_s=60.0, unmoved_s=1.0))
    watched = reporter._Watched(session, "session")
    assert check(watched, lines) == ([], 9.0)
    session.steps = [step(kind="enqueue", queue=queue(), waited_s=69.0, unmoved_s=10.0)]
    assert len(check(watched, lines)[0]) == 1


def test_who_cannot_say_what_it_waits_for_says_that(lines: Lines) -> None:
    session = Session()
    session.error = tf.errors.UnimplementedError(None, None, "what?")
    watched = reporter._Watched(session, "session 7 at grpc://there:1")
    assert check(watched, lines) == (
        [
            "session 7 at grpc://there:1 has waited 10 s and more for a step, and cannot learn what that waits for: "
            "it is not a headrace server"
        ],
        None,
    )
    assert check(watched, lines) == ([], None)


def test_of_a_session_that_was_closed_meanwhile_nothing_is_said(lines: Lines) -> None:
    session = Session()
    watched = reporter._Watched(session, "session")
    session.error = tf.errors.AbortedError(None, None, "it is not known")
    assert check(watched, lines) == ([], None)
    session.error = tf.errors.UnavailableError(None, None, "closed")
    watched.forgotten = True
    assert check(watched, lines) == ([], None)


def test_a_session_that_is_gone_is_forgotten(lines: Lines) -> None:
    session = Session(step())
    watched = reporter._Watched(session, "session")
    gone = weakref.ref(session)
    del session
    assert gone() is None
    assert check(watched, lines) == ([], None)


def test_a_session_that_was_reported_ends_with_the_interpreter(
    graph: tf.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which imports nothing any more."""
    session = tf.Session()
    session._tell_long_wait(1.0)

    def refuse(*_: Any) -> Any:
        raise ImportError("sys.meta_path is None, Python is likely shutting down")

    with monkeypatch.context() as patch:
        patch.setattr("builtins.__import__", refuse)
        session.close()
    assert id(session) not in reporter._reporter()._watched


def test_a_blocked_step_of_this_process_is_reported(lines: Lines) -> None:
    with tf.Graph().as_default():
        numbers = tf.FIFOQueue(3, tf.int32, name="numbers")
        element = numbers.dequeue(name="take")
        with tf.Session() as session:
            waiting = Background(lambda: session.run(element))
            first, second = lines.until(2)[:2]
        assert isinstance(waiting.error(), tf.errors.CancelledError)
    assert first.startswith("step 1 has waited ")
    assert "in QueueDequeueV2 'take' (built at test_reporter.py:" in first.replace(
        __file__, "test_reporter.py"
    )
    assert "nothing ever went in; nobody else waits for it. Likely cause: nobody has ever" in first
    assert second.partition(" in ")[2] == first.partition(" in ")[2]


@pytest.mark.parametrize("limit_ms", [0, 100_000])
@pytest.mark.parametrize("transport", ["direct", "grpc", "unix"], indirect=True)
def test_a_step_that_is_blocked_elsewhere_is_reported_here(
    lines: Lines, transport: str, limit_ms: int
) -> None:
    config = tf.ConfigProto(operation_timeout_in_ms=limit_ms)
    with in_process({"ps": 1}) as cluster:
        numbers = tf.FIFOQueue(3, tf.int32, name="numbers")
        element = numbers.dequeue(name="take")
        with tf.Session(cluster.target("ps:0"), config=config) as session:
            waiting = Background(lambda: session.run(element))
            (line,) = lines.until(1)[:1]
        assert isinstance(waiting.error(), tf.errors.OpError)
    assert line.startswith("a step of session ")
    assert (
        "dequeue on FIFOQueue 'numbers' in container 'localhost' of /job:ps/replica:0/task:0"
        in line
    )


def test_reports_can_be_off(lines: Lines) -> None:
    long_waits.report_after(None)
    options = tf.RunOptions(timeout_in_ms=60)
    with tf.Graph().as_default():
        element = tf.FIFOQueue(3, tf.int32).dequeue()
        with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError):
            session.run(element, options=options)
    assert lines.texts == []


# -- sessions whose clients do not report ---------------------------------------------------------


@pytest.fixture
def direct() -> Iterator[tuple[Peer, Peer]]:
    """Master and worker of a server, asked as by others than headrace's sessions."""
    pool = GrowingPool("test")
    with in_process({"ps": 1}) as cluster:
        address = cluster.address("ps:0")
        yield connect(address, "master", pool), connect(address, "worker", pool)
    pool.shutdown()


def ended(reply: Any) -> None:
    """Take a call back and wait for its end."""
    reply.abandon(tf.errors.CancelledError(None, None, "enough"))
    assert reply.done


def test_a_master_reports_for_a_client_that_does_not(
    lines: Lines, direct: tuple[Peer, Peer], graph: tf.Graph
) -> None:
    master, _ = direct
    tf.FIFOQueue(3, tf.int32, name="numbers").dequeue(name="take")
    request = pb.CreateSessionRequest(graph_def=graph.as_graph_def())
    handle = master.call_now(methods.CREATE_SESSION, request, Scope()).session_handle
    step = m.RunStepRequest(handle, [], ["take:0"], [])
    reply = master.call(methods.RUN_STEP, step, Scope())
    (line,) = lines.until(1)[:1]
    ended(reply)
    assert line.startswith(f"a step of session {handle} has waited ")
    assert "dequeue on FIFOQueue 'numbers' in container 'localhost' of /job:ps/" in line
    master.call_now(methods.CLOSE_SESSION, pb.CloseSessionRequest(session_handle=handle), Scope())


def test_a_worker_reports_for_a_master_that_does_not(
    lines: Lines, direct: tuple[Peer, Peer], graph: tf.Graph
) -> None:
    _, worker = direct
    with tf.device("/job:ps/replica:0/task:0/device:CPU:0"):
        tf.FIFOQueue(3, tf.int32, name="numbers").dequeue(name="take")
    request = pb.RegisterGraphRequest(session_handle="theirs", graph_def=graph.as_graph_def())
    handle = worker.call_now(methods.REGISTER_GRAPH, request, Scope()).graph_handle
    reply = worker.call(methods.RUN_GRAPH, m.RunGraphRequest(handle, 7, [], []), Scope())
    (line,) = lines.until(1)[:1]
    ended(reply)
    assert line.startswith("a step of session theirs has waited ")
