"""tf.train.Saver: what is saved comes back, how many are kept, and what the files beside checkpoints say."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from headrace.training.saver import remapping


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        yield


def initialized(**arguments: Any) -> tf.Session:
    session = tf.Session(**arguments)
    session.run(tf.global_variables_initializer())
    return session


def names() -> list[str]:
    return sorted(os.listdir("."))


def three_kinds() -> list[tf.Variable]:
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(3)):
        tf.get_variable("whole", [7, 2])
        tf.get_variable("held", [7, 2], use_resource=True)
    tf.Variable(tf.random_normal([3]), name="ref")
    tf.Variable(tf.random_normal([3]), name="held", use_resource=True)
    tf.Variable(["a", "bc"], name="text")
    return tf.global_variables()


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2])
def test_variables_of_every_kind_come_back(sharded: bool, version: Any) -> None:
    variables = three_kinds()
    saver = tf.train.Saver(sharded=sharded, write_version=version)
    with initialized() as session:
        wanted = session.run(variables)
        path = saver.save(session, "./m", global_step=4)
    with tf.Session() as session:
        saver.restore(session, path)
        for found, value in zip(session.run(variables), wanted, strict=True):
            assert np.array_equal(found, value)


def test_parts_come_back_cut_otherwise() -> None:
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(3)):
        whole = tf.get_variable("x", [7, 2])
    with initialized() as session:
        wanted = session.run(tf.convert_to_tensor(whole))
        tf.train.Saver().save(session, "./m", write_meta_graph=False)
    for partitioner in (None, tf.fixed_size_partitioner(2), tf.fixed_size_partitioner(2, axis=1)):
        with tf.Graph().as_default(), tf.Session() as session:
            with tf.variable_scope("", partitioner=partitioner):
                other = tf.get_variable("x", [7, 2])
            tf.train.Saver().restore(session, "./m")
            assert np.array_equal(session.run(tf.convert_to_tensor(other)), wanted)


def test_a_value_of_another_shape_comes_back_where_that_is_asked_for() -> None:
    tf.Variable(np.arange(6.0), name="x")
    with initialized() as session:
        tf.train.Saver().save(session, "./m")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable(np.zeros((2, 3)), name="x")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)mismatch.*\[2,3\].*\[6\]"):
            tf.train.Saver().restore(session, "./m")
        tf.train.Saver(reshape=True).restore(session, "./m")
        assert session.run(x).tolist() == np.arange(6.0).reshape(2, 3).tolist()


def test_a_changed_graph_is_told_all_that_is_missing() -> None:
    tf.Variable(1.0, name="x")
    with initialized() as session:
        tf.train.Saver().save(session, "./m")
    with tf.Graph().as_default(), tf.Session() as session:
        for name in ("x", "y", "z"):
            tf.Variable(1.0, name=name)
        with pytest.raises(
            tf.errors.NotFoundError,
            match=r"(?s)most likely due to a Variable name.*Key y .*2 of the 3.*: z",
        ) as raised:
            tf.train.Saver().restore(session, "./m")
        assert raised.value.op.name == "save/RestoreV2"


def test_so_many_are_kept() -> None:
    step = tf.Variable(0, name="step")
    saver = tf.train.Saver(max_to_keep=2, pad_step_number=True)
    with initialized() as session:
        for _ in range(4):
            session.run(step.assign_add(1))
            saver.save(session, "./m", global_step=step)
        assert saver.last_checkpoints == ["./m-00000003", "./m-00000004"]
    assert names() == ["checkpoint"] + [
        f"m-0000000{at}.{kind}"
        for at in (3, 4)
        for kind in ("data-00000-of-00001", "index", "meta")
    ]
    assert tf.train.latest_checkpoint(".") == "./m-00000004"
    state = tf.train.get_checkpoint_state(".")
    assert list(state.all_model_checkpoint_paths) == ["./m-00000003", "./m-00000004"]


@pytest.mark.parametrize("keep", [0, None])
def test_all_are_kept(keep: int | None) -> None:
    tf.Variable(0)
    saver = tf.train.Saver(max_to_keep=keep)
    with initialized() as session:
        for at in range(7):
            saver.save(session, "./m", at, write_meta_graph=False)
    assert len(names()) == 15
    assert saver.last_checkpoints == []


def test_one_in_so_many_hours_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("headrace.training.saver.saver.time.time", lambda: now[0])
    tf.Variable(0)
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1)
    with initialized() as session:
        for at in range(6):
            now[0] += 1900
            saver.save(session, "./m", at, write_meta_graph=False)
    kept = [name.removesuffix(".index") for name in names() if name.endswith(".index")]
    assert kept == ["m-1", "m-3", "m-5"]


def test_a_saver_goes_on_where_another_ended() -> None:
    tf.Variable(0)
    saver = tf.train.Saver(max_to_keep=2)
    with initialized() as session:
        for at in range(2):
            saver.save(session, "./m", at, write_meta_graph=False)
        other = tf.train.Saver(max_to_keep=2)
        other.recover_last_checkpoints(["./m-0", "./gone", "./m-1"])
        assert other.last_checkpoints == ["./m-0", "./m-1"]
        other.save(session, "./m", 2, write_meta_graph=False)
    assert [name for name in names() if name.endswith("index")] == ["m-1.index", "m-2.index"]


def test_a_directory_moves_with_its_relative_paths(tmp_path: Path) -> None:
    tf.Variable(0)
    (tmp_path / "old").mkdir()
    with initialized() as session:
        tf.train.Saver(save_relative_paths=True).save(session, str(tmp_path / "old" / "m"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert tf.train.latest_checkpoint(tmp_path / "new") == str(tmp_path / "new" / "m")


def test_a_saver_of_a_message_uses_the_nodes_that_are_there() -> None:
    x = tf.Variable(1.0)
    given = tf.train.Saver(name="mine", max_to_keep=3).to_proto()
    nodes = len(tf.get_default_graph().get_operations())
    saver = tf.train.Saver.from_proto(given)
    assert len(tf.get_default_graph().get_operations()) == nodes
    with initialized() as session:
        saver.save(session, "./m")
        session.run(x.assign(2.0))
        saver.restore(session, "./m")
        assert session.run(x) == 1.0
    assert saver.as_saver_def().max_to_keep == 3
    assert saver.to_proto(export_scope="mine").save_tensor_name == "control_dependency:0"
    assert saver.to_proto(export_scope="other") is None


def test_a_saver_of_nothing_does_nothing() -> None:
    saver = tf.train.Saver(allow_empty=True)
    with tf.Session() as session:
        assert saver.save(session, "./m", write_meta_graph=False) is None
        saver.restore(session, "./m")
    assert names() == []


def test_nodes_are_made_when_that_is_asked_for() -> None:
    saver = tf.train.Saver(defer_build=True)
    x = tf.Variable(3)
    saver.build()
    saver.build()
    with initialized() as session:
        saver.save(session, "./m")
        session.run(x.assign(4))
        saver.restore(session, "./m")
        assert session.run(x) == 3


def test_objects_of_ones_own_are_saved() -> None:
    from headrace.training.saver.saveables import SaveableObject, SaveSpec

    x = tf.Variable(3.0, name="x")

    class Twice(SaveableObject):
        def __init__(self) -> None:
            spec = SaveSpec(lambda: x.value() * 2, "", "twice", tf.float32, "")
            super().__init__(x, [spec], "twice")

        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            return x.assign(restored_tensors[0] / 2).op

    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, Twice())
    saver = tf.train.Saver([*tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)])
    with initialized() as session:
        saver.save(session, "./m")
        assert tf.train.load_variable("./m", "twice") == 6.0
        session.run(x.assign(0.0))
        saver.restore(session, "./m")
        assert session.run(x) == 3.0


# -- one moment -----------------------------------------------------------------------------------


def test_a_save_has_all_variables_as_they_were_in_one_moment() -> None:
    """What one update changes is changed in one moment, several variables of an optimizer among it."""
    x = tf.Variable(np.zeros(1 << 16), name="x")
    step = tf.train.MomentumOptimizer(1.0, 1.0).apply_gradients(
        [(tf.ones([1 << 16], tf.float64), x)]
    )
    saver = tf.train.Saver()
    with initialized() as session:
        ending = threading.Event()

        def train() -> None:
            update = session.make_callable(step)
            while not ending.is_set():
                update()

        thread = threading.Thread(target=train)
        thread.start()
        try:
            for at in range(8):
                path = saver.save(session, "./m", at, write_meta_graph=False)
                reader = tf.train.load_checkpoint(path)
                value, count = reader.get_tensor("x"), reader.get_tensor("x/Momentum")
                assert count.min() == count.max()
                steps = count[0]  # and the variable has lost 1 + 2 + ... of them
                assert value.tolist() == [-steps * (steps + 1) / 2] * len(value)
        finally:
            ending.set()
            thread.join()


def test_saves_of_one_saver_wait_for_each_other_so_that_the_latest_is_of_the_latest_step() -> None:
    """As those of a supervisor's thread and of its program."""
    step = tf.train.create_global_step()
    saver = tf.train.Saver()
    one_writes, other_is_through = threading.Event(), threading.Event()

    class Slow:
        """A session whose save waits for the other one, if that comes by."""

        def __init__(self, session: tf.Session) -> None:
            self.session, self.graph = session, session.graph

        def run(self, fetch: Any, *more: Any) -> Any:
            if fetch == saver.saver_def.save_tensor_name:
                one_writes.set()
                other_is_through.wait(0.5)
            return self.session.run(fetch, *more)

    def other(session: tf.Session) -> None:
        saver.save(session, "./m", step)
        other_is_through.set()

    with initialized() as session:
        one = threading.Thread(target=saver.save, args=(Slow(session), "./m", step))
        one.start()
        assert one_writes.wait(60)
        session.run(step.assign_add(1))
        second = threading.Thread(target=other, args=(session,))
        second.start()
        for thread in (one, second):
            thread.join(60)
    assert tf.train.latest_checkpoint(".") == "./m-1"
    assert saver.last_checkpoints == ["./m-0", "./m-1"]


