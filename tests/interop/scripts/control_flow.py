"""Branches and loops whose parts lie on two tasks: what is not taken travels as a dead value."""

from __future__ import annotations

from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


@TABLE.gives([20.0, 1.0])
def a_branch_on_another_task(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [])

        def taken() -> Any:
            with tf.device(PS):
                return x * 10.0

        y = tf.cond(x > 1.0, taken, lambda: x + 0.0)
    with tf.Session(here.worker) as session:
        return [session.run(y, {x: 2.0}), session.run(y, {x: 1.0})]


@TABLE.gives([0.0, 5.0, 5.0, 10.0])
def only_the_branch_that_is_taken_has_effects(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable(0.0, name="v")
    with tf.device(WORKER):
        wanted = tf.placeholder(tf.bool, [])

        def taken() -> Any:
            with tf.device(PS):
                return tf.identity(v.assign_add(5.0))

        y = tf.cond(wanted, taken, lambda: tf.constant(-1.0))
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        seen = []
        for value in (False, True, False, True):
            session.run(y, {wanted: value})
            seen.append(session.run(v))
        return seen


@TABLE.gives([[2.0, -3.0], [3.0, -2.0]])
def both_branches_pass_several_tasks(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        x = tf.placeholder(tf.float32, [])
        low, high = tf.constant(-3.0), tf.constant(2.0)

    def on(device: str, value: Any, more: float) -> Any:
        with tf.device(device):
            return value + more

    with tf.device(WORKER):
        y, z = tf.cond(
            x > 0.0,
            lambda: [on(PS, on(WORKER, high, 1.0), 0.0), on(WORKER, on(PS, low, 0.5), 0.5)],
            lambda: [on(PS, high, 0.0), on(WORKER, low, 0.0)],
        )
    with tf.Session(here.worker) as session:
        return [session.run([y, z], {x: -1.0}), session.run([y, z], {x: 1.0})]


@TABLE.gives([1024.0, 10])
def a_loop_on_the_ps(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        count, value = tf.while_loop(
            lambda i, _: i < 10, lambda i, v: [i + 1, v * 2.0], [tf.constant(0), tf.constant(1.0)]
        )
    with tf.Session(here.worker) as session:
        return session.run([value, count])


@TABLE.gives([1.0, 8.0, 128.0])
def a_loop_whose_body_is_on_another_task(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])

        def body(i: Any, v: Any) -> Any:
            with tf.device(PS):
                doubled = v * 2.0
            return [i + 1, doubled]

        _, value = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), tf.constant(1.0)])
    with tf.Session(here.worker) as session:
        return [session.run(value, {limit: n}) for n in (0, 3, 7)]


@TABLE.gives([0.0, 24.0, 54.0])
def loops_in_loops_on_two_tasks(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])
        step = tf.constant(2.0)

        def inner(j: Any, v: Any) -> Any:
            with tf.device(PS):
                more = v + step
            with tf.device(WORKER):
                return [j + 1, more + 1.0]

        def outer(i: Any, v: Any) -> Any:
            with tf.device(PS):
                begun = v + tf.cast(i, tf.float32) * 0.0
            return [i + 1, tf.while_loop(lambda j, _: j < limit, inner, [tf.constant(0), begun])[1]]

        _, value = tf.while_loop(
            lambda i, _: i < limit * 2, outer, [tf.constant(0), tf.constant(0.0)]
        )
    with tf.Session(here.worker) as session:
        return [session.run(value, {limit: n}) for n in (0, 2, 3)]


@TABLE.gives([-1.0, 16.0])
def a_loop_on_two_tasks_that_is_not_entered(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        wanted = tf.placeholder(tf.bool, [])

        def body(i: Any, v: Any) -> Any:
            with tf.device(PS):
                doubled = v * 2.0
            return [i + 1, doubled]

        def loop() -> Any:
            return tf.while_loop(lambda i, _: i < 4, body, [tf.constant(0), tf.constant(1.0)])[1]

        value = tf.cond(wanted, loop, lambda: tf.constant(-1.0))
    with tf.Session(here.worker) as session:
        return [session.run(value, {wanted: choice}) for choice in (False, True)]


@TABLE.gives([30.0, [10.0, 0.0]])
def a_constant_of_the_loop_on_another_task(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable([3.0, 4.0], name="v")
        rate = v.read_value()
    with tf.device(WORKER):

        def body(i: Any, total: Any) -> Any:
            with tf.device(PS):
                picked = rate[0]
            return [i + 1, total + picked]

        _, total = tf.while_loop(lambda i, _: i < 10, body, [tf.constant(0), tf.constant(0.0)])
    slope = tf.gradients(total, rate)[0]
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        return session.run([total, slope])


@TABLE.gives([[3.0, 7.0], 7.0])
def effects_in_a_loop_happen_once_per_iteration(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable(0.0, name="v")
        q = tf.FIFOQueue(20, tf.float32, shapes=[[]], shared_name="seen")
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])

        def body(i: Any) -> Any:
            with tf.device(PS), tf.control_dependencies([v.assign_add(1.0)]):
                put = q.enqueue(1.0)
            with tf.control_dependencies([put]):
                return [i + 1]

        count = tf.while_loop(lambda i: i < limit, body, [tf.constant(0)])
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        sizes = []
        for n in (3, 4):
            session.run(count, {limit: n})
            sizes.append(float(session.run(q.size())))
        return [sizes, session.run(v)]
