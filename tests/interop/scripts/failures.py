"""What fails on one task is an error of the same class, and of the same node, at the client."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, WORKER, Here, Table, Unless

TABLE = Table()


def fed(tf: Any, dtype: Any = None, device: str = PS) -> Any:
    """A placeholder of unknown shape, so that what is wrong shows only when a step runs."""
    with tf.device(device):
        return tf.placeholder(dtype or tf.float32, name="fed")


@TABLE.raises("InvalidArgumentError", node="bad")
def matrices_that_do_not_fit(tf: Any, here: Here) -> Any:
    x = fed(tf)
    with tf.device(PS):
        y = tf.matmul(x, x, name="bad")
    with tf.Session(here.worker) as session:
        session.run(y, {x: np.zeros([2, 3], np.float32)})


@TABLE.raises("InvalidArgumentError", node="bad")
def the_same_on_the_other_task(tf: Any, here: Here) -> Any:
    x = fed(tf)
    with tf.device(WORKER):
        y = tf.matmul(x, x, name="bad")
    with tf.Session(here.ps) as session:
        session.run(y, {x: np.zeros([2, 3], np.float32)})


@TABLE.raises("InvalidArgumentError", node="bad")
def shapes_that_do_not_broadcast(tf: Any, here: Here) -> Any:
    x = fed(tf)
    with tf.device(PS):
        y = tf.add(x, tf.constant([1.0, 2.0]), name="bad")
    with tf.Session(here.worker) as session:
        session.run(y, {x: [1.0, 2.0, 3.0]})


@TABLE.raises("InvalidArgumentError", node="bad")
def division_of_integers_by_zero(tf: Any, here: Here) -> Any:
    x = fed(tf, tf.int32)
    with tf.device(PS):
        y = tf.floordiv(tf.constant([7, 8]), x, name="bad")
    with tf.Session(here.worker) as session:
        session.run(y, {x: [1, 0]})


@TABLE.raises("InvalidArgumentError", node="bad")
def an_index_out_of_range(tf: Any, here: Here) -> Any:
    x = fed(tf, tf.int32)
    with tf.device(PS):
        y = tf.gather(tf.constant([1.0, 2.0]), x, name="bad")
    with tf.Session(here.worker) as session:
        session.run(y, {x: [2]})


@TABLE.raises("InvalidArgumentError", node="bad/Assert")
def an_assertion(tf: Any, here: Here) -> Any:
    x = fed(tf, tf.bool)
    with tf.device(PS):
        check = tf.Assert(x, ["it is not so"], name="bad")
    with tf.Session(here.worker) as session:
        session.run(check, {x: False})


@TABLE.raises("InvalidArgumentError", node="bad")
def a_number_that_is_none(tf: Any, here: Here) -> Any:
    x = fed(tf)
    with tf.device(PS):
        y = tf.check_numerics(x, "not finite", name="bad")
    with tf.Session(here.worker) as session:
        session.run(y, {x: [1.0, float("nan")]})


@TABLE.raises("InvalidArgumentError", node="bad")
def text_that_is_no_number(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        y = tf.string_to_number(fed(tf, tf.string), name="bad")
        x = y.op.inputs[0]
    with tf.Session(here.worker) as session:
        session.run(y, {x: [b"twelve"]})


@TABLE.raises("InvalidArgumentError", node="fed")
def a_placeholder_that_is_not_fed(tf: Any, here: Here) -> Any:
    x = fed(tf)
    with tf.Session(here.worker) as session:
        session.run(x + 1.0)


@TABLE.raises("InvalidArgumentError")
def a_device_that_is_not_there(tf: Any, here: Here) -> Any:
    with tf.device("/job:ps/task:7"):
        y = tf.constant(1.0, name="elsewhere")
    with tf.Session(here.worker) as session:
        session.run(y)


@TABLE.gives([[[b"it is not so"]], 3.0])
def a_failed_step_leaves_the_session_usable(tf: Any, here: Here) -> Any:
    x = fed(tf, tf.bool)
    with tf.device(PS):
        v = tf.Variable(2.0, name="v")
        check = tf.Assert(x, ["it is not so"])
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        said = []
        try:
            session.run(check, {x: False})
        except tf.errors.InvalidArgumentError as error:
            said = [[text] for text in (b"it is not so",) if text.decode() in error.message]
        return [said, session.run(v.assign_add(1.0))]


@TABLE.gives(
    ["InvalidArgumentError", 1.0],
    unless=Unless(
        "master", "tensorflow",
        "it does not wait until a failed step has left every task, so what waits may still take an element",
    ),
)  # fmt: skip
def a_failure_on_one_task_ends_what_waits_on_another(tf: Any, here: Here) -> Any:
    x = fed(tf)
    with tf.device(PS):
        q = tf.FIFOQueue(2, tf.float32, shapes=[[]], shared_name="queue")
        blocked, put, take = q.dequeue(), q.enqueue(1.0), q.dequeue()
    with tf.device(WORKER):
        bad = tf.matmul(x, x, name="bad")
    with tf.Session(here.worker) as session:
        kind = "nothing"
        try:
            session.run([blocked, bad], {x: np.zeros([2, 3], np.float32)})
        except tf.errors.OpError as error:
            kind = type(error).__name__
        # The dequeue that was given up is told, not waited for: it may have taken the first.
        session.run(put)
        session.run(put)
        return [kind, session.run(take)]


@TABLE.raises("InvalidArgumentError")
def an_assignment_of_another_shape(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable([1.0, 2.0], name="v")
        set_it = tf.assign(v, fed(tf))
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        session.run(set_it, {"fed:0": [1.0, 2.0, 3.0]})


@TABLE.raises("InvalidArgumentError")
def a_shared_variable_of_another_shape(tf: Any, here: Here) -> Any:
    for shape in ([2], [3]):
        with tf.Graph().as_default(), tf.Session(here.worker) as session, tf.device(PS):
            v = tf.Variable(tf.zeros(shape), name="v")
            session.run(v.initializer)
            session.run(v)
