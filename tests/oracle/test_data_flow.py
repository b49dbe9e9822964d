"""Queues and their relatives against TensorFlow's: one program under both imports.

Compared are what the program leaves in `result` (or the class of the error that it ends with) and
every node of the graph that it has built.  `data_flow` is the module of that name of either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.python.ops import data_flow_ops

PRELUDE = """
def error_of(make):
    try:
        return make()
    except Exception as error:
        return type(error).__name__

def shapes_of(tensors):
    return [t.shape.as_list() if t.shape.ndims is not None else None for t in tensors]

def plain(value):
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value

def stop(server):
    getattr(server, "stop", int)()

def ran(session, fetch, feed=None, timeout=None):
    options = timeout and tf.RunOptions(timeout_in_ms=timeout)
    return error_of(lambda: plain(session.run(fetch, feed, options=options)))
"""

ORACLE = """
from tensorflow.python.ops import data_flow_ops as data_flow
names = {"tf": tf, "np": np, "data_flow": data_flow}
exec(prelude + program, names)
result = names["result"], tf.get_default_graph().as_graph_def().SerializeToString()
"""

PROGRAMS: dict[str, str] = {
    "padding queue": """
queue = tf.PaddingFIFOQueue(5, [tf.int32, tf.string], shapes=[[None, 2], []], names=["a", "b"])
out = queue.dequeue_many(3), queue.dequeue(), queue.dequeue_up_to(2)
queue.enqueue({"a": [[1, 2]], "b": "x"})
queue.enqueue_many({"b": ["x"], "a": [[[1, 2]]]})
queue.size(), queue.is_closed(), queue.close()
result = [shapes_of([o["a"], o["b"]]) for o in out]
""",
    "priority queue": """
queue = tf.PriorityQueue(5, [tf.string, tf.float32], shapes=[[], [2]], shared_name="s")
out = queue.dequeue_many(3), queue.dequeue(), queue.dequeue_up_to(tf.placeholder(tf.int32))
queue.enqueue([1, "a", [1.0, 2.0]])
queue.enqueue_many([[1, 2], ["a", "b"], [[1.0, 2.0], [3.0, 4.0]]])
result = [shapes_of(o) for o in out], queue.dtypes, queue.name, shapes_of([queue.queue_ref])
result = (result[0], [t.name for t in result[1]], *result[2:])
""",
    "what the constructors refuse": """
result = [error_of(lambda make=make: make() and None) for make in (
    lambda: tf.PriorityQueue(5, [tf.string]),
    lambda: tf.PriorityQueue(5, [tf.string], [[]], names=["x"]),
    lambda: tf.PriorityQueue(5, [tf.string], [[None]]),
    lambda: tf.PaddingFIFOQueue(5, [tf.string], [None]),
    lambda: tf.PaddingFIFOQueue(5, [tf.string], None),
    lambda: tf.PaddingFIFOQueue(5, [tf.string], [[None], [None]]),
    lambda: tf.PaddingFIFOQueue(5, tf.string, [[None]]),
    lambda: tf.PaddingFIFOQueue(5, tf.string, [None]),
    lambda: tf.PaddingFIFOQueue(5, tf.string, tf.TensorShape([None])),
)]
""",
    "what a queue refuses": """
result = [error_of(lambda make=make: make() and None) for make in (
    lambda: tf.PaddingFIFOQueue(5, tf.int32, [[None, 2]]).enqueue([[[1, 2, 3]]]),
    lambda: tf.PriorityQueue(5, tf.string, [[]]).enqueue([[1], "a"]),
    lambda: tf.PriorityQueue(5, tf.string, [[]]).enqueue_many([1, ["a"]]),
    lambda: tf.FIFOQueue(5, tf.int32).enqueue({"a": 1}),
    lambda: tf.FIFOQueue(5, tf.int32, names=["a"]).enqueue(1),
    lambda: tf.FIFOQueue(5, tf.int32, names=["a"]).enqueue({"b": 1}),
    lambda: tf.QueueBase.from_list(0, ()),
    lambda: tf.QueueBase.from_list(0, []),
    lambda: tf.QueueBase.from_list(0, [1]),
    lambda: tf.QueueBase.from_list(0, [tf.FIFOQueue(3, tf.int32), tf.FIFOQueue(3, tf.int64)]),
    lambda: tf.QueueBase.from_list(0, [tf.FIFOQueue(3, tf.int32, names=[n]) for n in "ab"]),
)]
""",
    "one of several queues": """
queues = [tf.FIFOQueue(3, tf.int32, shapes=[[]]), tf.PaddingFIFOQueue(3, tf.int32, shapes=[[]])]
which = tf.placeholder(tf.int32)
queue = tf.QueueBase.from_list(which, queues)
enqueue, size = queue.enqueue(1), [q.size() for q in queues]
out = queue.dequeue_many(2)
with tf.Session() as session:
    result = [ran(session, enqueue, {which: n}) for n in (0, 1, 1, 2, -1)]
    result += [ran(session, size), ran(session, out, {which: 1}), shapes_of([out]), queue.name]
""",
    "queues of several shapes": """
queues = [tf.FIFOQueue(3, tf.int32, shapes=[[2]]), tf.PaddingFIFOQueue(3, tf.int32, [[3]]), tf.FIFOQueue(3, tf.int32)]
result = [shapes_of(tf.QueueBase.from_list(0, q).shapes and [tf.QueueBase.from_list(0, q).dequeue()])
          for q in (queues, queues[:2], queues[:1])]
""",
    "every type": """
types = [tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
         tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string]
values = [tf.as_string([1, 2]) if t == tf.string else tf.cast([1, 2], t) for t in types]
result = []
with tf.Session() as session:
    for make in (lambda: tf.FIFOQueue(9, types), lambda: tf.PaddingFIFOQueue(9, types, [[None]] * len(types)),
                 lambda: tf.RandomShuffleQueue(9, 0, types, [[2]] * len(types))):
        queue = make()
        session.run(queue.enqueue(values))
        session.run(queue.enqueue([v[:1] for v in values] if "padding" in queue.name else values))
        out = session.run(queue.dequeue() if queue.name == "fifo_queue" else queue.dequeue_many(2))
        result += [(str(v.dtype), str(v.tolist())) for v in out]
""",
    "closing from another session": """
server = tf.train.Server.create_local_server()
queue = tf.PaddingFIFOQueue(9, tf.int32, [[None]], shared_name="shared")
with tf.Session(server.target) as one, tf.Session(server.target) as two:
    one.run(queue.enqueue([[1, 2]]))
    result = [ran(two, queue.size()), ran(two, queue.close()), ran(one, queue.is_closed())]
    result += [ran(one, queue.enqueue([[1]])), ran(two, queue.dequeue_up_to(3)), ran(one, queue.dequeue())]
stop(server)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_program_does_the_same(oracle: Any, graph_differences: Any, name: str) -> None:
    program = PROGRAMS[name]
    with tf.Graph().as_default() as graph:
        names: dict[str, Any] = {"tf": tf, "np": np, "data_flow": data_flow_ops}
        exec(PRELUDE + program, names)
        mine = graph.as_graph_def()
    result, theirs = oracle.run(ORACLE, prelude=PRELUDE, program=program)
    assert names["result"] == result
    assert graph_differences(mine, tf.GraphDef.FromString(theirs)) == []
