"""MNIST from idx files, its batches, and the model of the tutorial."""

from __future__ import annotations

import gzip
import io
import struct
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.training import mnist_data, mnist_tutorial
from headrace.training.mnist_data import DataSet, read_data_sets
from tests.training import idx


@pytest.mark.parametrize("zipped", [True, False])
def test_the_four_files_are_three_sets(tmp_path: Path, zipped: bool) -> None:
    idx.write(tmp_path, zipped=zipped)
    train, validation, test = sets = read_data_sets(str(tmp_path), validation_size=10)
    assert (sets.train, sets.validation, sets.test) == (train, validation, test)
    assert (train.num_examples, validation.num_examples, test.num_examples) == (50, 10, 20)
    assert (train.images.shape, train.images.dtype) == ((50, 784), np.float32)
    assert validation.images[3, 0] == np.float32(3) * np.float32(1 / 255)
    assert (train.labels.tolist()[:3], train.labels.dtype) == ([0, 1, 2], np.uint8)
    assert (test.images.max(), test.images.min()) == (1.0, 0.0)
    assert train.epochs_completed == 0


def test_the_options_are_tensorflows(tmp_path: Path) -> None:
    idx.write(tmp_path)
    train = read_data_sets(
        tmp_path, one_hot=True, dtype=tf.uint8, reshape=False, validation_size=0
    ).train
    assert (train.images.shape, train.images.dtype) == ((60, 28, 28, 1), np.uint8)
    assert (train.labels.shape, train.labels.dtype) == ((60, 10), np.float64)
    assert train.labels.argmax(1).tolist() == [n % 10 for n in range(60)]
    with pytest.raises(
        ValueError, match=r"Validation size should be between 0 and 60\. Received: 61\."
    ):
        read_data_sets(tmp_path, validation_size=61)
    with pytest.raises(ValueError, match="Received: 5000"):
        mnist_data.load_mnist(tmp_path)
    with pytest.raises(TypeError, match="Invalid image dtype 'int32', expected uint8 or float32"):
        read_data_sets(tmp_path, dtype=tf.int32, validation_size=0)


def test_fake_data_needs_no_files() -> None:
    sets = read_data_sets("nowhere", fake_data=True, one_hot=True)
    images, labels = sets.train.next_batch(3, fake_data=True)
    assert images == [[1] * 784] * 3
    assert labels == [[1] + [0] * 9] * 3
    assert sets.test.num_examples == 10000
    assert read_data_sets("nowhere", True).test.next_batch(2, True)[1] == [0, 0]


def batches(data: DataSet, sizes: list[int], shuffle: bool) -> list[list[int]]:
    return [data.next_batch(size, shuffle=shuffle)[1].tolist() for size in sizes]


def dataset(count: int, seed: int | None = None) -> DataSet:
    pictures = np.zeros((count, 1, 1, 1), np.uint8)
    return DataSet(pictures, np.arange(count), seed=seed)


def test_without_shuffling_epochs_follow_each_other() -> None:
    data = dataset(5)
    assert batches(data, [2, 2, 2, 5, 4], False) == [
        [0, 1],
        [2, 3],
        [4, 0],
        [1, 2, 3, 4, 0],
        [1, 2, 3, 4],
    ]
    assert data.epochs_completed == 2
    assert batches(data, [1], False) == [[0]]
    assert data.epochs_completed == 3


def test_an_epoch_is_shuffled_as_tensorflow_shuffles_it() -> None:
    """With NumPy's global generator: once before the first batch, and once when an epoch ends."""
    np.random.seed(42)
    first, second = np.arange(7), np.arange(7)
    np.random.shuffle(first)
    np.random.shuffle(second)
    expected = [*first, *first[second]]
    data = dataset(7, seed=42)
    assert [*chain(*batches(data, [3, 3, 4, 2], True))] == [*map(int, expected)][:12]
    assert data.epochs_completed == 1


def test_the_graphs_seed_counts_without_one_of_its_own() -> None:
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        one = batches(dataset(50), [50], True)
        other = batches(dataset(50), [50], True)
    assert one == other
    assert one != batches(dataset(50, seed=8), [50], True)


@given(st.integers(1, 9), st.lists(st.integers(0, 30), max_size=8), st.booleans())
def test_every_example_comes_once_an_epoch(count: int, sizes: list[int], shuffle: bool) -> None:
    data = dataset(count)
    given_out = [*chain(*batches(data, sizes, shuffle))]
    assert [len(batch) for batch in batches(dataset(count), sizes, shuffle)] == sizes
    for start in range(0, len(given_out) - count + 1, count):
        assert sorted(given_out[start : start + count]) == list(range(count))
    assert data.epochs_completed == max(0, (sum(sizes) - 1) // count)


BAD_SETS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "fewer labels": (np.zeros((3, 1, 1, 1)), np.zeros(2), {}, r"images.shape: \(3, 1, 1, 1\) labels.shape: \(2,\)"),
    "images of colours": (np.zeros((3, 2, 2, 3)), np.zeros(3), {}, r"not \[3, 2, 2, 3\]; pass reshape=False"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_SETS)
def test_what_is_no_data_set_is_refused(what: str) -> None:
    images, labels, options, said = BAD_SETS[what]
    with pytest.raises(ValueError, match=said):
        DataSet(images, labels, **options)


def test_batches_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="no examples"):
        dataset(0).next_batch(1)
    with pytest.raises(ValueError, match="cannot have -1 examples"):
        dataset(3).next_batch(-1)
    assert dataset(0).next_batch(0)[1].tolist() == []


