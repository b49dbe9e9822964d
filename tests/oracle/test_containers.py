"""Containers and shared names of every kind of state, on servers of both kinds: who finds what, and what a reset takes.

Each kind has a way to change its state and one to look at it.  What a second session sees of what a first one did
must be what it sees in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.registry import OPS
from headrace.ops.data.barriers import Barrier
from tests.interop.clusters import TENSORFLOW, Cluster
from tests.serve.clusters import in_process

KINDS = {
    # ops of that kind; how one is made; what changes it; what shows it
    "table": (
        "MutableHashTable MutableHashTableV2 MutableHashTableOfTensors MutableHashTableOfTensorsV2 "
        "MutableDenseHashTable MutableDenseHashTableV2 HashTable HashTableV2",
        "s = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.float32, shared_name=shared or '')",
        "[tf.raw_ops.LookupTableInsertV2(table_handle=s, keys=tf.constant(['a']), values=tf.constant([1.0]))]",
        "tf.raw_ops.LookupTableSizeV2(table_handle=s)",
    ),
    "variable": (
        "Variable VariableV2",
        "s = tf.Variable(0.0, name=shared or 'v', use_resource=False)",
        "[s.initializer, s.assign(5.0)]",
        "s",
    ),
    "resource variable": (
        "VarHandleOp",
        "s = tf.Variable(0.0, name=shared or 'v', use_resource=True)",
        "[s.initializer, s.assign(5.0)]",
        "s",
    ),
    "queue": (
        "FIFOQueue FIFOQueueV2",
        "s = tf.FIFOQueue(9, tf.float32, [[]], shared_name=shared)",
        "[s.enqueue(1.0)]",
        "s.size()",
    ),
    "shuffled queue": (
        "RandomShuffleQueue RandomShuffleQueueV2",
        "s = tf.RandomShuffleQueue(9, 0, tf.float32, [[]], shared_name=shared)",
        "[s.enqueue(1.0)]",
        "s.size()",
    ),
    "padding queue": (
        "PaddingFIFOQueue PaddingFIFOQueueV2",
        "s = tf.PaddingFIFOQueue(9, tf.float32, [[None]], shared_name=shared)",
        "[s.enqueue([[1.0]])]",
        "s.size()",
    ),
    "queue by priority": (
        "PriorityQueue PriorityQueueV2",
        "s = tf.PriorityQueue(9, tf.float32, [[]], shared_name=shared)",
        "[s.enqueue((tf.constant(1, tf.int64), 1.0))]",
        "s.size()",
    ),
    "reader of lines": (
        "TextLineReader TextLineReaderV2",
        "s = named(tf.TextLineReader(), shared)",
        "[tf.group(*s.read(files()))]",
        "s.num_records_produced()",
    ),
    "reader of files": (
        "WholeFileReader WholeFileReaderV2",
        "s = named(tf.WholeFileReader(), shared)",
        "[tf.group(*s.read(files()))]",
        "s.num_records_produced()",
    ),
    "reader of records": (
        "FixedLengthRecordReader FixedLengthRecordReaderV2",
        "s = named(tf.FixedLengthRecordReader(2), shared)",
        "[tf.group(*s.read(files()))]",
        "s.num_records_produced()",
    ),
    "reader of names": (
        "IdentityReader IdentityReaderV2",
        "s = named(tf.IdentityReader(), shared)",
        "[tf.group(*s.read(files()))]",
        "s.num_records_produced()",
    ),
    "reader of checked records": (
        "TFRecordReader TFRecordReaderV2",
        "s = named(tf.TFRecordReader(), shared)",
        "[tf.group(*s.read_up_to(files(empty=True), 1))]",
        "s.num_work_units_completed()",
    ),
    "staging area": (
        "Stage Unstage StagePeek StageSize StageClear",
        "s = StagingArea([tf.float32], [[]], shared_name=shared)",
        "[s.put([tf.constant(1.0)])]",
        "s.size()",
    ),
    "staging map": (
        "MapStage MapUnstage MapUnstageNoKey MapPeek MapSize MapIncompleteSize MapClear",
        "s = MapStagingArea([tf.float32], [[]], shared_name=shared)",
        "[s.put(tf.constant(3, tf.int64), [tf.constant(1.0)], [0])]",
        "s.size()",
    ),
    "ordered staging map": (
        "OrderedMapStage OrderedMapUnstage OrderedMapUnstageNoKey OrderedMapPeek OrderedMapSize "
        "OrderedMapIncompleteSize OrderedMapClear",
        "s = MapStagingArea([tf.float32], [[]], ordered=True, shared_name=shared)",
        "[s.put(tf.constant(3, tf.int64), [tf.constant(1.0)], [0])]",
        "s.size()",
    ),
    "accumulator": (
        "ConditionalAccumulator",
        "s = tf.ConditionalAccumulator(tf.float32, [], shared_name=shared)",
        "[s.apply_grad(1.0)]",
        "s.num_accumulated()",
    ),
    "accumulator of rows": (
        "SparseConditionalAccumulator",
        "s = tf.SparseConditionalAccumulator(tf.float32, [None], shared_name=shared)",
        "[s.apply_grad(tf.constant([1], tf.int64), [2.0], [3])]",
        "s.num_accumulated()",
    ),
}
# Over gRPC TensorFlow's own client hangs with a barrier.
BARRIER = (
    "s = Barrier([tf.float32], [[]], shared_name=shared)",
    "[s.insert_many(0, ['a', 'b'], [1.0, 2.0])]",
    "s.ready_size()",
)
ELSEWHERE = {
    "Barrier",
    "ResourceConditionalAccumulator",  # on the same state as ConditionalAccumulator; for GPUs
    # Written and read in one step.
    "AddSparseToTensorsMap", "AddManySparseToTensorsMap", "TakeManySparseFromTensorsMap",
    "LMDBReader",  # TensorFlow's wheel has no LMDB
    "BatchFunction",  # what it holds shows only while steps wait (ops/test_batch_functions.py)
    "MutexV2",  # what it holds shows only while it is held (test_critical_sections.py)
    "SummaryWriter",  # what it holds is a file (test_graph_writers.py)
    # Where they are is where elements come from (ops/test_iterators.py, run/data/test_iterators.py).
    "Iterator", "IteratorV2", "OneShotIterator",
    # What it holds shows only when a dataset was measured (library/test_dataset_stats.py).
    "StatsAggregatorHandle", "ExperimentalStatsAggregatorHandle",
}  # fmt: skip

PROGRAM = """
def named(reader, shared):
    reader.reader_ref.op._set_attr("shared_name", AttrValue(s=(shared or "").encode()))
    return reader

