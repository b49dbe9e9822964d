"""TFRecord files: what either library writes the other reads; broken ones fail at the same record."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.codec.records import framed

RECORDS = [b"a", b"", bytes(range(256)) * 300, "text é".encode()]
WRITE = """
with tf.python_io.TFRecordWriter(path, options) as writer:
    for record in records:
        writer.write(record)
"""
READ = """
q = tf.FIFOQueue(100, tf.string)
reader = eval(make)
read = reader.read(q) if count is None else reader.read_up_to(q, count)
state = [reader.num_records_produced(), reader.num_work_units_completed()]
result = []
with tf.Session() as session:
    session.run(q.enqueue_many([paths]))
    session.run(q.close())
    for _ in range(times):
        try:
            key, value = session.run(read)
            result.append([np.atleast_1d(key).tolist(), np.atleast_1d(value).tolist()])
        except tf.errors.OpError as error:
            result.append(type(error).__name__)
            if isinstance(error, tf.errors.DataLossError):
                break
        result.append([int(n) for n in session.run(state)])
"""
ITERATE = """
result = []
try:
    for record in tf.python_io.tf_record_iterator(path, options):
        result.append(record)
except tf.errors.OpError as error:
    result.append(type(error).__name__)
"""


def here(source: str, **inputs: Any) -> Any:
    names: dict[str, Any] = {"tf": hr, "np": np, **inputs}
    with hr.Graph().as_default():
        exec(source, names)
    return names.get("result")


@pytest.mark.parametrize("options", [None, "ZLIB", "GZIP"])
def test_either_reads_what_the_other_writes(tmp_path: Path, oracle: Any, options: Any) -> None:
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    here(WRITE, path=ours, options=options, records=RECORDS)
    oracle.run(WRITE + "result = None", path=theirs, options=options, records=RECORDS)
    assert oracle.run(ITERATE, path=ours, options=options) == RECORDS
    assert here(ITERATE, path=theirs, options=options) == RECORDS
    if options is None:
        assert Path(ours).read_bytes() == Path(theirs).read_bytes()


WHOLE = b"".join(map(framed, RECORDS))
LENGTH, DATA = bytearray(WHOLE), bytearray(WHOLE)
LENGTH[20] ^= 1
DATA[60] ^= 1
PLAIN = {
    "whole": WHOLE, "empty": b"", "length": bytes(LENGTH), "data": bytes(DATA), "in data": WHOLE[:-3],
    "in header": WHOLE[:25], "after header": WHOLE[:45], "text": b"text that is no record\n" * 9,
}  # fmt: skip
ZLIBBED = {
    "whole": zlib.compress(WHOLE), "empty": b"", "no record": zlib.compress(b""), "text": b"text" * 9,
    "no checksum": zlib.compress(WHOLE)[:-3], "short": zlib.compress(WHOLE, 0)[:-1000],
    "two": zlib.compress(WHOLE) * 2,
}  # fmt: skip
GZIPPED = {
    "whole": gzip.compress(WHOLE), "two": gzip.compress(WHOLE) * 2, "text": b"text" * 9, "empty": b"",
    "short": gzip.compress(WHOLE, 0)[:-1000],
}  # fmt: skip
FIXED = b"HH" + b"abcdef" * 5 + b"FF"
FIXED_ZLIBBED = {
    "whole": zlib.compress(FIXED), "part": zlib.compress(FIXED + b"x"), "text": b"text" * 9,
    "no record": zlib.compress(b"HHFF"), "short": zlib.compress(FIXED, 0)[:-12],
}  # fmt: skip
FAMILIES: dict[str, tuple[dict[str, bytes], list[str]]] = {
    "plain": (PLAIN, ["tf.TFRecordReader()"]),
    "zlib": (ZLIBBED, ["tf.TFRecordReader(options=tf.python_io.TFRecordOptions(1))"]),
    "gzip": (GZIPPED, ["tf.TFRecordReader(options=tf.python_io.TFRecordOptions('GZIP'))"]),
    "fixed": (FIXED_ZLIBBED, [
        f"tf.FixedLengthRecordReader({size}, 2, 2, {hop}, encoding='ZLIB')"
        for size, hop in ((4, 0), (4, 2), (4, 6), (6, 6), (5, 7))
    ]),
    "fixed gzip": (
        {"whole": gzip.compress(FIXED)}, ["tf.FixedLengthRecordReader(5, 2, 2, encoding='GZIP')"],
    ),
}  # fmt: skip
CASES = [
    (family, name, number)
    for family, (files, makes) in FAMILIES.items()
    for name in files
    for number in range(len(makes))
]


@pytest.mark.parametrize("count", [None, 3])
@pytest.mark.parametrize(("family", "name", "number"), CASES)
def test_files_are_read_as_by_tensorflow(
    family: str, name: str, number: int, count: Any, tmp_path: Path, oracle: Any
) -> None:
    files, makes = FAMILIES[family]
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    paths = [str(tmp_path / file) for file in (name, "whole")]
    inputs = {"make": makes[number], "paths": paths, "count": count, "times": 20}
    want = oracle.run(READ, **inputs)
    got = here(READ, **inputs)
    for step, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        assert (step, ours) == (step, theirs)


@pytest.mark.parametrize("family", ["plain", "zlib", "gzip"])
def test_files_are_iterated_as_by_tensorflow(family: str, tmp_path: Path, oracle: Any) -> None:
    options = {"plain": None, "zlib": "ZLIB", "gzip": "GZIP"}[family]
    for name, content in FAMILIES[family][0].items():
        (tmp_path / name).write_bytes(content)
        path = str(tmp_path / name)
        want = oracle.run(ITERATE, path=path, options=options)
        assert (name, here(ITERATE, path=path, options=options)) == (name, want)
