"""Checkpoints of a size that is asked for, written and read by processes of headrace and of TensorFlow.

One checkpoint has a tensor of that size, the other many tensors that make it up together, a part of a larger one among
them.  What is read is known by its checksum, and both sides' files are compared byte for byte.
Called by: `make large`, tests/training/test_large_checkpoints.py.  A process needs some three times the size in memory,
the disk four times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PIECE = 1 << 24
WITHIN_S = 1800.0

BEGIN = """
import json, sys, zlib
import numpy as np
prefix, count, many = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def ours():
    import headrace as tf
    from headrace.graph.registry import get
    return tf, get
def theirs():
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    return tf, lambda name: getattr(tf.raw_ops, name)
tf, op = {side}()
pattern = np.random.RandomState(7).randint(0, 256, 1048583).astype(np.uint8)
def sizes():
    each = count // many
    return [each] * (many - 1) + [count - each * (many - 1)]
names = ["t%02d" % at for at in range(many)]
# The last one is the second half of a tensor that is twice as long.
specs = [""] * (many - 1) + ["%d %d,%d" % (2 * sizes()[-1], sizes()[-1], sizes()[-1]) if many > 1 else ""]
"""
WRITE = """
with tf.Graph().as_default(), tf.Session() as session:
    tensors = []
    for at, size in enumerate(sizes()):
        repeated = tf.tile(tf.constant(np.roll(pattern, at)), [size // len(pattern) + 1])
        tensors.append(tf.slice(repeated, tf.constant([0], tf.int64), tf.constant([size], tf.int64)))
    session.run(op("SaveV2")(prefix=prefix, tensor_names=names, shape_and_slices=specs, tensors=tensors))
print(json.dumps(None))
"""
READ = """
found = []
with tf.Graph().as_default(), tf.Session() as session:
    for name, spec in zip(names, specs):
        node = op("RestoreV2")(prefix=prefix, tensor_names=[name], shape_and_slices=[spec], dtypes=[tf.uint8])
        value = session.run(node)[0]
        checksum = 0
        for start in range(0, len(value), 1 << 26):
            checksum = zlib.crc32(value[start : start + (1 << 26)], checksum)
        found.append([name, len(value), checksum])
        del value
print(json.dumps(found))
"""
EXPECTED = """
found = []
for at, size in enumerate(sizes()):
    rolled, checksum = np.roll(pattern, at), 0
    whole, rest = divmod(size, len(pattern))
    for _ in range(whole):
        checksum = zlib.crc32(rolled, checksum)
    found.append([names[at], size, zlib.crc32(rolled[:rest], checksum)])
print(json.dumps(found))
"""


def run(python: str, side: str, program: str, prefix: Path, count: int, many: int) -> object:
    """What a program printed; `side` is ours or theirs.  Raises AssertionError with what it said, if it failed."""
    source = BEGIN.replace("{side}", side) + program
    done = subprocess.run(
        [python, "-c", source, str(prefix), str(count), str(many)],
        capture_output=True, text=True, check=False, timeout=WITHIN_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def same(one: Path, other: Path) -> bool:
    """Whether two files have the same bytes."""
    with one.open("rb") as first, other.open("rb") as second:
        while True:
            a, b = first.read(PIECE), second.read(PIECE)
            if a != b:
                return False
            if not a:
                return True


def trials(
    folder: Path, count: int, many: int, oracle: str | None
) -> Iterator[tuple[str, bool | object]]:
    """(what was tried, whether it held); with `oracle`, TensorFlow's Python, each side reads what the other wrote."""
    pythons = {"ours": sys.executable} | ({"theirs": oracle} if oracle else {})
    expected = run(sys.executable, "ours", EXPECTED, folder, count, many)
    for writer, python in pythons.items():
        (folder / writer).mkdir(parents=True)
        run(python, writer, WRITE, folder / writer / "m", count, many)
        for reader, other in pythons.items():
            found = run(other, reader, READ, folder / writer / "m", count, many)
            yield f"{reader} read what {writer} wrote", found == expected
    if oracle:
        for name in ("m.index", "m.data-00000-of-00001"):
            yield (
                f"both wrote the same {name}",
                same(folder / "ours" / name, folder / "theirs" / name),
            )
