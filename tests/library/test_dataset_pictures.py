"""Maps that decode pictures: many at once, which nobody can tell from one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import images

pytest.importorskip("PIL.Image")
Dataset = tf.data.Dataset


def picture(kind: str, seed: int, *shape: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    if kind == "png":
        return images.encode_png(pixels, -1)
    return images.encode_jpeg(pixels, 90, False, False, True, (72, 72), b"")


def contents_of(kind: str) -> list[bytes]:
    """Some of another size, one of no colours, one that is broken, and one that is no picture."""
    found = [picture(kind, n, 6, 5, 3) for n in range(40)]
    found[7] = picture(kind, 7, 9, 4, 3)
    found[8] = picture(kind, 8, 6, 5, 1)
    found[21] = found[21][:-40]
    found[33] = b"no picture"
    return found


def load(kind: str) -> Any:
    decode = tf.image.decode_png if kind == "png" else tf.image.decode_jpeg

    def loaded(content: Any, label: Any) -> Any:
        pixels = tf.cast(decode(content, channels=3), tf.float32)
        return tf.image.resize_bilinear(tf.expand_dims(pixels, 0), [3, 4])[0] / 255.0, label

    return loaded


def drained(dataset: Any) -> list[Any]:
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    found: list[Any] = []
    with tf.Session() as session:
        while True:
            try:
                found.append([each.tobytes() for each in session.run(following)])
            except tf.errors.OutOfRangeError:
                return found
            except tf.errors.InvalidArgumentError as error:
                found.append(error.message.split("\n")[0])


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_pictures_are_those_of_one_at_a_time(kind: str) -> None:
    contents = contents_of(kind)
    with tf.Graph().as_default():
        given = Dataset.from_tensor_slices((contents, np.arange(len(contents))))
        alone = drained(given.map(load(kind)))
        failed = [at for at, each in enumerate(alone) if isinstance(each, str)]
        assert failed == [21, 33]
        good = [each for each in alone if not isinstance(each, str)]
        for calls in (None, 1, 2, 5):
            mapped = given.map(load(kind), num_parallel_calls=calls)
            # who takes many at once, so that they are asked for
            many = mapped.apply(tf.data.experimental.ignore_errors()).batch(16)
            assert drained(many.apply(tf.data.experimental.unbatch())) == good
            assert drained(mapped.shuffle(1)) == alone
            assert drained(mapped) == alone


def test_where_an_iterator_is_among_pictures_goes_into_checkpoints(tmp_path: Any) -> None:
    contents = contents_of("png")[:20]
    with tf.Graph().as_default(), tf.Session() as session:
        given = Dataset.from_tensor_slices((contents, np.arange(20)))
        mapped = given.map(load("png"), num_parallel_calls=2).map(lambda pixels, label: label)
        iterator = tf.data.make_initializable_iterator(mapped.batch(3).repeat(2))
        following = iterator.get_next()
        session.run(iterator.initializer)
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        for _ in range(4):
            session.run(following)
        path = saver.save(session, str(tmp_path / "position"))
        wanted = [session.run(following).tolist() for _ in range(9)]
        session.run(iterator.initializer)
        saver.restore(session, path)
        assert [session.run(following).tolist() for _ in range(9)] == wanted
