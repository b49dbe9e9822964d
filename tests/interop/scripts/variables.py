"""Variables on the ps: shared by name between sessions, masters and graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def variable(tf: Any, value: Any, name: str = "v", device: str = PS, **kwargs: Any) -> Any:
    with tf.device(device):
        return tf.Variable(value, name=name, **kwargs)


@TABLE.gives([[1.0, 2.0], [3.0, 4.0]])
def an_initial_value_is_read_back(tf: Any, here: Here) -> Any:
    v = variable(tf, [[1.0, 2.0], [3.0, 4.0]])
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        return session.run(v)


@TABLE.gives([11.0, 6.0, 7.0, 7.0])
def assignments_give_the_new_value(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        steps = [v.assign_add(10.0), v.assign_sub(5.0), v.assign(7.0)]
        return [session.run(step) for step in steps] + [session.run(v)]


@TABLE.gives([5.0, 5.0, 6.0])
def sessions_of_two_masters_share_a_variable(tf: Any, here: Here) -> Any:
    v = variable(tf, 5.0)
    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        one.run(v.initializer)
        seen = [one.run(v), other.run(v)]
        other.run(v.assign_add(1.0).op)
        return [*seen, one.run(v)]


@TABLE.gives([3, 4])
def another_graph_finds_a_variable_by_its_name(tf: Any, here: Here) -> Any:
    with tf.Session(here.worker, graph=tf.Graph()) as session, session.graph.as_default():
        v = variable(tf, [1, 2])
        session.run(v.initializer)
    with tf.Session(here.ps, graph=tf.Graph()) as session, session.graph.as_default():
        v = variable(tf, [0, 0])
        return session.run(v.assign_add([2, 2]))


@TABLE.gives([[1.0], [2.0]])
def tasks_have_variables_of_the_same_name(tf: Any, here: Here) -> Any:
    found = []
    for device, value in ((PS, [1.0]), (WORKER, [2.0])):
        with tf.Graph().as_default(), tf.Session(here.worker) as session:
            session.run(variable(tf, value, device=device).initializer)
    for device in (PS, WORKER):
        with tf.Graph().as_default(), tf.Session(here.ps) as session:
            found.append(session.run(variable(tf, [0.0], device=device)))
    return found


@TABLE.gives([False, True, [b"v"], []])
def whether_a_variable_is_initialized_can_be_asked(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    is_set = tf.is_variable_initialized(v)
    missing = tf.report_uninitialized_variables()
    with tf.Session(here.worker) as session:
        before = session.run([is_set, missing])
        session.run(tf.global_variables_initializer())
        after = session.run([is_set, missing])
    return [before[0], after[0], before[1], after[1]]


@TABLE.raises("FailedPreconditionError")
def an_uninitialized_variable_cannot_be_read(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    with tf.Session(here.worker) as session:
        session.run(v)


@TABLE.raises("FailedPreconditionError", node="v/read")
def nor_through_its_snapshot(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    with tf.device(WORKER):
        total = v.value() + 1.0
    with tf.Session(here.worker) as session:
        session.run(total)


@TABLE.gives([[1.0, 20.0, 3.0], [1.0, 22.0, 3.5], [0.5, 22.0, 3.5]])
def rows_are_scattered(tf: Any, here: Here) -> Any:
    v = variable(tf, [1.0, 2.0, 3.0])
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        return [
            session.run(tf.scatter_update(v, [1], [20.0])),
            session.run(tf.scatter_add(v, [1, 2], [2.0, 0.5])),
            session.run(tf.scatter_sub(v, [0], [0.5])),
        ]


@TABLE.gives([1.0, 11.0, 22.0])
def control_dependencies_order_updates_and_reads(tf: Any, here: Here) -> Any:
    v = variable(tf, 0.0)
    seen = []
    with tf.device(PS):
        first = v.assign_add(1.0)
        with tf.control_dependencies([first]):
            second = v + 10.0
    with tf.device(WORKER), tf.control_dependencies([second]):
        third = tf.constant(22.0) + 0.0
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        seen = session.run([second, third])
        return [session.run(v), *seen]


DTYPES = [
    ("float32", [1.5, -2.0]), ("float64", [1.5, -2.0]), ("float16", [1.5, -2.0]), ("bfloat16", [1.5, -2.0]),
    ("int8", [-3, 4]), ("uint8", [3, 4]), ("int16", [-3, 4]), ("uint16", [3, 4]), ("int32", [-3, 4]),
    ("int64", [-3, 1 << 40]), ("bool", [True, False]), ("complex64", [1 + 2j, -1j]), ("complex128", [1 + 2j, -1j]),
    ("string", [b"one", b"\x00\xff"]),
]  # fmt: skip


@TABLE.gives(dict(DTYPES))
def variables_of_every_type_travel(tf: Any, here: Here) -> Any:
    variables = {}
    for name, value in DTYPES:
        variables[name] = variable(tf, tf.constant(value, dtype=name), name=f"v-{name}")
    with tf.device(WORKER):
        moved = {name: tf.identity(v) for name, v in variables.items()}
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        return session.run(moved)


@TABLE.gives([[2, 0, 3], [[]], [[], []], 7.0])
def empty_arrays_and_scalars_travel(tf: Any, here: Here) -> Any:
    values = [
        np.zeros([2, 0, 3], np.float32),
        np.zeros([1, 0]),
        np.zeros([2, 0], np.int32),
        np.float32(7),
    ]
    variables = [variable(tf, value, name=f"v{i}") for i, value in enumerate(values)]
    with tf.device(WORKER):
        moved = [tf.identity(v) for v in variables]
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        found = session.run(moved)
    return [list(found[0].shape), *found[1:]]


@TABLE.gives([[2_000_000], 1_999_999.0, 1_999_999_000_000.0, True])
def eight_megabytes_travel_in_every_direction(tf: Any, here: Here) -> Any:
    given = np.arange(2_000_000, dtype=np.float32)  # more than gRPC's own limit of 4 MB
    fed = tf.placeholder(tf.float32, [2_000_000])
    v = variable(tf, tf.zeros([2_000_000]))
    set_it = v.assign(fed)
    with tf.device(WORKER):
        last = tf.reduce_max(v)
        on_worker = tf.reduce_sum(tf.cast(v, tf.float64))
        back = v.assign_add(tf.ones([2_000_000]) * tf.cast(last > 0.0, tf.float32))
    with tf.Session(here.worker) as session:
        session.run(set_it.op, {fed: given})
        found = session.run(v)
        total = session.run(on_worker)
        result = [list(found.shape), session.run(last), float(total)]
        session.run(back.op)
        return [*result, bool((session.run(v) == given + 1).all())]


@TABLE.gives([0, 1, "OutOfRangeError"])
def counting_ends_with_out_of_range(tf: Any, here: Here) -> Any:
    v = variable(tf, 0)
    count = v.count_up_to(2)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        seen = [session.run(count), session.run(count)]
        try:
            session.run(count)
        except tf.errors.OpError as error:
            seen.append(type(error).__name__)
    return seen


@TABLE.gives([[[0.0], [2.0]], [[1.0], [3.0]]])
def partitions_of_a_variable_lie_on_two_tasks(tf: Any, here: Here) -> Any:
    devices = iter([PS, WORKER])
    parts = []
    for value in ([[0.0], [2.0]], [[1.0], [3.0]]):
        parts.append(variable(tf, value, name=f"part{len(parts)}", device=next(devices)))
    with tf.device(WORKER):
        whole = tf.concat([parts[0], parts[1]], axis=1)
    with tf.Session(here.worker) as session:
        session.run(tf.global_variables_initializer())
        rows = session.run(whole)
    return rows.T[:, :, None]


@TABLE.gives([10.0, 10.0])
def a_closed_session_leaves_its_variables(tf: Any, here: Here) -> Any:
    v = variable(tf, 10.0)
    seen = []
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        seen.append(session.run(v))
    with tf.Session(here.worker) as session:
        return [*seen, session.run(v)]


@TABLE.gives([1.0, 3.0, 3.0])
def a_graph_that_grows_is_extended(tf: Any, here: Here) -> Any:
    v = variable(tf, 1.0)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        seen = [session.run(v)]
        more = v.assign_add(2.0)
        seen.append(session.run(more))
        with tf.device(WORKER):
            other = tf.identity(v)
        return [*seen, session.run(other)]


@TABLE.gives([400.0, 400.0])
def no_update_of_two_threads_is_lost(tf: Any, here: Here) -> Any:
    import threading

    v = variable(tf, 0.0)
    add = v.assign_add(1.0, use_locking=True).op
    failures = []

    def work(target: str) -> None:
        try:
            with tf.Session(target, graph=v.graph) as session:
                for _ in range(200):
                    session.run(add)
        except Exception as error:
            failures.append(error)

    with tf.Session(here.worker) as one, tf.Session(here.ps) as other:
        one.run(v.initializer)
        threads = [
            threading.Thread(target=work, args=(target,)) for target in (here.worker, here.ps)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return [one.run(v), other.run(v)]
