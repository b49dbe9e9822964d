"""`CsvDataset` and `make_csv_dataset`; what records are is compared with TensorFlow's in tests/oracle."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.graph.registry import get
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


def test_a_long_file_of_quoted_lines(tmp_path: Path) -> None:
    lines = [b'%d,"%d\n"' % (n, n * n) for n in range(40_000)]
    path = file(tmp_path, b"\n".join(lines))
    dataset = experimental.CsvDataset(path, [[0], tf.string]).skip(39_998)
    assert everything(dataset) == [(n, b"%d\n" % (n * n)) for n in (39_998, 39_999)]


def test_an_iterator_goes_on_where_another_was_saved(tmp_path: Path) -> None:
    first = file(tmp_path, b"h\n1\nx\n2\n", "a")
    dataset = experimental.CsvDataset([first, file(tmp_path, b"h\n3\n", "b")], [[0]], header=True)
    made = [tf.data.make_initializable_iterator(dataset) for _ in range(2)]
    elements = [each.get_next() for each in made]
    one, other = (each._iterator_resource for each in made)
    follow = get("DeserializeIterator")(other, get("SerializeIterator")(one))
    for taken in range(5):
        with tf.Session() as session:
            session.run([each.initializer for each in made])
            found = [next_of(session, elements[0]) for _ in range(taken)]
            assert found == [(1,), "InvalidArgumentError", (2,), (3,)][:taken]
            session.run(follow)
            for _ in range(4):
                assert next_of(session, elements[0]) == next_of(session, elements[1])


def next_of(session: Any, element: Any) -> Any:
    try:
        return session.run(element)
    except tf.errors.OpError as error:
        return type(error).__name__


# -- make_csv_dataset ---------------------------------------------------------------------------


def test_batches_of_columns_that_are_found(tmp_path: Path) -> None:
    file(tmp_path, b"i,f,s,big,none\n1,2.5,x,99999999999,\n2,3,y,1,\n", "a")
    file(tmp_path, b'i,f,s,big,none\n3,1e300,"z, w",2,\n', "b")
    dataset = experimental.make_csv_dataset(
        str(tmp_path / "*"), 2, shuffle=False, num_epochs=1, label_name="s"
    )
    features, label = dataset.output_types
    assert dict(features) == {
        "i": tf.int32, "f": tf.float64, "big": tf.int64, "none": tf.string,
    }  # fmt: skip
    assert label is tf.string
    assert everything(dataset) == [
        ({"i": [1, 2], "f": [2.5, 3.0], "big": [99999999999, 1], "none": [b"", b""]}, [b"x", b"y"]),
        ({"i": [3], "f": [1e300], "big": [2], "none": [b""]}, [b"z, w"]),
    ]


def test_batches_without_end_are_full(tmp_path: Path) -> None:
    path = file(tmp_path, b"1;2\n3;4\n5;6\n")
    dataset = experimental.make_csv_dataset(
        path,
        2,
        column_names=["a", "b"],
        header=False,
        field_delim=";",
        select_columns=["b"],
        shuffle_seed=3,
    )
    assert dataset.output_shapes["b"].as_list() == [2]
    found = [n for batch in everything(dataset, 6) for n in batch["b"]]
    assert sorted(found) == [2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6]


def test_records_that_fail_are_left_out_if_that_is_asked_for(tmp_path: Path) -> None:
    path = file(tmp_path, gzip.compress(b"a,b\n1,2\n3\nx,4\n5,NA\n"))
    dataset = experimental.make_csv_dataset(
        path,
        9,
        column_defaults=[tf.int32, [7]],
        na_value="NA",
        num_epochs=1,
        shuffle=False,
        compression_type="GZIP",
        ignore_errors=True,
    )
    assert everything(dataset) == [{"a": [1, 5], "b": [2, 7]}]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"header": False}, "Neither is provided"),
        ({"column_names": ["a", "a"]}, "duplicate column names: {'a'}"),
        ({"select_columns": [2]}, "Column index 2 specified"),
        ({"select_columns": ["c"]}, "Column c specified"),
        ({"select_columns": ["a", 0]}, "contains duplicate columns: {'a'}"),
        ({"select_columns": [0], "column_defaults": [[1], [2]]}, "must have the same length"),
        ({"label_name": "c"}, "must be one of the columns"),
        ({"column_names": ["a"]}, "CSV row 2 has 2 number of fields. Expected: 1"),
        ({"compression_type": "ZLIB"}, "not supported for probing"),
        ({"compression_type": "X"}, "Received unknown `compression_type` X"),
        ({"file_pattern": []}, "should not be empty"),
        ({"file_pattern": "nowhere*"}, "No files match"),
    ],
)
def test_what_cannot_be_made(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    given = {"file_pattern": file(tmp_path, b"a,b\n1,2\n"), **changed}
    with pytest.raises(ValueError, match=message):
        experimental.make_csv_dataset(batch_size=2, **given)


def test_files_with_other_names_or_none_are_refused(tmp_path: Path) -> None:
    paths = [file(tmp_path, b"a,b\n1,2\n", "a"), file(tmp_path, b"a,c\n", "b")]
    with pytest.raises(ValueError, match="should have the same column names"):
        experimental.make_csv_dataset(paths, 2)
    with pytest.raises(ValueError, match="Is it an empty file"):
        experimental.make_csv_dataset([paths[0], file(tmp_path, b"", "c")], 2)


# -- make_batched_features_dataset --------------------------------------------------------------


def examples(folder: Path, numbers: range) -> str:
    path = str(folder / f"{numbers.start}.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for n in numbers:
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[n]))
            words = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w"] * (n % 2)))
            features = tf.train.Features(feature={"n": value, "words": words})
            writer.write(tf.train.Example(features=features).SerializeToString())
    return path


FEATURES = {"n": tf.io.FixedLenFeature([], tf.int64), "words": tf.io.VarLenFeature(tf.string)}


def test_batches_of_examples(tmp_path: Path) -> None:
    examples(tmp_path, range(3))
    examples(tmp_path, range(3, 5))
    dataset = experimental.make_batched_features_dataset(
        str(tmp_path / "*"), 3, FEATURES, label_key="n", num_epochs=1, shuffle=False
    )
    assert dataset.output_shapes[1].as_list() == [None]
    found = everything(dataset)
    assert [label for _, label in found] == [[0, 1, 2], [3, 4]]
    assert found[0][0]["words"] == ([[1, 0]], [b"w"], [3, 1])
    full = experimental.make_batched_features_dataset(
        str(tmp_path / "*"), 3, FEATURES, num_epochs=1, reader_num_threads=2, drop_final_batch=True
    )
    assert full.output_shapes["n"].as_list() == [3]
    assert len(everything(full)) == 1


def test_readers_of_batches_of_examples(tmp_path: Path) -> None:
    path = examples(tmp_path, range(2))

    def pairs(name: Any, key: str) -> Any:
        return tf.data.TFRecordDataset(name).map(lambda record: (tf.constant(key), record))

    dataset = experimental.make_batched_features_dataset(
        path, 2, FEATURES, reader=pairs, reader_args=["k"], num_epochs=1, shuffle=False
    )
    assert everything(dataset)[0]["n"] == [0, 1]
    with pytest.raises(TypeError, match="must return a `Dataset` object"):
        experimental.make_batched_features_dataset(path, 2, FEATURES, tf.TFRecordReader)
    with pytest.raises(ValueError, match="must be one of the `features` keys"):
        experimental.make_batched_features_dataset(path, 2, FEATURES, label_key="m")