# -- files that are not there, or damaged ---------------------------------------------------------


def test_files_that_are_not_there_are_named_with_the_place_and_what_is_there(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        tf.errors.NotFoundError, match=r"train-images-idx3-ubyte.gz.*no such directory"
    ):
        read_data_sets(tmp_path / "nowhere")
    with pytest.raises(
        tf.errors.NotFoundError, match=r"found there: nothing. headrace downloads nothing"
    ):
        read_data_sets(tmp_path)
    (tmp_path / "mnist.zip").write_bytes(b"")
    with pytest.raises(tf.errors.NotFoundError, match=r"found there: mnist\.zip"):
        read_data_sets(tmp_path)
    idx.write(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(tf.errors.NotFoundError) as raised:
        read_data_sets(tmp_path, source_url="https://mirror.example/")
    said = str(raised.value)
    assert "files t10k-labels-idx1-ubyte.gz (with .gz or without) should lie in" in said
    assert str(tmp_path) in said
    assert "found there: train-images-idx3-ubyte.gz" in said
    assert "https://mirror.example/" in said


def test_a_single_file_is_not_downloaded_either(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"")
    assert mnist_data.maybe_download("a.gz", tmp_path, "https://x.example/a.gz") == str(
        tmp_path / "a.gz"
    )
    with pytest.raises(
        tf.errors.NotFoundError, match=r"b.gz should lie in .*https://x.example/b.gz"
    ):
        mnist_data.maybe_download("b.gz", tmp_path, "https://x.example/b.gz")


def test_files_may_have_the_names_that_some_archives_give_them(tmp_path: Path) -> None:
    idx.write(tmp_path, zipped=False)
    for name in idx.NAMES:
        (tmp_path / f"{name}-ubyte").rename(tmp_path / f"{name.replace('-idx', '.idx')}-ubyte")
    (tmp_path / "train-labels.idx1-ubyte").rename(
        tmp_path / "train-labels-idx1-ubyte.gz"
    )  # and is none
    assert read_data_sets(tmp_path, validation_size=0).train.num_examples == 60


GOOD = idx.images(idx.digits(3)[0])
DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ends within its header, after 0 bytes"),
    "half a header": (GOOD[:10], "ends within its header, after 10 bytes"),
    "labels": (struct.pack(">IIII", 2049, 3, 28, 28), "Invalid magic number 2049 in MNIST image file.* is 2051"),
    "too little": (GOOD[:-1], "holds 3 x 28 x 28 bytes, and has 2351"),
    "too much": (GOOD + b"x", "and has more"),
    "sizes beyond all memory": (struct.pack(">IIII", 2051, *[2**32 - 1] * 3), "and has 0"),
    "half a gzip file": (gzip.compress(GOOD)[:-9], "is damaged"),
    "a gzip file with a wrong byte": (gzip.compress(GOOD)[:-6] + b"\0" * 6, "is damaged"),
    "a gzip file of something else": (gzip.compress(b"hello"), "ends within its header"),
    "the beginning of a gzip file": (b"\x1f\x8b", "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_a_typed_error_that_names_it(tmp_path: Path, what: str) -> None:
    data, said = DAMAGED[what]
    idx.write(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(data)
    with pytest.raises(tf.errors.DataLossError, match=said) as raised:
        read_data_sets(tmp_path)
    assert isinstance(raised.value, ValueError)
    assert "train-images-idx3-ubyte.gz" in str(raised.value)


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_images_or_a_typed_error(data: bytes, zipped: bool) -> None:
    file = io.BytesIO(gzip.compress(data) if zipped else data)
    refused = None
    try:
        found = mnist_data.extract_images(file)
    except tf.errors.DataLossError as error:
        refused = error
    else:
        assert found.size == len(data) - 16
    assert refused is None or refused.message


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    idx.write(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(idx.labels(np.zeros(19)))
    with pytest.raises(tf.errors.DataLossError, match=r"has 20 images, and .* 19 labels"):
        read_data_sets(tmp_path)


def test_labels_of_no_class_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 2, and there are some from 0 to 3"):
        mnist_data.dense_to_one_hot([0, 3], 3)
    assert mnist_data.dense_to_one_hot(np.array([], np.uint8), 3).shape == (0, 3)


# -- the tutorial's model -------------------------------------------------------------------------


def test_the_tutorials_model_learns_these_digits(tmp_path: Path) -> None:
    train = read_data_sets(idx.write(tmp_path, 200), validation_size=0, seed=1).train
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        images = tf.placeholder(tf.float32, [20, mnist_tutorial.IMAGE_PIXELS])
        labels = tf.placeholder(tf.int32, [20])
        logits = mnist_tutorial.inference(images, 32, 16)
        loss = mnist_tutorial.loss(logits, labels)
        step = mnist_tutorial.training(loss, 0.1)
        correct = mnist_tutorial.evaluation(logits, labels)
        assert [v.op.name for v in tf.trainable_variables()] == [
            f"{layer}/{name}"
            for layer in ("hidden1", "hidden2", "softmax_linear")
            for name in ("weights", "biases")
        ]
        assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 1
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(150):
                batch = train.next_batch(20)
                session.run(step, {images: batch[0], labels: batch[1]})
            count, last = session.run([correct, loss], {images: batch[0], labels: batch[1]})
            assert session.run("global_step:0") == 150
    assert (count, correct.dtype) == (20, tf.int32)
    assert last < 0.1
