"""RecordInput: every record once an epoch, mixed; and stacks of the first generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as tf
from headrace.codec.records import framed
from headrace.graph.registry import get
from headrace.python.ops.data_flow_ops import RecordInput


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


@pytest.fixture
def files(tmp_path: Path) -> str:
    """Three files of 4 records each: 0 to 11."""
    for number in range(3):
        records = [b"%d" % n for n in range(4 * number, 4 * number + 4)]
        (tmp_path / f"part-{number}").write_bytes(b"".join(map(framed, records)))
    return str(tmp_path / "part-*")


@pytest.mark.parametrize("buffer_size", [1, 5, 100])
def test_an_epoch_gives_every_record_once_in_another_order(files: str, buffer_size: int) -> None:
    batch = RecordInput(files, batch_size=4, buffer_size=buffer_size, seed=3).get_yield_op()
    with tf.Session() as session:
        epochs = [[r for _ in range(3) for r in session.run(batch).tolist()] for _ in range(3)]
    assert all(Counter(epoch) == Counter(b"%d" % n for n in range(12)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_a_seed_makes_the_order_repeatable(files: str) -> None:
    one, other, third = (
        RecordInput(files, batch_size=12, buffer_size=12, seed=seed).get_yield_op()
        for seed in (3, 3, 4)
    )
    with tf.Session() as session:
        first, second, different = session.run([one, other, third])
    assert first.tolist() == second.tolist() != different.tolist()


def test_files_are_turned_at_each_epoch(files: str) -> None:
    batch = RecordInput(files, batch_size=12, shift_ratio=0.4).get_yield_op()
    with tf.Session() as session:
        for _ in range(3):
            assert len(set(session.run(batch).tolist())) == 12


def test_several_batches_come_as_lists_of_scalars(files: str) -> None:
    lists = RecordInput(files, batch_size=2, batches=3).get_yield_op()
    assert [[t.shape.as_list() for t in batch] for batch in lists] == [[[], []]] * 3
    with tf.Session() as session:
        assert len({r for batch in session.run(lists) for r in batch}) == 6


def test_what_is_wrong_with_the_files_is_said(files: str, tmp_path: Path) -> None:
    (tmp_path / "corrupt").write_bytes(framed(b"x") + framed(b"record")[:-1])
    (tmp_path / "empty").write_bytes(b"")
    cases = [
        ("none-*", tf.errors.NotFoundError, "no file"),
        ("corrupt", tf.errors.DataLossError, "corrupt"),
        ("empty", tf.errors.OutOfRangeError, "no record"),
    ]
    for name, kind, text in cases:
        batch = RecordInput(str(tmp_path / name), batch_size=2).get_yield_op()
        with tf.Session() as session:
            for _ in range(2):
                with pytest.raises(kind, match=text):
                    session.run(batch)
    with pytest.raises(ValueError, match="compression_type"):
        RecordInput(files, compression_type="LZ4")
    for wrong in (RecordInput(files, batch_size=0), RecordInput(files, buffer_size=0)):
        with (
            tf.Session() as session,
            pytest.raises(tf.errors.InvalidArgumentError, match="at least 1"),
        ):
            session.run(wrong.get_yield_op())


def test_stacks_of_the_first_generation_work_too() -> None:
    handle = get("Stack")(elem_type=tf.int32)
    first = get("StackPush")(handle, 1)
    with tf.control_dependencies([first]):
        second = get("StackPush")(handle, 2)
    with tf.control_dependencies([second]):
        last = get("StackPop")(handle, elem_type=tf.int32)
    with tf.control_dependencies([last]):
        before = get("StackPop")(handle, elem_type=tf.int32)
    with tf.control_dependencies([before]):
        closed = get("StackClose")(handle)
    with tf.Session() as session:
        for _ in range(2):
            assert session.run([last, before, closed]) == [2, 1, None]
        with pytest.raises(tf.errors.InvalidArgumentError, match="float32"):
            session.run(get("StackPop")(get("Stack")(elem_type=tf.int32), elem_type=tf.float32))
