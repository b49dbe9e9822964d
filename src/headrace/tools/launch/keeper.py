"""Finds and signals all processes of a launch; as a script, kills them when the launch is gone.

Every task's environment has the launch's number, and what the task starts inherits it, so processes that left their
process group are found as well.  Linux only (/proc, pidfd): `find` finds nothing elsewhere.
As a script it imports nothing of headrace: ``python -I -S keeper.py NUMBER``, with a pipe as its input that ends with
the launch.  Signals that end the launch do not reach it.

Called by: supervisor, and itself.  Source: proc(5), pidfd_open(2)
"""

import contextlib
import os
import select
import signal
import sys
import time

VARIABLE = "HEADRACE_LAUNCH"


def find(number: str, groups: frozenset[int] = frozenset()) -> set[int]:
    """Processes that live and are of the launch with that number, or in one of the process groups."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return set()
    return {pid for pid in pids if _belongs(pid, number, groups)}


def _belongs(pid: int, number: str, groups: frozenset[int]) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, _, group = file.read().rpartition(b")")[2].split()[:3]
        if state in (b"Z", b"X"):
            return False
        if int(group) in groups:
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{VARIABLE}={number}".encode() in file.read().split(b"\0")
    except (OSError, ValueError):
        return False  # it has just ended, or is somebody else's


def send(pid: int, signum: int, number: str, groups: frozenset[int] = frozenset()) -> None:
    """Signal a process that `find` found, and no other that has got its pid meanwhile."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if _belongs(pid, number, groups):
            signal.pidfd_send_signal(handle, signum)
    except OSError:
        pass
    finally:
        os.close(handle)


def wait_for_any(pids: set[int], timeout_s: float) -> None:
    """Until one of them has ended, or for so long."""
    handles = []
    try:
        for pid in pids:
            try:
                handles.append(os.pidfd_open(pid))
            except OSError:
                return
        poll = select.poll()
        for handle in handles:
            poll.register(handle, select.POLLIN)
        poll.poll(timeout_s * 1000)
    finally:
        for handle in handles:
            os.close(handle)


class Patience:
    """With processes that were sent SIGKILL and stay, as those do that wait in the kernel for a disk that is silent."""

    def __init__(self, stay_s: float, leave_s: float) -> None:
        """stay_s: until they are named.  leave_s: until they are left."""
        self._since, self._stay_s, self._leave_s = time.monotonic(), stay_s, leave_s
        self._named = False
        self.over = False

    def said(self, pids: set[int]) -> str:
        """What is to be said of them now; "" for nothing.  `over` after the last of it."""
        after_s = time.monotonic() - self._since
        if not pids or after_s < (self._leave_s if self._named else self._stay_s):
            return ""
        text = f"{after_s:.0f} s after SIGKILL these are still there: {', '.join(map(describe, sorted(pids)))}; "
        if self._named:
            self.over = True
            return text + "they are left behind"
        self._named = True
        return text + f"they are waited for, {self._leave_s:g} s at most"


def describe(pid: int) -> str:
    """Its number, name and state, such as D where it waits in the kernel."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
    except OSError:
        return str(pid)
    return f"{pid} ({name.decode(errors='replace')}, state {rest.split()[0].decode()})"


def end(number: str, stay_s: float = 5.0, leave_s: float = 60.0) -> int:
    """SIGKILL to all of the launch until nothing is left; says of what stays that it does.  1 if it is left behind."""
    patience = Patience(stay_s, leave_s)
    while found := find(number):
        for pid in found:
            send(pid, signal.SIGKILL, number)
        if text := patience.said(found):
            with contextlib.suppress(OSError):  # nobody reads it any more
                print(f"headrace launch is gone; {text}", file=sys.stderr, flush=True)
        if patience.over:
            return 1
        wait_for_any(found, 1.0)
    return 0


def main() -> int:
    """When the launch is gone, until nothing of it is left."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    while os.read(0, 1024):
        pass
    return end(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
