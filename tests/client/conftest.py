"""What the tests of the client share: a graph that is the default, a session on it, and what those of servers have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf
from tests.serve.conftest import (  # noqa: F401  (fixtures)
    a_task_that_is_slow_is_not_frozen,
    background,
    blocked,
    plans_are_checked,
    tasks_have_time_to_say_what_they_have,
    time_to_close,
)
from tests.serve.ways import ways  # noqa: F401  (a fixture)
from tests.waiting_steps import waiting_steps  # noqa: F401  (a fixture)


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(graph: tf.Graph) -> Iterator[tf.Session]:
    with tf.Session() as session:
        yield session
