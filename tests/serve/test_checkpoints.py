"""Checkpoints of a cluster of processes: each task writes where it lives, and only beneath its roots."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops.io import checkpoints as io
from headrace.serve import server as server_module
from tests.serve.clusters import Cluster, addresses, in_process


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Cluster]:
    """Two tasks, each with a root of its own, as if on two disks."""
    for name in ("ps0", "ps1"):
        (tmp_path / name).mkdir()
    cluster = Cluster.__new__(Cluster)
    cluster.spec, cluster.servers = addresses({"ps": 2}), {}
    try:
        for index in range(2):
            cluster.servers[f"ps:{index}"] = server_module.Server(
                cluster.spec, job_name="ps", task_index=index, file_roots=[tmp_path / f"ps{index}"]
            )
        yield cluster
    finally:
        cluster.stop()


def on_each(count: int) -> list[Any]:
    found = []
    for at in range(count):
        with tf.device(f"/job:ps/task:{at}"):
            found.append(tf.Variable([float(at)], name=f"x{at}"))
    return found


def test_tasks_write_beneath_their_own_roots_only(apart: Cluster, tmp_path: Path) -> None:
    variables = on_each(2)
    first, both = tf.train.Saver(variables[:1], sharded=True), tf.train.Saver(sharded=True)
    with tf.Session(apart.target("ps:0")) as session:
        session.run(tf.global_variables_initializer())
        first.save(session, str(tmp_path / "ps0" / "m"))
        with pytest.raises(tf.errors.PermissionDeniedError, match="/job:ps/replica:0/task:1"):
            both.save(session, str(tmp_path / "ps0" / "n"))
        first.restore(session, str(tmp_path / "ps0" / "m"))
    assert not (tmp_path / "ps0" / "n.index").exists()


def test_who_finds_no_file_on_its_own_disk_is_told_why(tmp_path: Path) -> None:
    on_each(1)
    saver = tf.train.Saver()
    with in_process({"ps": 1}) as cluster, tf.Session(cluster.target("ps:0")) as session:
        with pytest.raises(
            ValueError, match=r"not a valid checkpoint: .*this process finds no such"
        ) as raised:
            saver.restore(session, str(tmp_path / "elsewhere"))
        assert cluster.target("ps:0") in str(raised.value)


def test_who_has_no_such_directory_is_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the file that names the latest checkpoint were to be written on another disk."""
    (x,) = on_each(1)
    saver = tf.train.Saver()

    def elsewhere(directory: str, *others: Any) -> None:
        raise tf.errors.NotFoundError(None, None, f"{directory}; No such file or directory")

    monkeypatch.setattr("headrace.training.saver.saver.write_checkpoint_state", elsewhere)
    with in_process({"ps": 1}) as cluster, tf.Session(cluster.target("ps:0")) as session:
        session.run(x.initializer)
        with pytest.raises(tf.errors.NotFoundError, match=r"this process finds no such files"):
            saver.save(session, str(tmp_path / "m"))


@pytest.mark.parametrize("version", [tf.train.SaverDef.V2, tf.train.SaverDef.V1], ids=["V2", "V1"])
@pytest.mark.parametrize("use_resource", [False, True], ids=["references", "handles"])
def test_each_task_saves_its_variables_as_they_were_in_one_moment(
    tmp_path: Path, use_resource: bool, version: int
) -> None:
    """Two of a task's variables that one update changes together are together in what is saved."""
    size = 1 << 12
    saved, updates = {}, []
    for at in range(2):
        with tf.device(f"/job:ps/task:{at}"):
            x = tf.Variable(np.zeros(size), name=f"x{at}", use_resource=use_resource)
            optimizer = tf.train.MomentumOptimizer(1.0, 1.0)
            updates.append(optimizer.apply_gradients([(tf.ones([size], tf.float64), x)]))
            saved[f"a{at}"], saved[f"z{at}"] = x, optimizer.get_slot(x, "momentum")
            for between in range(60):
                other = tf.Variable(0.0, name="between", use_resource=use_resource)
                saved[f"m{at}/{between}"] = other
    saver = tf.train.Saver(saved, sharded=True, write_version=version)
    switches_s = sys.getswitchinterval()
    with in_process({"ps": 2}) as cluster, tf.Session(cluster.target("ps:0")) as session:
        session.run(tf.global_variables_initializer())
        ending = threading.Event()

        def train() -> None:
            with tf.Session(cluster.target("ps:1"), graph=session.graph) as other:
                while not ending.is_set():
                    other.run(updates)

        thread = threading.Thread(target=train)
        thread.start()
        sys.setswitchinterval(1e-6)
        try:
            for step in range(8):
                path = saver.save(session, str(tmp_path / "m"), step, write_meta_graph=False)
                reader = tf.train.load_checkpoint(path)
                for at in range(2):
                    (count,) = {*reader.get_tensor(f"z{at}").tolist()}
                    assert {*reader.get_tensor(f"a{at}").tolist()} == {-count * (count + 1) / 2}
        finally:
            sys.setswitchinterval(switches_s)
            ending.set()
            thread.join()
    assert not os.path.exists(tmp_path / "m-7_temp")


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("use_resource", [False, True], ids=["references", "handles"])
def test_damage_of_one_shard_keeps_every_task_from_restoring(
    tmp_path: Path, use_resource: bool, damaged: int
) -> None:
    variables = []
    for at in range(2):
        with tf.device(f"/job:ps/task:{at}"):
            for name in "ab":
                x = tf.Variable(
                    np.full(1 << 10, 1.0), name=f"{name}{at}", use_resource=use_resource
                )
                variables.append(x)
    saver = tf.train.Saver(sharded=True)
    with in_process({"ps": 2}) as cluster, tf.Session(cluster.target("ps:0")) as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "m"))
        session.run([x.assign(np.full(1 << 10, 2.0 + at)) for at, x in enumerate(variables)])
        shard = tmp_path / f"m.data-0000{damaged}-of-00002"
        content = bytearray(shard.read_bytes())
        content[-1] ^= 1  # of the last variable
        shard.write_bytes(content)
        for _ in range(5):
            with pytest.raises(
                tf.errors.DataLossError, match=rf"b{damaged} in .*{shard.name}, byte 8192"
            ):
                saver.restore(session, path)
            found = [{*value.tolist()} for value in session.run(variables)]
            assert found == [{2.0}, {3.0}, {4.0}, {5.0}]
        content[-1] ^= 1
        shard.write_bytes(content)
        saver.restore(session, path)
        assert [{*value.tolist()} for value in session.run(variables)] == [{1.0}] * 4


def test_a_restore_that_comes_after_another_one_in_a_step_stays_after_it(tmp_path: Path) -> None:
    (x,) = on_each(1)
    saver = tf.train.Saver()
    with in_process({"ps": 1}) as cluster, tf.Session(cluster.target("ps:0")) as session:
        session.run(x.initializer)
        path = saver.save(session, str(tmp_path / "m"))
        first = x.assign(io.restore_v2(path, ["x0"], [""], dtypes=[tf.float32])[0])
        with tf.control_dependencies([first]):
            doubled = x.assign_add(x)
        with tf.control_dependencies([doubled]):
            again = io.restore_v2(path, ["x0"], [""], dtypes=[tf.float32])[0]
            last = x.assign_add(again + 1.0)
        session.run(last)
        assert session.run(x).tolist() == [1.0]
