"""Tasks that are not up yet, or never will be: a session waits for those it needs, and says why each is missing."""

from __future__ import annotations

import itertools
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.client import missing_tasks
from headrace.codec import protos as pb
from headrace.run import long_waits
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect import readiness
from headrace.serve.connect.cluster_view import _disagree
from headrace.serve.connect.readiness import ServerReadiness, wait_for_all
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.grpc import unreachable
from headrace.serve.grpc.unreachable import why
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.methods import GET_STATUS
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from tests.serve.authority import Authority
from tests.serve.clusters import in_process
from tests.serve.conftest import TRANSPORTS, Background

Start = Callable[[Callable[[], Any]], Background]
WITHIN_S = 60.0
SECRET = b"correct horse battery staple"
NOWHERE = "no-such-host.invalid"


# -- why ------------------------------------------------------------------------------------------


@contextmanager
def refusing() -> Iterator[str]:
    """An address of which the port is taken, and nobody listens there."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{sock.getsockname()[1]}"


@contextmanager
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield f"127.0.0.1:{sock.getsockname()[1]}"


@contextmanager
def rude() -> Iterator[str]:
    """Ends every connection at once."""
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def accept() -> None:
            try:
                while True:
                    sock.accept()[0].close()
            except OSError:
                pass

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{sock.getsockname()[1]}"
        finally:
            sock.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def server(security: Security | None = None) -> Iterator[str]:
    with tf.train.Server({"local": ["127.0.0.1:0"]}, security=security) as made:
        yield made.target.removeprefix("grpc://")


@contextmanager
def named(address: str) -> Iterator[str]:
    yield address


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


def test_there_is_nothing_to_say_of_one_that_answers() -> None:
    with server() as address:
        assert why(address, Security(), Scope(WITHIN_S)) == ""


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (lambda: named(f"{NOWHERE}:2222"), f"'{NOWHERE}' is not resolved"),
        (refusing, "connection refused"),
        (rude, "does not speak gRPC, or ends at once"),
    ],
    ids=["no name", "refused", "no gRPC"],
)
def test_why(there: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = socket.getaddrinfo

    def resolve(
        host: str, *args: Any, **kwargs: Any
    ) -> Any:  # the test does not wait for a resolver
        if host == NOWHERE:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return find(host, *args, **kwargs)

    monkeypatch.setattr(unreachable.socket, "getaddrinfo", resolve)
    with there() as address:
        found = why(address, Security(), Scope(WITHIN_S))
    assert re.search(said, found), found


class Mute:
    """Stands for a connection whose question is not answered in time."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def call(self, method: object, request: object, scope: Scope) -> Pending[Any]:
        return Pending.failed_with(errors.deadline_exceeded("no answer"))

    def close(self) -> None: ...


def test_one_that_accepts_and_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreachable, "GrpcPeer", Mute)
    with silent() as address:
        assert "nothing is answered" in why(address, Security(), Scope(WITHIN_S))


