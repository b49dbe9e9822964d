"""Bytes and text."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest

from headrace.base import text


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (text.as_bytes, "é", b"\xc3\xa9"),
        (text.as_bytes, b"x", b"x"),
        (text.as_bytes, bytearray(b"x"), b"x"),
        (text.as_text, b"\xc3\xa9", "é"),
        (text.as_str, "x", "x"),
        (text.as_str_any, 3, "3"),
        (text.as_str_any, b"x", "x"),
        (text.path_to_str, PurePosixPath("/a/b"), "/a/b"),
        (text.path_to_str, "a", "a"),
        (text.path_to_str, 3, 3),
    ],
)
def test_conversions(function: Any, given: Any, expected: Any) -> None:
    assert function(given) == expected
    assert type(function(given)) is type(expected)


def test_another_encoding_can_be_asked_for() -> None:
    assert text.as_bytes("é", "latin-1") == b"\xe9"
    assert text.as_text(b"\xe9", encoding="latin-1") == "é"


@pytest.mark.parametrize("function", [text.as_bytes, text.as_text])
@pytest.mark.parametrize("given", [3, None, ["x"]])
def test_what_is_neither_text_nor_bytes_is_refused(function: Any, given: Any) -> None:
    with pytest.raises(TypeError, match=r"binary or unicode string, got .* which is neither"):
        function(given)


def test_kinds_of_numbers_include_numpys() -> None:
    assert isinstance(np.int64(1), text.integral_types)
    assert not isinstance(1.0, text.integral_types)
    assert isinstance(np.float32(1), text.real_types)
    assert isinstance(1j, text.complex_types)