# -- readers --------------------------------------------------------------------------------------


def test_a_checkpoint_is_looked_into_without_a_graph() -> None:
    tf.Variable([1.0, 2.0], name="a")
    tf.Variable(b"xy", name="s")
    with initialized() as session:
        tf.train.Saver().save(session, "./m")
    assert tf.train.list_variables(".") == [("a", [2]), ("s", [])]
    assert tf.train.load_variable(".", "a:0").tolist() == [1.0, 2.0]
    reader = tf.train.NewCheckpointReader("./m")
    assert reader.get_variable_to_dtype_map() == {"a": tf.float32, "s": tf.string}
    assert reader.get_tensor("s") == b"xy"
    assert reader.has_tensor("a")
    assert not reader.has_tensor("b")
    assert reader.debug_string() == b"a (DT_FLOAT) [2]\ns (DT_STRING) []\n"
    with pytest.raises(tf.errors.NotFoundError, match="Key b not found in checkpoint"):
        reader.get_tensor("b")
    os.mkdir("empty")
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file"):
        tf.train.load_checkpoint("empty")


def test_new_checkpoints_come_as_they_are_written() -> None:
    tf.Variable(0)
    saver = tf.train.Saver()
    with initialized() as session:
        found = tf.train.checkpoints_iterator(".", timeout=0)
        seen = []
        for at in range(3):
            saver.save(session, "./m", at)
            seen.append(next(found))
        assert seen == ["./m-0", "./m-1", "./m-2"]
        assert list(found) == []


