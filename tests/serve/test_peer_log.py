"""What a server logs of peers that it cannot understand: one line at once, then one for many."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.codec import frames
from headrace.codec.frames import Kind
from headrace.serve.lane import peer_log
from headrace.serve.lane.peer_log import PeerLog
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import in_process
from tests.serve.conftest import TRANSPORTS
from tests.serve.raw_lane import connected, frames_from, lane_of, shell_of


class Later:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []

    def __call__(self, delay_s: float, callback: Callable[[], object]) -> None:
        assert delay_s == LIMITS.log_again_s
        self._callbacks.append(callback)

    def passes(self) -> int:
        """All that was to be called back is; how many those were."""
        due, self._callbacks = self._callbacks, []
        for callback in due:
            callback()
        return len(due)


class Lines(logging.Handler):
    """What is logged, since it was asked last."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def take(self) -> list[str]:
        taken, self._lines = self._lines, []
        return taken


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    logger = logging.getLogger("headrace")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def later() -> Later:
    return Later()


def last_of(count: int, line: str, peer: str) -> str:
    return f"{line} (the last of {count} such lines about {peer} that were left out)"


def test_the_first_line_is_logged_at_once_and_those_that_follow_are_counted(
    lines: Lines, later: Later
) -> None:
    log = PeerLog(later)
    for number in range(5):
        log.warning("a host", f"line {number}")
    assert lines.take() == ["line 0"]
    assert later.passes() == 1
    assert lines.take() == [last_of(4, "line 4", "a host")]
    log.warning("a host", "line 5")
    assert lines.take() == []
    assert later.passes() == 1
    assert lines.take() == [last_of(1, "line 5", "a host")]


def test_a_peer_that_was_quiet_for_a_while_is_logged_at_once_again(
    lines: Lines, later: Later
) -> None:
    log = PeerLog(later)
    for _ in range(3):
        log.warning("a host", "line")
        assert lines.take() == ["line"]
        assert later.passes() == 1
        assert lines.take() == []
        assert later.passes() == 0


def test_one_peer_takes_no_lines_from_another(lines: Lines, later: Later) -> None:
    log = PeerLog(later)
    for name in ("one", "other", "one", "other", "other"):
        log.warning(name, f"of {name}")
    assert lines.take() == ["of one", "of other"]
    later.passes()
    assert lines.take() == [last_of(1, "of one", "one"), last_of(2, "of other", "other")]


def test_many_peers_share_lines_and_memory(lines: Lines, later: Later) -> None:
    log = PeerLog(later)
    for number in range(1000):
        log.warning(f"host {number}", f"line {number}")
    most = peer_log._MOST_PEERS
    assert lines.take() == [f"line {number}" for number in range(most + 1)]
    assert len(log._left_out) == most + 1
    later.passes()
    assert lines.take() == [last_of(999 - most, "line 999", "other peers")]
    later.passes()
    assert not log._left_out


def test_what_was_left_out_is_told_when_the_server_stops(lines: Lines, later: Later) -> None:
    log = PeerLog(later)
    for number in range(3):
        log.warning("a host", f"line {number}")
    log.close()
    assert lines.take() == ["line 0", last_of(2, "line 2", "a host")]
    assert later.passes() == 1
    assert lines.take() == []


@pytest.mark.parametrize(("lane", "peer"), [("unix", "this host"), ("tcp", "127.0.0.1")])
def test_garbage_again_and_again_is_two_lines(
    lane: str, peer: str, lines: Lines, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS[lane](monkeypatch)
    with in_process({"ps": 1}) as cluster:
        shell_of(cluster).log = PeerLog(later)
        for _ in range(50):
            with connected(lane_of(cluster)) as sock:
                sock.sendall(bytes(64))
                assert [each.kind for each in frames_from(sock)] == [Kind.REPLY, Kind.ERROR]
        (first,) = lines.take()
        assert first.startswith(f"a connection of the lane was closed ({peer}): ")
        later.passes()
        (last,) = lines.take()
    assert last == last_of(49, first, peer)


def test_so_are_messages_that_nobody_waits_for_and_that_nobody_understands(
    lines: Lines, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["unix"](monkeypatch)
    unknown = b"".join(frames.pack(Kind.ONE_WAY, 0xFFFF, 0))
    asked = b"".join(frames.pack(Kind.REQUEST, 0xFFFF, 0))
    with in_process({"ps": 1}) as cluster:
        shell_of(cluster).log = PeerLog(later)
        with connected(lane_of(cluster)) as sock:
            sock.sendall(unknown * 20 + asked)
            got: Any = frames_from(sock)
            assert [next(got).kind for _ in range(2)] == [Kind.REPLY, Kind.ERROR]
        (first,) = lines.take()
        assert "whose caller waits for no reply" in first
        later.passes()
        assert lines.take() == [last_of(19, first, "this host")]
