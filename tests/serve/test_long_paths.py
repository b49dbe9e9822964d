"""Servers whose folder for temporary files has a name of any length, or is not there at all."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import headrace as tf
from headrace.serve.lane.unix_socket import address_of
from tests.serve.clusters import ProcessCluster, in_process, processes
from tests.serve.conftest import use_sockets
from tests.serve.punctual import complaints
from tests.serve.ways import Ways

CONNECTED = "03"  # in /proc/net/unix


def folder_of(length: int, within: Path) -> Path:
    """A new folder whose path has so many characters."""
    path = str(within)
    while (left := length - len(path) - 1) > 0:
        size = min(left, 200)
        path += "/" + "d" * (size - (left - size == 1))  # none is left for a name after a slash
    found = Path(path)
    found.mkdir(parents=True)
    assert len(str(found)) == length
    return found


def connections(cluster: ProcessCluster, task: str) -> int:
    """How many connections of a task's unix socket are open."""
    pid = cluster.processes[task].pid
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has just been closed
            links.append(os.readlink(entry))
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sum(
        line[5] == CONNECTED and line[-1].endswith("/lane") and f"socket:[{line[6]}]" in links
        for line in lines
    )


@pytest.mark.parametrize("length", [200, 1000])
def test_a_cluster_talks_over_unix_sockets_however_long_the_folders_name_is(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: Ways
) -> None:
    monkeypatch.setenv("TMPDIR", str(folder_of(length, tmp_path)))
    monkeypatch.setenv("HEADRACE_LANE", "unix")
    monkeypatch.setenv(
        "HEADRACE_BIND", "localhost"
    )  # so that they are not found by their addresses
    with tf.device("/job:ps"):
        variable = tf.Variable(np.ones(100_000, np.float32))
    with tf.device("/job:worker"):
        doubled = variable * 2.0
    with processes({"ps": 1, "worker": 1}) as cluster:
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(variable.initializer)
            ways.open(session, variable)
            for _ in range(3):
                assert ways.of(session, variable)[-1] == 1.0
                assert session.run(doubled)[-1] == 2.0
            assert connections(cluster, "worker:0") == 1  # the client's
            assert connections(cluster, "ps:0") >= 2  # the client's and the worker's
        for process in cluster.processes.values():
            process.terminate()
            _, said = process.communicate()
            assert complaints(said) == []
    assert not list(Path(os.environ["TMPDIR"]).iterdir())


@pytest.mark.parametrize("length", [90, 100, 103, 104, 107, 108, 109, 110, 255, 3000])
def test_a_socket_may_have_a_path_of_any_length(length: int) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        path = str(folder_of(length - 2, Path(short)) / "s")
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
            with address_of(path) as where:
                listener.bind(where)
            assert Path(path).is_socket()
            listener.listen()
            with address_of(path) as where:
                caller.connect(where)
            listener.accept()[0].close()


def test_without_the_folder_there_is_no_socket(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), address_of(str(tmp_path / ("d" * 120) / "s")):
        raise AssertionError("there is no folder")


def test_a_folder_that_is_not_there_is_none_of_a_servers_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's own is taken, as everywhere in Python."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with tf.train.Server.create_local_server() as server:
        assert server.worker.lane is not None
        path = server.worker.lane.unix_path
        assert path
        assert not path.startswith(str(tmp_path))
        with tf.Session(server.target) as session:
            assert session.run(tf.constant(1) + 1) == 2


def test_where_there_is_no_folder_at_all_peers_use_tcp_and_that_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    use_sockets("on")(monkeypatch)
    with (
        caplog.at_level(logging.WARNING, "headrace"),
        in_process({"ps": 1, "worker": 1}) as cluster,
    ):
        lane = cluster.servers["ps:0"].worker.lane
        assert lane is not None
        assert lane.tcp_port
        assert not lane.unix_path
        with tf.device("/job:ps"):
            variable = tf.Variable(3.0)
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(variable.initializer)
            assert session.run(variable) == 3.0
    assert len(caplog.messages) == 2  # a line of each server
    assert all("no unix socket" in line and "TMPDIR" in line for line in caplog.messages)
