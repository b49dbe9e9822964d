"""Summaries: what steps give for them, and what they refuse."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import summary_values
from headrace.graph.registry import get


def run(made: Any) -> Any:
    """The values of a summary."""
    with tf.Session() as session:
        return tf.Summary.FromString(session.run(made)).value


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(
    "numbers",
    [[], [0.0], [1.5], [-1.5, 1.5, 1.5], [1e300, -1e300, 1e-300], [np.finfo(np.float64).max] * 2, range(1000)],
    ids=range(7),
)  # fmt: skip
def test_the_buckets_of_a_histogram_hold_every_number_once(numbers: Any) -> None:
    values = np.array(numbers, np.float64)
    found = summary_values.histogram(values)
    limits, counts = list(found.bucket_limit), list(found.bucket)
    assert limits == sorted(set(limits))
    assert sum(counts) == found.num == len(values)
    lower = -math.inf
    for limit, count in zip(limits, counts, strict=True):
        last = limit == limits[-1]
        inside = (values >= lower) & ((values < limit) | last)
        assert count == inside.sum()
        lower = limit
    if numbers:
        assert (found.min, found.max) == (values.min(), values.max())


def _awkward_floats() -> Any:
    """float32: zeros, the least there are, neighbours of all limits of buckets, the largest."""
    least = np.array([0.0, -0.0, 1e-45, -1e-45, 1.2e-38, -1.2e-38, 3.4e38, -3.4e38], np.float32)
    with np.errstate(over="ignore"):
        limits = summary_values.bucket_limits().astype(np.float32)
    limits = limits[np.isfinite(limits)]
    ends = [np.nextafter(limits, np.float32(to)) for to in (-np.inf, np.inf)]
    return np.concatenate([least, limits, *ends])


@pytest.mark.parametrize("start", [0, 1, 2])
def test_many_floats_are_in_the_buckets_that_each_of_them_is_in(start: int) -> None:
    draw = np.random.default_rng(start)
    spread = draw.standard_normal(150_000) * 10.0 ** draw.integers(-44, 38, 150_000)
    values = np.concatenate([_awkward_floats(), spread.astype(np.float32)])
    draw.shuffle(values)
    values = values[np.isfinite(values)][
        start :: start + 1
    ]  # not all of them lie one after the other
    found = summary_values.histogram(values)
    exact = values.astype(np.float64)
    limits = summary_values.bucket_limits()
    at = np.minimum(np.searchsorted(limits, exact, side="right"), limits.size - 1)
    counts = np.bincount(at, minlength=limits.size)
    got = dict(zip(found.bucket_limit, found.bucket, strict=True))
    assert {limit: n for limit, n in got.items() if n} == {
        float(limits[number]): float(counts[number]) for number in np.flatnonzero(counts)
    }
    assert (found.min, found.max, found.num) == (exact.min(), exact.max(), exact.size)
    assert found.sum == np.add.accumulate(exact)[-1]
    assert found.sum_squares == np.add.accumulate(exact * exact)[-1]


def test_sums_are_rounded_in_the_order_of_the_values() -> None:
    values = np.random.RandomState(0).randn(200_000).astype(np.float32)
    total = squares = 0.0
    for value in values.astype(np.float64).tolist():
        total += value
        squares += value * value
    found = summary_values.histogram(values)
    assert (found.sum, found.sum_squares) == (total, squares)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_an_image_is_a_png_without_pillow(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.RandomState(1).randint(0, 256, (3, 5, 7, channels)).astype(np.uint8)
    values = run(tf.summary.image("i", pixels, 2))
    assert [value.tag for value in values] == ["i/image/0", "i/image/1"]
    for value, wanted in zip(values, pixels, strict=False):
        image = value.image
        assert (image.height, image.width, image.colorspace) == wanted.shape
        content = image.encoded_image_string
        at = content.index(b"IDAT")
        size = int.from_bytes(content[at - 4 : at], "big")
        rows = np.frombuffer(zlib.decompress(content[at + 4 : at + 4 + size]), np.uint8)
        rows = rows.reshape(5, 1 + 7 * channels)
        assert rows[:, 0].tolist() == [2] * 5  # each row is what it has more than the one above
        below = np.add.accumulate(rows[:, 1:], axis=0, dtype=np.uint8)
        np.testing.assert_array_equal(below.reshape(wanted.shape), wanted)


def test_sound_is_cut_off_where_it_is_too_loud() -> None:
    (value,) = run(tf.summary.audio("s", [[0.0, 0.5, 1.0, -2.0]], 8000.4, 1))
    assert (value.tag, value.audio.num_channels, value.audio.length_frames) == ("s/audio", 1, 4)
    content = value.audio.encoded_audio_string
    assert int.from_bytes(content[24:28], "little") == 8000
    assert np.frombuffer(content[44:], "<i2").tolist() == [0, 16384, 32767, -32768]


def test_an_old_tensor_summary_has_the_name_of_its_node_and_a_description() -> None:
    made = get("TensorSummary")([1.0, 2.0], description=b'{"typeHint": "float"}', name="one")
    again = get("TensorSummary")([1.0, 2.0], description=b'{"typeHint": "float"}', name="two")
    assert [value.node_name for value in run(tf.summary.merge([made, again]))] == ["one", "two"]
    description = tf.summary.get_summary_description(made.op.node_def)
    assert description.type_hint == "float"


def test_merged_summaries_are_one_after_the_other() -> None:
    tf.summary.scalar("a", 1.0)
    tf.summary.histogram("b", [1.0])
    assert [value.tag for value in run(tf.summary.merge_all())] == ["a", "b"]
    assert tf.summary.merge_all("nothing") is None


REFUSED = [
    (lambda: get("ScalarSummary")(["a", "b"], [1.0]), r"not the same shape: \[2\] != \[1\]"),
    (lambda: tf.summary.histogram("h", [1.0, math.nan, math.nan]), "Nan in .* h: 2 of the 3 values, .* index 1"),
    (lambda: tf.summary.histogram("h", [-math.inf]), "Infinity in Histogram for: h"),
    (lambda: tf.summary.image("i", tf.ones([2, 2, 3])), "Tensor must be 4-D"),
    (lambda: tf.summary.image("i", tf.ones([1, 0, 2, 3])), "non-zero dims"),
    (lambda: get("ImageSummary")(["t"], tf.ones([1, 1, 1, 1])), "Tags must be scalar"),
    (lambda: get("ImageSummary")("t", tf.ones([1, 1, 1, 3]), bad_color=np.uint8([1, 2])), "bad_color.size = 2"),
    (lambda: get("ImageSummary")("t", tf.ones([1, 1, 1, 1]), bad_color=np.int32([1])), "must be uint8, got int32"),
    (lambda: tf.summary.audio("s", tf.ones([2]), 1.0), "3-D or 2-D"),
    (lambda: tf.summary.audio("s", tf.ones([1, 2, 0]), 1.0), "audio is null"),
    (lambda: tf.summary.audio("s", tf.ones([1, 2]), -1.0), "must be > 0, and is -1.0"),
    (lambda: get("TensorSummaryV2")("t", 1.0, "garbage"), "no SummaryMetadata"),
    (lambda: tf.summary.merge([tf.summary.scalar("a", 1.0)] * 2), "Duplicate tag a"),
    (lambda: tf.summary.merge(["garbage"]), "Could not parse one of the summary inputs"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_shown_is_refused(make: Any, says: str) -> None:
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=says):
        session.run(make())


def test_writers_within_the_graph_are_initialized_if_one_is_the_default() -> None:
    assert tf.summary.all_v2_summary_ops() == []
    with pytest.raises(RuntimeError, match="create_file_writer"):
        tf.summary.initialize()
