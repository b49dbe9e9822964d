"""Sessions: partial runs, callables, options, many at once, clusters that a session brings along."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tests.interop.scripts.table import PS, WORKER, Here, Table

TABLE = Table()


def sums(tf: Any) -> Any:
    """Placeholders a on the ps and b, c on the worker; (a + b) on the ps, (a + b) * c on the worker."""
    with tf.device(PS):
        a = tf.placeholder(tf.float32, [], name="a")
    with tf.device(WORKER):
        b, c = (tf.placeholder(tf.float32, [], name=name) for name in "bc")
    with tf.device(PS):
        first = tf.add(a, b, name="first")
    with tf.device(WORKER):
        return a, b, c, first, tf.multiply(first, c, name="second")


@TABLE.gives([3.0, 30.0, [5.0, 10.0]])
def a_step_is_run_piece_by_piece(tf: Any, here: Here) -> Any:
    a, b, c, first, second = sums(tf)
    with tf.Session(here.worker) as session:
        one = session.partial_run_setup([first, second], [a, b, c])
        other = session.partial_run_setup([first, second], [a, b, c])
        begun = session.partial_run(one, first, {a: 1.0, b: 2.0})
        whole = session.partial_run(other, [first, second], {a: 2.0, b: 3.0, c: 2.0})
        return [begun, session.partial_run(one, second, {c: 10.0}), whole]


@TABLE.raises("InvalidArgumentError")
def a_piece_that_was_fetched_is_not_fetched_again(tf: Any, here: Here) -> Any:
    a, b, c, first, second = sums(tf)
    with tf.Session(here.worker) as session:
        handle = session.partial_run_setup([first, second], [a, b, c])
        session.partial_run(handle, first, {a: 1.0, b: 2.0})
        session.partial_run(handle, first, {c: 1.0})


@TABLE.raises("InvalidArgumentError")
def a_piece_needs_its_feeds(tf: Any, here: Here) -> Any:
    a, b, c, first, second = sums(tf)
    with tf.Session(here.worker) as session:
        handle = session.partial_run_setup([first, second], [a, b, c])
        session.partial_run(handle, second, {a: 1.0, b: 2.0})


@TABLE.gives([[3.0, 30.0], [7.0, 7.0]])
def a_callable_takes_feeds_in_order(tf: Any, here: Here) -> Any:
    a, b, c, first, second = sums(tf)
    with tf.Session(here.worker) as session:
        call = session.make_callable([first, second], [a, b, c])
        return [call(1.0, 2.0, 10.0), call(3.0, 4.0, 1.0)]


@TABLE.gives([[3.0, 30.0], [7.0, 70.0]])
def a_callable_is_kept_by_the_master(tf: Any, here: Here) -> Any:
    sums(tf)
    options = here.callable_options(feed=["a:0", "b:0", "c:0"], fetch=["first:0", "second:0"])
    given = [np.float32(number) for number in (1, 2, 10, 3, 4, 10)]
    with tf.Session(here.worker) as session:
        call = session._make_callable_from_options(options)
        return [call(*given[:3]), call(*given[3:])]


@TABLE.gives([16.0])
def a_connection_feeds_one_tensor_with_another(tf: Any, here: Here) -> Any:
    _, _, _, _, second = sums(tf)
    with tf.device(PS):
        tf.constant(8.0, name="eight")
    options = here.callable_options(feed=["c:0"], fetch=[second.name])
    options.tensor_connection.add(from_tensor="eight:0", to_tensor="first:0")
    with tf.Session(here.worker) as session:
        return session._make_callable_from_options(options)(np.float32(2))


@TABLE.gives(
    {"dict": [3.0, [30.0, None]], "text": b"x", "again": [3.0, 3.0], "fed": 1.0, "nothing": []}
)
def fetches_come_back_as_they_were_asked_for(tf: Any, here: Here) -> Any:
    a, b, c, first, second = sums(tf)
    with tf.device(PS):
        text, op = tf.constant("x"), tf.no_op()
    with tf.Session(here.worker) as session:
        asked = {
            "dict": (first, [second, op]),
            "text": text,
            "again": [first, first],
            "fed": a,
            "nothing": [],
        }
        return session.run(asked, {a: 1.0, b: 2.0, c: 10.0})


@TABLE.gives([50.0, 5.0])
def what_is_computed_may_be_fed(tf: Any, here: Here) -> Any:
    _, _, c, first, second = sums(tf)
    with tf.Session(here.worker) as session:
        return session.run([second, first], {first: 5.0, c: 10.0})


@TABLE.gives([["/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"], True])
def partition_graphs_are_given(tf: Any, here: Here) -> Any:
    a, b, c, _, second = sums(tf)
    with tf.Session(here.worker) as session:
        metadata = tf.RunMetadata()
        options = tf.RunOptions(output_partition_graphs=True)
        session.run(second, {a: 1.0, b: 2.0, c: 3.0}, options, metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    tasks = {node.device.partition("/device:")[0] for node in nodes if node.device}
    return [sorted(tasks), {"first", "second"} <= {node.name for node in nodes}]


@TABLE.gives([[3.0, 12.0], "RuntimeError"])
def an_interactive_session_is_the_default(tf: Any, here: Here) -> Any:
    a, b, c, first, second = sums(tf)
    session = tf.InteractiveSession(here.worker)
    seen = [first.eval({a: 1.0, b: 2.0}), second.eval({first: 3.0, c: 4.0})]
    session.close()
    try:
        session.run(first, {a: 1.0, b: 2.0})
    except RuntimeError as error:
        return [seen, type(error).__name__]


@TABLE.gives([8, 200.0])
def many_threads_run_one_session(tf: Any, here: Here) -> Any:
    a, b, _, first, _ = sums(tf)
    with tf.device(PS):
        v = tf.Variable(0.0, name="v")
        add = v.assign_add(1.0, use_locking=True)
    right = []

    def work(number: int) -> None:
        made = [session.run([first, add], {a: number, b: i})[0] for i in range(25)]
        right.append(made == [number + i for i in range(25)])

    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [sum(right), session.run(v)]


@TABLE.gives([[1.0, 2.0, 3.0, 4.0], 4.0])
def one_client_holds_sessions_on_both_servers(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable(0.0, name="v")
        add = v.assign_add(1.0)
    sessions = [tf.Session(target) for target in (here.worker, here.ps, here.worker, here.ps)]
    sessions[0].run(v.initializer)
    seen = [session.run(add) for session in sessions]
    for session in sessions[1:]:
        session.close()
    seen.append(sessions[0].run(v))
    sessions[0].close()
    return [seen[:4], seen[4]]


@TABLE.gives([2.0, "FailedPreconditionError"])
def an_isolated_session_shares_no_state(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        v = tf.Variable(2.0, name="v")
    with tf.Session(here.worker, config=tf.ConfigProto(isolate_session_state=True)) as session:
        session.run(v.initializer)
        seen = session.run(v)
    with tf.Session(here.worker) as session:
        try:
            session.run(v)
        except tf.errors.OpError as error:
            return [seen, type(error).__name__]


@TABLE.gives([["/job:worker/replica:0/task:0"], "InvalidArgumentError"])
def device_filters_hide_tasks(tf: Any, here: Here) -> Any:
    with tf.device(PS):
        hidden = tf.constant(1.0) + 1.0
    config = tf.ConfigProto(device_filters=["/job:worker"])
    with tf.Session(here.worker, config=config) as session:
        devices = session.list_devices()
        tasks = sorted({device.name.partition("/device:")[0] for device in devices})
        try:
            session.run(hidden)
        except tf.errors.OpError as error:
            return [tasks, type(error).__name__]


@TABLE.gives([3.0, ["/job:left/replica:0/task:0", "/job:right/replica:0/task:3"]])
def a_session_may_bring_a_cluster(tf: Any, here: Here) -> Any:
    with tf.device("/job:right/task:3"):
        a = tf.placeholder_with_default(1.0, [])
    with tf.device("/job:left/task:0"):
        total = a + 2.0
    addresses = [target[len("grpc://") :] for target in (here.worker, here.ps)]
    spec = tf.train.ClusterSpec({"left": {0: addresses[0]}, "right": {3: addresses[1]}})
    config = tf.ConfigProto(cluster_def=spec.as_cluster_def(), isolate_session_state=True)
    with tf.Session(here.worker, config=config) as session:
        tasks = {device.name.partition("/device:")[0] for device in session.list_devices()}
        return [session.run(total), sorted(tasks)]


@TABLE.gives(
    [2.0, 5.0, 1, "FailedPreconditionError", "FailedPreconditionError", "InvalidArgumentError"]
)
def a_session_with_a_cluster_of_its_own_has_state_of_its_own(tf: Any, here: Here) -> Any:
    addresses = [target[len("grpc://") :] for target in (here.worker, here.ps)]
    spec = tf.train.ClusterSpec({"left": {0: addresses[0]}, "right": {3: addresses[1]}})
    config = tf.ConfigProto(cluster_def=spec.as_cluster_def())
    same = tf.train.ClusterSpec({"worker": {0: addresses[0]}})
    graphs = {}
    for name, device in (("own", "/job:right/task:3"), ("shared", "/job:ps/task:0")):
        graphs[name] = tf.Graph()
        with graphs[name].as_default(), tf.device(device):
            v = tf.Variable(2.0, name="v")
            queue = tf.FIFOQueue(3, tf.float32, [[]], shared_name="queue_of_clusters")
            graphs[name].steps = [v, v.initializer, v.assign(5.0), queue.enqueue(1.0), queue.size()]

    def ends_with(step, graph, **options):
        with tf.Session(here.worker, graph=graphs[graph], **options) as session:
            try:
                session.run(step)
            except tf.errors.OpError as error:
                return type(error).__name__

    v, init, _, put, _ = graphs["shared"].steps
    own_v, own_init, own_assign, own_put, own_size = graphs["own"].steps
    with (
        tf.Session(here.worker, graph=graphs["shared"]) as shared,
        tf.Session(here.worker, graph=graphs["own"], config=config) as own,
    ):
        shared.run([init, put])
        own.run(own_init)
        own.run(own_assign)
        own.run(own_put)
        seen = [shared.run(v), own.run(own_v), int(own.run(own_size))]
        other = ends_with(own_v, "own", config=config)
    after = ends_with(own_v, "own", config=config)
    return [
        *seen,
        other,
        after,
        ends_with(v, "shared", config=tf.ConfigProto(cluster_def=same.as_cluster_def())),
    ]


@TABLE.gives([3.0, 9.0, 12.0])
def a_graph_grows_under_a_callable_and_a_partial_run(tf: Any, here: Here) -> Any:
    a, b, c, first, second = sums(tf)
    with tf.Session(here.worker) as session:
        call = session.make_callable(first, [a, b])
        handle = session.partial_run_setup([first, second], [a, b, c])
        session.partial_run(handle, first, {a: 1.0, b: 2.0})
        with tf.device(PS):
            more = first * 3.0
        return [
            call(1.0, 2.0),
            session.run(more, {a: 1.0, b: 2.0}),
            session.partial_run(handle, second, {c: 4.0}),
        ]
