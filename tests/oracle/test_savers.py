"""Savers: the nodes they build, what each side reads of the other's files, and what they say when it cannot be.

The saver of a case is called `s` there.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb

SINCE_1_15 = ("_has_manual_control_dependencies", "allowed_devices")
"""Attrs that later versions add; so is DisableCopyOnRead, a node without effect."""

SAVERS: dict[str, str] = {
    "all variables": """
tf.Variable([1.,2.],name='a')
tf.Variable(3,name='b')
tf.Variable([1.,2.],name='r',use_resource=True)
s=tf.train.Saver()
""",
    "two savers": """
tf.Variable([1.,2.],name='a')
s=tf.train.Saver()
s=tf.train.Saver(name='x')
""",
    "a shard for each task": """
with tf.device('/job:ps/task:0'): tf.Variable([1.,2.],name='a')
with tf.device('/job:ps/task:1'): tf.Variable([1.,2.],name='b'); tf.Variable([1.,2.],name='r',use_resource=True)
s=tf.train.Saver(sharded=True)
""",
    "one shard": """
tf.Variable([1.,2.],name='a')
s=tf.train.Saver(sharded=True, filename='q')
""",
    "variables on several tasks": """
with tf.device('/job:ps/task:0'): tf.Variable([1.,2.],name='a')
with tf.device('/job:ps/task:1'): tf.Variable([1.,2.],name='b'); tf.Variable([1.,2.],name='r',use_resource=True)
s=tf.train.Saver()
""",
    "format V1": """
tf.Variable([1.,2.],name='a')
tf.Variable(3,name='b')
s=tf.train.Saver(write_version=1)
""",
    "format V1 in shards": """
with tf.device('/job:ps/task:0'): tf.Variable([1.,2.],name='a')
with tf.device('/job:ps/task:1'): tf.Variable([1.,2.],name='b')
s=tf.train.Saver(write_version=1,sharded=True)
""",
    "partitioned variables": """
with tf.variable_scope('x',partitioner=tf.fixed_size_partitioner(2)):
    p=tf.get_variable('p',[4,3]); q=tf.get_variable('q',[4,3],use_resource=True)
s=tf.train.Saver()
""",
    "partitioned variables in shards": """
with tf.device(tf.train.replica_device_setter(2)):
  with tf.variable_scope('x',partitioner=tf.fixed_size_partitioner(2)):
    p=tf.get_variable('p',[4,3]); q=tf.get_variable('q',[4,3],use_resource=True)
s=tf.train.Saver(sharded=True)
""",
    "a list of partitioned variables": """
with tf.variable_scope('x',partitioner=tf.fixed_size_partitioner(2)):
    p=tf.get_variable('p',[4,3]); q=tf.get_variable('q',[4,3],use_resource=True)
s=tf.train.Saver([p,q])
""",
    "partitioned variables by name": """
with tf.variable_scope('x',partitioner=tf.fixed_size_partitioner(2)):
    p=tf.get_variable('p',[4,3]); q=tf.get_variable('q',[4,3],use_resource=True)
s=tf.train.Saver({'pp':p,'qq':list(q)})
""",
    "reshape": """
tf.Variable([1.,2.],name='a')
tf.Variable(3,name='b')
tf.Variable([1.,2.],name='r',use_resource=True)
s=tf.train.Saver(reshape=True, restore_sequentially=True)
""",
    "reshape to a shape that is not known": """
tf.Variable([1.,2.],name='a',validate_shape=False)
s=tf.train.Saver(reshape=True)
""",
    "a shape that is not known": """
tf.Variable([1.,2.],name='a',validate_shape=False)
s=tf.train.Saver()
""",
    "variables by name": """
a=tf.Variable([1.,2.],name='a')
r=tf.Variable([1.,2.],name='r',use_resource=True)
s=tf.train.Saver({'z':a,'c':r},max_to_keep=0,name='my')
""",
    "a reference by name": """
a=tf.Variable([1.,2.],name='a')
s=tf.train.Saver({'z':a._ref()})
""",
    "a list, a file name": """
a=tf.Variable([1.,2.],name='a')
b=tf.Variable(b'x',name='b')
s=tf.train.Saver([b,a],filename='f')
""",
    "under scopes": """
with tf.name_scope('n'), tf.device('/gpu:0'):
    a=tf.Variable([1.,2.],name='a'); r=tf.Variable([1.,2.],name='r',use_resource=True); s=tf.train.Saver([a,r])
""",
    "slots of an optimizer": """
a=tf.Variable([1.,2.],name='a'); r=tf.Variable([1.,2.],name='r',use_resource=True)
tf.train.AdamOptimizer().minimize(tf.reduce_sum(a*r)); s=tf.train.Saver()
""",
    "a caching device": """
