"""Assertions of `tf.test.TestCase` beside TensorFlow's."""

from __future__ import annotations

from typing import Any

from tests.training.test_testing import CASES, LINES

OLD_PROTOBUF = "FieldDescriptor' object has no attribute 'label'"


def test_assertions_hold_where_tensorflows_do(oracle: Any) -> None:
    source = "import unittest, random\n" + CASES.replace(
        "exec(self.line)", "exec(self.line, {**names, 'self': self})"
    ).replace("import random", "names = dict(tf=tf, np=np, random=random)")
    found = oracle.run(source, lines=[line for _, line in LINES])
    for theirs, (ours, line) in zip(found, LINES, strict=True):
        assert OLD_PROTOBUF in theirs or theirs == ours or (ours == "no" and theirs != "yes"), (
            theirs,
            line,
        )
