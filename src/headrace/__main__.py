"""`python -m headrace`: the `headrace` command, where its script is not on the path.

Called by: Python.  Exit codes: see tools.commands.ExitCode.
"""

from __future__ import annotations

from headrace.tools.main import process

if __name__ == "__main__":
    process()
