"""decode_csv without TensorFlow: what fields become, defaults, every error, and that many records are quick."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def decoded(records: Any, defaults: Any, **attrs: Any) -> list[Any]:
    with tf.Session() as session:
        found = session.run(tf.decode_csv(records, defaults, **attrs))
    return [v.tolist() if isinstance(v, np.ndarray) else v for v in found]


NONE = tf.zeros  # a required field: an empty default
CASES: list[tuple[str, Any, list[Any], dict[str, Any], list[Any]]] = [
    ("every type", ["1,2,3,4,x"], [[0.5], np.array([0.5]), [0], np.array([0]), [""]], {},
     [[1.0], [2.0], [3], [4], [b"x"]]),
    ("a scalar record", "1,x", [[0], ["d"]], {}, [1, b"x"]),
    ("any shape", [["1", "2"], ["3", ""]], [[9]], {"na_value": "2"}, "Expect 1 fields but have 0 in record 3"),
    ("a matrix of records", [["1,a", "2,b"], ["3,c", "4,d"]], [[0], ["?"]], {},
     [[[1, 2], [3, 4]], [[b"a", b"b"], [b"c", b"d"]]]),
    ("no records", np.zeros((0,), object), [[0], ["?"]], {}, [[], []]),
    ("defaults", [",", "1,"], [[7], ["d"]], {}, [[7, 1], [b"d", b"d"]]),
    ("na", ["NA,NA", "na,1"], [["d"], [0.5]], {"na_value": "NA"}, [[b"d", b"na"], [0.5, 1.0]]),
    ("quotes", ['"a,b","c ""d"""', '"",x'], [["1"], ["2"]], {}, [[b"a,b", b"1"], [b'c "d"', b"x"]]),
    ("line ends in quotes", ['"a\r\nb",c'], [["1"], ["2"]], {}, [[b"a\r\nb"], [b"c"]]),
    ("no quoting", ['"a,b"'], [["1"], ["2"]], {"use_quote_delim": False}, [[b'"a'], [b'b"']]),
    ("tabs", ["1\t2"], [[0], [0]], {"field_delim": "\t"}, [[1], [2]]),
    ("blanks", [" 1 ,\t2.5 , x "], [[0], [0.0], [""]], {}, [[1], [2.5], [b" x "]]),
    ("selected", ["a,1,b,2", ",,,"], [[8], [9]], {"select_cols": [1, 3]}, [[1, 8], [2, 9]]),
    ("one selected", ['a,"1"', "b,2"], [[8]], {"select_cols": [1]}, [[1, 2]]),
    ("hexadecimal and words", ["0x10,inf,-nan(1)"], [[0.0]] * 3, {}, [[16.0], [np.inf], [np.nan]]),
    ("too few", ["1,2", "3"], [[0], [0]], {}, "Expect 2 fields but have 1 in record 1"),
    ("too many", ["1,2,3"], [[0], [0]], {}, "Expect 2 fields but have 3 in record 0"),
    ("empty", [""], [[0]], {}, "Expect 1 fields but have 0 in record 0"),
    ("not an int", ["1", "1.5"], [[0]], {}, "Field 0 in record 1 is not a valid int32: 1.5"),
    ("too large", ["2147483648"], [[0]], {}, "Field 0 in record 0 is not a valid int32: 2147483648"),
    ("too large for 64 bits", ["9223372036854775808"], [np.array([0])], {}, "not a valid int64"),
    ("underscores", ["1,1_000"], [[0], [0.0]], {}, "Field 1 in record 0 is not a valid float: 1_000"),
    ("not a float", ["{x}"], [np.array([0.5])], {}, "not a valid double: {x}"),
    ("required", ["1,"], [[0], np.zeros(0, np.int64)], {}, "Field 1 is required but missing in record 0!"),
    ("open quote", ['"a'], [["1"]], {}, "Quoted field has to end"),
    ("inner quote", ['"a"b'], [["1"]], {}, "Quote inside a string has to be escaped"),
    ("late quote", ['a"b'], [["1"]], {}, "Unquoted fields cannot have quotes/CRLFs inside"),
    ("line end", ["a\nb"], [["1"]], {}, "Unquoted fields cannot have quotes/CRLFs inside"),
    ("long delimiter", ["a"], [["1"]], {"field_delim": ";;"}, "field_delim should be only 1 char"),
    ("the first error counts", ["1,x", "1"], [[0], [0]], {}, "Field 1 in record 0"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_records_become_columns_or_an_error_says_why(case: Any) -> None:
    _, records, defaults, attrs, want = case
    if isinstance(want, str):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            decoded(records, defaults, **attrs)
        assert want in caught.value.message
    else:
        np.testing.assert_equal(decoded(records, defaults, **attrs), want)


def test_floats_are_rounded_once() -> None:
    ties = ["1.00000005960464477539062500001", "1.000000059604644775390625", "16777217"]
    got = decoded(ties, [[0.0]])[0]
    assert got == [np.float32(1) + np.finfo(np.float32).eps, 1.0, 16777216.0]


def test_static_shapes_are_those_of_the_records() -> None:
    columns = tf.decode_csv(tf.placeholder(tf.string, [None, 3]), [[0], ["a"]])
    assert [c.shape.as_list() for c in columns] == [[None, 3]] * 2
    assert [c.dtype for c in columns] == [tf.int32, tf.string]


def test_defaults_may_be_fed() -> None:
    default = tf.placeholder(tf.float32)
    (column,) = tf.decode_csv([""",x""".split(",")[0] + ",1"], [default], select_cols=[0])
    with tf.Session() as session:
        assert session.run(column, {default: [3.0]}).tolist() == [3.0]
        assert session.run(column, {default: 4.0}).tolist() == [4.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="at most 1 default"):
            session.run(column, {default: [1.0, 2.0]})


@pytest.mark.parametrize(
    ("defaults", "attrs", "error"),
    [
        (1.0, {}, TypeError),
        ([True], {}, TypeError),
        ([], {}, ValueError),
        ([[1.0, 2.0]], {}, ValueError),
        ([[1.0]], {"select_cols": [1, 2]}, ValueError),
        ([[1.0]], {"select_cols": [-1]}, ValueError),
        ([[1.0], [2.0]], {"select_cols": [2, 1]}, ValueError),
    ],
)
def test_arguments_are_checked_when_the_graph_is_built(
    defaults: Any, attrs: Any, error: Any
) -> None:
    with pytest.raises(error):
        tf.decode_csv("a", defaults, **attrs)


def test_many_records_are_decoded_in_one_go() -> None:
    record = ",".join(f"{n}.25" for n in range(64)) + ",7"
    records = np.array([record.encode()] * 5000, object)
    columns = tf.decode_csv(tf.constant(records), [[0.0]] * 64 + [[0]])
    with tf.Session() as session:
        before = time.process_time()
        found = session.run(columns)
        took = time.process_time() - before
    assert found[63][4999] == np.float32(63.25)
    assert found[64].tolist() == [7] * 5000
    assert took < 5.0, (
        "about 20 us a record; a loop over single fields would take ten times as long"
    )