def test_variables_begin_with_what_a_checkpoint_has() -> None:
    with tf.variable_scope("old", partitioner=tf.fixed_size_partitioner(2)):
        whole = tf.get_variable("p", [5, 3])
    tf.Variable([1.0, 2.0], name="a")
    with initialized() as session:
        wanted = session.run(tf.convert_to_tensor(whole))
        tf.train.Saver().save(session, "./m")
    with tf.Graph().as_default():
        with tf.variable_scope("new", partitioner=tf.fixed_size_partitioner(3)):
            p = tf.get_variable("p", [5, 3])
        a = tf.get_variable("a", [2], use_resource=True)
        tf.train.init_from_checkpoint(".", {"old/": "new/", "a": a})
        with initialized() as session:
            assert session.run(a).tolist() == [1.0, 2.0]
            assert np.array_equal(session.run(tf.convert_to_tensor(p)), wanted)
    with tf.Graph().as_default():
        a = tf.get_variable("a", [2])
        b = tf.get_variable("b", [2], use_resource=True)
        tf.train.warm_start("./m", "[ab]", var_name_to_prev_var_name={"b": "a"})
        with initialized() as session:
            assert session.run([a, b])[1].tolist() == [1.0, 2.0]


# -- what is damaged ------------------------------------------------------------------------------


