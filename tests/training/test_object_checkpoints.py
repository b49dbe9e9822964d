"""tf.train.Checkpoint and its manager where TensorFlow is not there to compare with, or does otherwise."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.registry import get
from headrace.training.objects import manager as manager_module
from headrace.training.objects.object_graph import ObjectGraph
from headrace.training.saver.saveables import SaveableObject, SaveSpec
from headrace.training.saver.saved_objects import GRAPH_KEY
from tests.serve.clusters import in_process


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        yield


def initialized() -> tf.Session:
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return session


def keys(root: Any) -> list[str]:
    """As they are in the file, of all but the counter."""
    message, _ = ObjectGraph(root).described()
    found = [each.checkpoint_key for node in message.nodes for each in node.attributes]
    return [each.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE") for each in found]


# -- layers and cells, with the keys of TensorFlow 2.21 and its Keras 2 -----------------------------


def test_layers_have_their_variables_under_their_names() -> None:
    dense, conv = tf.layers.Dense(3), tf.layers.Conv2D(2, 3)
    norm, separable = tf.layers.BatchNormalization(), tf.layers.SeparableConv2D(2, 3)
    dense(tf.ones([2, 4]))
    conv(tf.ones([1, 5, 5, 1]))
    norm(tf.ones([2, 4]), training=True)
    separable(tf.ones([1, 5, 5, 1]))
    root = tf.train.Checkpoint(dense=dense, conv=conv, norm=norm, separable=separable)
    assert sorted(keys(root)) == sorted(
        "dense/kernel dense/bias conv/kernel conv/bias norm/gamma norm/beta norm/moving_mean norm/moving_variance "
        "separable/depthwise_kernel separable/pointwise_kernel separable/bias".split()
    )


def test_cells_have_their_variables_and_the_cells_within_them() -> None:
    cells = tf.nn.rnn_cell
    multi = cells.MultiRNNCell([cells.BasicLSTMCell(2), cells.GRUCell(2)])
    tf.nn.static_rnn(multi, [tf.ones([2, 3])], dtype=tf.float32)
    drop = cells.DropoutWrapper(cells.BasicRNNCell(2), 0.5)
    residual = cells.ResidualWrapper(cells.LSTMCell(3, use_peepholes=True, num_proj=3))
    for wrapper in (drop, residual):
        wrapper(tf.ones([2, 3]), wrapper.zero_state(2, tf.float32))
    root = tf.train.Checkpoint(cell=multi, drop=drop, residual=residual)
    assert sorted(keys(root)) == sorted(
        "cell/cell-0/kernel cell/cell-0/bias cell/cell-1/gates.Skernel cell/cell-1/gates.Sbias "
        "cell/cell-1/candidate.Skernel cell/cell-1/candidate.Sbias drop/cell/kernel drop/cell/bias "
        "residual/cell/kernel residual/cell/bias residual/cell/w_f_diag residual/cell/w_i_diag residual/cell/w_o_diag "
        "residual/cell/projection.Skernel".split()
    )


def test_a_layer_is_restored_when_it_is_first_called() -> None:
    made = tf.layers.Dense(3)
    made(tf.ones([2, 4]))
    with initialized() as session:
        path = tf.train.Checkpoint(layer=made).save("./m", session)
        wanted = session.run(made.kernel)
    with tf.Graph().as_default(), tf.Session() as session:
        later = tf.layers.Dense(3)
        status = tf.train.Checkpoint(layer=later).restore(path)
        later(tf.ones([2, 4]))
        status.assert_consumed().run_restore_ops()
        assert session.run(later.kernel).tolist() == wanted.tolist()


# -- what a program sees ----------------------------------------------------------------------------


def test_without_a_session_it_is_said_what_to_do() -> None:
    root = tf.train.Checkpoint(a=tf.Variable(1.0))
    with pytest.raises(ValueError, match="give `session`"):
        root.save("./m")
    with initialized() as session:
        path = root.save("./m", session)
    with pytest.raises(ValueError, match="give `session`"):
        root.restore(path).run_restore_ops()


def test_values_that_are_not_used_are_told_once_the_checkpoint_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    optimizer.minimize(a * b)
    with initialized() as session:
        path = tf.train.Checkpoint(a=a, b=b, o=optimizer).save("./m", session)
        tf.train.Checkpoint(a=a).restore(path).expect_partial()
        gc.collect()
        assert caplog.text == ""
        tf.train.Checkpoint(a=a).restore(path)
        gc.collect()
    assert "3 of its values were not used" in caplog.text
    assert "(root).b, (root).o's state 'momentum' for (root).a" in caplog.text


def test_names_of_a_saver_are_restored_and_what_it_lacks_is_said() -> None:
    a = tf.get_variable("a", initializer=[1.0, 2.0])
    with initialized() as session:
        path = tf.train.Saver([a]).save(session, "./m")
        session.run(a.assign([5.0, 6.0]))
        root = tf.train.Checkpoint(whatever=[a])
        status = root.restore(path)
        with pytest.raises(AssertionError, match="not restored"):
            status.assert_consumed()
        status.initialize_or_restore(session)
        status.assert_consumed()
        assert session.run(a).tolist() == [1.0, 2.0]
        assert session.run(root.save_counter) == 0
        root.more = tf.get_variable("more", [2])
        with pytest.raises(tf.errors.NotFoundError, match="more"):
            status.run_restore_ops(session)


@pytest.mark.parametrize(
    "text", [b"\xff\xff\xff", b"\x0a\x04\x0a\x02\x08\x63"], ids=["no message", "no such object"]
)
def test_a_damaged_description_of_the_objects_is_data_loss(text: bytes) -> None:
    objects = tf.constant(text)
    with tf.Session() as session:
        session.run(get("SaveV2")("./m", [GRAPH_KEY], [""], [objects]))
    with pytest.raises(tf.errors.DataLossError, match=GRAPH_KEY):
        tf.train.Checkpoint(a=tf.Variable(1.0)).restore("./m")


def test_an_object_of_ones_own_says_what_it_saves() -> None:
    class Counter(type(tf.train.Checkpoint())):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._self_state = tf.Variable(3.0, name="state")

        def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
            return {"count": self._saveable}

        def _saveable(self, name: str) -> SaveableObject:
            state = self._self_state

            class Counted(SaveableObject):
                def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
                    return state.assign(restored_tensors[0] - 1.0)

            return Counted(state, [SaveSpec(state + 1.0, "", name)], name)

    counter = Counter()
    root = tf.train.Checkpoint(counter=counter)
    with initialized() as session:
        path = root.save("./m", session)
        session.run(counter._self_state.assign(9.0))
        root.restore(path).assert_consumed().run_restore_ops(session)
        assert session.run(counter._self_state) == 3.0
    assert tf.train.load_variable(path, "counter/.ATTRIBUTES/count") == 4.0


# -- lists, dicts, tuples ---------------------------------------------------------------------------


class Pair(NamedTuple):
    left: Any
    right: Any


def test_wrapped_lists_dicts_and_tuples_are_what_they_were() -> None:
    a = tf.Variable(1.0)
    given: list[Any] = [1, [2]]
    named = {"k": [3]}
    root = tf.train.Checkpoint(z=given, d=named, o=OrderedDict(b=1, a=2))
    root.pair = Pair(a, [4])
    root.z.append(5)
    assert given == root.z == [1, [2], 5]
    assert json.dumps([root.z, root.d, root.o]) == '[[1, [2], 5], {"k": [3]}, {"b": 1, "a": 2}]'
    assert pickle.loads(pickle.dumps([root.z, root.d, root.o])) == [given, named, root.o]
    assert copy.deepcopy(root.z) == given
    assert (root.pair.left, root.pair[1]) == (a, [4])
    assert isinstance(root.pair, Pair)
    assert repr(root.z) == "ListWrapper([1, ListWrapper([2]), 5])"
    root.z.sort(key=str)
    assert (root.z[1:], root.z * 2) == ([5, [2]], [1, 5, [2]] * 2)
    root.z *= 0
    assert given == root.z == []


def test_an_element_of_a_dict_can_go() -> None:
    """In TensorFlow, that dict cannot be saved any more."""
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    root = tf.train.Checkpoint(d={"a": a, "b": b, "c": a, "e": b})
    root.d.pop("a")
    del root.d["b"]
    assert root.d.popitem() == ("e", b)
    assert root.d.setdefault("f", a) is a
    assert root.d.pop("none", 3) == 3
    assert keys(root) == ["d/c"]
    assert set(root.d) == {"c", "f"}
    root.d.clear()
    root.d |= {"g": b}
    assert keys(root) == ["d/g"]
    with pytest.raises(KeyError):
        root.d.pop("none")


def test_an_attribute_that_is_deleted_is_saved_no_more() -> None:
    root = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0))
    del root.a
    assert keys(root) == ["b"]


# -- the manager ------------------------------------------------------------------------------------


def test_a_checkpoint_every_so_many_hours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr(manager_module.time, "time", lambda: now)
    with initialized() as session:
        root = tf.train.Checkpoint(a=tf.Variable(1.0))
        session.run(root.a.initializer)
        manager = tf.train.CheckpointManager(root, "d", 1, keep_checkpoint_every_n_hours=2)
        for _ in range(6):
            now += 3600
            manager.save()
        there = sorted(each for each in os.listdir("d") if each.endswith(".index"))
        assert there == ["ckpt-2.index", "ckpt-4.index", "ckpt-6.index"]
        assert manager.checkpoints == ["d/ckpt-6"]


def test_a_clock_that_went_back_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1e9
    monkeypatch.setattr(manager_module.time, "time", lambda: now)
    with initialized() as session:
        root = tf.train.Checkpoint(a=tf.Variable(1.0))
        session.run(root.a.initializer)
        tf.train.CheckpointManager(root, "d", 1).save()
        now -= 1e6
        tf.train.CheckpointManager(root, "d", 1).save()
    assert "clocks differ" in caplog.text


def test_what_cannot_be_deleted_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: str) -> None:
        raise tf.errors.PermissionDeniedError(None, None, f"{path} stays")

    monkeypatch.setattr(manager_module, "remove_checkpoint", refused)
    with initialized() as session:
        root = tf.train.Checkpoint(a=tf.Variable(1.0))
        session.run(root.a.initializer)
        manager = tf.train.CheckpointManager(root, "d", 1)
        manager.save()
        manager.save()
        assert len(manager.checkpoints) == 1
    assert "ckpt-1 stays" in caplog.text


def test_the_description_is_read_as_it_was_written() -> None:
    with initialized() as session:
        root = tf.train.Checkpoint(a=[tf.Variable(1.0)])
        session.run(root.a[0].initializer)
        path = root.save("./m", session)
    message = pb.TrackableObjectGraph.FromString(tf.train.load_variable(path, GRAPH_KEY))
    assert message == ObjectGraph(root).described()[0]


# -- clusters ---------------------------------------------------------------------------------------


def test_each_task_writes_its_variables_and_restores_them() -> None:
    with in_process({"ps": 2, "worker": 1}) as cluster:
        with tf.device("/job:ps/task:0"):
            a = tf.get_variable("a", [2], initializer=tf.ones_initializer())
        with tf.device("/job:ps/task:1"):
            b = tf.get_variable("b", [2], initializer=tf.ones_initializer(), use_resource=True)
        optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
        train = optimizer.minimize(tf.reduce_sum(a * b))
        root = tf.train.Checkpoint(a=a, b=b, optimizer=optimizer)
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(tf.global_variables_initializer())
            session.run(train)
            manager = tf.train.CheckpointManager(root, "saved", 2)
            path = manager.save()
            wanted = [
                each.tolist() for each in session.run([a, b, optimizer.get_slot(b, "momentum")])
            ]
            session.run(tf.global_variables_initializer())
            root.restore(path).assert_consumed().run_restore_ops()
            found = session.run([a, b, optimizer.get_slot(b, "momentum")])
            assert [each.tolist() for each in found] == wanted == [[0.5, 0.5], [0.5, 0.5], [1, 1]]
    assert len([each for each in os.listdir("saved") if ".data-" in each]) == 3


def test_a_restore_from_a_checkpoint_that_is_cut_short_changes_nothing() -> None:
    a = tf.get_variable("a", initializer=[1.0, 2.0])
    root = tf.train.Checkpoint(a=a)
    with initialized() as session:
        path = root.save("./m", session)
        data = Path(f"{path}.data-00000-of-00001")
        content = bytearray(data.read_bytes())
        content[1] ^= 1
        data.write_bytes(content)
        session.run(a.assign([5.0, 6.0]))
        status = root.restore(path)
        with pytest.raises(tf.errors.DataLossError, match=r"a/\.ATTRIBUTES/VARIABLE_VALUE"):
            status.run_restore_ops(session)
        assert session.run(a).tolist() == [5.0, 6.0]
