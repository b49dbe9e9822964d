"""_SwitchN, which TensorFlow makes of Case: one way is alive, the last one for numbers out of range."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as tf
from headrace.graph import registry


@pytest.mark.parametrize(("number", "expected"), [(0, 10), (1, 20), (2, 30), (7, 30), (-1, 30)])
def test_one_way_is_taken(number: int, expected: int) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        data, which = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
        ways = registry.get("_SwitchN")(data, which, num_outs=3)
        counts = [tf.Variable(0, name=f"count{way}") for way in range(3)]
        made = []
        for way, count in zip(ways, counts, strict=True):
            with tf.control_dependencies([tf.identity(way)]):
                made.append(way * (len(made) + 1) + count.assign_add(1) * 0)
        merged, _ = registry.get("Merge")(made)
        session.run(tf.global_variables_initializer())
        assert session.run(merged, {data: 10, which: number}) == expected
        assert np.sum(session.run(counts)) == 1
