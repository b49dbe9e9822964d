"""Becomes a task's program, which the system kills when the launch's main thread is gone (Linux, prctl(2)).

A script that imports nothing of headrace: ``python -I -S begin.py PARENT COMMAND...``.  Exits with 127 or 126, as a
shell does, if there is no such program or it cannot be run.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Returns only if the program could not be started."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before the system had been told
        return 1
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"headrace launch: cannot run {command[0]!r}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main())
