"""Gathers that run for their errors alone."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining


def test_rows_that_nobody_reads_are_not_gathered_and_bad_indices_are_still_refused() -> None:
    said: list[str] = []
    with tf.Graph().as_default(), tf.Session() as session:
        table, at = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None])
        rows = tf.gather(table, at)
        with tf.control_dependencies([rows]):
            other = tf.identity(table)
        values = np.ones((4, 3), np.float32)
        with explaining(said.append):
            assert np.array_equal(session.run(other, {table: values, at: [0, 3, 3]}), values)
        assert "unread-gather" in "".join(said)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 4 is not in"):
            session.run(other, {table: values, at: [0, 4]})
        read = session.run([rows, other], {table: values, at: [2]})[0]
        assert np.array_equal(read, values[:1])
