"""An error of a step says which line of the program built the node that failed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import headrace as tf


@pytest.fixture(params=["local", "remote"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "local":
        yield ""
        return
    with tf.train.Server.create_local_server() as server:
        yield server.target


def test_the_line_is_the_programs_own(target: str) -> None:
    with tf.Graph().as_default():
        zero = tf.constant([0])
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        quotient = tf.floordiv(tf.constant([1]), zero, name="quotient")
        with tf.Session(target) as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(quotient)
    assert caught.value.op is quotient.op
    assert caught.value.node_def == quotient.op.node_def
    assert caught.value.built_at == f"{__file__}:{line}"
    assert re.search(
        rf"node 'quotient' .*built at {re.escape(__file__)}:{line}\b", str(caught.value)
    )
