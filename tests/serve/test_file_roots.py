"""Graphs use no files of a server but those beneath the roots that its owner named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS, get
from headrace.python.ops.data_flow_ops import RecordInput
from headrace.serve import server as server_module
from tests.serve.clusters import Cluster, in_process


def reading(make: Callable[[], Any]) -> Callable[[str], Any]:
    """A fetch that reads the file of that name by a reader."""

    def fetch(path: str) -> Any:
        queue = tf.FIFOQueue(1, [tf.string], [[]])
        with tf.control_dependencies([queue.enqueue([path])]):
            return make().read(queue)[1]

    return fetch


def written(path: str) -> Any:
    return tf.write_file(path, "new")


def printed(path: str) -> Any:
    return tf.print("new", output_stream=f"file://{path}")


def elements(make: Callable[[str], Any], take: int = 1) -> Callable[[str], Any]:
    """A fetch of the first element of a dataset of the file of that name."""

    def fetch(path: str) -> Any:
        return tf.data.experimental.get_single_element(make(path).take(take))

    return fetch


def of_database(path: str) -> Any:
    return tf.data.experimental.SqlDataset("sqlite", path, "select 1", tf.int32)


def of_database_by_its_older_op(path: str) -> Any:
    of = {"output_types": [tf.int32], "output_shapes": [tf.TensorShape([])]}
    dataset = get("ExperimentalSqlDataset")("sqlite", path, "select 1", **of)
    return get("DatasetToSingleElement")(dataset, **of)


def cached_by_a_shared_cache(path: str) -> Any:
    of = {"output_types": [tf.int64], "output_shapes": [tf.TensorShape([])]}
    source = tf.data.Dataset.range(1)._variant_tensor
    cached = get("CacheDatasetV2")(source, path, get("DummyMemoryCache")(), **of)
    return get("DatasetToSingleElement")(cached, **of)


def entries(op: str) -> Callable[[str], Any]:
    """A fetch of the first entry of an LMDB database."""

    def fetch(path: str) -> Any:
        of = {"output_types": [tf.string] * 2, "output_shapes": [tf.TensorShape([])] * 2}
        dataset = get("TakeDataset")(get(op)(path, **of), np.int64(1), **of)
        return get("DatasetToSingleElement")(dataset, **of)

    return fetch


def of_csv(op: str) -> Callable[[str], Any]:
    """A fetch of the first record by one of the ops of CSV files."""

    def fetch(path: str) -> Any:
        of = {"output_types": [tf.string], "output_shapes": [tf.TensorShape([])]}
        inputs = [path, "", 9, False, ",", False, "", np.zeros(0, np.int64), [""]]
        inputs += [np.zeros(0, np.int64)] * op.endswith("V2")
        dataset = get("TakeDataset")(get(op)(*inputs, **of), np.int64(1), **of)
        return get("DatasetToSingleElement")(dataset, **of)

    return fetch


USES: dict[str, Callable[[str], Any]] = {
    "ReadFile": tf.read_file,
    "WriteFile": written,
    "MatchingFiles": tf.matching_files,
    "PrintV2": printed,
    "RecordInput": lambda path: RecordInput(path).get_yield_op(),
    "TextLineReaderV2": reading(tf.TextLineReader),
    "WholeFileReaderV2": reading(tf.WholeFileReader),
    "FixedLengthRecordReaderV2": reading(lambda: tf.FixedLengthRecordReader(1)),
    "TFRecordReaderV2": reading(tf.TFRecordReader),
    "LMDBReader": reading(tf.LMDBReader),
    "SaveV2": lambda path: get("SaveV2")(path, ["x"], [""], [tf.constant(1)]),
    "Save": lambda path: get("Save")(path, ["x"], [tf.constant(1)]),
    "SaveSlices": lambda path: get("SaveSlices")(path, ["x"], [""], [tf.constant(1)]),
    "RestoreV2": lambda path: get("RestoreV2")(path, ["x"], [""], dtypes=[tf.int32]),
    "Restore": lambda path: get("Restore")(path, "x", dt=tf.int32),
    "RestoreSlice": lambda path: get("RestoreSlice")(path, "x", "", dt=tf.int32),
    "MergeV2Checkpoints": lambda path: get("MergeV2Checkpoints")([path], path),
    "LoadAndRemapMatrix": lambda path: get("LoadAndRemapMatrix")(
        path, "x", [0], [0], np.zeros(0, np.float32), num_rows=1, num_cols=1
    ),
    "GenerateVocabRemapping": lambda path: get("GenerateVocabRemapping")(
        path, path, new_vocab_offset=0, num_new_vocab=1
    ),
    "InitializeTableFromTextFileV2": lambda path: (
        tf.contrib.lookup.HashTable(tf.contrib.lookup.TextFileStringTableInitializer(path), "").init
    ),
    "FixedUnigramCandidateSampler": lambda path: tf.random.fixed_unigram_candidate_sampler(
        [[0]], 1, 1, False, 1, vocab_file=path
    )[0],
    "TextLineDataset": elements(tf.data.TextLineDataset),
    "TFRecordDataset": elements(tf.data.TFRecordDataset),
    "FixedLengthRecordDatasetV2": elements(lambda path: tf.data.FixedLengthRecordDataset(path, 1)),
    "CSVDataset": of_csv("CSVDataset"),
    "CSVDatasetV2": of_csv("CSVDatasetV2"),
    "ExperimentalCSVDataset": of_csv("ExperimentalCSVDataset"),
    "CacheDataset": elements(lambda path: tf.data.Dataset.range(1).cache(path)),
    "CacheDatasetV2": cached_by_a_shared_cache,
    "LMDBDataset": entries("LMDBDataset"),
    "ExperimentalLMDBDataset": entries("ExperimentalLMDBDataset"),
    "SqlDataset": elements(of_database),
    "ExperimentalSqlDataset": of_database_by_its_older_op,
    "DatasetToTFRecord": lambda path: tf.data.experimental.TFRecordWriter(path).write(
        tf.data.Dataset.from_tensors("new")
    ),
    "ExperimentalDatasetToTFRecord": lambda path: get("ExperimentalDatasetToTFRecord")(
        tf.data.Dataset.from_tensors("new")._variant_tensor, path, ""
    ),
    "CreateSummaryFileWriter": lambda path: get("CreateSummaryFileWriter")(
        get("SummaryWriter")(), path, 10, 10, ""
    ),
}
HARMLESS = {
    "IdentityReaderV2", "IdentityReader", "ShardedFilename", "ShardedFilespec", "CTCBeamSearchDecoder",
    "TensorSliceDataset", "SetStatsAggregatorDataset", "ExperimentalSetStatsAggregatorDataset",
}  # fmt: skip
"""Ops that open nothing."""

PREFIXES = {"SaveV2", "MergeV2Checkpoints", "CacheDataset", "CacheDatasetV2"}
"""Ops whose files have longer names than they are given, so that a link of that name leads nowhere."""

DIRECTORIES = {
    "LMDBReader", "CreateSummaryFileWriter", "LMDBDataset", "ExperimentalLMDBDataset",
}  # fmt: skip
"""Ops that take no file."""

LINES = {"FixedUnigramCandidateSampler"}
"""Ops that need a line for every class."""

RESTORE = {"RestoreV2", "Restore", "RestoreSlice", "MergeV2Checkpoints", "LoadAndRemapMatrix"}
"""Ops that need a checkpoint."""


class Place:
    """allowed/ is the root of the server, denied/ lies beside it; each has a file of records."""

    def __init__(self, folder: Path) -> None:
        self.allowed, self.denied = folder / "allowed", folder / "denied"
        for each in (self.allowed, self.denied):
            each.mkdir()
            with tf.python_io.TFRecordWriter(str(each / "file")) as writer:
                writer.write(b"record")
        (self.allowed / "link").symlink_to(self.denied / "file")
        (self.allowed / "away").symlink_to(self.denied)
        self.content = (self.denied / "file").read_bytes()

    def of(self, which: str) -> str:
        """A path outside the root."""
        ways = {
            "denied": self.denied / "file",
            "dots": self.allowed / ".." / "denied" / "file",
            "link": self.allowed / "link",
            "linked directory": self.allowed / "away" / "file",
        }
        return str(ways[which])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def cluster(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("HEADRACE_FILE_ROOTS", str(place.allowed))
    with in_process({"ps": 1}) as cluster:
        yield cluster


def test_every_op_that_uses_files_is_tried() -> None:
    """By what its inputs, attrs and outputs are called."""

    def uses_files(name: str) -> bool:
        names = [arg.name for arg in OPS[name].inputs] + list(OPS[name].attrs)
        words = ("file", "path", "output_stream", "directory", "prefix", "data_source")
        return any(word in each for each in names for word in words) or (
            name.removesuffix("V2").endswith("Reader") or "File" in name
        )

    found = {name for name in OPS if uses_files(name)}
    twins = {name for name in found - set(USES) if {f"{name}V2"} & {*USES, *HARMLESS}}
    assert found - twins - HARMLESS == set(USES)


@pytest.mark.parametrize("way", ["denied", "dots", "link", "linked directory"])
@pytest.mark.parametrize("op", USES)
def test_no_op_reaches_a_file_outside_the_roots(
    cluster: Cluster, place: Place, op: str, way: str
) -> None:
    if way == "link" and op in PREFIXES:
        way = "linked directory"
    fetch = USES[op](place.of(way))
    with tf.Session(cluster.target("ps:0")) as session:
        with pytest.raises(tf.errors.PermissionDeniedError) as refused:
            session.run(fetch)
        for part in (place.of(way), str(place.allowed), "/job:ps/replica:0/task:0", "file_roots="):
            assert part in str(refused.value)
    assert (place.denied / "file").read_bytes() == place.content


@pytest.mark.parametrize("op", sorted(set(USES) - DIRECTORIES - RESTORE - LINES))
def test_files_beneath_the_roots_can_be_used(cluster: Cluster, place: Place, op: str) -> None:
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(USES[op](str(place.allowed / "file")))


def test_checkpoints_beneath_the_roots_are_saved_and_restored(
    cluster: Cluster, place: Place
) -> None:
    prefix, single = str(place.allowed / "new" / "model"), str(place.allowed / "v1")
    with tf.Session(cluster.target("ps:0")) as session:
        for _ in range(2):
            session.run([USES["SaveV2"](prefix), USES["Save"](single)])
            assert session.run(USES["RestoreV2"](prefix)) == [1]
        session.run(USES["SaveV2"](f"{prefix}_temp/part"))
        session.run(get("MergeV2Checkpoints")([f"{prefix}_temp/part"], prefix))
        assert session.run(USES["RestoreV2"](prefix)) == [1]
        assert session.run([USES["Restore"](single), USES["RestoreSlice"](single)]) == [1, 1]
    assert sorted(each.name for each in (place.allowed / "new").iterdir()) == [
        "model.data-00000-of-00001",
        "model.index",
    ]


def test_weights_beneath_the_roots_can_be_read(cluster: Cluster, place: Place) -> None:
    (place.allowed / "weights").write_text("class,0.5\n")
    with tf.Session(cluster.target("ps:0")) as session:
        fetch = USES["FixedUnigramCandidateSampler"](str(place.allowed / "weights"))
        assert session.run(fetch).tolist() == [0]


def test_a_database_beneath_the_roots_can_be_read(cluster: Cluster, place: Place) -> None:
    lmdb = pytest.importorskip("lmdb")
    with (
        lmdb.open(str(place.allowed / "base")) as environment,
        environment.begin(write=True) as transaction,
    ):
        transaction.put(b"key", b"value")
    (place.allowed / "elsewhere").mkdir()
    (place.denied / "data.mdb").write_bytes((place.allowed / "base" / "data.mdb").read_bytes())
    (place.allowed / "elsewhere" / "data.mdb").symlink_to(place.denied / "data.mdb")
    with tf.Session(cluster.target("ps:0")) as session:
        assert session.run(USES["LMDBReader"](str(place.allowed / "base"))) == b"value"
        with pytest.raises(tf.errors.PermissionDeniedError):
            session.run(USES["LMDBReader"](str(place.allowed / "elsewhere")))


def test_event_files_beneath_the_roots_can_be_written(cluster: Cluster, place: Place) -> None:
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(USES["CreateSummaryFileWriter"](str(place.allowed / "events")))
    assert [each.name.split(".")[0] for each in (place.allowed / "events").iterdir()] == ["events"]


def test_patterns_see_nothing_outside_the_roots(cluster: Cluster, place: Place) -> None:
    with tf.Session(cluster.target("ps:0")) as session:
        found = session.run(tf.matching_files(str(place.allowed / "f*")))
        assert found.tolist() == [os.fsencode(place.allowed / "file")]
        for pattern in ("../*", "../denied/*", "away/*", "*/*"):
            with pytest.raises(tf.errors.PermissionDeniedError):
                session.run(tf.matching_files(str(place.allowed / pattern)))


@pytest.mark.parametrize("kind", ["isolated", "with a cluster of its own"])
def test_sessions_with_state_or_clusters_of_their_own_are_confined_too(
    cluster: Cluster, place: Place, kind: str
) -> None:
    config = tf.ConfigProto(isolate_session_state=True)
    if kind != "isolated":
        config.cluster_def.CopyFrom(
            tf.train.ClusterSpec({"mine": [cluster.address("ps:0")]}).as_cluster_def()
        )
    with tf.Session(cluster.target("ps:0"), config=config) as session:
        with pytest.raises(tf.errors.PermissionDeniedError):
            session.run(tf.read_file(place.of("denied")))
        assert session.run(tf.read_file(str(place.allowed / "file")))


def local_server(**arguments: Any) -> Any:
    return tf.train.Server({"local": ["127.0.0.1:0"]}, **arguments)


def read(server: Any, path: Path) -> Any:
    with tf.Session(server.target) as session:
        return session.run(tf.read_file(str(path)))


def test_the_argument_of_a_server_wins_over_the_environment(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_FILE_ROOTS", str(place.allowed))
    with local_server(file_roots=[place.denied]) as server:
        assert read(server, place.denied / "file") == place.content
        with pytest.raises(tf.errors.PermissionDeniedError):
            read(server, place.allowed / "file")
    with local_server(file_roots=[]) as server, pytest.raises(tf.errors.PermissionDeniedError):
        read(server, place.allowed / "file")
    with pytest.raises(TypeError, match="list of directories"):
        local_server(file_roots=str(place.allowed))
    with pytest.raises(tf.errors.InvalidArgumentError, match="no directory"):
        local_server(file_roots=[place.allowed / "nothing"])


def test_a_server_on_loopback_confines_nothing_unless_it_is_told_to(place: Place) -> None:
    with local_server() as server:
        assert read(server, place.denied / "file") == place.content


def test_a_server_that_others_reach_confines_files_to_its_working_directory(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "is_loopback", lambda ip: False)
    monkeypatch.chdir(place.allowed)
    with local_server() as server:
        assert read(server, Path("file")) == (place.allowed / "file").read_bytes()
        with pytest.raises(tf.errors.PermissionDeniedError):
            read(server, place.denied / "file")
        monkeypatch.chdir(place.denied)  # the roots stay what they were
        assert read(server, place.allowed / "file")


def test_local_sessions_use_every_file_unless_roots_are_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = tf.read_file(str(place.denied / "file"))
    with tf.Session() as session:
        assert session.run(fetch) == place.content
    monkeypatch.setenv("HEADRACE_FILE_ROOTS", str(place.allowed))
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.PermissionDeniedError, match="this process"),
    ):
        session.run(fetch)
