"""One client, one graph, the work of a step split over two tasks of an in-process cluster."""

import socket
import sys

import numpy as np
from tensorflow.compat.v1 import (
    ConfigProto,
    Graph,
    RunMetadata,
    RunOptions,
    Session,
    add_n,
    constant,
    device,
    get_variable,
    global_variables_initializer,
    gradients,
    reduce_sum,
    split,
    square,
    variable_scope,
)
from tensorflow.compat.v1.train import ClusterSpec, GradientDescentOptimizer, Server
from tensorflow.python.client.timeline import Timeline


def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % free.getsockname()[1]


cluster = ClusterSpec({"worker": sys.argv[1:] or [address(), address()]})
servers = [Server(cluster, "worker", index) for index in range(2)]
with Graph().as_default():
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]]
    data = constant(np.c_[rows, np.dot(rows, [1.0, 2.0])], "float32")
    with device("/job:worker/task:0"), variable_scope("shared"):
        w = get_variable("w", [2], initializer=None, dtype="float32")
    parts = []
    for index, part in enumerate(split(data, 2)):
        with device("/job:worker/task:%d" % index):
            loss = reduce_sum(square(reduce_sum(part[:, :2] * w, 1) - part[:, 2]))
            parts.append(gradients(loss, w)[0])
    with device("/job:worker/task:0"):
        train = GradientDescentOptimizer(0.1).apply_gradients([(add_n(parts), w)])
    with Session(servers[0].target, config=ConfigProto(log_device_placement=False)) as sess:
        sess.run(global_variables_initializer())
        for _ in range(50):
            sess.run(train)
        metadata = RunMetadata()
        sess.run(
            train, options=RunOptions(trace_level=RunOptions.FULL_TRACE), run_metadata=metadata
        )
        found = sess.run(w)
        print("weights", np.round(found, 2).tolist())
        devices = {stats.device.split("/replica")[0] for stats in metadata.step_stats.dev_stats}
        print("devices", len(metadata.step_stats.dev_stats) >= 2, sorted(devices))
        print(
            "trace", "traceEvents" in Timeline(metadata.step_stats).generate_chrome_trace_format()
        )
