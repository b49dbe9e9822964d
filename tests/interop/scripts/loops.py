"""While loops whose bodies pass several tasks, in every shape, with state, gradients and errors."""

from __future__ import annotations

from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def on(tf: Any, device: str, value: Any) -> Any:
    """`value` after a node on `device`."""
    with tf.device(device):
        return tf.identity(value)


@TABLE.gives([[0, 1.0], [1, 4.0], [5, 1024.0]])
def a_condition_that_passes_another_task(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])
        loop = tf.while_loop(
            lambda i, _: on(tf, WORKER, on(tf, PS, i)) < limit,
            lambda i, v: [i + 1, on(tf, PS, v * 2.0) * 2.0],
            [tf.constant(0), tf.constant(1.0)],
        )
    with tf.Session(here.worker) as session:
        return [session.run(loop, {limit: n}) for n in (0, 1, 5)]


@TABLE.gives([[8.0, 13.0], [1.0, 1.0]])
def variables_on_different_tasks(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])
        zero, one = tf.constant(0), tf.constant(1.0)
    with tf.device(PS):
        other = tf.constant(1.0)

    def body(i: Any, a: Any, b: Any) -> Any:
        with tf.device(PS):
            total = a + b
        return [i + 1, b, total]

    with tf.device(WORKER):
        loop = tf.while_loop(lambda i, a, b: i < limit, body, [zero, one, other])
    with tf.Session(here.worker) as session:
        return [session.run(loop[1:], {limit: n}) for n in (5, 0)]


@TABLE.gives([[7.0, 30.0], [7.0, 30.0]])
def one_iteration_at_a_time_or_many(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        loops = [
            tf.while_loop(
                lambda i, _: i < 7.0,
                lambda i, v: [i + 1.0, v + on(tf, PS, i) + 9.0 / 7.0],
                [tf.constant(0.0), tf.constant(0.0)],
                parallel_iterations=number,
            )
            for number in (1, 32)
        ]
    with tf.Session(here.worker) as session:
        return session.run(loops)


@TABLE.gives([[1.0], [1.0, 2.0, 3.0, 4.0]])
def a_variable_that_grows(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit = tf.placeholder(tf.float32, [])
        _, grown = tf.while_loop(
            lambda i, _: i < limit,
            lambda i, v: [i + 1.0, on(tf, PS, tf.concat([v, on(tf, PS, [i + 1.0])], 0))],
            [tf.constant(1.0), tf.constant([1.0])],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
        )
    with tf.Session(here.worker) as session:
        return [session.run(grown, {limit: n}) for n in (0.0, 4.0)]


@TABLE.gives([0.0, 24.0, 168.0])
def branches_on_another_task_in_a_loop(tf: Any, here: Here) -> Any:
    def even(v: Any) -> Any:
        with tf.device(PS):
            return v + 10.0

    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])

        def body(i: Any, v: Any) -> Any:
            return [i + 1, tf.cond(tf.equal(i % 2, 0), lambda: even(v), lambda: v * 2.0 + 4.0)]

        _, value = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), tf.constant(0.0)])
    with tf.Session(here.worker) as session:
        return [session.run(value, {limit: n}) for n in (0, 2, 6)]


@TABLE.gives([1.0, 32.0, 100.0, 6.0])
def a_loop_in_a_branch_in_a_loop(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit, test = tf.placeholder(tf.int32, []), tf.placeholder(tf.bool, [])

        def doubled(v: Any) -> Any:
            return tf.while_loop(
                lambda j, _: j < 5,
                lambda j, w: [j + 1, on(tf, PS, w * 2.0)],
                [tf.constant(0), v],
            )[1]

        def body(i: Any, v: Any) -> Any:
            return [i + 1, tf.cond(test, lambda: doubled(v), lambda: on(tf, PS, v) + 1.0)]

        _, value = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), tf.constant(1.0)])
        mixed = tf.cond(value > 1000.0, lambda: on(tf, PS, tf.constant(100.0)), lambda: value)
    with tf.Session(here.worker) as session:
        runs = [(0, True), (1, True), (3, True), (5, False)]
        return [session.run(mixed, {limit: n, test: choice}) for n, choice in runs]


@TABLE.gives([[0.0, 1.0, 4.0, 9.0], [], [14.0, 12.0]])
def an_array_that_is_written_by_another_task(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])
        array = tf.TensorArray(tf.float32, size=limit, dynamic_size=False, element_shape=[])

        def body(i: Any, array: Any) -> Any:
            with tf.device(PS):
                square = tf.cast(i * i, tf.float32)
            return [i + 1, array.write(i, square)]

        _, array = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), array])
        stacked = array.stack()

        x = tf.placeholder(tf.float32, [3])
        given = tf.TensorArray(tf.float32, size=3, element_shape=[]).unstack(x)

        def more(i: Any, total: Any) -> Any:
            value = given.read(i)
            with tf.device(PS):
                return [i + 1, total + value * value]

        _, total = tf.while_loop(lambda i, _: i < 3, more, [tf.constant(0), tf.constant(0.0)])
        slope = tf.reduce_sum(tf.gradients(total, x)[0])
    with tf.Session(here.worker) as session:
        some, none = (session.run(stacked, {limit: n}) for n in (4, 0))
        return [some, none, session.run([total, slope], {x: [1.0, 2.0, 3.0]})]


