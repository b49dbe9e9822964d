"""A graph that is the default, for tests that ask for it by name `default`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf


@pytest.fixture
def default() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph
