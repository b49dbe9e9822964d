"""Resource variables on the ps: handles stay with their task, whoever reads and changes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def variable(tf: Any, value: Any, name: str = "v", device: str = PS, **kwargs: Any) -> Any:
    with tf.device(device):
        return tf.Variable(value, name=name, use_resource=True, **kwargs)


def after_start(tf: Any, here: Here, *steps: Any, feed: Any = None) -> list[Any]:
    """What `steps` give, one after the other, once every variable is initialized."""
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        return [session.run(step, feed) for step in steps]


@TABLE.gives([[1.0, 2.0], [2.0, 3.0], [1.5, 2.5], [7.0, 8.0], [7.0, 8.0]])
def assignments_give_the_new_value(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0])
    steps = [v, v.assign_add([1.0, 1.0]), v.assign_sub([0.5, 0.5]), v.assign([7.0, 8.0])]
    return after_start(tf, here, *steps, v.read_value())


@TABLE.gives([[2.0, 4.0], [1.0, 2.0], [1.0, 2.0]])
def reads_asked_for_on_the_worker_happen_on_the_ps(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0])
    with tf.device(WORKER):
        reads = [v * 2.0, v.read_value(), tf.identity(v)]
    return after_start(tf, here, *reads)


@TABLE.gives([[2.0, 3.0], None, [5.0, 4.0], [5.0, 9.0], [5.0, 0.0], [0.0, 5.0]])
def so_do_updates(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0])
    with tf.device(WORKER):
        steps = [
            v.assign_add([1.0, 1.0]), v.assign_add([0.0, 1.0], read_value=False), v[0:1].assign([5.0]),
            tf.scatter_add(v, [1], [5.0]), tf.scatter_nd_update(v, [[1]], [0.0]), tf.gather(v, [1, 0]),
        ]  # fmt: skip
    return after_start(tf, here, *steps)


@TABLE.gives([5.0, 6.0, 6.0])
def sessions_of_two_masters_share_a_variable(tf: Any, here: Here) -> Any:
    v = variable(tf, 5.0)
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        one.run(v.initializer)
        seen = [other.run(v), other.run(v.assign_add(1.0))]
        return [*seen, one.run(v)]


@TABLE.gives([6, 7])
def another_graph_finds_a_variable_by_its_name(tf: Any, here: Here) -> Any:
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        session.run(variable(tf, [1, 2]).initializer)
    with tf.Graph().as_default(), tf.Session(here.ps) as session:
        return session.run(variable(tf, [0, 0]).assign_add([5, 5]))


@TABLE.raises("InvalidArgumentError", node="v/Read/ReadVariableOp")
def but_not_under_another_type(tf: Any, here: Here) -> Any:
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        session.run(variable(tf, [1, 2]).initializer)
    with tf.Graph().as_default(), tf.Session(here.ps) as session:
        session.run(variable(tf, [0.0, 0.0]))


@TABLE.gives([[5, 5], [1, 2]])
def a_reference_variable_of_the_same_name_is_another(tf: Any, here: Here) -> Any:
    with tf.Graph().as_default(), tf.Session(here.worker) as session:
        v = variable(tf, [1, 2])
        session.run(v.initializer)
        with tf.Graph().as_default(), tf.Session(here.ps) as other, tf.device(PS):
            reference = tf.Variable([5, 5], name="v")
            other.run(reference.initializer)
            found = other.run(reference)
        return [found, session.run(v)]


@TABLE.gives([[False, [b"v", b"w"]], [True, []]])
def whether_a_variable_is_initialized_can_be_asked(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    variable(tf, 1.0, name="w")
    with tf.device(WORKER):
        asked = [v.is_initialized(), tf.report_uninitialized_variables()]
    with tf.Session(here.worker) as session:
        before = session.run(asked)
        session.run(tf.global_variables_initializer())
        return [before, session.run(asked)]


@TABLE.raises("FailedPreconditionError", node="ReadVariableOp")
def an_uninitialized_variable_cannot_be_read(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    with tf.Session(here.worker) as session:
        session.run(v + 1.0)


@TABLE.raises("NotFoundError", node="AssignAddVariableOp")
def nor_added_to(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    with tf.Session(here.worker) as session:
        session.run(v.assign_add(1.0, read_value=False))


@TABLE.raises("NotFoundError", node="Gather")
def nor_gathered_from(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0])
    with tf.Session(here.worker) as session:
        session.run(tf.gather(v, [0]))


@TABLE.gives([5.0, 6.0, 6.0, False])
def a_reset_empties_a_container(tf: Any, here: Here) -> Any:
    with tf.container("box"):
        v = variable(tf, 5.0)
    w = variable(tf, 6.0, name="w")
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        seen = session.run([v, w])
    tf.Session.reset(here.worker, ["box"])
    with tf.Session(here.worker) as session:
        return [*seen, *session.run([w, v.is_initialized()])]


@TABLE.raises("InvalidArgumentError", node="AssignVariableOp")
def a_value_of_another_shape_is_refused(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0])
    value = tf.placeholder(tf.float32)
    after_start(tf, here, v.assign(value), feed={value: [1.0, 2.0, 3.0]})


@TABLE.gives([[[6.0, 8.0]], [1], 25.0])
def a_gradient_through_a_gather_is_sparse(tf: Any, here: Here) -> Any:
    v = variable(tf, [[1.0, 2.0], [3.0, 4.0]])
    with tf.device(WORKER):
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(v, [1])))
        gradient = tf.gradients(loss, v)[0]
    return after_start(tf, here, [gradient.values, gradient.indices, loss])[0]


def trained(tf: Any, here: Here, optimizer: Any) -> Any:
    """A dense and an embedding variable on the ps after three steps."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=1)):
        dense, rows = [
            tf.get_variable(name, shape, initializer=tf.ones_initializer(), use_resource=True)
            for name, shape in (("dense", [2, 2]), ("rows", [3, 2]))
        ]
        found = tf.matmul(tf.nn.embedding_lookup(rows, [0, 2, 0]), dense)
        step = optimizer.minimize(tf.reduce_sum(tf.square(found)))
    values = after_start(tf, here, step, step, step, [dense, rows])[-1]
    return [float(values[0][0, 0]), values[1][:, 0].tolist()]


