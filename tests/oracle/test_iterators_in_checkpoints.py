"""Iterators in checkpoints beside TensorFlow's: nodes, and what each side reads of the other's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace as tf

BUILD = """
iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(10).batch(2))
element = iterator.get_next()
variable = tf.get_variable('v', initializer=[1., 2.])
tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, tf.data.experimental.make_saveable_from_iterator(iterator))
saver = tf.train.Saver()
"""
SAVE = (
    BUILD
    + """
with tf.Session() as session:
    session.run([iterator.initializer, variable.initializer])
    session.run(element)
    saver.save(session, prefix)
"""
)
READ = """
reader = tf.train.NewCheckpointReader(prefix)
result = [
    [name, len(reader.get_variable_to_shape_map()[name]), dtype.name]
    for name, dtype in sorted(reader.get_variable_to_dtype_map().items())
]
"""
ONLY_THE_VARIABLE = """
variable = tf.get_variable('v', [2])
with tf.Session() as session:
    tf.train.Saver([variable]).restore(session, prefix)
    result = session.run(variable).tolist()
"""
RESTORE = (
    BUILD
    + """
with tf.Session() as session:
    session.run(iterator.initializer)
    try:
        saver.restore(session, prefix)
        result = 'restored'
    except tf.errors.OpError as error:
        result = type(error).__name__
"""
)
NODES = (
    BUILD
    + """
result = [
    [node.name, node.op, list(node.input), node.attr['_class'].list.s[:1], node.attr['external_state_policy'].i]
    for node in tf.get_default_graph().as_graph_def().node if 'erialize' in node.op
]
result += [str(tensor.shape) for node in tf.get_default_graph().get_operations()
           if node.type == 'SerializeIterator' for tensor in node.outputs]
result += [tensor.name for tensor in tf.get_collection('iterators')]
"""
)

REMEMBERING = """
def table():
    keys = tf.constant([0, 1], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys), -1)

def after(operation, x):
    with tf.control_dependencies([operation]):
        return tf.identity(x)

known = table()
queue = tf.FIFOQueue(3, [tf.int64], [[]])
variable = tf.get_variable('v', [], tf.int64, tf.zeros_initializer(), use_resource=True)
functions = {
    'assertion': lambda x: after(tf.Assert(x < 100, [x]), x),
    'lookup': lambda x: known.lookup(x),
    'size of a table': lambda x: x + known.size(),
    'print': lambda x: after(tf.print('', output_stream='file:///dev/null'), x),
    'Print': lambda x: tf.Print(x, [x], first_n=0),
    'time': lambda x: x + 0 * tf.cast(tf.timestamp(), tf.int64),
    'random': lambda x: x + tf.random_uniform([], 0, 2, tf.int64),
    'stateless random': lambda x: x + tf.random.stateless_uniform([], [1, 2], 0, 2, tf.int64),
    'Python': lambda x: tf.py_func(lambda a: a, [x], tf.int64),
    'stateless Python': lambda x: tf.py_func(lambda a: a, [x], tf.int64, stateful=False),
    'variable': lambda x: x + variable,
    'queue': lambda x: x + tf.cast(queue.size(), tf.int64),
    'table of its own': lambda x: table().lookup(x),
    'random in a branch': lambda x: tf.cond(x < 9, lambda: x, lambda: tf.random_uniform([], 0, 2, tf.int64)),
}
result = {}
with tf.Session() as session:
    for name, function in functions.items():
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(5).map(function))
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        session.run(iterator.initializer)
        try:
            session.run([spec.tensor.op for spec in saveable.specs])
            result[name] = 'saved'
        except tf.errors.OpError as error:
            result[name] = type(error).__name__
"""


def ours(program: str, **names: Any) -> Any:
    """What it makes of `result` here."""
    scope: dict[str, Any] = {"tf": tf, **names}
    with tf.Graph().as_default():
        exec(program, scope)
    return scope.get("result")


def test_the_nodes_are_tensorflows(oracle: Any) -> None:
    assert ours(NODES) == oracle.run(NODES)


def test_what_remembers_something_is_refused_where_tensorflow_refuses_it(oracle: Any) -> None:
    found = ours(REMEMBERING)
    assert set(found.values()) == {"saved", "FailedPreconditionError"}
    assert found == oracle.run(REMEMBERING)


def test_each_side_lists_the_others_file_and_restores_its_variables(
    oracle: Any, tmp_path: Path
) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    ours(SAVE, prefix=here)
    oracle.run(SAVE + "result = 0", prefix=there)
    expected = [["IteratorV2:0_STATE", 1, "variant"], ["v", 1, "float32"]]
    assert oracle.run(READ, prefix=here) == ours(READ, prefix=here) == expected
    assert oracle.run(READ, prefix=there) == ours(READ, prefix=there) == expected
    assert oracle.run(ONLY_THE_VARIABLE, prefix=here) == [1.0, 2.0]
    assert ours(ONLY_THE_VARIABLE, prefix=there) == [1.0, 2.0]


def test_variants_are_the_same_bytes_after_either_side_copied_them(
    oracle: Any, tmp_path: Path
) -> None:
    """What TensorFlow wrote is read, checksums included, and written again byte for byte."""
    there, again = str(tmp_path / "there"), str(tmp_path / "again")
    oracle.run(SAVE + "result = 0", prefix=there)
    names = ["IteratorV2:0_STATE", "v"]
    with tf.Graph().as_default(), tf.Session() as session:
        values = tf.raw_ops.RestoreV2(
            prefix=there,
            tensor_names=names,
            shape_and_slices=["", ""],
            dtypes=[tf.variant, tf.float32],
        )
        session.run(
            tf.raw_ops.SaveV2(
                prefix=again, tensor_names=names, shape_and_slices=["", ""], tensors=values
            )
        )
    for end in (".data-00000-of-00001",):
        assert Path(again + end).read_bytes() == Path(there + end).read_bytes()
    assert oracle.run(RESTORE, prefix=again) == "restored"


def test_a_position_of_the_other_side_is_refused(oracle: Any, tmp_path: Path) -> None:
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    ours(SAVE, prefix=here)
    oracle.run(SAVE + "result = 0", prefix=there)
    assert ours(RESTORE, prefix=here) == oracle.run(RESTORE, prefix=there) == "restored"
    assert oracle.run(RESTORE, prefix=here) != "restored"
    with pytest.raises(tf.errors.InvalidArgumentError, match="skip the elements that were taken"):
        ours(
            BUILD
            + "session = tf.Session()\nsession.run(iterator.initializer)\nsaver.restore(session, prefix)",
            prefix=there,
        )
