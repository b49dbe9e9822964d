"""`CsvDataset` and `make_csv_dataset`; what records are is compared with TensorFlow's in tests/oracle."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.run.data.csv_files import Layout, Scanner
from tests.library.test_datasets import everything

experimental = tf.data.experimental


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def file(folder: Path, text: bytes, name: str = "file") -> str:
    (folder / name).write_bytes(text)
    return str(folder / name)


def given(dataset: Any, most: int = 9) -> list[Any]:
    """The elements, and in the place of those that fail their messages."""
    element = (iterator := tf.data.make_initializable_iterator(dataset)).get_next()
    found: list[Any] = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while len(found) < most:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                break
            except tf.errors.InvalidArgumentError as error:
                found.append(error.message)
    return found


def test_records_of_several_files(tmp_path: Path) -> None:
    paths = [file(tmp_path, b"n,s\n1,a\r\n,NA\n", "a"), file(tmp_path, b'n,s\n3,"c\n""d"', "b")]
    dataset = experimental.CsvDataset(paths, [[7], tf.constant(["z"])], header=True, na_value="NA")
    assert everything(dataset) == [(1, b"a"), (7, b"z"), (3, b'c\n"d')]
    assert dataset.output_types == (tf.int32, tf.string)
    assert [each.as_list() for each in dataset.output_shapes] == [[], []]


def test_columns_that_are_chosen_of_a_compressed_file(tmp_path: Path) -> None:
    path = file(tmp_path, gzip.compress(b"1;2;3\n4;5;6\n"))
    dataset = experimental.CsvDataset(
        path, [tf.float64, tf.int64], "GZIP", field_delim=";", select_cols=[0, 2]
    )
    assert everything(dataset) == [(1.0, 3), (4.0, 6)]


def test_a_record_that_fails_says_where_and_is_passed_over(tmp_path: Path) -> None:
    path = file(tmp_path, b'1,a\nx,b\n3\n4,d\n5,"\n')
    found = given(experimental.CsvDataset(path, [tf.int32, tf.string]))
    assert found == [
        (1, b"a"),
        f"Field 0 in record is not a valid int32: x (record 2 of {path})",
        f"Expect 2 fields but have 1 in record (record 3 of {path})",
        (4, b"d"),
        f"Reached end of file without closing quoted field in record (record 5 of {path})",
    ]
    kept = experimental.CsvDataset(path, [tf.int32, tf.string]).apply(experimental.ignore_errors())
    assert everything(kept) == [(1, b"a"), (4, b"d")]


def test_a_file_that_is_not_compressed_as_it_should_be_fails_again_and_again(
    tmp_path: Path,
) -> None:
    dataset = experimental.CsvDataset(file(tmp_path, b"1,2\n"), [[1], [1]], compression_type="GZIP")
    element = (iterator := tf.data.make_initializable_iterator(dataset)).get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(3):
            with pytest.raises(tf.errors.DataLossError, match="inflate"):
                session.run(element)


def test_a_number_among_the_defaults_is_that_of_a_type() -> None:
    assert experimental.CsvDataset("file", [7, 1, 0]).output_types == (
        tf.string,
        tf.float32,
        tf.int32,
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"select_cols": [2, 0]}, "select_cols should be strictly increasing"),
        ({"select_cols": [-1, 0]}, "select_cols should be non-negative"),
        ({"select_cols": [1]}, "select_cols should match output size"),
        ({"buffer_size": 0}, "buffer_size should be positive"),
        ({"field_delim": ";;"}, "field_delim should be only 1 char"),
        ({"compression_type": "X"}, "Unsupported compression_type: X"),
    ],
)
def test_what_an_iterator_refuses(changed: dict[str, Any], message: str) -> None:
    dataset = experimental.CsvDataset("file", [tf.int32, tf.int32], **changed)
    iterator = tf.data.make_initializable_iterator(dataset)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(iterator.initializer)


@pytest.mark.parametrize(
    ("defaults", "message"),
    [([[1, 2]], "Shape of a default must be"), ([[[1]]], "Shape must be at most rank 1")],
)
def test_defaults_that_are_refused(defaults: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        experimental.CsvDataset("file", defaults)


def test_text_that_comes_in_pieces_has_the_same_records() -> None:
    rng = random.Random(1)
    layouts = [Layout(delim, quotes) for delim in (b",", b'"', b"\n", b"\r") for quotes in (0, 1)]
    pieces = [b"a", b"bc", b",", b",", b'"', b'""', b'"x,\ny"', b"\n", b"\r", b"\r\n"]
    for _ in range(3000):
        text = b"".join(rng.choices(pieces, k=rng.randrange(1, 12)))
        scanner = Scanner(rng.choice(layouts))
        whole, _ = scanner.records(text, True)
        cut = rng.randrange(len(text) + 1)
        first, at = scanner.records(text[:cut], False)
        rest, _ = scanner.records(text[at:], True)
        assert first + rest == whole, (text, cut)


def test_a_long_file_is_read_from_where_an_iterator_was_saved(tmp_path: Path) -> None:
    lines = [b'%d,"%d\n"' % (n, n * n) for n in range(40_000)]
    path = file(tmp_path, b"\n".join(lines))
    dataset = experimental.CsvDataset(path, [[0], tf.string]).skip(39_998)
    assert everything(dataset) == [(n, b"%d\n" % (n * n)) for n in (39_998, 39_999)]
