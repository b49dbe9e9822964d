"""What passes make of saving and restoring: values that stay in their file, variables that are taken at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops.io import checkpoints as io
from headrace.plan.explain import explaining
from headrace.run.checkpoints.reading import LeftInFile, Shard
from headrace.run.state.unread import Unread

BOTH = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "handle"])


def explained(session: tf.Session, fetches: Any, feeds: Any = None) -> tuple[Any, str]:
    said: list[str] = []
    with explaining(said.append):
        found = session.run(fetches, feeds)
    return found, "".join(said)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of the values that were read into a variable's own memory."""
    seen = []
    plain = LeftInFile.read_into

    def read_into(self: Any, array: Any) -> None:
        assert isinstance(self, Unread)
        seen.append(array.shape)
        plain(self, array)

    monkeypatch.setattr(LeftInFile, "read_into", read_into)
    return seen


@BOTH
def test_what_only_an_assignment_wants_is_read_into_the_variable(
    tmp_path: Path, left: list[tuple[int, ...]], use_resource: bool
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.arange(6.0).reshape(2, 3), name="x", use_resource=use_resource)
        empty = tf.Variable(np.zeros((0, 4)), name="e", use_resource=use_resource)
        number = tf.Variable(7, name="n", use_resource=use_resource)
        names = tf.Variable([b"a", b"b"], name="s", use_resource=use_resource)
        truth = tf.Variable([True, False], name="b", use_resource=use_resource)
        everything = [x, empty, number, names, truth]
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
        session.run([each.assign(tf.zeros_like(each)) for each in everything])
        saver.restore(session, path)
        found = session.run(everything)
    assert sorted(left) == [
        (),
        (0, 4),
        (2, 3),
    ]  # not strings, nor truths, whose bytes are looked at
    assert found[0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found[2] == 7
    assert found[3].tolist() == [b"a", b"b"]
    assert found[4].tolist() == [True, False]


def test_what_others_want_too_is_a_value(tmp_path: Path, left: list[tuple[int, ...]]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = (tf.Variable([1.0, 2.0], name=name) for name in "xy")
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
        raw = io.restore_v2(path, ["x", "y"], ["", ""], dtypes=[tf.float32] * 2)
        steps = [x.assign(raw[0]), y.assign(raw[1]), raw[1] * 2.0]
        found = session.run(steps)
    assert left == [(2,)]
    assert [each.tolist() for each in found] == [[1, 2], [1, 2], [2, 4]]


@BOTH
def test_a_variable_that_is_read_meanwhile_gets_other_memory(
    tmp_path: Path, use_resource: bool
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.ones(1 << 14), name="x", use_resource=use_resource)
        saver = tf.train.Saver()
        session.run(x.initializer)
        path = saver.save(session, str(tmp_path / "m"))
        session.run(x.assign_add(np.ones(1 << 14)))
        before = session.run(x)
        with tf.control_dependencies([tf.identity(x.read_value())]):
            saver.restore(session, path)
        assert {*before} == {2.0}
        assert {*session.run(x)} == {1.0}


def test_a_value_of_another_shape_is_refused_as_by_an_assignment(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.ones(3), name="x")
        session.run(x.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.ones(4), name="x")
        session.run(x.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[4\]"):
            tf.train.Saver().restore(session, path)
        assert session.run(x).tolist() == [1, 1, 1, 1]


def test_a_file_that_changes_after_it_was_checked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.ones(3), name="x")
        saver = tf.train.Saver()
        session.run(x.initializer)
        path = saver.save(session, str(tmp_path / "m"))
        plain = Shard.check

        def check(self: Any, stored: Any, scope: Any) -> None:
            plain(self, stored, scope)
            with (tmp_path / "m.data-00000-of-00001").open("ab") as file:
                file.write(b"more")

        monkeypatch.setattr(Shard, "check", check)
        with pytest.raises(tf.errors.DataLossError, match="was changed while it was restored"):
            saver.restore(session, path)


def test_savers_take_handles_themselves(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable([1.0], name="x", use_resource=True)
        y = tf.Variable([2.0], name="y")
        saver = tf.train.Saver()
        session.run([x.initializer, y.initializer])
        nodes = saver.saver_def
        fed = {nodes.filename_tensor_name: str(tmp_path / "m")}
        _, said = explained(session, nodes.save_tensor_name, fed)
        assert "saves: " in said
        assert "ReadVariableOp" not in said.rpartition("saves: ")[2]
        assert tf.train.load_variable(str(tmp_path / "m"), "x").tolist() == [1.0]


def test_a_read_that_this_step_orders_before_an_update_stays_before_it(tmp_path: Path) -> None:
    """What is saved then is what was read, and not what the variable has when it is saved."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.array([1.0]), name="x", use_resource=True)
        session.run(x.initializer)
        value = x.read_value()
        with tf.control_dependencies([value]):
            update = x.assign_add([10.0])
        with tf.control_dependencies([update.op]):
            path = tf.identity(str(tmp_path / "m"))
        save = io.save_v2(path, ["x"], [""], [value])
        session.run(save)
        assert tf.train.load_variable(str(tmp_path / "m"), "x").tolist() == [1.0]
        assert session.run(x).tolist() == [11.0]