def test_damage_is_found_before_anything_is_restored() -> None:
    variables = [tf.Variable(np.full(4, at), name=f"x{at}") for at in range(3)]
    saver = tf.train.Saver()
    with initialized() as session:
        saver.save(session, "./m")
        session.run([each.assign(each * 0) for each in variables])
        file = Path("m.data-00000-of-00001")
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        with pytest.raises(
            tf.errors.DataLossError, match=r"Checksum does not match.*x2 in .*00001, byte 64"
        ):
            saver.restore(session, "./m")
        assert not np.any(session.run(variables))
        file.write_bytes(content[:-1])
        with pytest.raises(tf.errors.DataLossError, match=r"32 bytes of x2 in .*there are 31"):
            saver.restore(session, "./m")
        Path("m.index").write_bytes(b"junk" * 20)
        with pytest.raises(tf.errors.DataLossError, match=r"not an sstable .*m\.index"):
            saver.restore(session, "./m")


def test_a_save_that_was_cancelled_leaves_nothing() -> None:
    big = tf.Variable(np.zeros(1 << 23), name="big")
    node = get("SaveV2")("./m", ["big"], [""], [big])
    with initialized() as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(node, options=tf.RunOptions(timeout_in_ms=1))
    assert names() == []


def test_words_have_rows_or_columns_and_no_other_axis() -> None:
    assert tf.train.VocabInfo("new", 3, 0, "old").axis == 0
    with pytest.raises(ValueError, match="axis argument are 0 and 1"):
        tf.train.VocabInfo("new", 3, 0, "old", axis=2)


def test_embeddings_and_biases_start_as_the_words_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("a\nb\n")
    (tmp_path / "new").write_text("b\nc\na\n")
    tf.get_variable("embeddings", initializer=np.float32([[1, 2], [3, 4]]))
    tf.get_variable("biases", initializer=np.float32([[5], [6]]))
    with initialized() as session:
        path = tf.train.Saver().save(session, "./m")
    with tf.Graph().as_default():
        embedded = remapping.load_embedding_initializer(
            path, "embeddings", 3, 2, "old", "new", num_oov_buckets=1
        )
        biased = remapping.load_linear_multiclass_bias_initializer(path, "biases", 3, "old", "new")
        embeddings = tf.get_variable("embeddings", [4, 2], initializer=embedded)
        biases = tf.get_variable("biases", [3, 1], initializer=biased)
        with initialized() as session:
            found = session.run(embeddings)
            assert found[[0, 2]].tolist() == [[3, 4], [1, 2]]
            assert np.abs(found[[1, 3]]).max() < 2
            assert session.run(biases).tolist() == [[6], [0], [5]]