@TABLE.gives([0.7419996, [0.6604620, 1.0, 0.8187596]])
def gradient_descent_trains_them(tf: Any, here: Here) -> Any:
    return trained(tf, here, tf.train.GradientDescentOptimizer(0.01))


@TABLE.gives([0.4870679, [0.3232275, 1.0, 0.6445586]])
def momentum_trains_them(tf: Any, here: Here) -> Any:
    return trained(tf, here, tf.train.MomentumOptimizer(0.01, 0.9))


@TABLE.gives([0.9700332, [0.9700332, 1.0, 0.9700332]])
def adam_trains_them(tf: Any, here: Here) -> Any:
    return trained(tf, here, tf.train.AdamOptimizer(0.01))


@TABLE.gives([[2.0, 4.0], [1.0, 2.0], [5.0, 5.0], [10.0, 10.0]])
def a_variable_cached_on_the_worker_is_read_there(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0], caching_device=WORKER)
    with tf.device(WORKER):
        twice = v * 2.0
    return after_start(tf, here, twice, v.value(), v.assign([5.0, 5.0]), twice)


@TABLE.gives([[2.0, 3.0], [2.0, 3.0]])
def a_branch_on_the_worker_reads_and_changes_it(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0])
    with tf.device(WORKER):
        taken = tf.placeholder(tf.bool, [])
        reads = tf.cond(taken, lambda: v + 1.0, lambda: v * 0.0)
        changes = tf.cond(taken, lambda: v.assign_add([1.0, 1.0]).value(), lambda: v.value())
    return after_start(tf, here, reads, changes, feed={taken: True})


@TABLE.gives([8.0])
def a_loop_on_the_worker_reads_it(tf: Any, here: Here) -> Any:
    v = variable(tf, 2.0)
    with tf.device(WORKER):
        _, product = tf.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * v], [0, 1.0])
    return after_start(tf, here, product)


@TABLE.gives([[b"a", b"b"], [b"c", b"b"], [b"b"]])
def strings_are_held_too(tf: Any, here: Here) -> Any:
    v = variable(tf, ["a", "b"])
    return after_start(tf, here, v, v[0].assign("c"), tf.gather(v, [1]))


@TABLE.gives([[2.0, 3.0], [4.0, 6.0]])
def a_partial_run_reads_it(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0])
    x = tf.placeholder(tf.float32, [2])
    total = v + x
    twice = total * 2.0
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        handle = session.partial_run_setup([total, twice], [x])
        return [
            session.partial_run(handle, total, {x: [1.0, 1.0]}),
            session.partial_run(handle, twice),
        ]


@TABLE.gives([[9.0, 9.0], [1.0, 2.0], [5.0, 6.0]])
def its_value_can_be_fed_and_loaded(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0])
    fresh = v.read_value()
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        seen = session.run([v, fresh], {v: [9.0, 9.0]})
        v.load(np.array([5.0, 6.0], np.float32), session)
        return [*seen, session.run(v)]


@TABLE.gives([[[2.0], [2.0], [2.0]], [[0.0], [0.0]], [[0.0]]])
def its_parts_are_assigned_together(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.get_variable(
            "v", [3, 1], initializer=tf.ones_initializer(), use_resource=True,
            partitioner=tf.fixed_size_partitioner(2),
        )  # fmt: skip
    with tf.device(WORKER):
        twice = tf.convert_to_tensor(v) * 2.0
    return after_start(tf, here, twice, *v.assign(tf.zeros([3, 1])))


@TABLE.gives([[3.0, 4.0], None, [4.0, 5.0]])
def its_handle_can_wait_in_a_queue(tf: Any, here: Here) -> Any:
    v = variable(tf, [3.0, 4.0])
    with tf.device(PS):
        queue = tf.FIFOQueue(2, [tf.resource], shapes=[[]])
        put, got = queue.enqueue([v.handle]), queue.dequeue()
        with tf.control_dependencies([got]):
            added = v.assign_add([1.0, 1.0])
    return after_start(tf, here, v, put, added)


@TABLE.raises("InvalidArgumentError")
def but_not_in_one_of_another_task(tf: Any, here: Here) -> Any:
    v = variable(tf, [3.0, 4.0])
    with tf.device(WORKER):
        queue = tf.FIFOQueue(2, [tf.resource], shapes=[[]])
        put = queue.enqueue([v.handle])
    after_start(tf, here, put)


@TABLE.raises("InvalidArgumentError")
def one_handle_or_the_other_must_be_of_one_task(tf: Any, here: Here) -> Any:
    v, w = variable(tf, 1.0), variable(tf, 2.0, "w", device=WORKER)
    taken = tf.placeholder(tf.bool, [])
    either = tf.cond(taken, lambda: v.handle, lambda: w.handle)
    after_start(tf, here, either.op, feed={taken: True})
