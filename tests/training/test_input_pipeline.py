"""Iterators in checkpoints: saved in one session, taken up in another, and by a process after one that was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.training.saver.checkpoint_management import latest_checkpoint

Dataset = tf.data.Dataset
make_saveable = tf.data.experimental.make_saveable_from_iterator

PIPELINES: dict[str, Callable[[str], Any]] = {
    "range": lambda path: Dataset.range(12),
    "slices": lambda path: Dataset.from_tensor_slices([*range(12)]),
    "map": lambda path: Dataset.range(12).map(lambda x: x * x),
    "parallel map": lambda path: Dataset.range(12).map(lambda x: x * x, num_parallel_calls=3),
    "filter": lambda path: Dataset.range(24).filter(lambda x: tf.equal(x % 2, 0)),
    "batch": lambda path: Dataset.range(30).batch(2),
    "shuffle": lambda path: Dataset.range(12).shuffle(5, seed=3),
    "shuffle and repeat": lambda path: Dataset.range(6).shuffle(4, seed=3).repeat(3),
    "take and skip": lambda path: Dataset.range(40).skip(3).take(15),
    "interleave": lambda path: Dataset.range(5).interleave(
        lambda x: Dataset.range(x, x + 3), cycle_length=2, block_length=2
    ),
    "flat_map": lambda path: Dataset.range(5).flat_map(lambda x: Dataset.range(x, x + 3)),
    "prefetch": lambda path: Dataset.range(12).prefetch(3),
    "zip": lambda path: Dataset.zip((Dataset.range(12), Dataset.range(12).shuffle(3, seed=1))),
    "cache": lambda path: Dataset.range(6).cache().repeat(2),
    "lines": lambda path: tf.data.TextLineDataset(path).repeat(2),
    "padded batch": lambda path: (
        Dataset.range(24).map(lambda x: tf.fill([x % 3], x)).padded_batch(2, [None])
    ),
    "a dataset of a dataset": lambda path: (
        Dataset.from_tensors(Dataset.range(12)).flat_map(lambda each: each)
    ),
    "datasets beside each other": lambda path: (
        Dataset.from_tensors((Dataset.range(7).map(lambda x: x * x), Dataset.range(9).shuffle(4, seed=2)))
        .repeat(2)
        .interleave(lambda a, b: Dataset.zip((a, b)), cycle_length=2)
    ),
    "datasets that wait": lambda path: (
        Dataset.range(9)
        .flat_map(lambda x: Dataset.from_tensors(Dataset.range(x, x + 3)))
        .shuffle(4, seed=1)
        .flat_map(lambda each: each)
    ),
    "a dataset in a dataset in a dataset": lambda path: (
        Dataset.from_tensors(Dataset.from_tensors(Dataset.range(12)).map(lambda each: each.batch(1)))
        .flat_map(lambda each: each)
        .flat_map(lambda each: each)
    ),
    "windows of keys": lambda path: Dataset.range(30).apply(
        tf.data.experimental.group_by_window(
            lambda x: x % 2, lambda key, window: Dataset.from_tensors(window), window_size=4
        )
    ).shuffle(2, seed=1).flat_map(lambda each: each),
    "windows": lambda path: Dataset.range(24).window(4).flat_map(lambda each: each),
    "batches of windows": lambda path: (
        Dataset.range(40).window(4, stride=2).map(lambda each: each.batch(1)).flat_map(lambda each: each)
    ),
    "shuffled windows": lambda path: (
        Dataset.range(24).window(2).shuffle(4, seed=1).interleave(lambda each: each, cycle_length=2)
    ),
    "windows of windows": lambda path: (
        Dataset.range(24).window(2).window(3).flat_map(lambda each: each.flat_map(lambda one: one))
    ),
    "windows of strings and pairs": lambda path: (
        Dataset.zip((Dataset.range(6).repeat(), tf.data.TextLineDataset(path).repeat(3)))
        .window(3).flat_map(lambda a, b: Dataset.zip((a.map(lambda x: -x), b)))
    ),
    "ragged tensors": lambda path: (
        Dataset.from_tensor_slices(tf.ragged.constant([[x] * (x % 3) for x in range(1, 22)]))
        .shuffle(4, seed=1).batch(2).prefetch(2)
    ),
    "optionals": lambda path: (
        Dataset.range(12).map(lambda x: tf.data.experimental.Optional.from_value((x, tf.ragged.range([x]))))
        .shuffle(4, seed=1).map(lambda each: each.get_value()[1].values)
    ),
    "datasets that a function gives": lambda path: (
        Dataset.range(8).map(lambda x: Dataset.range(x, x + 3)).flat_map(lambda each: each)
    ),
}  # fmt: skip


def plain(value: Any) -> Any:
    """Elements, to be compared."""
    return (
        [plain(each) for each in value]
        if isinstance(value, tuple)
        else value.to_list()
        if isinstance(value, tf.ragged.RaggedTensorValue)
        else value.tolist()
        if hasattr(value, "tolist")
        else value
    )


@pytest.mark.parametrize("name", PIPELINES)
def test_another_session_goes_on_where_the_checkpoint_was_written(
    name: str, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"line {n}\n" for n in range(6)))
    prefix = str(tmp_path / "m")
    with tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(PIPELINES[name](str(lines)))
        element, saver = iterator.get_next(), tf.train.Saver([make_saveable(iterator)])
        with tf.Session() as session:
            session.run(iterator.initializer)
            for _ in range(4):
                session.run(element)
            saver.save(session, prefix)
            expected = [plain(session.run(element)) for _ in range(5)]
    with tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(PIPELINES[name](str(lines)))
        element, saver = iterator.get_next(), tf.train.Saver([make_saveable(iterator)])
        with tf.Session() as session:
            session.run(iterator.initializer)
            saver.restore(session, prefix)
            assert [plain(session.run(element)) for _ in range(5)] == expected


def test_what_functions_remember_is_refused_or_left_out(tmp_path: Path) -> None:
    iterator = tf.data.make_initializable_iterator(
        Dataset.range(5).map(lambda x: tf.random_uniform([], seed=1))
    )
    element, prefix = iterator.get_next(), str(tmp_path / "m")
    savers = {p: tf.train.Saver([make_saveable(iterator, p)]) for p in ("fail", "warn", "ignore")}
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run(element)
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"is stateful.*'warn'"):
            savers["fail"].save(session, prefix)
        assert savers["warn"].save(session, prefix)
        assert savers["ignore"].save(session, prefix)
    with pytest.raises(ValueError, match="Received huh"):
        make_saveable(iterator, "huh")


def test_another_dataset_does_not_take_the_position(tmp_path: Path) -> None:
    made = [
        tf.data.make_initializable_iterator(each)
        for each in (Dataset.range(5), Dataset.range(5).map(lambda x: x + 1))
    ]
    one, other = map(make_saveable, made)
    prefix = str(tmp_path / "m")
    other.specs[0].name = one.specs[0].name
    with tf.Session() as session:
        session.run([each.initializer for each in made])
        tf.train.Saver([one]).save(session, prefix)
        with pytest.raises(tf.errors.InvalidArgumentError, match="that of another dataset"):
            tf.train.Saver([other]).restore(session, prefix)


def test_the_hook_wants_a_directory_and_an_iterator(tmp_path: Path) -> None:
    Hook = tf.data.experimental.CheckpointInputPipelineHook
    with pytest.raises(ValueError, match="needs an estimator, or checkpoint_dir"):
        Hook()
    hook = Hook(checkpoint_dir=str(tmp_path), save_steps=1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="no iterator"):
        hook.begin()


PROGRAM = """
import os, signal, sys
import headrace as tf
directory, dies_at = sys.argv[1], int(sys.argv[2])
dataset = tf.data.Dataset.range(10).map(lambda x: x * 3).shuffle(6, seed=5).repeat(2).prefetch(2)
iterator = tf.data.make_initializable_iterator(dataset)
tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
element = iterator.get_next()
step = tf.train.get_or_create_global_step()
with tf.control_dependencies([element]):
    train = tf.assign_add(step, 1)
