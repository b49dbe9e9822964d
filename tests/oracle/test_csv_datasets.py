"""Datasets of CSV files against TensorFlow: thousands of records, whole and malformed, the same values and errors."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr

NOTHING = np.zeros(0, np.int64)

# name: (op, defaults, inputs)
FORMATS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "mixed": ("CSVDatasetV2", [np.int32(7), b"d", np.float32(0.5)], {"na_value": "NA"}),
    "required": ("CSVDatasetV2", [NOTHING, np.zeros(0, object)], {}),
    "no quotes": ("CSVDatasetV2", [b"x", np.float64(2.5)], {"use_quote_delim": False}),
    "selected": ("CSVDataset", [b"x", b"y"], {"select_cols": np.array([0, 2])}),
    "excluded": ("CSVDatasetV2", [b"x", b"y"], {"exclude_cols": np.array([1])}),
    "header": ("CSVDataset", [b"x", b"y"], {"header": True}),
    "semicolons": ("ExperimentalCSVDataset", [b"x", b"y"], {"field_delim": ";"}),
    "quote as delimiter": ("CSVDataset", [b"x", b"y"], {"field_delim": '"'}),
    "line end as delimiter": ("CSVDatasetV2", [b"x", b"y"], {"field_delim": "\n"}),
    "carriage return as delimiter": ("CSVDatasetV2", [b"x", b"y"], {"field_delim": "\r"}),
    "small buffer": ("CSVDatasetV2", [b"x", b"y"], {"buffer_size": 3}),
}
PIECES = ["1", "2.5", "x", ",", ",", ",", ";", '"', '"', '""', " ", "\n", "\r", "\r\n", "NA", "é"]
PIECES += ["9999999999", "1_0", '"x"', '"a,\nb"']
ERROR = re.compile(
    r"(Expect \d+ fields but have (\d+|more) in record|Field \d+ is required but missing in record!"
    r"|Field \d+ in record is not a valid \w+|Unquoted fields cannot have quotes inside"
    r"|Quote inside a string has to be escaped by another quote|Can't read header of file"
    r"|Reached end of file without closing quoted field in record)"
)

SOURCE = """

given = dict(compression_type="", buffer_size=100, header=False, field_delim=",", use_quote_delim=True, na_value="",
    select_cols=np.zeros(0, np.int64))
if op.endswith("V2"):
    given["exclude_cols"] = np.zeros(0, np.int64)
given.update(inputs)
kinds = [tf.as_dtype(each.dtype) if isinstance(each, (np.ndarray, np.generic)) else tf.string for each in defaults]
filled = [tf.constant(each, kind) for each, kind in zip(defaults, kinds)]
names = tf.placeholder(tf.string, [None])
shapes = [tf.TensorShape([])] * len(kinds)
dataset = raw(op, filenames=names, record_defaults=filled, output_shapes=shapes, **given)
iterator = raw("IteratorV2", shared_name="", container="", output_types=kinds, output_shapes=shapes)
start = raw("MakeIterator", dataset=dataset, iterator=iterator)
element = raw("IteratorGetNext", iterator=iterator, output_types=kinds, output_shapes=shapes)
result = []
with tf.Session() as session:
    for path in paths:
        session.run(start, {names: path})
        found = []
        while len(found) < 60:
            try:
                found.append([repr(v.item() if hasattr(v, "item") else v) for v in session.run(element)])
            except tf.errors.OutOfRangeError:
                break
            except tf.errors.OpError as error:
                found.append(type(error).__name__ + ": " + error.message)
        result.append(found)
"""
THEIRS = "def raw(op, **given):\n    return getattr(tf.raw_ops, op)(**given)\n"


def texts(name: str) -> list[bytes]:
    rng = random.Random(name)
    found = ["", "\n", "\r", ",", '"', '""', '"a"\r', "1,x\r\n2,y", 'h,i\n1,"', "a,b,c\nd,e,f\n"]
    found += ["".join(rng.choices(PIECES, k=rng.randrange(1, 40))) for _ in range(150)]
    return [text.encode() for text in found]


@pytest.mark.parametrize("name", FORMATS)
def test_records_are_read_as_by_tensorflow(name: str, tmp_path: Path, oracle: Any) -> None:
    op, defaults, inputs = FORMATS[name]
    paths = []
    for number, text in enumerate(texts(name)):
        (tmp_path / str(number)).write_bytes(text)
        paths.append([str(tmp_path / str(number))])
    paths += [paths[7] + paths[0] + paths[9], [str(tmp_path / "nowhere")]]
    given: dict[str, Any] = {"op": op, "defaults": defaults, "inputs": inputs, "paths": paths}
    want = oracle.run(THEIRS + SOURCE, **given)
    names: dict[str, Any] = {"tf": hr, "np": np, "raw": raw, **given}
    with hr.Graph().as_default():
        exec(SOURCE, names)
    for files, theirs, ours in zip(paths, want, names["result"], strict=True):
        text = [Path(each).read_bytes() for each in files if Path(each).exists()]
        assert len(theirs) == len(ours), (text, theirs[:9], ours[:9])
        for one, other in zip(theirs, ours, strict=True):
            if isinstance(one, str):
                assert isinstance(other, str), (text, one, other)
                assert other.split(":")[0] == one.split(":")[0], text
                match = ERROR.search(one)
                assert match[0] in other if match else one.startswith("NotFound"), (
                    text,
                    one,
                    other,
                )
            else:
                assert one == other, text


def raw(op: str, **given: Any) -> Any:
    from headrace.graph.registry import get

    return get(op)(**given)
