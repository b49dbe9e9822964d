"""Tracing a step: what both tasks did, under the names that the user gave."""

from __future__ import annotations

from typing import Any

from tests.interop.scripts.table import PS, WORKER, Here, Table, Unless

TABLE = Table()


def traced(tf: Any, session: Any, fetches: Any) -> Any:
    """RunMetadata of a fully traced step."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(fetches, options=options, run_metadata=metadata)
    return metadata


def program(tf: Any) -> Any:
    with tf.device(PS):
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="weights")
    with tf.device(WORKER):
        product = tf.matmul(v, v, name="product")
    with tf.device(PS):
        return v, v.assign_add(product, name="update")


def on_task(metadata: Any, task: str) -> list[Any]:
    """What the devices of a task did."""
    prefix = task.replace("/task", "/replica:0/task")
    return [
        node for device in metadata.step_stats.dev_stats if device.device.startswith(prefix)
        for node in device.node_stats
    ]  # fmt: skip


@TABLE.gives([True, True, True])
def both_tasks_tell_what_they_did(tf: Any, here: Here) -> Any:
    v, update = program(tf)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        metadata = traced(tf, session, update)
    ps = {node.node_name for node in on_task(metadata, PS)}
    worker = {node.node_name for node in on_task(metadata, WORKER)}
    return ["weights" in ps, "update" in ps, "product" in worker]


@TABLE.gives([True, True])
def times_are_those_of_this_step(tf: Any, here: Here) -> Any:
    import time

    v, update = program(tf)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        began = time.time()
        metadata = traced(tf, session, update)
        ended = time.time()
    nodes = [*on_task(metadata, PS), *on_task(metadata, WORKER)]
    starts = [node.all_start_micros / 1e6 for node in nodes]
    # Clocks of tasks are compared by how long an answer takes, which on a busy machine is long.
    return [all(began - 10 <= start <= ended + 10 for start in starts), len(starts) >= 3]


@TABLE.gives([True, True])
def a_timeline_can_be_made_of_it(tf: Any, here: Here) -> Any:
    import json

    v, update = program(tf)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        metadata = traced(tf, session, update)
    made = here.timeline(metadata.step_stats).generate_chrome_trace_format()
    events = json.loads(made)["traceEvents"]
    names = {event.get("args", {}).get("name") for event in events}
    return ["product" in names, "update" in names]


@TABLE.gives([0, True])
def a_step_that_is_not_traced_tells_nothing(tf: Any, here: Here) -> Any:
    v, update = program(tf)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        metadata = tf.RunMetadata()
        session.run(update, run_metadata=metadata)
        return [
            len(metadata.step_stats.dev_stats),
            len(traced(tf, session, update).step_stats.dev_stats) >= 2,
        ]


@TABLE.gives([["/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"], True])
def the_devices_of_both_tasks_are_listed(tf: Any, here: Here) -> Any:
    with tf.Session(here.worker) as session:
        devices = session.list_devices()
    tasks = sorted({device.name.partition("/device:")[0] for device in devices})
    return [tasks, len({device.incarnation for device in devices}) == len(devices)]


@TABLE.gives(
    [True, True, True],
    unless=Unless("master", "tensorflow", "it records nothing below FULL_TRACE"),
)
def every_level_of_tracing_is_accepted(tf: Any, here: Here) -> Any:
    v, update = program(tf)
    seen = []
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        for level in ("SOFTWARE_TRACE", "HARDWARE_TRACE", "FULL_TRACE"):
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=getattr(tf.RunOptions, level))
            session.run(update, options=options, run_metadata=metadata)
            seen.append(bool(on_task(metadata, PS) and on_task(metadata, WORKER)))
    return seen


@TABLE.gives([True, True, True, [[2, 2]]])
def a_trace_tells_labels_outputs_and_transfers(tf: Any, here: Here) -> Any:
    v, update = program(tf)
    with tf.Session(here.worker) as session:
        session.run(v.initializer)
        metadata = traced(tf, session, update)
    worker = on_task(metadata, WORKER)
    (product,) = [node for node in worker if node.node_name == "product"]
    received = [node for node in worker if node.node_name == "RecvTensor"]
    shapes = [
        [dim.size for dim in output.tensor_description.shape.dim] for output in product.output
    ]
    return [
        product.timeline_label.startswith("product = "),
        bool(received) and "/job:ps" in received[0].timeline_label,
        product.all_end_rel_micros >= product.op_start_rel_micros,
        shapes,
    ]
