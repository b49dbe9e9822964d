"""Assertions about messages, for `TestCase`.

Called by: training.testing.test_case.  Threads: as tests.
"""

from __future__ import annotations

import difflib
import unittest
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from headrace.graph.graph import GRAPH_DEF_VERSION

__all__ = ["ProtoAssertions"]


class ProtoAssertions(unittest.TestCase):
    """Messages are compared field by field; what is expected may be written as text."""

    def assertProtoEquals(
        self,
        expected_message_maybe_ascii: Any,
        validate_message: Any,
        msg: str | None = None,
        relative_tolerance: float | None = None,
    ) -> None:
        """A message has these fields, floats to 6 decimal places, doubles to 7.

        relative_tolerance: of floating-point numbers, as well.

        Raises the test's failure, with the lines that differ.
        """
        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            expected = text_format.Merge(expected, type(validate_message)())
        if (
            not isinstance(expected, Message)
            or expected.DESCRIPTOR.name != validate_message.DESCRIPTOR.name
        ):
            self.fail(
                f"Can't compare protos of type {type(expected)} and {type(validate_message)}. {msg or ''}"
            )
        if not _is_near(expected, validate_message, relative_tolerance or 0.0):
            lines = [
                text_format.MessageToString(each).splitlines()
                for each in (expected, validate_message)
            ]
            diff = difflib.unified_diff(lines[0], lines[1], "expected", "actual", lineterm="")
            self.fail(f"The messages differ. {msg or ''}\n" + "\n".join(diff))

    def assertProtoEqualsVersion(
        self,
        expected: str,
        actual: Any,
        producer: int = GRAPH_DEF_VERSION,
        min_consumer: int = 0,
        msg: str | None = None,
    ) -> None:
        """A GraphDef has these fields, and these versions."""
        consumer = f" min_consumer: {min_consumer}" if min_consumer else ""
        self.assertProtoEquals(
            f"versions {{ producer: {producer}{consumer} }};\n{expected}", actual, msg
        )


def _is_near(one: Any, other: Any, tolerance: float, digits: int = 7) -> bool:
    """Whether two values of fields are the same, but for rounding to `digits`, or by the relative tolerance."""
    if isinstance(one, Message):
        mine, theirs = (
            {field.name: (field, v) for field, v in m.ListFields()} for m in (one, other)
        )
        return mine.keys() == theirs.keys() and all(
            _is_near(value, theirs[name][1], tolerance, 6 if field.type == field.TYPE_FLOAT else 7)
            for name, (field, value) in mine.items()
        )
    if isinstance(one, float):
        return (
            round(one, digits) == round(other, digits)
            or abs(one - other) <= tolerance * max(abs(one), abs(other))
            or (one != one and other != other)
        )
    if hasattr(one, "keys"):
        return one.keys() == other.keys() and all(
            _is_near(one[key], other[key], tolerance) for key in one
        )
    if isinstance(one, (str, bytes, int)):
        return bool(one == other)
    return len(one) == len(other) and all(
        _is_near(a, b, tolerance, digits) for a, b in zip(one, other, strict=True)
    )
