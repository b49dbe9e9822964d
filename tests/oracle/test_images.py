"""Images: either library reads what the other writes, pixel for pixel, and what Pillow writes."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import headrace as hr

Image = pytest.importorskip("PIL.Image")

RANDOM = np.random.RandomState(3).randint(0, 256, (17, 23, 4)).astype(np.uint8)
Y, X = np.mgrid[:31, :37]
SMOOTH = np.stack([X * 6, Y * 7, (X + Y) * 3], -1).astype(np.uint8)


def saved(image: Any, kind: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def picture(channels: int) -> Any:
    return Image.fromarray(RANDOM[..., 0] if channels == 1 else RANDOM[..., :channels])


def frames(count: int) -> bytes:
    made = [Image.fromarray(np.roll(SMOOTH, 5 * n, axis=0)).convert("P") for n in range(count)]
    return saved(made[0], "GIF", save_all=True, append_images=made[1:], disposal=1)


PALETTE = Image.fromarray(RANDOM[..., :3]).convert("P")
FILES = {
    "gray png": saved(picture(1), "PNG"), "gray alpha png": saved(picture(2), "PNG"),
    "png": saved(picture(3), "PNG"), "alpha png": saved(picture(4), "PNG"),
    "palette png": saved(PALETTE, "PNG"), "transparent palette png": saved(PALETTE, "PNG", transparency=7),
    "bits png": saved(picture(1).convert("1"), "PNG"),
    "16 bits png": saved(Image.fromarray(RANDOM[..., 0].astype(np.uint16) * 200), "PNG"),
    "jpeg": saved(Image.fromarray(SMOOTH), "JPEG"), "gray jpeg": saved(Image.fromarray(SMOOTH[..., 0]), "JPEG"),
    "full jpeg": saved(Image.fromarray(SMOOTH), "JPEG", subsampling=0, progressive=True),
    "gif": frames(1), "moving gif": frames(3),
    "bmp": saved(picture(3), "BMP"), "gray bmp": saved(picture(1), "BMP"),
    "nothing": b"", "text": b"this is no image at all", "short png": saved(picture(3), "PNG")[:60],
    "head of a png": saved(picture(3), "PNG")[:20], "head of a jpeg": saved(Image.fromarray(SMOOTH), "JPEG")[:30],
}  # fmt: skip
ACCURATE = "dct_method='INTEGER_ACCURATE'"
JPEGS = (ACCURATE, "dct_method='INTEGER_FAST'", "dct_method=''", "fancy_upscaling=False")
CALLS = [
    *(f"tf.image.decode_png(s, channels={n})" for n in (0, 1, 3, 4)),
    "tf.image.decode_png(s, dtype=tf.uint16)",
    *(f"tf.image.decode_jpeg(s, channels={n}, {how})" for n in (0, 1, 3) for how in JPEGS),
    *(f"tf.image.decode_jpeg(s, ratio={n}, {how})" for n in (2, 4, 8) for how in JPEGS[:3]),
    "tf.image.decode_gif(s)",
    *(f"tf.image.decode_bmp(s, channels={n})" for n in (0, 1, 3)),
    *(f"tf.image.decode_image(s, channels={n})" for n in (0, 1, 3, 4)),
    "tf.image.decode_image(s, dtype=tf.uint16)", "tf.image.decode_image(s, dtype=tf.float32)",
    "tf.image.decode_image(s, expand_animations=False)", "tf.image.extract_jpeg_shape(s)",
    *(f"tf.image.decode_and_crop_jpeg(s, [3, 2, 7, 5], {how})" for how in JPEGS),
    f"tf.image.decode_and_crop_jpeg(s, [3, 2, 70, 5], {ACCURATE})",
]  # fmt: skip
SOURCE = """
s = tf.placeholder(tf.string, [])
image = eval(call)
result = {}
with tf.Session() as session:
    for name in sorted(files):
        try:
            result[name] = session.run(image, {s: files[name]})
        except tf.errors.OpError as error:
            result[name] = type(error).__name__
        except (RuntimeError, SystemError, TypeError):  # TensorFlow's message could not be made
            result[name] = "InvalidArgumentError"
