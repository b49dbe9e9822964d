"""What few bytes ask for many of is bounded, and the error says which limit it was and how to raise it."""

from __future__ import annotations

import gzip
import io
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import limits
from headrace.codec.records import framed
from headrace.ops._kernels.number_text import parse_float
from headrace.ops.string.byte_strings import decode_padded_raw_op
from headrace.ops.string.strings import as_string_op

VARIABLE = "HEADRACE_MAX_EXPANDED_BYTES"
LIMIT = 100_000
Make = Callable[[Path], Any]


def image(kind: str, **options: Any) -> bytes:
    pillow = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    mode = options.pop("mode", "RGB")
    colours = range(options.pop("frames", 1))
    pictures = [pillow.new("RGB", (200, 200), (n, 0, 0)).convert(mode) for n in colours]
    more = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    pictures[0].save(out, kind, **more, **options)
    return out.getvalue()


GROWING: dict[str, Make] = {
    "as_string, precision": lambda _: tf.as_string(tf.constant([1.0, 2.0]), precision=LIMIT),
    "as_string, precision of complex numbers": lambda _: as_string_op(
        tf.constant([1j]), precision=LIMIT // 2 + 1
    ),
    "as_string, width": lambda _: tf.as_string(tf.constant([1, 2]), width=LIMIT),
    "as_string, a precision that C cannot count": lambda _: as_string_op(
        tf.constant([1.0]), precision=1 << 40
    ),
    "string_join of one string with many": lambda _: tf.string_join(
        [tf.fill([200], "a"), tf.constant("b" * 1000)]
    ),
    "string_join, separators": lambda _: tf.string_join(
        [tf.fill([200], "a"), tf.fill([200], "b")], separator="-" * 1000
    ),
    "reduce_join, separators": lambda _: tf.reduce_join(
        tf.fill([200], "a"), 0, separator="-" * 1000
    ),
    "decode_padded_raw": lambda _: decode_padded_raw_op(
        tf.fill([200], "a"), tf.constant(1000), out_type=tf.uint8
    ),
    "decode_compressed, zlib": lambda _: tf.io.decode_compressed(
        tf.constant(zlib.compress(bytes(LIMIT + 1))), "ZLIB"
    ),
    "decode_compressed, gzip": lambda _: tf.io.decode_compressed(
        tf.constant(gzip.compress(bytes(LIMIT + 1))), "GZIP"
    ),
    "decode_compressed of many": lambda _: tf.io.decode_compressed(
        tf.constant([zlib.compress(bytes(LIMIT // 2 + 1))] * 2), "ZLIB"
    ),
    "decode_png": lambda _: tf.image.decode_png(tf.constant(image("PNG"))),
    "decode_png of a palette": lambda _: tf.image.decode_image(tf.constant(image("PNG", mode="P"))),
    "decode_bmp": lambda _: tf.image.decode_bmp(tf.constant(image("BMP"))),
    "decode_jpeg": lambda _: tf.image.decode_jpeg(tf.constant(image("JPEG"))),
    "decode_gif, one frame": lambda _: tf.image.decode_gif(tf.constant(image("GIF"))),
    "decode_gif, many frames": lambda _: tf.image.decode_gif(tf.constant(image("GIF", frames=5))),
}


@pytest.mark.parametrize("name", GROWING)
def test_an_op_makes_no_more_than_the_limit_and_says_how_to_raise_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(LIMIT))
    with tf.Graph().as_default(), tf.Session() as session:
        fetch = GROWING[name](tmp_path)
        with pytest.raises(tf.errors.ResourceExhaustedError, match=f"may set {VARIABLE} higher"):
            session.run(fetch)
        if "cannot count" not in name:
            monkeypatch.setenv(VARIABLE, str(LIMIT * 100))
            session.run(fetch)


READERS: dict[str, Callable[[], Any]] = {
    "TFRecordReader": lambda: tf.TFRecordReader(
        options=tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.ZLIB)
    ),
    "FixedLengthRecordReader": lambda: tf.FixedLengthRecordReader(LIMIT * 2, encoding="ZLIB"),
}


@pytest.mark.parametrize("kind", READERS)
def test_a_record_of_a_compressed_file_is_no_larger(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytes(LIMIT * 2)
    name = tmp_path / "bomb"
    name.write_bytes(zlib.compress(framed(content) if kind == "TFRecordReader" else content))

    def first() -> Any:
        with tf.Graph().as_default(), tf.Session() as session:
            queue = tf.FIFOQueue(1, tf.string, [[]])
            record = READERS[kind]().read(queue)
            session.run(queue.enqueue(os.fspath(name)))
            return session.run(record.value)

    monkeypatch.setenv(VARIABLE, str(LIMIT))
    with pytest.raises(tf.errors.ResourceExhaustedError, match=f"may set {VARIABLE} higher"):
        first()
    monkeypatch.delenv(VARIABLE)
    assert first() == content


def test_records_below_the_limit_may_be_more_than_it_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tmp_path / "records"
    name.write_bytes(zlib.compress(framed(bytes(LIMIT - 1)) * 20))
    monkeypatch.setenv(VARIABLE, str(LIMIT))
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.ZLIB)
    found = list(tf.python_io.tf_record_iterator(os.fspath(name), options))
    assert [len(record) for record in found] == [LIMIT - 1] * 20


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1.5"])
def test_a_limit_is_a_number_above_zero_or_left_out(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    if not text:
        assert limits.EXPANDED_BYTES.value() == limits.EXPANDED_BYTES.default
        limits.check_settings()
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{VARIABLE}='{text}' is not"):
        limits.check_settings()


# -- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"1" * 200_000 + b"x", b"0x" + b"a" * 200_000 + b"z", b"." + b"1" * 200_000 + b".", b" " * 200_000 + b"x",
        b"nan(" + b"1" * 200_000, b"1e" + b"1" * 200_000 + b"x",
    ],
    ids=["digits", "hexadecimal", "fraction", "blanks", "nan", "exponent"],
)  # fmt: skip
def test_what_is_no_number_is_refused_in_time_that_grows_with_its_length(text: bytes) -> None:
    began = time.thread_time()
    with pytest.raises(ValueError, match=r"\S"):
        parse_float(text)
    for kind in (tf.float32, tf.int64):
        with tf.Graph().as_default(), tf.Session() as session:
            fetch = tf.string_to_number(tf.constant(text), kind)
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(fetch)
    assert time.thread_time() - began < 10.0  # the square of the length would take minutes


@pytest.mark.parametrize("equation", ["a" * 100_000 + "!", "a," + "a..." * 50_000 + "!"])
def test_what_is_no_equation_is_refused_in_time_that_grows_with_its_length(equation: str) -> None:
    began = time.thread_time()
    with pytest.raises(ValueError, match="an equation is written like"):
        tf.einsum(equation, tf.ones([2]))
    assert time.thread_time() - began < 10.0


def test_inflating_in_pieces_gives_what_was_packed() -> None:
    content = np.random.default_rng(0).bytes(3_000_000)
    with tf.Graph().as_default(), tf.Session() as session:
        packed = tf.constant([zlib.compress(content), zlib.compress(b""), zlib.compress(b"a")])
        assert session.run(tf.io.decode_compressed(packed, "ZLIB")).tolist() == [content, b"", b"a"]