def files(empty=False):
    q = tf.FIFOQueue(9, tf.string, [[]])
    fill.append(q.enqueue_many([[path + ".empty" if empty else path] * 3]))
    fill.append(q.close())
    return q

def step(container, shared, change):
    "What is there, or the class of the error, after a change or none, in a session and a graph of their own."
    with tf.Graph().as_default(), tf.Session(target) as session, tf.container(container):
        del fill[:]
        MAKE
        changes = CHANGED if change else []
        look = SHOWN
        try:
            for op in [*fill, *changes]:
                session.run(op)
        except tf.errors.OutOfRangeError:
            pass
        try:
            return float(session.run(look))
        except tf.errors.OpError as error:
            return type(error).__name__

tf.Session.reset(target)
tf.Session.reset(target, ["box", "crate"])
fill = []
result = {
    "changed": step("box", "one", True),
    "another session": step("box", "one", False),
    "another name": step("box", "other", False),
    "another container": step("crate", "one", False),
    "the default container": step("", "one", False),
    "changed again": step("box", "one", True),
    "anonymous": step("box", None, True),
    "anonymous in another session": step("box", None, False),
    "in the default container": step("", "one", True),
}
tf.Session.reset(target, ["crate"])
result["another was reset"] = step("box", "one", False)
tf.Session.reset(target)
result["the default was reset"] = step("", "one", False)
result["and not the others"] = step("box", "one", False)
tf.Session.reset(target, ["box", "crate"])
result["it was reset"] = step("box", "one", False)
"""
ORACLE = """
from tensorflow.core.framework.attr_value_pb2 import AttrValue
from tensorflow.python.ops.data_flow_ops import MapStagingArea, StagingArea
"""


@pytest.fixture(scope="module")
def theirs_at(oracle_python: str) -> Iterator[str]:
    """Target of a TensorFlow server in a process of its own."""
    cluster = Cluster({"local:0": TENSORFLOW}, oracle_python)
    yield cluster.target("local:0")
    cluster.close()


def written(make: str, changed: str, shown: str) -> str:
    """The program of one kind."""
    return PROGRAM.replace("MAKE", make).replace("CHANGED", changed).replace("SHOWN", shown)


def ours(program: str, path: Path) -> Any:
    with in_process({"local": 1}) as cluster:
        names: dict[str, Any] = {
            "tf": tf, "target": cluster.target("local:0"), "AttrValue": pb.AttrValue,
            "StagingArea": tf.contrib.staging.StagingArea, "Barrier": Barrier,
            "MapStagingArea": tf.contrib.staging.MapStagingArea, "path": str(path),
        }  # fmt: skip
        exec(program, names)
    return names["result"]


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_found_and_reset_as_in_tensorflow(
    oracle: Any, theirs_at: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "lines"
    path.write_text("one\ntwo\n")
    (tmp_path / "lines.empty").write_text("")
    program = written(*KINDS[kind][1:])
    theirs = oracle.run(ORACLE + program, target=theirs_at, path=str(path))
    found = ours(program, path)
    assert found == theirs
    assert len(set(map(str, theirs.values()))) > 1  # there is something to see


def test_barriers_are_found_and_reset_as_accumulators(tmp_path: Path) -> None:
    one_at_a_time = ours(written(*KINDS["accumulator"][1:]), tmp_path)
    two_at_a_time = ours(written(*BARRIER), tmp_path)
    assert two_at_a_time == {what: 2 * count for what, count in one_at_a_time.items()}


def test_every_op_that_has_a_container_is_of_one_of_these_kinds() -> None:
    asked = {op for ops, *_ in KINDS.values() for op in ops.split()} | ELSEWHERE
    assert {name for name, spec in OPS.items() if "container" in spec.attrs} - asked == set()
    assert asked <= set(OPS)