a=tf.Variable([1.,2.],name='a',caching_device='/cpu:0',use_resource=True)
s=tf.train.Saver()
""",
    "under control dependencies": """
a=tf.Variable([1.,2.],name='a')
with tf.control_dependencies([a.initializer]): s=tf.train.Saver()
""",
    "under a device, and with types of devices": """
with tf.device('/job:worker/task:0/gpu:1'):
  a=tf.Variable([1.,2.],name='a')
  r=tf.Variable([1.,2.],name='r',use_resource=True)
with tf.device('/job:worker/task:1'): s=tf.train.Saver(sharded=True)
s=tf.train.Saver()
""",
}


def built(source: str) -> tuple[pb.GraphDef, pb.SaverDef]:
    with tf.Graph().as_default() as graph:
        names: dict[str, Any] = {"tf": tf}
        exec(source, names)
        return graph.as_graph_def(), names["s"].saver_def


def as_of_1_15(graph: pb.GraphDef) -> pb.GraphDef:
    kept = [node for node in graph.node if node.op != "DisableCopyOnRead"]
    for node in kept:
        for attr in SINCE_1_15:
            node.attr.pop(attr, None)
    return pb.GraphDef(node=kept)


@pytest.mark.parametrize("case", SAVERS)
def test_a_saver_builds_the_nodes_of_tensorflow(
    oracle: Any, graph_differences: Any, case: str
) -> None:
    source = SAVERS[case]
    graph, saver_def = built(source)
    program = (
        f"{source}\nresult = [each.SerializeToString() for each in "
        "(tf.get_default_graph().as_graph_def(), s.saver_def)]"
    )
    their_graph, their_def = oracle.run(program)
    theirs = as_of_1_15(pb.GraphDef.FromString(their_graph))
    assert graph_differences(as_of_1_15(graph), theirs) == []
    assert saver_def == pb.SaverDef.FromString(their_def)


# -- files ----------------------------------------------------------------------------------------

DTYPES = (
    "half bfloat16 float32 float64 int8 uint8 int16 uint16 int32 int64 uint32 uint64 bool complex64 complex128 string "
    "qint8 quint8 qint32"
).split()
MAKES = """
def made(name, sizes):
    dtype = tf.as_dtype(name)
    flat = [(n * 7) % 2 for n in range(int(np.prod(sizes)))]
    if name == "string":
        return np.array([b"x" * n + bytes([0, 255]) for n in flat], object).reshape(sizes)
    if dtype.is_quantized:
        return np.array([(n,) for n in flat], dtype.as_numpy_dtype).reshape(sizes)
    return np.array(flat).reshape(sizes).astype(dtype.as_numpy_dtype)
"""
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 0), (2, 3)]
SAVES = (
    MAKES
    + """
names = [f"{n}/{'_'.join(map(str, z))}" for n in dtypes for z in shapes]
values = [made(n, z) for n in dtypes for z in shapes]
kinds = [tf.as_dtype(n) for n in dtypes for z in shapes]
fed = [tf.placeholder(kind, value.shape) for kind, value in zip(kinds, values)]
node = save(prefix, names, [""] * len(names), fed)
with tf.Session() as session:
    session.run(node, dict(zip(fed, values)))
result = None
"""
)
RESTORES = (
    MAKES
    + """
names = [f"{n}/{'_'.join(map(str, z))}" for n in dtypes for z in shapes]
kinds = [tf.as_dtype(n) for n in dtypes for z in shapes]
node = restore(prefix, names, [""] * len(names), kinds)
with tf.Session() as session:
    found = [
        np.array(each, object) if isinstance(each, bytes) else np.asarray(each)
        for each in session.run(node)
    ]
wanted = [made(n, z) for n in dtypes for z in shapes]
wanted = [each[each.dtype.names[0]] if each.dtype.names else each for each in wanted]  # steps give plain numbers
result = [
    name
    for name, a, b in zip(names, found, wanted)
    if a.dtype != b.dtype or a.shape != b.shape or a.tolist() != b.tolist()
]
"""
)
THEIR_OPS = """
def save(prefix, names, slices, tensors):
    if v1:
        return tf.raw_ops.SaveSlices(filename=prefix, tensor_names=names, shapes_and_slices=slices, data=tensors)
    return tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, tensors=tensors)
def restore(prefix, names, slices, dtypes):
    return tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=names, shape_and_slices=slices, dtypes=dtypes)
"""
OUR_OPS = """
from headrace.graph.registry import get
def save(prefix, names, slices, tensors):
    return get("SaveSlices" if v1 else "SaveV2")(prefix, names, slices, tensors)