"""
ITS_OWN = [
    ("bits png", "channels=4"),  # opaque is 1 there, the largest value of a bit
]


@pytest.mark.parametrize("call", CALLS)
def test_images_are_decoded_as_by_tensorflow(call: str, oracle: Any) -> None:
    files = FILES
    if "fancy" in call:  # TensorFlow may crash on others
        files = {name: FILES[name] for name in ("jpeg", "gray jpeg", "full jpeg")}
    want = oracle.run(SOURCE, call=call, files=files)
    names: dict[str, Any] = {"tf": hr, "np": np, "call": call, "files": files}
    with hr.Graph().as_default():
        exec(SOURCE, names)
    for name, theirs in want.items():
        ours = names["result"][name]
        if any(name == file and channels in call for file, channels in ITS_OWN):
            continue
        if isinstance(theirs, str) or isinstance(ours, str):
            assert isinstance(theirs, str), f"{name}: {ours}"
            assert isinstance(ours, str), f"{name}: {theirs}"
            assert ours == theirs, name
            continue
        assert (name, ours.shape, ours.dtype) == (name, theirs.shape, theirs.dtype)
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


ENCODE = """
result = []
with tf.Session() as session:
    for call in calls:
        result.append(session.run(eval(call, {"tf": tf, "picture": picture})))
"""
ENCODED = [
    ("tf.image.encode_png(picture)", 0), ("tf.image.encode_png(picture, 9)", 0),
    ("tf.image.encode_png(picture[..., :1])", 0), ("tf.image.encode_png(picture[..., :2])", 0),
    ("tf.image.encode_png(picture[..., :1].astype('uint16') * 300)", 0),
    ("tf.image.encode_jpeg(picture, quality=90, chroma_downsampling=False)", 3),
    ("tf.image.encode_jpeg(picture, quality=90, progressive=True, optimize_size=True)", 3),
    ("tf.image.encode_jpeg(picture[..., :1], 'grayscale', 70, density_unit='cm')", 3),
]  # fmt: skip


def test_either_reads_what_the_other_writes(oracle: Any) -> None:
    calls = [call for call, _ in ENCODED]
    theirs = oracle.run(ENCODE, calls=calls, picture=SMOOTH)
    names: dict[str, Any] = {"tf": hr, "calls": calls, "picture": SMOOTH}
    with hr.Graph().as_default():
        exec(ENCODE, names)
    for (call, most), ours, other in zip(ENCODED, names["result"], theirs, strict=True):
        decode = "tf.image.decode_png(s, dtype=tf.uint16)" if "uint16" in call else (
            f"tf.image.decode_jpeg(s, {ACCURATE})" if "jpeg" in call else "tf.image.decode_png(s)"
        )  # fmt: skip
        files = {"ours": ours, "theirs": other}
        seen = oracle.run(SOURCE, call=decode, files=files)
        mine: dict[str, Any] = {"tf": hr, "call": decode, "files": files}
        with hr.Graph().as_default():
            exec(SOURCE, mine)
        for name in files:
            np.testing.assert_array_equal(
                mine["result"][name], seen[name], err_msg=f"{call} {name}"
            )
        difference = seen["ours"].astype(int) - seen["theirs"].astype(int)
        assert np.abs(difference).max() <= most, call


def test_what_cannot_be_encoded_fails_there_too(oracle: Any) -> None:
    for call in (
        "tf.image.encode_png(np.zeros([3, 3, 5], np.uint8))", "tf.image.encode_jpeg(np.zeros([3, 3, 2], np.uint8))",
        "tf.image.encode_jpeg(np.zeros([3, 3, 3], np.uint8), format='grayscale')",
        "tf.image.encode_jpeg(np.zeros([3, 3, 3], np.uint8), quality=101)",
    ):  # fmt: skip
        kind, name = oracle.outcome(f"result = tf.Session().run({call})")
        assert kind == "error"
        with (
            hr.Graph().as_default(),
            hr.Session() as session,
            pytest.raises(getattr(hr.errors, name)),
        ):
            session.run(eval(call, {"tf": hr, "np": np}))
