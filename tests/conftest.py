"""For every test: what it started, it must have stopped.

A test fails if it leaves a non-daemon thread, a thread that runs headrace's code, a child process or a
listening socket behind.  What a fixture of wider scope holds was there before the test and is no leak.
Source of processes and of open files: Linux's /proc, whose tables of sockets leave some out while others come and go.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support.renewed import PIDS

# A busy machine is slow, not wrong.
hypothesis.settings.register_profile("headrace", deadline=None, max_examples=50)
hypothesis.settings.load_profile("headrace")

# JAX may be there: what is compiled depends on time, so only its own tests ask for it.
os.environ.setdefault("HEADRACE_XLA", "off")
os.environ.setdefault("HEADRACE_MEASURED", "off")  # nothing in the user's cache

# TensorFlow's optimizer makes other nodes with oneDNN, which it uses by itself on some processors only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

SOON_S = 0.1  # for threads whose end is but a moment away, as that of most is
GRACE_S = 60.0  # for threads that are already on their way out; a busy machine is slow, not wrong

# Ctrl-C is tested; a shell starts what it runs in the background, and all its children, deaf to it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What thousands of tests are made of stays: collections of garbage need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        if not gc.get_freeze_count():  # else it is a run within a test
            gc.collect()
            gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare threads, children and listening sockets before and after the test and its fixtures."""
    # Threads themselves, not their numbers, which the system gives again; a description may still change: exec.
    before = {identity for identity, _ in running()}
    yield
    leaks = new_since(before)
    if leaks:
        wait_for_threads(leaks, SOON_S)
        leaks = new_since(before)
    if leaks:
        gc.collect()  # unreferenced owners stop their threads; it takes longer than most tests
        leaks, waited = new_since(before), set[tuple[object, str]]()
        while leaks - waited:  # some end in a thread of their own, which begins meanwhile
            waited |= leaks
            wait_for_threads(leaks, GRACE_S)
            leaks = new_since(before)
    if leaks:
        names = "\n  ".join(sorted(text for _, text in leaks))
        pytest.fail(f"{request.node.name} left behind:\n  {names}", pytrace=False)


def new_since(before: set[object]) -> set[tuple[object, str]]:
    """What is running and was not before."""
    return {thing for thing in running() if thing[0] not in before}


def wait_for_threads(leaks: set[tuple[object, str]], within_s: float) -> None:
    """Let those that have been told to stop finish."""
    for thing, _ in leaks:
        if isinstance(thing, threading.Thread):
            thing.join(within_s)


def running() -> set[tuple[object, str]]:
    """What a test might leak, as (identity, description)."""
    threads: set[tuple[object, str]] = {
        (thread, f"thread {thread.name!r}") for thread in threading.enumerate() if owned(thread)
    }
    return threads | children() | listeners()


def owned(thread: threading.Thread) -> bool:
    """Is it headrace's, or would it keep the interpreter from exiting?"""
    if thread is threading.main_thread() or not thread.is_alive():
        return False
    target = getattr(thread, "_target", None)  # there as long as the thread runs
    modules = (getattr(target, "__module__", None), type(thread).__module__)
    return not thread.daemon or any((name or "").split(".")[0] == "headrace" for name in modules)


def children() -> set[tuple[object, str]]:
    """Processes whose parent is this one, zombies included."""
    found: set[tuple[object, str]] = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as listed:
                pids = listed.read().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # that thread has just ended
        for pid in set(pids) - PIDS:
            found.add((f"pid {pid}", f"child process {pid}: {command_line(pid)}"))
    return found


def command_line(pid: str) -> str:
    """Arguments of a process; empty for a zombie."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
    except (FileNotFoundError, ProcessLookupError):
        return "(just gone)"


def listeners() -> set[tuple[object, str]]:
    """Sockets of this process that accept connections."""
    found: set[tuple[object, str]] = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{fd}")
            if link.startswith("socket:["):
                with socket.socket(fileno=os.dup(int(fd))) as mine:
                    if mine.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        found.add((link, f"listening {address_of(mine)}"))
        except OSError:
            continue  # it has just been closed
    return found


def address_of(listener: socket.socket) -> str:
    """Where it listens."""
    address = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        path = address if isinstance(address, str) else address.decode(errors="replace")
        return f"unix socket {path or '(unnamed)'}"
    return f"{'tcp6' if listener.family == socket.AF_INET6 else 'tcp'} socket on port {address[1]}"
