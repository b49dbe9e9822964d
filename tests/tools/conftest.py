"""What the tests of commands share with those of servers."""

from __future__ import annotations

from tests.serve.conftest import a_task_that_is_slow_is_not_frozen  # noqa: F401  (a fixture)
