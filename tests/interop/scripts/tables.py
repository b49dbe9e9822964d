"""Lookup tables across tasks: filled by one session, read by others, on whichever task they are; streaming metrics."""

from __future__ import annotations

from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def words(tf: Any, device: str = PS) -> Any:
    """The handle of a table of words, [string] -> int64."""
    with tf.device(device):
        return tf.raw_ops.HashTableV2(
            key_dtype=tf.string, value_dtype=tf.int64, shared_name="words"
        )


def filled(tf: Any, handle: Any) -> Any:
    """The operation that fills it."""
    keys, values = tf.constant(["a", "b", "c"]), tf.constant([1, 2, 3], tf.int64)
    return tf.raw_ops.InitializeTableV2(table_handle=handle, keys=keys, values=values)


def found(tf: Any, handle: Any, keys: Any) -> Any:
    """What a table has for keys, -1 for what it lacks."""
    default = tf.constant(-1, tf.int64)
    return tf.raw_ops.LookupTableFindV2(
        table_handle=handle, keys=tf.constant(keys), default_value=default
    )


def counts(tf: Any) -> Any:
    """The handle of a table that can be changed, int64 -> float."""
    with tf.device(PS):
        return tf.raw_ops.MutableHashTableV2(
            key_dtype=tf.int64, value_dtype=tf.float32, shared_name="counts"
        )


def put(tf: Any, handle: Any, keys: list[int], values: list[float]) -> Any:
    """The operation that puts these in."""
    return tf.raw_ops.LookupTableInsertV2(
        table_handle=handle, keys=tf.constant(keys, tf.int64), values=tf.constant(values)
    )


@TABLE.gives([[1, -1, 3], 3, [2, 2]])
def another_session_reads_what_one_has_filled(tf: Any, here: Here) -> Any:
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        session.run(filled(tf, words(tf)))
    with tf.Graph().as_default(), tf.Session(here.ps) as session:
        handle = words(tf)
        size = tf.raw_ops.LookupTableSizeV2(table_handle=handle)
        first = session.run([found(tf, handle, ["a", "z", "c"]), size])
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        return [*first, session.run(found(tf, words(tf), ["b", "b"]))]


@TABLE.raises("FailedPreconditionError")
def a_table_that_nobody_has_filled_is_not_read(tf: Any, here: Here) -> Any:
    with tf.Session(here.worker) as session:
        session.run(found(tf, words(tf), ["a"]))


@TABLE.gives([[1, 2], [0, 4, 1]])
def words_are_numbered_on_one_task_and_used_on_another(tf: Any, here: Here) -> Any:
    keys = tf.constant(["b", "nobody", "c"])
    with tf.device(PS):
        init = tf.lookup.KeyValueTensorInitializer(
            ["c", "b"], [1, 0], key_dtype=tf.string, value_dtype=tf.int64
        )
        table = tf.lookup.StaticVocabularyTable(init, 3)
    with tf.device(WORKER):
        ids = table.lookup(keys)
        rows = tf.gather(tf.constant([[0, 0], [1, 2], [3, 4], [5, 6], [7, 8]]), ids)
    with tf.Session(here.worker) as session:
        session.run(tf.tables_initializer())
        return session.run([rows[2], ids])


@TABLE.gives([[-1.0, 0.5], [[1, 0.5], [4, 2.0]], 1])
def a_table_is_changed_by_several(tf: Any, here: Here) -> Any:
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        session.run(put(tf, counts(tf), [1, 2], [0.25, 1.0]))
    with tf.Graph().as_default(), tf.Session(here.ps) as session:
        handle = counts(tf)
        session.run(put(tf, handle, [1, 4], [0.5, 2.0]))
        gone = tf.raw_ops.LookupTableRemoveV2(table_handle=handle, keys=tf.constant([2], tf.int64))
        session.run(gone)
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        handle = counts(tf)
        values = tf.raw_ops.LookupTableFindV2(
            table_handle=handle, keys=tf.constant([2, 1], tf.int64), default_value=-1.0
        )
        everything = tf.raw_ops.LookupTableExportV2(
            table_handle=handle, Tkeys=tf.int64, Tvalues=tf.float32
        )
        read, (keys, held) = session.run([values, list(everything)])
        rows = sorted([int(key), float(value)] for key, value in zip(keys, held, strict=True))
        session.run(
            tf.raw_ops.LookupTableRemoveV2(table_handle=handle, keys=tf.constant([4], tf.int64))
        )
        return [read, rows, session.run(tf.raw_ops.LookupTableSizeV2(table_handle=handle))]


@TABLE.raises("InvalidArgumentError")
def keys_of_another_number_than_values_are_refused(tf: Any, here: Here) -> Any:
    with tf.Session(here.worker) as session:
        session.run(put(tf, counts(tf), [1, 2, 3], [0.25, 1.0]))


@TABLE.gives([[0.5, 0.75], [2.0, 3.0]])
def metrics_go_on_over_steps_and_tasks(tf: Any, here: Here) -> Any:
    labels, predictions = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    with tf.device(PS):
        accuracy, more = tf.metrics.accuracy(labels, predictions)
    with tf.device(WORKER):
        mean, again = tf.metrics.mean(tf.cast(predictions, tf.float32))
    results = []
    with tf.Session(here.worker) as session:
        session.run(tf.local_variables_initializer())
        for batch in (([1, 2], [1, 3]), ([4, 4], [4, 4])):
            session.run([more, again], dict(zip((labels, predictions), batch, strict=True)))
            results.append(session.run([accuracy, mean]))
    return [list(each) for each in zip(*results, strict=True)]
