"""The leak check of conftest.py catches what it claims to."""

from __future__ import annotations

import re
import textwrap

import pytest

pytest_plugins = ["pytester"]

LEAKS = {
    "a non-daemon thread": (
        """
        import threading
        release = threading.Event()
        def test_it():
            threading.Thread(target=release.wait, args=(100,), name="mine").start()
        def test_next():
            release.set()
        """,
        "thread 'mine'",
    ),
    "a daemon thread in headrace's code": (
        """
        import threading
        release = threading.Event()
        def wait(): release.wait(100)
        wait.__module__ = "headrace.run.thread_group"
        def test_it():
            threading.Thread(target=wait, daemon=True, name="serve").start()
        def test_next():
            release.set()
        """,
        "thread 'serve'",
    ),
    "a child process": (
        """
        import subprocess
        kept = []
        def test_it():
            kept.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        def test_next():
            kept[0].communicate()
        """,
        "child process * cat",
    ),
    "a TCP listener": (
        """
        import socket
        kept = []
        def test_it():
            kept.append(socket.create_server(("127.0.0.1", 0)))
        def test_next():
            kept[0].close()
        """,
        "listening tcp socket on port",
    ),
    "a unix listener": (
        """
        import socket
        kept = []
        def test_it():
            s = socket.socket(socket.AF_UNIX)
            s.bind("door")
            s.listen()
            kept.append(s)
        def test_next():
            kept[0].close()
        """,
        "listening unix socket door",
    ),
}


@pytest.fixture
def leaky(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> pytest.Pytester:
    """A pytest project with our conftest, whose grace is over at once."""
    conftest = request.config.rootpath / "tests/conftest.py"
    text, count = re.subn(r"^GRACE_S = [0-9.]+", "GRACE_S = 0.0", conftest.read_text(), flags=re.M)
    assert count == 1
    pytester.makeconftest(text)
    return pytester


def test_a_test_that_leaves_something_behind_fails(leaky: pytest.Pytester) -> None:
    sources = [textwrap.dedent(source) for source, _ in LEAKS.values()]
    leaky.makepyfile(**{f"test_{number}": source for number, source in enumerate(sources)})
    result = leaky.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2 * len(LEAKS), errors=len(LEAKS))
    for _, complaint in LEAKS.values():
        result.stdout.fnmatch_lines_random([f"*{complaint}*"])


def test_what_a_wider_fixture_holds_is_no_leak(leaky: pytest.Pytester) -> None:
    leaky.makepyfile(
        """
        import socket, pytest
        @pytest.fixture(scope="module")
        def listener():
            with socket.create_server(("127.0.0.1", 0)) as s:
                yield s
        def test_it(listener): pass
        def test_stopping_in_time():
            with socket.create_server(("127.0.0.1", 0)): pass
        """
    )
    leaky.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
