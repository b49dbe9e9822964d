"""Warm starts by vocabularies beside TensorFlow's: nodes, values, and what both say of what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb

SINCE_1_15 = ("_has_manual_control_dependencies", "allowed_devices")
OLD = "apple banana guava orange".split()
NEW = "orange guava banana apple raspberry blueberry".split()

SAVED = """
tf.get_variable("emb", initializer=np.arange(8, dtype=np.float32).reshape(4, 2))
tf.get_variable("lin", initializer=np.arange(12, dtype=np.float32).reshape(3, 4))
tf.get_variable("parts", [4, 2], partitioner=tf.fixed_size_partitioner(3), initializer=tf.ones_initializer())
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    result = tf.train.Saver().save(session, folder + "/m")
"""
STARTED = """
V = tf.train.VocabInfo
zeros, ones = tf.zeros_initializer(), tf.ones_initializer()
{body}
try:
    tf.train.warm_start(folder + "/m", ".*", infos, names)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        said = [each.tolist() for each in session.run(tf.global_variables())]
except Exception as error:
    said = type(error).__name__
result = tf.get_default_graph().as_graph_def().SerializeToString(), said
"""
EMB = 'tf.get_variable("emb", [{rows}, 2], initializer=zeros{more})'
LIN = 'tf.get_variable("lin", [3, {cols}], initializer=zeros{more})'


def emb(info: str, rows: int = 6, more: str = "") -> str:
    return f"{EMB.format(rows=rows, more=more)}\ninfos, names = {{'emb': V({info})}}, None"


def lin(info: str, cols: int = 6, more: str = "") -> str:
    return f"{LIN.format(cols=cols, more=more)}\ninfos, names = {{'lin': V({info})}}, None"


CASES = {
    "rows": emb("new, 6, 0, old"),
    "rows, words that are not in the vocabulary": emb("new, 6, 2, old, backup_initializer=ones", 8),
    "fewer words than the file has": emb("new, 3, 0, old, backup_initializer=ones", 3),
    "fewer words of the older one": emb("new, 6, 0, old, 2, ones"),
    "a larger vocabulary than the file has": emb("new, 8, 0, old"),
    "columns": lin("new, 6, 0, old, 3, ones, 1"),
    "columns, words that are not in the vocabulary": lin("new, 6, 2, old, axis=1", 8),
    "rows in parts": emb("new, 6, 0, old", 6, ", partitioner=tf.fixed_size_partitioner(2)"),
    "rows in parts, the last of other words": emb(
        "new, 6, 3, old, -1, ones", 9, ", partitioner=tf.fixed_size_partitioner(4)"
    ),
    "columns of parts of rows": lin(
        "new, 6, 2, old, 3, ones, 1", 8, ", partitioner=tf.fixed_size_partitioner(2)"
    ),
    "a resource variable of another name": """
tf.get_variable("e", [6, 2], initializer=zeros, use_resource=True)
infos, names = {"e": V(new, 6, 0, old)}, {"e": "emb"}
""",
    "beside others": f"""
{EMB.format(rows=6, more="")}
tf.get_variable("lin", [3, 4], initializer=zeros)
infos, names = {{"emb": V(new, 6, 0, old)}}, None
""",
    "a matrix that was saved in parts": """
tf.get_variable("e", [6, 2], initializer=zeros)
infos, names = {"e": V(new, 6, 0, old)}, {"e": "parts"}
""",
    # what does not fit
    "a smaller vocabulary": emb("new, 4, 0, old"),
    "fewer than no other words": emb("new, 6, -1, old"),
    "a larger older one": emb("new, 6, 0, old, 99"),
    "an older one of a size that cannot be": emb("new, 6, 0, old, -2"),
    "no size": emb("new, 0, 0, old"),
    "no such file": emb("'/none', 6, 0, old"),
    "no such older file": emb("new, 6, 0, '/none'"),
    "columns that are not": emb("new, 6, 0, old, axis=1"),
    "columns in parts": lin(
        "new, 6, 2, old, axis=1", 8, ", partitioner=tf.fixed_size_partitioner(2, 1)"
    ),
    "no such tensor": EMB.format(rows=6, more="")
    + '\ninfos, names = {"emb": V(new, 6, 0, old)}, {"emb": "zip"}',
    "a variable that is not there": EMB.format(rows=4, more="")
    + '\ninfos, names = {"nope": V(new, 6, 0, old)}, None',
    "integers": EMB.format(rows=6, more=", dtype=tf.int32")
    + '\ninfos, names = {"emb": V(new, 6, 0, old)}, None',
    "another rank": """
