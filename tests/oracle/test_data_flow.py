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
    "record input": """
plain = data_flow.RecordInput("/nowhere/*", batch_size=3, buffer_size=7, seed=5, shift_ratio=0.5).get_yield_op()
named = data_flow.RecordInput("/nowhere/*", 2, name="records", compression_type="GZIP").get_yield_op()
lists = data_flow.RecordInput("/nowhere/*", batch_size=2, batches=3, name="lists").get_yield_op()
result = shapes_of([plain, named]), [shapes_of(batch) for batch in lists], [[t.name for t in batch] for batch in lists]
with tf.Session() as session:
    result += (ran(session, plain),)
""",
    "replicas in step": """
gs = tf.train.get_or_create_global_step()
with tf.device("/job:ps/task:0"):
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
loss = tf.reduce_sum(v * 2.0) + tf.reduce_sum(tf.gather(w, [0, 2]))
opt = tf.train.SyncReplicasOptimizer(
    tf.train.GradientDescentOptimizer(0.5), replicas_to_aggregate=2, total_num_replicas=4)
train = opt.minimize(loss, global_step=gs)
hook = opt.make_session_run_hook(True)
hook.begin()
runner = opt.get_chief_queue_runner()
result = [train.name, runner.name, [op.name for op in runner.enqueue_ops], runner.close_op.name, runner.cancel_op.name]
result += [opt.chief_init_op.name, opt.local_step_init_op.name, opt.ready_for_local_init_op.name]
result += [sorted(v.name for v in tf.get_collection(key)) for key in ("variables", "local_variables")]
result += [opt.get_init_tokens_op(0).name, opt.get_init_tokens_op(3).name, opt.get_slot_names()]
""",
    "too early for replicas": """
def made(**options):
    return tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.5), 4, **options)
v = tf.Variable([1.0])
result = [error_of(lambda make=make: make() and None) for make in (
    lambda: made().get_chief_queue_runner(),
    lambda: made().get_init_tokens_op(),
    lambda: made().apply_gradients([]),
    lambda: made().apply_gradients([(tf.constant([1.0]), v)]),
)]
""",
    "one replica": """
gs, v = tf.train.get_or_create_global_step(), tf.Variable([1.0, 2.0])
opt = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.5), 2, 1)
x = tf.placeholder(tf.float32, [])
train = opt.minimize(tf.reduce_sum(v * x), global_step=gs)
hook = opt.make_session_run_hook(True, 1)
hook.begin()
coord = tf.train.Coordinator()
with tf.Session() as session:
    result = [error_of(lambda: hook.after_create_session(session, coord))]
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    hook.after_create_session(session, coord)
    for value in (1.0, 3.0, 5.0):
        result.append(ran(session, train, {x: value}))
    result += [ran(session, v), ran(session, gs)]
    coord.request_stop()  # the runner goes on waiting for gradients until the session closes
coord.join(stop_grace_period_secs=60)
""",
    "accumulator nodes": """
a = tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name="s", name="acc")
a.apply_grad([1.0, 2.0], local_step=3), a.num_accumulated(), a.set_global_step(4)
b = tf.SparseConditionalAccumulator(tf.float32, shape=[3, 2], reduction_type="SUM")
indices, values = tf.constant([0], tf.int64), tf.constant([[1.0, 2.0]])
b.apply_indexed_slices_grad(tf.IndexedSlices(values, indices, tf.constant([3, 2], tf.int64)), 5)
b.apply_grad(indices, values, grad_shape=[3, 2]), b.apply_grad(indices, values)
b.apply_grad(tf.constant([0]), values, local_step=tf.placeholder(tf.int64))
taken, slices = b.take_grad(1), b.take_indexed_slices_grad(1)
b.num_accumulated(), b.set_global_step(2)
b.apply_indexed_slices_grad(tf.IndexedSlices(values, indices))
result = [shapes_of([a.take_grad(2), *taken, slices.values, a.accumulator_ref, b.accumulator_ref]), a.name, b.name]
result += [shapes_of([tf.ConditionalAccumulator(tf.float32, s).take_grad(1)]) for s in (None, [None])]
result += [b.dtype.name, b.accumulator_ref.dtype.name, a.accumulator_ref.dtype.name]
""",
    "accumulating": """
result = []
with tf.Session() as session:
    def go(*steps):
        result.extend(ran(session, step) for step in steps)
    for kind in ("MEAN", "SUM"):
        for dtype in (tf.float32, tf.float64, tf.float16):
            a = tf.ConditionalAccumulator(dtype, shape=[2], reduction_type=kind)
            go(a.apply_grad([1, 2]), a.apply_grad([3, 5]), a.num_accumulated(), a.take_grad(1), a.num_accumulated())
    a = tf.ConditionalAccumulator(tf.float32, shape=[2])
    def put(step):
        return a.apply_grad([1.0, 2.0], local_step=step)
    count = a.num_accumulated()
    go(put(0), a.take_grad(1), put(0), count, put(1), count, a.set_global_step(5), count, put(4), count,
       a.set_global_step(3), a.take_grad(1), put(5), count, put(3), count, put(4), put(99), count)
    go(a.take_grad(0), a.take_grad(-1), count)
    vague = tf.placeholder(tf.float32)
    for shape in ([2], None, [None]):
        a = tf.ConditionalAccumulator(tf.float32, shape)
        apply, take = a.apply_grad(vague), a.take_grad(1)
        for value in ([1.0, 2.0], [1.0], [[1.0, 2.0]], 1.0):
            result.append(ran(session, apply, {vague: value}))
        go(take)
        result.append(ran(session, a.apply_grad(vague, 1), {vague: [1.0]}))
        go(a.num_accumulated())
""",
    "accumulating slices": """
result = []
with tf.Session() as session:
    def go(*steps):
        result.extend(ran(session, step) for step in steps)
    def put(a, indices, values, shape=None, step=0):
        return a.apply_grad(tf.constant(indices, tf.int64), tf.constant(values), shape, step)
    for kind in ("MEAN", "SUM"):
        for shape in ([4, 2], [None, 2], None, []):
            a = tf.SparseConditionalAccumulator(tf.float32, shape, reduction_type=kind)
            go(put(a, [0, 2], [[1.0, 1.0], [2.0, 2.0]], [4, 2]), put(a, [2, 3], [[4.0, 4.0], [8.0, 8.0]]))
            go(a.num_accumulated(), put(a, [1, 2], [[1.0, 0.0], [0.0, 1.0]]), a.take_grad(2), a.num_accumulated())
            go(put(a, [0], [[1.0, 2.0]]), a.num_accumulated())
    for pairs in ([([3, 2], [1.0, 2.0]), ([0, 1, 9], [1.0, 2.0, 3.0])], [([2, 2], [1.0, 2.0])],
                  [([3, 1], [1.0, 2.0]), ([2, 0], [10.0, 20.0])],
                  [([1, 1], [1.0, 2.0]), ([1, 1, 4], [10.0, 20.0, 5.0])]):
        a = tf.SparseConditionalAccumulator(tf.float32)
        for pair in pairs:
            go(put(a, *pair))
        go(a.take_grad(1))
    a = tf.SparseConditionalAccumulator(tf.float32)
    go(put(a, [0], [1.0], [5]), put(a, [0], [1.0], [6]), put(a, [0], [1.0]), a.take_grad(1))
    go(put(a, [0], [[1.0, 2.0]], step=1), put(a, [0], [[1.0]], step=1), put(a, [0], [1.0], step=1), a.num_accumulated())
    a = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    i, v, s = tf.placeholder(tf.int64), tf.placeholder(tf.float32), tf.placeholder(tf.int64)
    plain, shaped = a.apply_grad(i, v), a.apply_grad(i, v, s)
    for indices, values, shape in (([0, 1], [[1.0, 2.0]], None), ([0], [[1.0]], None), ([9], [[1.0, 2.0]], None),
                                   ([0], [[1.0, 2.0]], [5, 2]), ([[0]], [[1.0, 2.0]], None), ([0], 1.0, None)):
        feed = {i: indices, v: values}
        if shape:
            feed[s] = shape
        result.append(ran(session, shaped if shape else plain, feed))
    go(a.num_accumulated())
""",
    "sharing an accumulator": """
def made(shape=(2,), name="q", kind=tf.ConditionalAccumulator, dtype=tf.float32):
    return kind(dtype, shape=shape, shared_name=name)
with tf.Session() as session:
    result = [ran(session, step) for step in (
        made().apply_grad([1.0, 2.0]), made().num_accumulated(), made((3,)).num_accumulated(),
        made(dtype=tf.float64).num_accumulated(), made(name=None).num_accumulated(), made(name="r").num_accumulated())]
""",
    "what an accumulator refuses": """
A, S = tf.ConditionalAccumulator, tf.SparseConditionalAccumulator
result = [error_of(lambda make=make: make() and None) for make in (
    lambda: A(tf.float32, reduction_type="X"),
    lambda: A(tf.string),
    lambda: A(tf.float32, shape=[2]).apply_grad([1.0, 2.0, 3.0]),
    lambda: A(tf.float32, shape=[2]).apply_grad(tf.constant([1, 2])),
    lambda: S(tf.float32, reduction_type="mean"),
)]
""",
    "barrier": """
barrier = data_flow.Barrier((tf.float32, tf.string), shapes=((2,), ()), shared_name="s", name="B")
barrier.insert_many(0, ["a", "b"], [[1.0, 2.0], [3.0, 4.0]])
taken, small = barrier.take_many(3), barrier.take_many(3, allow_small_batch=True, name="T")
barrier.close(), barrier.ready_size(), barrier.incomplete_size()
result = [shapes_of([t.indices, t.keys, *t.values]) for t in (taken, small)]
result += [barrier.name, shapes_of([barrier.barrier_ref]), barrier.barrier_ref.dtype.name]
free = data_flow.Barrier((tf.int32,)).take_many(tf.placeholder(tf.int32))
result += [shapes_of([free.indices, *free.values])]
""",
    "putting together": """
barrier = data_flow.Barrier((tf.int32, tf.int32), shapes=((), ()))
put, take = barrier.insert_many, barrier.take_many
with tf.Session() as session:
    result = [ran(session, step) for step in (
        put(0, ["a", "b", "c"], [1, 2, 3]), barrier.ready_size(), barrier.incomplete_size(),
        put(1, ["c", "a"], [30, 10]),
        barrier.ready_size(), barrier.incomplete_size(), take(2), barrier.ready_size(), put(0, ["a"], [7]),
        put(0, ["a"], [7]), put(0, ["b"], [7]), put(1, ["b"], [20]), take(1), take(0), put(0, ["d"], [8]),
        put(1, ["e", "d", "a"], [1, 2, 3]), take(2), put(0, ["e", "e"], [4, 5]), take(1), barrier.incomplete_size())]
    result += [ran(session, step) for step in (
        barrier.close(), put(0, ["z"], [1]), put(1, ["e"], [50]), put(1, ["e"], [50]), barrier.ready_size(), take(2),
        take(2, True), take(1, True), take(0), take(0, True), barrier.close(), barrier.close(True),
        barrier.close(True))]
""",
    "closing a barrier": """
barrier = data_flow.Barrier((tf.int32, tf.int32), shapes=((), ()))
put, take = barrier.insert_many, barrier.take_many
with tf.Session() as session:
    result = [ran(session, step) for step in (
        put(0, ["a", "b"], [1, 2]), put(1, ["a"], [1]), barrier.close(), take(3), barrier.close(True),
        barrier.incomplete_size(), barrier.ready_size(), put(1, ["b"], [1]), put(0, ["z"], [1]), take(2), take(2, True),
        take(1), take(1, True), barrier.close(True))]
""",
    "a barrier of one component": """
barrier = data_flow.Barrier((tf.int32,))
with tf.Session() as session:
    result = [ran(session, step) for step in (
        barrier.insert_many(0, ["a", "b"], [1, 2]), barrier.ready_size(), barrier.insert_many(0, ["c"], [[1, 2]]),
        barrier.take_many(2))]
""",
    "sharing a barrier": """
def made(types=(tf.int32, tf.int32), shapes=((), ()), name="q"):
    return data_flow.Barrier(types, shapes=shapes, shared_name=name)
with tf.Session() as session:
    result = [ran(session, step) for step in (
        made().insert_many(0, ["a"], [1]), made().incomplete_size(), made((tf.int32,), ((),)).incomplete_size(),
        made(shapes=((2,), ())).incomplete_size(), made(name=None).incomplete_size())]
""",
    "what a barrier refuses": """
def made():
    return data_flow.Barrier((tf.int32, tf.int32), shapes=((), ()))
result = [error_of(lambda make=make: make() and None) for make in (
    lambda: data_flow.Barrier((tf.int32,), shapes=((None,),)),
    lambda: data_flow.Barrier((), shapes=None),
    lambda: made().insert_many(0, "a", [1]),
    lambda: made().insert_many(0, ["a", "b"], [1]),
)]
with tf.Session() as session:
    result += [ran(session, step) for step in (
        made().insert_many(5, ["a"], [1]), made().insert_many(0, ["a"], [1.0]))]
""",
    "staging area": """
area = data_flow.StagingArea([tf.int32, tf.float32], [[], [2]], ["a", "b"], capacity=3, memory_limit=100)
one, two = tf.constant(1), tf.constant([1.0, 2.0])
put, size, clear = area.put({"b": two, "a": one}), area.size(), area.clear()
out = area.get(), area.peek(0), area.peek(1)
result = [area.name, area.names, area.capacity, area.memory_limit, [t.name for t in area.dtypes]]
result += [shapes_of([o["a"], o["b"]]) for o in out]
with tf.Session() as session:
    result += [ran(session, f) for f in (size, put, put, size, out[1], out[0], out[1], clear, size, put, size)]
""",
    "staging by key": """
result = []
for ordered in (False, True):
    area = data_flow.MapStagingArea([tf.int32, tf.int32], ordered=ordered)
    def number(n, kind=tf.int32):
        return tf.constant(n, kind)
    def put(key, **parts):
        at = sorted(int(name[1]) for name in parts)
        return area.put(number(key, tf.int64), [number(parts["c%d" % i]) for i in at], at)
    def get(key, at=None):
        return area.get(number(key, tf.int64), at)
    with tf.Session() as session:
        for step in (put(3, c0=3, c1=30), put(2, c0=2, c1=20), put(9, c0=5), area.size(), area.incomplete_size(),
                     area.peek(number(3, tf.int64)), area.peek(number(3, tf.int64), [1]), get(3), area.size(),
                     put(9, c1=7), area.size(), area.incomplete_size(), get(9, [0]), get(9, [0]), get(9), area.size(),
                     get(9, [1]), area.size(), put(2, c0=8, c1=9), area.get(None, [1]), get(2, [0]), area.size(),
                     put(50, c0=1), put(50, c0=1), area.put(number(1, tf.int64), [number(1), number(2)], [1, 0]),
                     put(4, c0=1, c1=2), get(4, [1, 0]), area.clear(), area.size(), area.incomplete_size()):
            result.append(ran(session, step))
        if ordered:
            for key in (5, -3, 4):
                session.run(put(key, c0=key, c1=0))
            result += [ran(session, area.get()) for _ in range(3)]
""",
    "staging by key and name": """
area = data_flow.MapStagingArea([tf.int32, tf.int32], [[], []], ["a", "b"], ordered=True, capacity=3)
key, one = tf.constant(1, tf.int64), tf.constant(1)
area.put(key, {"b": one, "a": one}), area.put(key, {"b": one})
out = area.get(key)[1], area.peek(key), area.get(key, ["b"])[1], area.get()[1]
result = [{n: t.shape.as_list() for n, t in o.items()} for o in out]
""",
    "areas by shared name": """
result = []
def area(**options):
    return data_flow.StagingArea([tf.int32], **options)
for one, two in ((dict(shared_name="x"), dict(shared_name="x")), (dict(shared_name="y"), dict(shared_name="z")),
                 ({}, {}), (dict(shared_name="u", capacity=1), dict(shared_name="u", capacity=2))):
    one, two = area(**one), area(**two)
    with tf.Session() as session:
        session.run(one.put([tf.constant(1)]))
        result += [one.name, two.name, ran(session, two.size())]
""",
    "an area on a device": """
with tf.device("/cpu:0"):
    area = data_flow.StagingArea([tf.int32])
result = [t.name for t in area.get()], area.put([tf.constant(1)]).device, area.size().device
""",
    "what an area refuses": """
one = tf.constant(1)
S, M = data_flow.StagingArea, data_flow.MapStagingArea
key = tf.constant(1, tf.int64)
def two(**options):
    return M([tf.int32, tf.int32], **options)
result = [error_of(lambda make=make: make() and None) for make in (
    lambda: S([tf.int32], names="a").get(),
    lambda: S([tf.int32]).put([one, one]),
    lambda: S([tf.int32]).put({"a": one}),
    lambda: S([tf.int32], names=["a"]).put([one]),
    lambda: S([tf.int32], names=["a"]).put({"b": one}),
    lambda: S([tf.int32], shapes=[[2]]).put([tf.constant([1, 2, 3])]),
    lambda: S([tf.float32]).put([one]),
    lambda: S([tf.int32]).put([]),
    lambda: S([tf.int32], capacity=-1).put([one]),
    lambda: S([tf.int32], shapes=[[], []]),
    lambda: S([tf.int32], names=["a", "b"]),
    lambda: two().put(key, [one]),
    lambda: two().put(key, [one, one]),
    lambda: two(names=["a", "b"]).put(key, {"c": one}),
    lambda: two().put(key, {"a": one}),
    lambda: two().get(key, ["a"]),
    lambda: two().put(key, [one, one], [0]),
    lambda: two().get(key, []),
)]
with tf.Session() as session:
    result.append(ran(session, S([tf.int32], memory_limit=10).put([tf.constant([1, 2, 3])])))
    result.append(ran(session, S([tf.string], memory_limit=60).put([tf.constant("x" * 37)])))
    result.append(ran(session, S([tf.string], memory_limit=60).put([tf.constant("x" * 36)])))
""",
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
