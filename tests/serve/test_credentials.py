"""Credentials as arguments of servers and sessions, with nothing in the environment."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.serve import server as server_module
from headrace.serve.rpc import security as security_module
from tests.serve.authority import Authority
from tests.serve.clusters import ATTEMPTS, addresses
from tests.serve.conftest import TRANSPORTS

SECRET = "correct horse battery staple"
SOCKETS = ["grpc", "unix", "tcp"]


@contextmanager
def servers(security: tf.train.Security) -> Iterator[dict[str, tf.train.Server]]:
    """A ps and a worker that were given `security`, by job."""
    for attempt in range(ATTEMPTS):
        with ExitStack() as stack:
            spec = addresses({"ps": 1, "worker": 1})
            try:
                made = {
                    job: stack.enter_context(tf.train.Server(spec, job, 0, security=security))
                    for job in spec
                }
            except tf.errors.UnknownError:
                if attempt < ATTEMPTS - 1:
                    continue
                raise
            yield made
            return


def total() -> Any:
    """A value that goes from the ps to the worker."""
    with tf.device("/job:ps"):
        x = tf.constant(2.0) + tf.random_uniform([])
    with tf.device("/job:worker"):
        return tf.floor(x * 1.0)


def fails(target: str, security: tf.train.Security | None) -> tf.errors.OpError:
    """How a step fails."""
    config = tf.ConfigProto(operation_timeout_in_ms=60_000)
    with (
        tf.Session(target, config=config, security=security) as session,
        pytest.raises(tf.errors.OpError) as failure,
    ):
        session.run(tf.constant(1))
    return failure.value


@pytest.mark.parametrize("transport", SOCKETS)
def test_servers_and_sessions_take_the_secret_as_an_argument(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS[transport](monkeypatch)
    security = tf.train.Security(SECRET)
    with servers(security) as made:
        target = made["worker"].target
        fetch = total()
        with tf.Session(target, security=security) as session:
            assert [session.run(fetch) for _ in range(3)] == [2.0] * 3
        for wrong in (None, tf.train.Security("another secret")):
            assert isinstance(fails(target, wrong), tf.errors.UnauthenticatedError)
        interactive = tf.InteractiveSession(target, security=security)
        assert interactive.run(fetch) == 2.0
        interactive.close()
        with pytest.raises(tf.errors.UnauthenticatedError):
            tf.Session.reset(target)
        tf.Session.reset(target, security=security)


@pytest.mark.parametrize("transport", SOCKETS)
def test_sessions_that_bring_a_cluster_of_their_own_show_the_servers_credentials(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS[transport](monkeypatch)
    security = tf.train.Security(SECRET)
    with servers(security) as made:
        config = tf.ConfigProto()
        hosts = [made[job].target.removeprefix("grpc://") for job in ("ps", "worker")]
        config.cluster_def.CopyFrom(tf.train.ClusterSpec({"mine": hosts}).as_cluster_def())
        with tf.device("/job:mine/task:0"):
            x = tf.constant(2.0) + tf.random_uniform([])
        with tf.device("/job:mine/task:1"):
            fetch = tf.floor(x * 1.0)
        with tf.Session(made["worker"].target, config=config, security=security) as session:
            assert session.run(fetch) == 2.0


@pytest.mark.parametrize("given", ["paths", "contents"])
def test_servers_and_sessions_take_certificates_as_arguments(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    files = Authority(tmp_path / "ours")
    take: Callable[[str], Any] = str if given == "paths" else lambda path: Path(path).read_bytes()
    security = tf.train.Security(
        certificate=take(files.cert),
        key=take(files.key),
        authorities=take(files.ca),
        clients_too=True,
    )
    with servers(security) as made:
        with tf.Session(made["worker"].target, security=security) as session:
            assert session.run(total()) == 2.0
        for wrong in (None, tf.train.Security(authorities=take(files.ca))):
            error = fails(made["worker"].target, wrong)
            assert isinstance(error, tf.errors.UnauthenticatedError)


def test_arguments_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    monkeypatch.setenv("HEADRACE_SECRET", "what the environment says")
    with servers(tf.train.Security(SECRET)) as made:
        assert isinstance(fails(made["ps"].target, None), tf.errors.UnauthenticatedError)
        with tf.Session(made["ps"].target, security=tf.train.Security(SECRET)) as session:
            assert session.run(total()) == 2.0


def test_who_may_listen_where_others_reach_it_may_be_an_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (security_module, server_module):
        monkeypatch.setattr(module, "is_loopback", lambda ip: False)
    spec = {"local": ["127.0.0.1:0"]}
    for stranger in (None, tf.train.Security()):
        with pytest.raises(
            tf.errors.FailedPreconditionError, match=r"security=tf\.train\.Security"
        ):
            tf.train.Server(spec, security=stranger)
    for enough in (tf.train.Security(insecure=True), tf.train.Security(SECRET)):
        with tf.train.Server(spec, security=enough) as server:
            assert server.target.startswith("grpc://127.0.0.1:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"secret": "short"}, "has 5 bytes"),
        ({"secret": "  short \n "}, "has 5 bytes"),
        ({"secret": SECRET, "secret_file": "x"}, "not both"),
        ({"secret_file": "/no/such/file"}, "secret_file .*cannot be read"),
        ({"certificate": "/no/such/file", "key": b"k"}, "certificate .*cannot be read"),
        ({"certificate": b"c"}, "go together"),
        ({"key": b"k"}, "go together"),
        ({"clients_too": True}, "authorities"),
    ],
)
def test_credentials_that_make_no_sense_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        tf.train.Security(**arguments)


def test_an_empty_file_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\n")
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 0 bytes"):
        tf.train.Security(secret_file=tmp_path / "secret")


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.Session("grpc://localhost:1", security=SECRET),
        lambda: tf.train.Server({"local": ["localhost:0"]}, security=SECRET),
    ],
)
def test_a_secret_alone_is_no_security(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"tf\.train\.Security, not str"):
        make()


POSITIONAL = {
    tf.train.Server: "server_or_cluster_def job_name task_index protocol config start",
    tf.Session: "target graph config",
    tf.InteractiveSession: "target graph config",
    tf.Session.reset: "target containers config",
}


@pytest.mark.parametrize("function", POSITIONAL, ids=lambda function: function.__qualname__)
def test_what_tensorflow_does_not_have_is_given_by_name_only(function: Any) -> None:
    parameters = inspect.signature(function).parameters.values()
    by_name = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert [each.name for each in parameters if each.name not in by_name] == POSITIONAL[
        function
    ].split()
    assert "security" in by_name


def test_nothing_secret_is_shown_by_repr() -> None:
    shown = repr(tf.train.Security(SECRET, certificate=b"c", key=b"the key"))
    assert "horse" not in shown
    assert "the key" not in shown
    assert "secret" in shown