hook = tf.data.experimental.CheckpointInputPipelineHook(checkpoint_dir=directory, save_steps=3)
with tf.train.MonitoredTrainingSession(
    checkpoint_dir=directory, save_checkpoint_steps=3, save_checkpoint_secs=None, hooks=[hook]
) as session:
    while not session.should_stop():
        try:
            value, at = session.run([element, train])
        except tf.errors.OutOfRangeError:
            break
        print(at, value, flush=True)
        if at == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def elements(directory: Path, dies_at: int) -> dict[int, int]:
    """What each step took, in a process that kills itself after one of them (0: never)."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory), str(dies_at)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == (-signal.SIGKILL if dies_at else 0), found.stderr
    return {int(at): int(value) for at, value in map(str.split, found.stdout.splitlines())}


@pytest.mark.timeout(400)  # of three processes
def test_a_process_goes_on_where_a_killed_one_has_saved(tmp_path: Path) -> None:
    whole = elements(tmp_path / "whole", 0)
    assert sorted(whole) == [*range(1, 21)]
    first = elements(tmp_path / "killed", 8)
    saved = latest_checkpoint(str(tmp_path / "killed"), "checkpoint_input")
    assert saved is not None
    assert saved.endswith(("input.ckpt-6", "input.ckpt-7"))
    second = elements(tmp_path / "killed", 0)
    assert first == {at: whole[at] for at in range(1, 9)}
    assert min(second) == int(saved.rpartition("-")[2]) + 1
    assert second == {at: whole[at] for at in second}
    assert max(second) == 20