def test_one_that_is_behind_a_firewall(monkeypatch: pytest.MonkeyPatch) -> None:
    def swallowed(*_: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(unreachable, "connected", swallowed)
    assert "no answer: the host is down" in why("127.0.0.1:1", Security(), Scope(WITHIN_S))


CREDENTIALS = {  # (the server's, ours), and what is said
    "a secret": (lambda our, others: (Security(SECRET), Security()), "HEADRACE_SECRET_FILE"),
    "TLS for who has none": (
        lambda our, others: (Security(certificate=our.cert, key=our.key), Security()),
        "refused our credentials: it speaks TLS, and this process does not",
    ),
    "no TLS for who asks for it": (
        lambda our, others: (Security(), Security(authorities=our.ca)),
        "does not speak it",
    ),
    "a server that somebody else vouches for": (
        lambda our, others: (Security(certificate=our.cert, key=our.key), Security(authorities=others.ca)),
        "its TLS certificate is not believed",
    ),
    "a certificate is asked for": (
        lambda our, others: (strict(our), Security(authorities=our.ca)),
        "refused our credentials: it ends connections after the TLS handshake",
    ),
    "another certificate is asked for": (
        lambda our, others: (
            strict(our),
            Security(certificate=others.cert, key=others.key, authorities=our.ca),
        ),
        "refused our credentials: it ends connections after the TLS handshake",
    ),
}  # fmt: skip


def strict(ours: Authority) -> Security:
    """A server's that wants to see certificates."""
    return Security(certificate=ours.cert, key=ours.key, authorities=ours.ca, clients_too=True)


@pytest.fixture
def others(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "others")


@pytest.mark.parametrize("case", CREDENTIALS)
def test_credentials_that_are_not_taken_end_the_wait_at_once(
    case: str, ours: Authority, others: Authority, pool: GrowingPool
) -> None:
    credentials, said = CREDENTIALS[case]
    theirs, mine = credentials(ours, others)
    with server(theirs) as address:
        with pytest.raises(errors.UnauthenticatedError, match=said):
            why(address, mine, Scope(WITHIN_S))
        peer = RoutedPeer(address, "the server", mine)
        try:
            awaits = ServerReadiness(
                peer,
                lambda: peer.call(GET_STATUS, pb.GetStatusRequest(), Scope(), wait_for_ready=True),
            )
            with pytest.raises(errors.UnauthenticatedError, match=said):  # of five minutes
                wait_for_all([awaits], Scope(), pool)
        finally:
            peer.close()


def test_a_server_whose_certificate_is_believed_answers(ours: Authority) -> None:
    with server(Security(certificate=ours.cert, key=ours.key)) as address:
        assert why(address, Security(authorities=ours.ca), Scope(WITHIN_S)) == ""


def test_a_connection_that_ends_once_proves_nothing(
    ours: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may have been ending itself."""
    asked = unreachable._asked
    with server(Security(certificate=ours.cert, key=ours.key)) as address:
        replies = iter([("it ended", True)])
        monkeypatch.setattr(
            unreachable, "_asked", lambda *args: next(replies, None) or asked(*args)
        )
        assert why(address, Security(authorities=ours.ca), Scope(WITHIN_S)) == ""


# -- whom -----------------------------------------------------------------------------------------


class Fake:
    """A peer of which everything is known."""

    def __init__(self, name: str, reason: str = "") -> None:
        self.name = name
        self._reason = reason
        self.looked = threading.Event()

    def why_silent(self, scope: Scope) -> str:
        self.looked.set()
        return self._reason


@pytest.fixture
def pool() -> Iterator[GrowingPool]:
    pool = GrowingPool("test")
    yield pool
    pool.shutdown()


def never() -> Pending[Any]:
    return Pending(None, lambda _: True)


def answers(value: Any = "here") -> Callable[[], Pending[Any]]:
    return lambda: Pending.done_with(value)


def test_at_the_end_every_one_that_is_missing_is_named_with_why(
    pool: GrowingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        ServerReadiness(Fake("A", "refused"), never),  # type: ignore[arg-type]
        ServerReadiness(Fake("B"), answers()),  # type: ignore[arg-type]
        ServerReadiness(Fake("C"), never),  # type: ignore[arg-type]
        ServerReadiness(Fake("D"), answers("not D"), lambda reply: "somebody else"),  # type: ignore[arg-type]
    ]
    asked[0].reason = "refused"
    monkeypatch.setenv("HEADRACE_CONNECT_TIMEOUT_S", "0.05")
    with pytest.raises(
        errors.UnavailableError,
        match=r"^3 servers have not .* s: A \(refused\); C \(no answer\); D \(somebody else\)\. Check the addr",
    ):
        wait_for_all(asked, Scope(), pool)


def test_a_single_one_makes_a_sentence(pool: GrowingPool) -> None:
    one = ServerReadiness(Fake("A", "refused"), never)  # type: ignore[arg-type]
    one.reason = "refused"
    with pytest.raises(errors.UnavailableError, match=r"^A has not .* s, refused: check the addr"):
        wait_for_all([one], Scope(0.01), pool)


def test_a_time_too_short_to_find_out_anything_is_what_has_passed(
    pool: GrowingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "first_probe_s", WITHIN_S)  # also for a busy machine
    one = ServerReadiness(Fake("A"), never)  # type: ignore[arg-type]
    with pytest.raises(errors.DeadlineExceededError, match=r"0\.001 s passed .* an answer of A"):
        wait_for_all([one], Scope(0.001), pool)


def test_when_all_have_answered_the_answers_come_in_order(pool: GrowingPool) -> None:
    late = never()
    peer = Fake("A")
    asked = [ServerReadiness(peer, lambda: late), ServerReadiness(Fake("B"), answers(2))]  # type: ignore[arg-type,list-item]
    threading.Thread(target=lambda: (peer.looked.wait(WITHIN_S), late.resolve(1))).start()
    assert wait_for_all(asked, Scope(WITHIN_S), pool) == [1, 2]


@pytest.mark.parametrize("limit_s", [WITHIN_S, 0.01])
def test_an_answer_counts_that_comes_the_moment_a_pause_or_the_time_ends(
    pool: GrowingPool, monkeypatch: pytest.MonkeyPatch, limit_s: float
) -> None:
    late, passed = never(), readiness.passed_deadline

    def comes(scope: Scope) -> bool:
        late.resolve(1)
        return passed(scope)

    monkeypatch.setattr(LIMITS, "first_probe_s", 0.01)
    monkeypatch.setattr(readiness, "passed_deadline", comes)
    one = ServerReadiness(Fake("A"), lambda: late)  # type: ignore[arg-type]
    assert wait_for_all([one], Scope(limit_s), pool) == [1]


def test_one_that_was_somebody_else_is_asked_again(
    pool: GrowingPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "first_probe_s", 0.01)
    replies = iter(["a stranger", "a stranger", "the one"])
    one = ServerReadiness(
        Fake("A"),  # type: ignore[arg-type]
        lambda: Pending.done_with(next(replies)),
        lambda reply: "" if reply == "the one" else reply,
    )
    assert wait_for_all([one], Scope(WITHIN_S), pool) == ["the one"]


def test_an_answer_that_nobody_understands_is_an_error(pool: GrowingPool) -> None:
    def fail(reply: object) -> str:
        raise ValueError(f"what is {reply}?")

    with pytest.raises(errors.InternalError, match=r"what is 7\?"):
        wait_for_all([ServerReadiness(Fake("A"), answers(7), fail)], Scope(WITHIN_S), pool)  # type: ignore[arg-type]


def test_who_refuses_our_credentials_ends_the_wait_and_the_others_are_named_too(
    pool: GrowingPool,
) -> None:
    refused = errors.unauthenticated("who are you?")
    asked = [
        ServerReadiness(Fake("A"), never),  # type: ignore[arg-type]
        ServerReadiness(Fake("B"), lambda: Pending.failed_with(refused)),  # type: ignore[arg-type]
    ]
    with pytest.raises(
        errors.UnauthenticatedError,
        match=r"A \(no answer\); B \(it refused our credentials: who are you\?\)",
    ):
        wait_for_all(asked, Scope(WITHIN_S), pool)


def test_a_wait_that_is_given_up_ends_with_its_scopes_error(
    pool: GrowingPool, background: Start
) -> None:
    peer, scope = Fake("A"), Scope()
    waiting = background(lambda: wait_for_all([ServerReadiness(peer, never)], scope, pool))  # type: ignore[arg-type]
    assert peer.looked.wait(WITHIN_S)
    scope.cancel(errors.cancelled("never mind"))
    assert isinstance(waiting.error(), errors.CancelledError)


@pytest.mark.parametrize(("text", "seconds"), [("", 300.0), ("0", None), ("2.5", 2.5)])
def test_how_long(text: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONNECT_TIMEOUT_S", text)
    assert readiness.connect_timeout_s() == seconds


# -- the log --------------------------------------------------------------------------------------


class Notices(logging.Handler):
    """What is said of waiting, and when."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[tuple[float, str]] = []
        self._more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._more:
            self.said.append((time.monotonic(), record.getMessage()))
            self._more.notify_all()

    def wait_for(self, *texts: str) -> str:
        """Block until one notice has all of `texts`; it."""

        def found() -> str:
            return next((s for _, s in self.said if all(text in s for text in texts)), "")

        with self._more:
            assert self._more.wait_for(found, WITHIN_S), self.said
        return found()


@pytest.fixture
def notices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Notices]:
    """Notices come sooner than usual."""
    monkeypatch.setattr(LIMITS, "first_notice_s", 0.02)
    monkeypatch.setattr(LIMITS, "last_notice_s", 0.5)
    monkeypatch.setattr(LIMITS, "first_probe_s", 0.01)
    monkeypatch.setattr(LIMITS, "last_probe_s", 0.1)
    monkeypatch.setattr(LIMITS, "probe_for_s", 0.5)
    handler = Notices()
    logger = logging.getLogger("headrace")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_notices_come_at_growing_intervals(
    pool: GrowingPool, notices: Notices, background: Start
) -> None:
    scope = Scope()
    asked = [ServerReadiness(Fake("A", "refused"), never), ServerReadiness(Fake("B"), answers())]  # type: ignore[arg-type,list-item]
    began = time.monotonic()
    waiting = background(lambda: wait_for_all(asked, scope, pool))
    with notices._more:
        assert notices._more.wait_for(lambda: len(notices.said) >= 4, WITHIN_S)
    scope.cancel(errors.cancelled("enough"))
    waiting.join()
    passed = [when - began for when, _ in notices.said[:4]]  # one may be late, the next is not
    for passed_s, least_s in zip(
        passed, itertools.accumulate([0.02, 0.04, 0.08, 0.16]), strict=True
    ):
        assert passed_s > least_s * 0.9
    assert notices.said[-1][1].endswith("for A (refused)")
    assert "still waiting" in notices.said[0][1]


# -- sessions -------------------------------------------------------------------------------------

SOCKETS = ["grpc", "unix", "tcp"]


@pytest.fixture(params=SOCKETS)
def sockets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    TRANSPORTS[name](monkeypatch)
    return name


def on(task: str) -> tf.Tensor:
    with tf.device(task):
        return tf.identity(tf.constant(1.0))


def test_a_session_waits_only_for_the_tasks_it_needs_and_names_each_that_is_missing(
    sockets: str, notices: Notices, background: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        spec = {
            "gone": [stack.enter_context(refusing())],
            "strange": [stack.enter_context(server())],
            "mute": [stack.enter_context(silent())],
            "secretive": [stack.enter_context(rude())],
            "worker": ["127.0.0.1:0"],
        }
        here = stack.enter_context(tf.train.Server(spec, job_name="worker"))
        with tf.device("/job:worker"):
            own = tf.identity(tf.constant(2.0))
        needing = on("/job:gone") + on("/job:strange") + on("/job:mute")
        with tf.Session(here.target) as session:
            assert session.run(own) == 2.0
            step = background(lambda: session.run(needing))
            said = notices.wait_for(
                f"/job:gone/replica:0/task:0 at {spec['gone'][0]} (connection refused",
                f"/job:strange/replica:0/task:0 at {spec['strange'][0]} "
                "(what answers there is /job:local/replica:0/task:0",
                f"/job:mute/replica:0/task:0 at {spec['mute'][0]} (connections are accepted",
            )
            assert "secretive" not in said
            assert not step.done
            assert session.run(own) == 2.0
            monkeypatch.setenv("HEADRACE_CONNECT_TIMEOUT_S", "0.05")
            with pytest.raises(tf.errors.UnavailableError) as caught:
                session.run(on("/job:gone") + on("/job:mute"))
            for job in ("gone", "mute"):
                assert f"/job:{job}/replica:0/task:0 at {spec[job][0]}" in str(caught.value)
            assert "strange" not in str(caught.value)
        assert isinstance(step.error(), tf.errors.CancelledError)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step tells soon that it waits, though blocked steps are not reported."""
    monkeypatch.setattr(long_waits, "threshold_s", None)
    monkeypatch.setattr(long_waits, "first_poll_s", 0.02)
    monkeypatch.setattr(LIMITS, "missing_after_s", 0.01)


def test_the_client_says_too_whom_its_master_waits_for(
    sockets: str, notices: Notices, background: Start, soon: None
) -> None:
    with refusing() as gone, refusing() as lost:
        spec = {"gone": [gone], "lost": [lost], "worker": ["127.0.0.1:0"]}
        with (
            tf.train.Server(spec, job_name="worker") as here,
            tf.Session(here.target) as session,
        ):
            needing = on("/job:gone") + on("/job:lost")
            step = background(lambda: session.run(needing))
            notices.wait_for(
                f"the server at {here.target.removeprefix('grpc://')} is still waiting, for ",
                f"/job:gone/replica:0/task:0 at {gone} (connection refused",
                f"/job:lost/replica:0/task:0 at {lost} (connection refused",
            )
            assert not step.done
        assert isinstance(step.error(), tf.errors.CancelledError)


def test_a_client_whose_step_waits_for_something_else_names_no_server(
    sockets: str, notices: Notices, background: Start, soon: None
) -> None:
    asked = threading.Semaphore(0)
    with server() as address, pytest.MonkeyPatch.context() as patch:
        ask = missing_tasks.MissingTasks._ask

        def asking(self: missing_tasks.MissingTasks, *args: Any) -> None:
            ask(self, *args)
            asked.release()

        patch.setattr(missing_tasks.MissingTasks, "_ask", asking)
        queue = tf.FIFOQueue(1, [tf.int32], [[]])
        take, size = queue.dequeue(), queue.size()
        with tf.Session(f"grpc://{address}") as session:
            session.run(size)
            before = len(
                notices.said
            )  # on a busy machine the server answers late at first, which is said
            step = background(lambda: session.run(take))
            assert asked.acquire(timeout=WITHIN_S)
        step.error()
    assert notices.said[before:] == []


def test_a_client_names_servers_at_growing_intervals(pool: GrowingPool) -> None:
    said = missing_tasks.MissingTasks(pool, Scope())
    waits = [0.0, 4.9, 5.0, 9.9, 10.0, 15.0, 19.9, 5.0, 6.0]  # the last two are of another wait
    assert [s for s in waits if said._is_due(s)] == [4.9, 9.9, 19.9, 5.0]


def test_the_stranger_goes_and_the_task_comes(
    sockets: str, notices: Notices, background: Start
) -> None:
    with in_process({"ps": 1, "worker": 1}) as cluster:
        cluster.servers["ps:0"].stop()
        address = cluster.address("ps:0")
        stranger = tf.train.Server({"other": [address]})
        try:
            needing = on("/job:ps") + on("/job:worker")
            with tf.Session(cluster.target("worker:0")) as session:
                step = background(lambda: session.run(needing))
                notices.wait_for("what answers there is /job:other/replica:0/task:0")
                stranger.stop()
                cluster.start("ps:0")
                assert step.value() == 2.0
        finally:
            stranger.stop()


def test_a_task_of_that_name_in_another_cluster_is_a_stranger(
    sockets: str, notices: Notices, background: Start
) -> None:
    with refusing() as one, refusing() as other, in_process({"ps": 1}) as cluster:
        # both have ps:0 at this address, and each its worker elsewhere
        ps = cluster.address("ps:0")
        cluster.servers["ps:0"].stop()
        with (
            tf.train.Server({"ps": [ps], "worker": [other]}, job_name="ps"),
            tf.train.Server(
                {"chief": ["127.0.0.1:0"], "ps": [ps], "worker": [one]}, job_name="chief"
            ) as chief,
            tf.Session(chief.target) as session,
        ):
            far = on("/job:ps")
            step = background(lambda: session.run(far))
            notices.wait_for(
                f"is of another cluster, in which /job:worker/replica:0/task:0 is at {other}, not at {one}"
            )
        assert isinstance(step.error(), (tf.errors.CancelledError, tf.errors.UnavailableError))


@pytest.mark.parametrize(
    ("one", "other", "different"),
    [
        ("a:1", "a:1", False),
        ("a:1", "a:2", True),
        ("a:1", "b:2", False),  # two names of a host, for all we know
        ("a:1", "10.0.0.1:2", False),
        ("10.0.0.1:1", "10.0.0.2:1", True),
        ("[2001:db8::1]:1", "[2001:db8::2]:1", True),
        ("localhost:1", "10.0.0.1:1", False),  # how a task may call itself
        ("0.0.0.0:1", "10.0.0.1:1", False),
        ("a:0", "a:7", False),
    ],
)
def test_addresses_that_cannot_be_the_same_tasks(one: str, other: str, different: bool) -> None:
    assert _disagree(one, other) == _disagree(other, one) == different


def test_a_session_that_brings_its_cluster_may_call_tasks_as_it_likes(sockets: str) -> None:
    with server() as one, server() as two:
        mine = tf.train.ClusterSpec({"a": [one], "b": [two]}).as_cluster_def()
        config = tf.ConfigProto(cluster_def=mine)
        total = on("/job:a") + on("/job:b")
        with tf.Session(f"grpc://{one}", config=config) as session:
            assert session.run(total) == 2.0


def test_a_server_tells_its_cluster_only_who_has_another() -> None:
    with tf.train.Server({"local": ["127.0.0.1:0"]}) as made:
        for cluster, told in {
            b"": {},
            made.worker.peers.digest: {},
            b"another": {"/job:local/replica:0/task:0": "127.0.0.1:0"},
        }.items():
            asked = pb.GetStatusRequest(headrace_cluster=cluster)
            assert dict(made.worker.get_status(asked, Scope()).headrace_addresses) == told
