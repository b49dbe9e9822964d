"""Processes that fixtures of wider scope than a test have started in the place of one that ended: no leaks of the test.

Used by: tests.conftest, tests.oracle.conftest.
"""

from __future__ import annotations

PIDS: set[str] = set()
