"""decode_csv and readers against TensorFlow: thousands of records, files of every line end, the same errors."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

# name: (defaults, attrs); the records of every one are decoded one by one
FORMATS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "floats": ([[0.5], [1.5]], {}),
    "mixed": ([[7], ["d"], [0.5]], {"na_value": "NA"}),
    "required": ([np.zeros(0, np.int64), np.zeros(0, object)], {}),
    "no quotes": ([["x"], [2.5]], {"use_quote_delim": False}),
    "selected": ([["x"], [0]], {"select_cols": [1, 3]}),
    "first selected": ([["x"]], {"select_cols": [0]}),
    "semicolons": ([["x"], ["y"]], {"field_delim": ";"}),
    "quote as delimiter": ([["x"], ["y"]], {"field_delim": '"'}),
    "line end as delimiter": ([["x"], ["y"]], {"field_delim": "\n"}),
    "doubles": ([np.array([0.5]), [0]], {}),
}
NUMBERS = (
    "1 +1 -1 1.5 .5 5. 1e3 1E-3 1e 1e400 -1e-400 inf -Inf +infinity nan NaN nan(1) 0x10 0x1p3 0x1.8 0x 1_0 "
    "- + . e5 1f --1 007 2147483647 2147483648 -2147483648 -2147483649 9223372036854775807 "
    "9223372036854775808 1.00000005960464477540 16777217 3.4028236e38 NA na abc"
).split()
PIECES = ["1", "2.5", "x", ",", ",", ";", '"', '"', '""', " ", "\t", "\n", "\r", "NA", "é", "-"]
ERROR = re.compile(
    r"(Expect \d+ fields but have \d+ in record \d+|Field \d+ is required but missing in record \d+!"
    r"|Field \d+ in record \d+ is not a valid \w+|Unquoted fields cannot have|Quote inside a string"
    r"|Quoted field has to end)"
)


def records(name: str) -> list[bytes]:
    rng = random.Random(name)
    delim = FORMATS[name][1].get("field_delim", ",")
    found = [f"{rng.choice(NUMBERS)}{delim}{rng.choice(NUMBERS)}" for _ in range(60)]
    found += [delim.join([n, "1", "2"][: rng.randrange(1, 4)]) for n in NUMBERS]
    found += [f" {n} {delim}\t{n}" for n in NUMBERS]
    found += ["".join(rng.choices(PIECES, k=rng.randrange(0, 9))) for _ in range(400)]
    return [text.encode() for text in found]


SOURCE = """
p = tf.placeholder(tf.string, [])
columns = tf.decode_csv(p, defaults, **attrs)
result = []
with tf.Session() as session:
    for record in records:
        try:
            result.append([repr(v.item() if hasattr(v, "item") else v) for v in session.run(columns, {p: record})])
        except tf.errors.InvalidArgumentError as error:
            result.append(str(error.message))
"""


@pytest.mark.parametrize("name", FORMATS)
def test_records_are_decoded_as_by_tensorflow(name: str, oracle: Any) -> None:
    defaults, attrs = FORMATS[name]
    inputs = {"defaults": defaults, "attrs": attrs, "records": records(name)}
    want = oracle.run(SOURCE, **inputs)
    names: dict[str, Any] = {"tf": hr, "np": np, **inputs}
    with hr.Graph().as_default():
        exec(SOURCE, names)
    for record, theirs, ours in zip(inputs["records"], want, names["result"], strict=True):
        if isinstance(theirs, str):
            match = ERROR.search(theirs)
            assert match is not None, theirs
            assert isinstance(ours, str), (record, theirs, ours)
            assert ours.startswith(match[0]), record
        else:
            assert ours == theirs, record


FILES = {
    "lf": b"h1\nx\ny\n", "crlf": b"h1\r\nx\r\ny\rz\r\n", "no end": b"h1\nlast", "empty": b"",
    "cr at end": b"h1\nx\r", "two crs": b"h1\nx\r\r\ny\n", "blank lines": b"\n\n\nq\n\n",
    "one line": b"only\n", "only ends": b"\n", "fixed": b"HHaaaabbbbccccFF",
}  # fmt: skip
READERS = """
import os
paths = [os.path.join(folder, name) for name in names]
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
        result.append([int(n) for n in session.run(state)])
