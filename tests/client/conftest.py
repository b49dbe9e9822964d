"""A graph that is the default, and a session on it, for every test of the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def session(graph: tf.Graph) -> Iterator[tf.Session]:
    with tf.Session() as session:
        yield session