tf.get_variable("e", [6, 2, 2], initializer=zeros)
infos, names = {"e": V(new, 6, 0, old)}, {"e": "emb"}
""",
    "another width": """
tf.get_variable("e", [6, 3], initializer=zeros)
infos, names = {"e": V(new, 6, 0, old)}, {"e": "emb"}
""",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("vocabularies")
    (folder / "old").write_text("\n".join(OLD) + "\n")
    (folder / "new").write_text("\n".join(NEW))
    with tf.Graph().as_default():
        exec(SAVED, {"tf": tf, "np": np, "folder": str(folder)})
    return {"folder": str(folder), "old": str(folder / "old"), "new": str(folder / "new")}


def as_of_1_15(graph: pb.GraphDef) -> pb.GraphDef:
    for node in graph.node:
        for attr in SINCE_1_15:
            node.attr.pop(attr, None)
    return graph


@pytest.mark.parametrize("case", CASES)
def test_a_warm_start_builds_the_nodes_of_tensorflow_and_gives_its_values(
    oracle: Any, graph_differences: Any, files: dict[str, str], case: str
) -> None:
    source = STARTED.format(body=CASES[case])
    theirs, they_said = oracle.run(source, **files)
    with tf.Graph().as_default():
        names: dict[str, Any] = {"tf": tf, "np": np, **files}
        exec(source, names)
    ours, we_said = names["result"]
    assert we_said == they_said
    if not isinstance(we_said, str):
        found = [as_of_1_15(pb.GraphDef.FromString(each)) for each in (ours, theirs)]
        assert graph_differences(*found) == []


REMAPPINGS: list[tuple[list[str], list[str], dict[str, int]]] = [
    (NEW, OLD, {"num_new_vocab": 6, "new_vocab_offset": 0}),
    (NEW, OLD, {"num_new_vocab": 3, "new_vocab_offset": 2}),
    (NEW, OLD, {"num_new_vocab": 3, "new_vocab_offset": 4}),
    (NEW, OLD, {"num_new_vocab": 0, "new_vocab_offset": 0}),
    (NEW, OLD, {"num_new_vocab": 0, "new_vocab_offset": 6}),
    (NEW, OLD, {"num_new_vocab": 0, "new_vocab_offset": 7}),
    (NEW, OLD, {"num_new_vocab": 6, "new_vocab_offset": 0, "old_vocab_size": 2}),
    (NEW, OLD, {"num_new_vocab": 6, "new_vocab_offset": 0, "old_vocab_size": 9}),
    (NEW, ["a", "b", "a"], {"num_new_vocab": 6, "new_vocab_offset": 0}),
    (["a", "b", "a"], ["b", "a"], {"num_new_vocab": 3, "new_vocab_offset": 0}),
    (["a\r", "b\r"], ["b", "a"], {"num_new_vocab": 2, "new_vocab_offset": 0}),
    (["a", "", "b"], ["b", "a"], {"num_new_vocab": 2, "new_vocab_offset": 0}),
    (["a", "b"], ["b", "", "a"], {"num_new_vocab": 2, "new_vocab_offset": 0}),
    (["a", "b"], ["b", "", "a"], {"num_new_vocab": 2, "new_vocab_offset": 0, "old_vocab_size": 1}),
]
REMAPPED = """
try:
    found = op(new_vocab_file=new, old_vocab_file=old, **attrs)
    with tf.Session() as session:
        result = [each.tolist() for each in session.run(list(found))]