@TABLE.gives([[2.0, 1.0], [128.0, 192.0], [8192.0, 20480.0]])
def gradients_go_back_through_both_tasks(tf: Any, here: Here) -> Any:
    """Of x * (4 * x) ** limit."""
    with tf.device(PS):
        x = tf.placeholder(tf.float32, [])
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])

        def body(i: Any, v: Any) -> Any:
            with tf.device(PS):
                squared = v * x
            return [i + 1, on(tf, WORKER, squared * 4.0) * 1.0]

        start = on(tf, PS, x)
        _, y = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), start])
    slope = tf.gradients(y, x)[0]
    with tf.Session(here.worker) as session:
        return [session.run([y, slope], {limit: n, x: 2.0}) for n in (0, 2, 4)]


@TABLE.gives([11.0, 6.0])
def gradients_of_a_loop_in_a_loop(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [])

        def inner(j: Any, w: Any) -> Any:
            return [j + 1, w + on(tf, PS, x)]

        def outer(i: Any, v: Any) -> Any:
            more = tf.while_loop(lambda j, _: j < 2, inner, [tf.constant(0), v])[1]
            return [i + 1, on(tf, PS, more)]

        _, y = tf.while_loop(lambda i, _: i < 3, outer, [tf.constant(0), tf.constant(5.0)])
        slope = tf.gradients(y, x)[0]
    with tf.Session(here.worker) as session:
        return session.run([y, slope], {x: 1.0})


@TABLE.gives([[6.0, 12.0], [0.5, 0.25]])
def a_gradient_through_branches_in_a_loop(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        x = tf.placeholder(tf.float32, [])

        def body(i: Any, v: Any) -> Any:
            return [i + 1, tf.cond(x > 1.0, lambda: on(tf, PS, v) * x, lambda: v * on(tf, PS, 0.5))]

        _, y = tf.while_loop(lambda i, _: i < 1, body, [tf.constant(0), x])
        slope = tf.gradients(y, x)[0]
        scaled = [y * 1.5, slope * 3.0]
    with tf.Session(here.worker) as session:
        high = session.run(scaled, {x: 2.0})
        low = session.run([y, slope * 0.5], {x: 1.0})
        return [high, low]


@TABLE.gives([5.0, 20.0, [0.0, 1.0, 2.0, 3.0, 4.0]])
def a_loop_that_takes_what_another_task_puts_in(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        q = tf.FIFOQueue(20, tf.float32, shapes=[[]], shared_name="to_worker")
        done = tf.FIFOQueue(20, tf.float32, shapes=[[]], shared_name="to_client")
    with tf.device(WORKER):

        def body(i: Any, total: Any) -> Any:
            with tf.device(PS):
                put = q.enqueue(i * 2.0)
                with tf.control_dependencies([put]):
                    value = q.dequeue()
                with tf.control_dependencies([done.enqueue(i)]):
                    value = tf.identity(value)
            return [i + 1.0, total + value]

        loop = tf.while_loop(
            lambda i, _: i < 5.0, body, [tf.constant(0.0), tf.constant(0.0)], parallel_iterations=1
        )
    with tf.Session(here.worker) as session:
        return [*session.run(loop), session.run(done.dequeue_many(5))]


@TABLE.gives([[3, 8.0], [3, 8.0]])
def everything_unpinned_but_one_node(tf: Any, here: Here) -> Any:
    found = []
    for device in (PS, WORKER):
        loop = tf.while_loop(
            lambda i, _: i < 3,
            lambda i, v: [i + 1, on(tf, device, v) * 2.0],  # noqa: B023
            [tf.constant(0), tf.constant(1.0)],
        )
        found.append(loop)
    with tf.Session(here.worker) as session:
        return session.run(found)


@TABLE.raises("InvalidArgumentError", node="while/divided")
def an_error_in_an_iteration_on_another_task(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):

        def body(i: Any) -> Any:
            with tf.device(PS):
                return i + 1 + tf.minimum(tf.floordiv(6, 3 - i, name="divided"), 0)

        loop = tf.while_loop(lambda i: i < 9, body, [tf.constant(0)])
    with tf.Session(here.worker) as session:
        return session.run(loop)


@TABLE.gives(["DeadlineExceededError", 4])
def a_loop_without_end_ends_with_the_deadline(tf: Any, here: Here) -> Any:
    with tf.device(WORKER):
        limit = tf.placeholder(tf.int32, [])

        def body(i: Any) -> Any:
            with tf.device(PS):
                return tf.minimum(i + 1, 4)

        loop = tf.while_loop(lambda i: i < limit, body, [tf.constant(0)])
    with tf.Session(here.worker) as session:
        session.run(limit, {limit: 4})  # the time limit is not for making the session
        try:
            session.run(loop, {limit: 5}, options=tf.RunOptions(timeout_in_ms=300))
            kind = "none"
        except tf.errors.OpError as error:
            kind = type(error).__name__
        return [kind, session.run(loop, {limit: 4})]