def restore(prefix, names, slices, dtypes):
    return get("RestoreV2")(prefix, names, slices, dtypes=dtypes)
"""


class Sides:
    """Both, as programs that are handed to them."""

    def __init__(self, oracle: Any) -> None:
        self.oracle = oracle

    def run(self, side: str, source: str, **names: Any) -> Any:
        if side == "theirs":
            return self.oracle.run(THEIR_OPS + source, **names)
        with tf.Graph().as_default():
            inside: dict[str, Any] = {"tf": tf, "np": np, **names}
            exec(OUR_OPS + source, inside)
            return inside["result"]


@pytest.fixture
def sides(oracle: Any) -> Sides:
    return Sides(oracle)


@pytest.mark.parametrize("v1", [False, True], ids=["V2", "V1"])
@pytest.mark.parametrize(
    ("writer", "reader"), [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours")]
)
def test_every_type_and_shape_is_read_by_the_other(
    sides: Sides, tmp_path: Path, writer: str, reader: str, v1: bool
) -> None:
    dtypes = DTYPES if not v1 else [n for n in DTYPES if n not in NOT_IN_V1]
    names = {"prefix": str(tmp_path / "m"), "dtypes": dtypes, "shapes": SHAPES, "v1": v1}
    sides.run(writer, SAVES, **names)
    assert sides.run(reader, RESTORES, **names) == []


NOT_IN_V1 = ("uint16", "uint32", "uint64", "bfloat16", "half")


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("v1", [False, True], ids=["V2", "V1"])
def test_files_are_the_same_byte_for_byte(sides: Sides, tmp_path: Path, v1: bool) -> None:
    dtypes = DTYPES if not v1 else [n for n in DTYPES if n not in NOT_IN_V1]
    found = []
    for side in ("ours", "theirs"):
        (tmp_path / side).mkdir()
        sides.run(
            side, SAVES, prefix=str(tmp_path / side / "m"), dtypes=dtypes, shapes=SHAPES, v1=v1
        )
        found.append(files_of(tmp_path / side))
    ours, theirs = found
    assert list(ours) == list(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []


SLICED = """
rows = [(0, 3), (3, 2), (5, 3)]
whole = np.arange(40, dtype=np.float32).reshape(8, 5)
specs = [f"8 5 {at},{count}:-" for at, count in rows]
parts = [tf.constant(whole[at : at + count]) for at, count in rows]
with tf.Session() as session:
    session.run(save(prefix, ["x"] * 3, specs, parts))
result = None
"""
PARTS = """
specs = ["", "8 5 2,4:1,3", "8 5 -:4,1", "8 5 7,1:-", "8 5 0,8:0,5"]
with tf.Session() as session:
    result = session.run(restore(prefix, ["x"] * 5, specs, [tf.float32] * 5))
"""


@pytest.mark.parametrize("v1", [False, True], ids=["V2", "V1"])
@pytest.mark.parametrize(
    ("writer", "reader"), [("ours", "theirs"), ("theirs", "ours"), ("ours", "ours")]
)
def test_parts_are_read_by_the_other_however_they_were_cut(
    sides: Sides, tmp_path: Path, writer: str, reader: str, v1: bool
) -> None:
    names = {"prefix": str(tmp_path / "m"), "v1": v1}
    sides.run(writer, SLICED, **names)
    whole = np.arange(40, dtype=np.float32).reshape(8, 5)
    wanted = [whole, whole[2:6, 1:4], whole[:, 4:], whole[7:], whole]
    for found, part in itertools.zip_longest(sides.run(reader, PARTS, **names), wanted):
        assert np.array_equal(found, part)


# -- going on -------------------------------------------------------------------------------------

TRAINING = """
x = tf.Variable(np.linspace(-1, 1, 12).reshape(4, 3), name="x", use_resource=held)
with tf.variable_scope("cut", partitioner=tf.fixed_size_partitioner(2)):
    w = tf.get_variable("w", [4, 3], tf.float64, tf.constant_initializer(0.5))
step = tf.train.get_or_create_global_step()
loss = tf.reduce_sum(tf.square(tf.convert_to_tensor(x) * tf.convert_to_tensor(w) - 0.3))
train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
saver = tf.train.Saver(sharded=sharded, write_version=2 - v1)
with tf.Session() as session:
    path = tf.train.latest_checkpoint(folder)
    if path is None:
        session.run(tf.global_variables_initializer())
    else:
        saver.restore(session, path)
    losses = []
    for _ in range(3):
        losses.append(float(session.run([loss, train])[0]))
    saver.save(session, folder + "/m", global_step=step)
    result = losses, int(session.run(step))