"""
TEXT = [
    "lf",
    "crlf",
    "empty",
    "no end",
    "cr at end",
    "two crs",
    "blank lines",
    "one line",
    "only ends",
]
CASES = [
    ("tf.TextLineReader()", TEXT, None, 30),
    ("tf.TextLineReader(skip_header_lines=1)", TEXT, None, 25),
    ("tf.TextLineReader(skip_header_lines=2)", TEXT, None, 15),
    ("tf.TextLineReader()", ["nobody", "lf"], None, 4),
    ("tf.TextLineReader()", ["lf", "empty", "no end", "crlf"], 2, 9),
    ("tf.TextLineReader()", ["lf", "empty", "no end"], 3, 5),
    ("tf.TextLineReader()", ["lf", "no end"], 100, 4),
    ("tf.TextLineReader()", ["lf"], 0, 2),
    ("tf.WholeFileReader()", ["lf", "empty", "no end", "nobody"], None, 4),
    ("tf.WholeFileReader()", ["lf", "empty"], 5, 3),
    ("tf.IdentityReader()", ["lf", "nobody"], None, 3),
    ("tf.IdentityReader()", ["lf", "nobody", "empty"], 2, 4),
    ("tf.FixedLengthRecordReader(4, header_bytes=2, footer_bytes=2)", ["fixed", "fixed"], None, 8),
    ("tf.FixedLengthRecordReader(4, header_bytes=2, footer_bytes=2, hop_bytes=2)", ["fixed"], None, 7),
    ("tf.FixedLengthRecordReader(3, hop_bytes=5)", ["fixed"], None, 5),
    ("tf.FixedLengthRecordReader(5, header_bytes=2, footer_bytes=2)", ["fixed"], None, 4),
    ("tf.FixedLengthRecordReader(4, header_bytes=2, footer_bytes=2)", ["fixed", "fixed"], 2, 5),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case[0][3:8]}" for i, case in enumerate(CASES)])
def test_files_are_read_as_by_tensorflow(case: Any, tmp_path: Path, oracle: Any) -> None:
    make, names, count, times = case
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    inputs = {"make": make, "names": names, "count": count, "times": times, "folder": str(tmp_path)}
    want = oracle.outcome(READERS, **inputs)
    found: dict[str, Any] = {"tf": hr, "np": np, **inputs}
    with hr.Graph().as_default():
        try:
            exec(READERS, found)
            got: tuple[str, Any] = ("value", found["result"])
        except hr.OpError as error:
            got = ("error", type(error).__name__)
    assert got[0] == want[0]
    for step, (ours, theirs) in enumerate(zip(got[1], want[1], strict=True)):
        assert (step, ours) == (step, theirs)


GLOBS = """
import os
result = []
with tf.Session() as session:
    for pattern in patterns:
        found = session.run(tf.matching_files(os.path.join(folder, pattern)))
        result.append([name.decode()[len(folder) + 1:].rstrip("/") for name in found])
"""


def test_patterns_match_as_in_tensorflow(tmp_path: Path, oracle: Any) -> None:
    for folder in ("m/x/y", "m/.h"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("m/b1", "m/a1", ".hid", "m/x/c1", "m/.h2", "m/x/y/d1", "m/[z]"):
        (tmp_path / name).touch()
    patterns = (
        "m/* m/?1 m/*/* m/[ab]* m/x/** m/x m/none */b1 m/**/d1 m/.* m/{a,b}1 m/ m//a1 m/[!a]1 m/[^a]1 "
        "m/\\[z\\] **/*1 m/[a-b]1 m/[ m/none/*"
    ).split()
    inputs = {"patterns": patterns, "folder": str(tmp_path)}
    names: dict[str, Any] = {"tf": hr, "np": np, **inputs}
    with hr.Graph().as_default():
        exec(GLOBS, names)
    assert names["result"] == oracle.run(GLOBS, **inputs)
