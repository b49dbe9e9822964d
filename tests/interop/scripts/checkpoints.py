"""Savers: checkpoints that tasks write and read, each its shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def model(tf: Any, held: bool = False) -> list[Any]:
    """Variables on the ps and on the worker."""
    with tf.device(PS):
        x = tf.Variable([1.0, 2.0], name="x", use_resource=held)
        text = tf.Variable(["a", "bc"], name="text")
    with tf.device(WORKER):
        y = tf.Variable([[3], [4]], name="y", use_resource=held)
    return [x, text, y]


def files(here: Here) -> list[str]:
    return sorted(path.name for path in Path(here.directory).iterdir())


def there_and_back(tf: Any, here: Here, variables: list[Any], **options: Any) -> Any:
    """What is restored after the variables have changed, and which files there are."""
    x, text, y = variables
    saver = tf.train.Saver(**options)
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, here.directory + "/m", global_step=3, write_meta_graph=False)
        session.run([x.assign(x * 0), text.assign(["", ""]), y.assign(y * 0)])
        saver.restore(session, path)
        found = [each.tolist() for each in session.run([x, text, y])]
    return [found, files(here), tf.train.latest_checkpoint(here.directory) == path]


VALUES = [[1.0, 2.0], [b"a", b"bc"], [[3], [4]]]
SHARDS = ["checkpoint", "m-3.data-00000-of-00002", "m-3.data-00001-of-00002", "m-3.index"]
ONE = ["checkpoint", "m-3.data-00000-of-00001", "m-3.index"]


@TABLE.gives([VALUES, SHARDS, True])
def each_task_saves_its_shard(tf: Any, here: Here) -> Any:
    return there_and_back(tf, here, model(tf), sharded=True)


@TABLE.gives([VALUES, SHARDS, True])
def each_task_saves_its_shard_of_resource_variables(tf: Any, here: Here) -> Any:
    return there_and_back(tf, here, model(tf, held=True), sharded=True)


@TABLE.gives([VALUES, ONE, True])
def one_task_saves_all(tf: Any, here: Here) -> Any:
    return there_and_back(tf, here, model(tf))


@TABLE.gives([VALUES, ["checkpoint", "m-3"], True])
def one_task_saves_all_in_format_v1(tf: Any, here: Here) -> Any:
    return there_and_back(tf, here, model(tf), write_version=tf.train.SaverDef.V1)


@TABLE.raises("NotFoundError")
def a_variable_that_the_checkpoint_lacks(tf: Any, here: Here) -> Any:
    variables = model(tf)
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver(variables[:2]).save(session, here.directory + "/m")
        tf.train.Saver(variables).restore(session, path)


@TABLE.raises("InvalidArgumentError")
def a_variable_of_another_shape(tf: Any, here: Here) -> Any:
    x, text, _ = model(tf)
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver({"x": text}).save(session, here.directory + "/m")
        tf.train.Saver({"x": x}).restore(session, path)


@TABLE.raises("DataLossError")
def a_checkpoint_that_was_damaged(tf: Any, here: Here) -> Any:
    variables = model(tf)
    saver = tf.train.Saver(variables[:1])
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, here.directory + "/m")
        data = Path(path + ".data-00000-of-00001")
        content = bytearray(data.read_bytes())
        content[1] ^= 1
        data.write_bytes(content)
        saver.restore(session, path)