"""


@pytest.mark.parametrize("held", [False, True], ids=["references", "resources"])
@pytest.mark.parametrize("sharded", [False, True], ids=["one", "shards"])
@pytest.mark.parametrize("order", ["ours theirs ours", "theirs ours theirs"])
def test_a_training_that_one_begins_the_other_goes_on_with(
    sides: Sides, tmp_path: Path, order: str, sharded: bool, held: bool
) -> None:
    options = {"sharded": sharded, "held": held, "v1": False}
    (tmp_path / "alone").mkdir()
    (tmp_path / "together").mkdir()
    wanted = [
        sides.run("theirs", TRAINING, folder=str(tmp_path / "alone"), **options) for _ in range(3)
    ]
    found = [
        sides.run(side, TRAINING, folder=str(tmp_path / "together"), **options)
        for side in order.split()
    ]
    assert [step for _, step in found] == [step for _, step in wanted] == [3, 6, 9]
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.allclose(ours[0], theirs[0], rtol=1e-12)
    names = [
        sorted(each.name for each in (tmp_path / kind).iterdir()) for kind in ("alone", "together")
    ]
    assert names[0] == names[1]


OVER = """
with tf.Session() as session:
    session.run(save(prefix, ["x"], [""], [tf.constant(value)]))
result = None
"""
BACK = """
with tf.Session() as session:
    result = session.run(restore(prefix, ["x"], [""], [tf.float32])[0]).tolist()
"""


def test_a_checkpoint_between_its_old_and_its_new_files_is_one_for_the_other_too(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where files cannot be linked, the new data keeps the name that it had meanwhile."""
    prefix = str(tmp_path / "m")
    sides.run("ours", OVER, prefix=prefix, value=[1.0, 2.0], v1=False)

    def refused(self: Any, old: bytes, new: bytes) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("headrace.run.readers.files.Files.link", refused)
    sides.run("ours", OVER, prefix=prefix, value=[3.0, 4.0], v1=False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.data-00000-of-00002", "m.index"]
    for side in ("theirs", "ours"):
        assert sides.run(side, BACK, prefix=prefix, v1=False) == [3.0, 4.0]
    monkeypatch.undo()
    sides.run("ours", OVER, prefix=prefix, value=[5.0, 6.0], v1=False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["m.data-00000-of-00001", "m.index"]
    assert sides.run("theirs", BACK, prefix=prefix, v1=False) == [5.0, 6.0]


TABLES = """
def table(key, value, dense):
    words = {"int64": (-1, -2), "string": ("", "gone")}[key]
    none = {"int64": 0, "string": "none", "float32": np.zeros(2, np.float32)}[value]
    name = f"{key}_{value}_{dense}"
    given = [tf.as_dtype(key), tf.as_dtype(value), none]
    if hasattr(tf.lookup.experimental, "MutableHashTable"):
        kinds = tf.lookup.experimental.MutableHashTable, tf.lookup.experimental.DenseHashTable
    else:
        kinds = tf.contrib.lookup.MutableHashTable, tf.contrib.lookup.MutableDenseHashTable
    return kinds[1](*given, *words, name=name) if dense else kinds[0](*given, name=name)

keys = {"int64": [3, 1, 2], "string": ["a", "b", "c"]}
values = {"int64": [30, 10, 20], "string": ["x", "y", "z"], "float32": [[1.5, 2], [3, 4], [5, 6]]}
kinds = [(k, v, d) for k, v, d in made]
tables = [table(*kind) for kind in kinds]
inserts = [
    t.insert(tf.constant(keys[k], k), tf.constant(values[v], v)) for t, (k, v, d) in zip(tables, kinds)
]
saver = tf.train.Saver()
finds = [t.lookup(tf.constant(keys[k] * 2, k)) for t, (k, v, d) in zip(tables, kinds)]
sizes = [t.size() for t in tables]
with tf.Session() as session:
    if path is None:
        session.run(inserts)
        saver.save(session, folder + "/t")
    else:
        saver.restore(session, path)
    result = [[np.asarray(x).tolist() for x in session.run(what)] for what in (finds, sizes)]
"""


@pytest.mark.parametrize(("writer", "reader"), [("ours", "theirs"), ("theirs", "ours")])
def test_tables_are_read_by_the_other(
    sides: Sides, tmp_path: Path, writer: str, reader: str
) -> None:
    made = [("int64", value, False) for value in ("int64", "string", "float32")]
    made += [("string", "int64", False), ("int64", "int64", True), ("string", "int64", True)]
    written = sides.run(writer, TABLES, folder=str(tmp_path), path=None, made=made)
    found = sides.run(reader, TABLES, folder="", path=str(tmp_path / "t"), made=made)
    assert found == written
    assert found[1] == [3] * len(made)