except Exception as error:
    result = type(error).__name__
"""


@pytest.mark.parametrize("row", range(len(REMAPPINGS)))
def test_words_are_found_where_tensorflow_finds_them(oracle: Any, tmp_path: Path, row: int) -> None:
    new, old, attrs = REMAPPINGS[row]
    for name, words in (("new", new), ("old", old)):
        (tmp_path / name).write_bytes("\n".join(words).encode())
    files = {"new": str(tmp_path / "new"), "old": str(tmp_path / "old")}
    theirs = oracle.run(f"op = tf.raw_ops.GenerateVocabRemapping\n{REMAPPED}", attrs=attrs, **files)
    with tf.Graph().as_default():
        names: dict[str, Any] = {"tf": tf, "attrs": attrs, **files}
        exec(
            f"from headrace.graph.registry import get\nop = get('GenerateVocabRemapping')\n{REMAPPED}",
            names,
        )
    assert names["result"] == theirs


MATRICES: list[tuple[str, list[int], list[int], list[float], int, int]] = [
    ("emb", [3, 0], [], [], 2, 2),
    ("emb", [3, -1, 0], [], [9, 8], 3, 2),
    ("emb", [3, -1, 0], [], [9], 3, 2),
    ("emb", [3, -1, 0], [], [9, 8, 7], 3, 2),
    ("emb", [3, 0], [1, 0], [], 2, 2),
    ("emb", [3, 0], [1], [], 2, 1),
    ("emb", [3, -1], [1, -1, 0], [1, 2, 3, 4], 2, 3),
    ("emb", [3, 3], [], [], 2, 2),
    ("emb", [3, 0], [0, 0], [], 2, 2),
    ("emb", [3], [], [], 2, 2),
    ("emb", [3, 0], [], [], 2, 3),
    ("emb", [-2, 0], [], [1, 2], 2, 2),
    ("emb", [], [], [], 0, 2),
    ("emb", [], [], [], 1, 2),
    ("none", [0], [], [], 1, 2),
    ("none", [-1], [], [1, 2], 1, 2),
    ("emb", [-1, -1], [], [1, 2, 3, 4], 2, 2),
    ("emb", [3, 0], [-1, -1], [1, 2, 3, 4], 2, 2),
    ("parts", [3, 0], [1, 0], [], 2, 2),
    ("emb", [0], [], [], -1, 2),
    ("emb", [0], [], [], 1, 0),
]
REMAPPED_MATRIX = """
try:
    made = op(ckpt_path=folder + "/m", old_tensor_name=name, row_remapping=tf.constant(rows, tf.int64),
              col_remapping=tf.constant(cols, tf.int64), initializing_values=tf.constant(new, tf.float32),
              num_rows=num_rows, num_cols=num_cols)
    with tf.Session() as session:
        result = made.shape.as_list(), session.run(made).tolist()
except Exception as error:
    result = type(error).__name__
"""


@pytest.mark.parametrize("row", range(len(MATRICES)))
def test_rows_and_columns_are_where_tensorflow_puts_them(
    oracle: Any, files: dict[str, str], row: int
) -> None:
    keys = ("name", "rows", "cols", "new", "num_rows", "num_cols")
    inputs = {"folder": files["folder"], **dict(zip(keys, MATRICES[row], strict=True))}
    theirs = oracle.run(f"op = tf.raw_ops.LoadAndRemapMatrix\n{REMAPPED_MATRIX}", **inputs)
    with tf.Graph().as_default():
        names: dict[str, Any] = {"tf": tf, **inputs}
        exec(
            f"from headrace.graph.registry import get\nop = get('LoadAndRemapMatrix')\n{REMAPPED_MATRIX}",
            names,
        )
    assert names["result"] == theirs
