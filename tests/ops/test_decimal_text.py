"""Decimal numbers read all at once: what Python reads one by one, to the last bit, or nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

from headrace.base import dtypes
from headrace.ops._kernels.csv_columns import Columns, Malformed
from headrace.ops._kernels.decimal_text import decimals
from headrace.ops.io.csv import _Splitter, _Table

STRANGE = [
    "",
    "-",
    ".",
    "-.",
    "1e5",
    "1..2",
    "1.2.3",
    "a",
    "1 ",
    " 1",
    "+1",
    "--1",
    "1-",
    "inf",
    "nan",
    "0x1",
    "1_0",
    "12345678901234567",
    "/1",
    ":",
    "\x00",
]


def _read(fields: list[str]) -> np.ndarray | None:
    text = ",".join(fields).encode()
    letters = np.frombuffer(text, np.uint8)
    marks = np.flatnonzero(letters == ord(","))
    starts, ends = np.append(0, marks + 1), np.append(marks, len(letters))
    return decimals(letters, starts, ends, b"-" in text, b"." in text)


def _number(draw: random.Random, most: int) -> str:
    digits = "".join(draw.choice("0123456789") for _ in range(draw.randint(1, most)))
    if draw.random() < 0.6:
        at = draw.randint(0, len(digits))
        digits = f"{digits[:at]}.{digits[at:]}"
    return draw.choice(["", "", "-"]) + digits


@pytest.mark.parametrize("most", [1, 3, 7, 14])
def test_what_python_reads(most: int) -> None:
    draw = random.Random(most)
    for _ in range(200):
        fields = [_number(draw, most) for _ in range(draw.randint(1, 40))]
        found = _read(fields)
        assert found is not None, fields
        assert found.tobytes() == np.array([float(each) for each in fields]).tobytes(), fields


@pytest.mark.parametrize("strange", STRANGE)
def test_what_is_left_to_who_looks_closer(strange: str) -> None:
    for others in ([], ["1"], ["12.5", "-3"], ["123456789.25"]):
        for at in range(len(others) + 1):
            assert _read([*others[:at], strange, *others[at:]]) is None


TYPES = [dtypes.float32, dtypes.int32, dtypes.string, dtypes.float64, dtypes.int64]


def _line(draw: random.Random) -> bytes:
    whole = str(draw.randint(-(2**31), 2**31 - 1))
    fields = [_number(draw, 9), whole, draw.choice(["a", "", "b c"]), _number(draw, 12), whole]
    return ",".join(fields).encode()


@pytest.mark.parametrize("na_value", [b"", b"NA", b"7"])
def test_records_of_all_types(na_value: bytes) -> None:
    """Also where some records are of another kind."""
    draw = random.Random(3)
    defaults = [np.array([b"d"], object) if t is dtypes.string else np.ones(1, t.np) for t in TYPES]
    table = _Table(_Splitter(b",", True, []), TYPES, na_value, defaults)
    for other in (None, b"7,7,7,7,7", b"1e3,4,x,0x10,5", b"NA,,,,", b'1,2,"x,y",3,4', b"1,_,,2,3"):
        lines = [_line(draw) for _ in range(64)]
        if other is not None:
            lines[17] = other
        try:
            one_by_one = [table.columns([line], False) for line in lines]
        except (Malformed, ValueError):
            with pytest.raises((Malformed, ValueError)):
                table.columns(lines, False)
            continue
        columns = table.columns(lines, False)
        for found, wanted in zip(columns, zip(*one_by_one, strict=True), strict=True):
            assert found.dtype == wanted[0].dtype
            assert found.tolist() == np.concatenate(wanted).tolist()


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, "1.0", "1."])
def test_integers_that_are_none(number: object) -> None:
    values = Columns([dtypes.int32, dtypes.int32], b"", [np.ones(1), np.ones(1)])
    lines = _Splitter(b",", True, []).lines([b"1,2"] * 40 + [f"3,{number}".encode()], 2)
    assert lines is not None
    assert values.of_lines(lines) is None
