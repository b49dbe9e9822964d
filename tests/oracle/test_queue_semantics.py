"""Queues against TensorFlow's: scripts of operations, same results, same classes of error, same waits.

Operations are started one after the other; one that blocks stays behind in a thread of the oracle
(and a Pending here) while the script goes on.  Ours runs first and says which operations should
block, so that the oracle knows how long to wait before it believes that one does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.padding import PaddingFIFOQueue
from headrace.run.queues.priority import PriorityQueue, priority_spec
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import RandomShuffleQueue
from headrace.run.queues.spec import QueueSpec
from headrace.run.state.resources import ResourceManager

Step = tuple[Any, ...]
KINDS: dict[str, type[Queue]] = {
    "fifo": FIFOQueue,
    "shuffle": RandomShuffleQueue,
    "padding": PaddingFIFOQueue,
    "priority": PriorityQueue,
}
TYPES = {kind: ["int32"] for kind in KINDS} | {"priority": ["int64", "int32"]}
"""Of the components.  A tuple in a script holds one value for each, anything else is the only one."""


def spec_of(kind: str, types: list[str], attrs: dict[str, Any]) -> QueueSpec:
    dtypes_ = [dtypes.as_dtype(name) for name in types]
    if kind == "priority":
        return priority_spec(dtypes_, attrs["shapes"], attrs["capacity"])
    return QueueSpec.make(dtypes_, **attrs, sizes_vary=kind == "padding")


PATIENCE_S = (0.3, 2.0, 10.0)
"""After which what should block is believed to.  What a busy machine keeps from beginning comes after the next one."""

ORACLE = """
import threading
from tensorflow.python.ops import gen_data_flow_ops as g

attrs = dict(attrs, shapes=[tf.TensorShape(s) for s in attrs["shapes"]])
make = {"fifo": g.fifo_queue_v2, "shuffle": g.random_shuffle_queue_v2,
        "padding": g.padding_fifo_queue_v2, "priority": g.priority_queue_v2}[kind]
types = [tf.as_dtype(name) for name in types]
queue = make(component_types=types[1:] if kind == "priority" else types, **attrs)
number, batch = tf.placeholder(tf.int32), [tf.placeholder(t) for t in types]
ops = {
    "enqueue": g.queue_enqueue_v2(queue, batch),
    "enqueue_many": g.queue_enqueue_many_v2(queue, batch),
    "dequeue": g.queue_dequeue_v2(queue, types),
    "dequeue_many": g.queue_dequeue_many_v2(queue, number, types),
    "dequeue_up_to": g.queue_dequeue_up_to_v2(queue, number, types),
    "close": g.queue_close_v2(queue),
    "cancel": g.queue_close_v2(queue, cancel_pending_enqueues=True),
    "size": g.queue_size_v2(queue),
    "is_closed": g.queue_is_closed_v2(queue),
}
session = tf.Session()
outcomes = ["waits"] * len(script)

def run(at):
    name, *argument = script[at]
    feed = {}
    if argument:
        feed = {number: argument[0]}
        if "enqueue" in name:
            values = argument[0] if isinstance(argument[0], tuple) else (argument[0],)
            feed = dict(zip(batch, values))
    try:
        value = session.run(ops[name], feed)
        if isinstance(value, list):
            value = [np.asarray(v).tolist() for v in value]
            value = value[0] if len(value) == 1 else value
        outcomes[at] = ("ok", value.tolist() if hasattr(value, "tolist") else value)
    except tf.errors.OpError as error:
        outcomes[at] = ("error", type(error).__name__)

threads = []
for at in range(len(script)):
    threads.append(threading.Thread(target=run, args=(at,)))
    threads[at].start()
    threads[at].join(patience if at in block else 60)
for at, thread in enumerate(threads):
    thread.join(0.1 if at in wait else 60)
result = list(outcomes)
session.close()
for thread in threads:
    thread.join()
"""


def ours(kind: str, attrs: dict[str, Any], script: list[Step]) -> tuple[list[Any], set[int]]:
    """The outcomes, and which operations were not done at once."""
    queue = KINDS[kind]("q", spec_of(kind, TYPES[kind][kind == "priority" :], attrs))
    results: list[Any] = []
    blocked = set()
    for at, (name, *argument) in enumerate(script):
        result = begin(queue, name, *argument)
        if isinstance(result, Pending) and not result.done:
            blocked.add(at)
        results.append(result)
    return [outcome(r) for r in results], blocked


def begin(queue: Queue, name: str, argument: Any = None) -> Any:
    if name in ("enqueue", "enqueue_many"):
        values = argument if isinstance(argument, tuple) else (argument,)
        types = [t.np for t in queue.spec.component_types]
        return getattr(queue, name)([np.array(v, t) for v, t in zip(values, types, strict=False)])
    if name in ("dequeue_many", "dequeue_up_to"):
        return getattr(queue, name)(argument)
    if name == "cancel":
        return queue.close(cancel_pending_enqueues=True)
    return getattr(queue, name)()


def outcome(result: Any) -> Any:
    if not isinstance(result, Pending):
        return "ok", result
    if not result.done:
        return "waits"
    if result.error is not None:
        return "error", type(result.error).__name__
    value = result.result()
    if value is None:
        return "ok", None
    plain = [component.tolist() for component in value]
    return "ok", plain[0] if len(plain) == 1 else plain


DRAIN: list[Step] = [("size",), ("is_closed",), ("cancel",), ("dequeue_up_to", 50), ("dequeue",)]

FIFO_SCRIPTS: dict[str, list[Step]] = {
    "order": [("enqueue", 1), ("enqueue_many", [2, 3]), ("dequeue",), ("dequeue_many", 2)],
    "dequeue waits": [("dequeue",), ("enqueue", 1), ("dequeue_many", 2), ("enqueue_many", [2, 3])],
    "enqueue waits": [("enqueue_many", [1, 2, 3]), ("enqueue", 4), ("dequeue",)],
    "up to waits for all while open": [("enqueue", 1), ("dequeue_up_to", 2), ("enqueue", 2)],
    "in parts": [("enqueue_many", [0, 1, 2, 3, 4]), ("size",), ("dequeue",), ("size",)],
    "parts and one behind": [
        ("enqueue_many", [0, 1, 2, 3, 4]),
        ("enqueue", 9),
        ("dequeue_many", 3),
    ],
    "more than the capacity": [
        ("enqueue_many", [0, 1]),
        ("dequeue_many", 5),
        ("size",),
        ("enqueue_many", [2, 3, 4, 5]),
        ("size",),
    ],
    "no overtaking": [("dequeue_many", 2), ("dequeue",), ("enqueue", 1), ("enqueue_many", [2, 3])],
    "close and drain": [("enqueue_many", [1, 2]), ("close",), ("dequeue",), ("enqueue", 3)],
    "closed, many": [("enqueue", 1), ("close",), ("dequeue_many", 2), ("dequeue",)],
    "closed, up to": [("enqueue", 1), ("close",), ("dequeue_up_to", 2), ("dequeue_up_to", 2)],
    "close ends waits": [("dequeue",), ("dequeue_many", 2), ("dequeue_up_to", 2), ("close",)],
    "close gives back": [("enqueue_many", [1, 2]), ("dequeue_many", 3), ("size",), ("close",)],
    "close gives the rest": [
        ("enqueue_many", [1, 2]),
        ("dequeue_many", 3),
        ("dequeue_up_to", 5),
        ("close",),
    ],
    "close waits": [
        ("enqueue_many", [0, 1, 2, 3]),
        ("close",),
        ("is_closed",),
        ("enqueue", 9),
        ("dequeue",),
        ("is_closed",),
    ],
    "cancel": [("enqueue_many", [0, 1, 2, 3, 4]), ("enqueue", 9), ("close",), ("cancel",)],
    "close twice": [("close",), ("close",), ("cancel",), ("cancel",)],
    "closed enqueues": [("close",), ("enqueue", 1), ("enqueue_many", [1, 2])],
    "nothing": [
        ("enqueue_many", []),
        ("dequeue_many", 0),
        ("dequeue_up_to", 0),
        ("close",),
        ("enqueue_many", []),
        ("dequeue_many", 0),
        ("dequeue_up_to", 0),
    ],
    "negative": [("dequeue_many", -1), ("dequeue_up_to", -1), ("close",), ("dequeue_many", -1)],
    "misfits": [
        ("enqueue", [1, 2]),
        ("enqueue_many", [[1, 2]]),
        ("enqueue_many", 1),
        ("close",),
        ("enqueue", [1, 2]),
    ],
}

SHUFFLE_SCRIPTS: dict[str, list[Step]] = {
    "order": [("enqueue_many", list(range(8))), ("dequeue",), ("dequeue_many", 3), ("dequeue",)],
    "minimum": [("enqueue_many", [1, 2]), ("dequeue",), ("enqueue", 3), ("dequeue",), ("close",)],
    "closed minimum": [("enqueue_many", [1, 2]), ("close",), ("dequeue_many", 2)],
    "sets aside": [("enqueue_many", [0, 1, 2, 3]), ("dequeue_many", 4), ("size",), ("close",)],
    "gives back": [("enqueue_many", [0, 1, 2, 3, 4]), ("dequeue_many", 7), ("size",), ("close",)],
    "more than the capacity": [
        ("enqueue_many", list(range(8))),
        ("dequeue_many", 9),
        ("enqueue_many", list(range(10, 18))),
    ],
    "up to": [("enqueue_many", [0, 1, 2]), ("dequeue_up_to", 4), ("close",), ("dequeue",)],
}

PADDING_SCRIPTS: dict[str, list[Step]] = {
    "as they are": [("enqueue", [[1, 2]]), ("enqueue", []), ("dequeue",), ("dequeue",)],
    "padded": [
        ("enqueue", [[1, 2]]),
        ("enqueue", [[3, 4], [5, 6], [7, 8]]),
        ("enqueue", [[9, 9]]),
        ("dequeue_many", 3),
    ],
    "many": [
        ("enqueue_many", [[[1, 2]], [[3, 4]]]),
        ("dequeue",),
        ("enqueue", np.zeros((0, 2), np.int32)),
        ("dequeue_many", 2),
    ],
    "set aside": [
        ("dequeue_many", 5),
        ("enqueue", [[1, 1], [2, 2]]),
        ("size",),
        ("enqueue_many", np.zeros((4, 1, 2), np.int32)),
    ],
    "up to": [("enqueue", [[1, 1]]), ("dequeue_up_to", 3), ("enqueue", [[1, 2]] * 2), ("close",)],
    "gives back": [("enqueue", [[1, 1]]), ("dequeue_many", 3), ("close",), ("size",)],
    "nothing": [("dequeue_many", 0), ("close",), ("dequeue_up_to", 0), ("enqueue", [[1, 1]])],
    "misfits": [
        ("enqueue", [[1]]),
        ("enqueue", [1, 2]),
        ("enqueue_many", [[1, 2]]),
        ("enqueue_many", [[[[1, 2]]]]),
        ("enqueue_many", 1),
    ],
}

PRIORITY_SCRIPTS: dict[str, list[Step]] = {
    "order": [
        ("enqueue", (5, 50)),
        ("enqueue_many", ([3, -4, 2**40], [30, 40, 60])),
        ("dequeue",),
        ("dequeue_many", 2),
        ("dequeue",),
    ],
    "all at once": [
        ("enqueue", (5, 50)),
        ("dequeue_many", 2),
        ("size",),
        ("enqueue", (3, 30)),
    ],
    "a dequeue behind": [("dequeue_many", 2), ("dequeue",), ("enqueue_many", ([3, 2], [30, 20])), ("enqueue", (1, 1))],
    "above the capacity": [("dequeue_many", 4), ("enqueue_many", ([3, 2, 1, 0], [3, 2, 1, 0])), ("dequeue_many", 2)],
    "up to": [("enqueue_many", ([3, 2], [30, 20])), ("dequeue_up_to", 3), ("close",)],
    "closed": [("enqueue_many", ([3, 2], [30, 20])), ("close",), ("dequeue_many", 3), ("enqueue", (1, 1))],
    "nothing": [("dequeue_many", 0), ("close",), ("dequeue_up_to", 0)],
    "misfits": [("enqueue", ([1], 1)), ("enqueue", (1, [1])), ("enqueue_many", (1, [1]))],
    "uneven": [("enqueue_many", ([1, 2], [1]))],
}  # fmt: skip


@pytest.mark.parametrize("name", PADDING_SCRIPTS)
def test_padding_queues_agree(oracle: Any, name: str) -> None:
    script = PADDING_SCRIPTS[name] + DRAIN
    compare(oracle, "padding", {"capacity": 3, "shapes": [(None, 2)]}, script)


@pytest.mark.parametrize("name", FIFO_SCRIPTS)
def test_padding_queues_of_fixed_sizes_agree(oracle: Any, name: str) -> None:
    compare(oracle, "padding", {"capacity": 3, "shapes": [()]}, FIFO_SCRIPTS[name] + DRAIN)


@pytest.mark.parametrize("name", PRIORITY_SCRIPTS)
def test_priority_queues_agree(oracle: Any, name: str) -> None:
    """After a dequeue_up_to that fails TensorFlow has lost the elements; so it comes last if at all."""
    drain = [] if name == "up to" else [*DRAIN[:3], ("dequeue",)]
    script = PRIORITY_SCRIPTS[name] + drain
    compare(oracle, "priority", {"capacity": 3, "shapes": [()]}, script)


@pytest.mark.parametrize("name", FIFO_SCRIPTS)
def test_fifo_queues_agree(oracle: Any, name: str) -> None:
    compare(oracle, "fifo", {"capacity": 3, "shapes": [()]}, FIFO_SCRIPTS[name] + DRAIN)


@pytest.mark.parametrize("name", SHUFFLE_SCRIPTS)
@pytest.mark.parametrize("seeds", [(1, 2), (0, 5), (2**40 + 3, -1)])
def test_shuffle_queues_agree_to_the_order(oracle: Any, name: str, seeds: tuple[int, int]) -> None:
    attrs = {"capacity": 8, "shapes": [()], "min_after_dequeue": 2}
    attrs |= {"seed": seeds[0], "seed2": seeds[1]}
    compare(oracle, "shuffle", attrs, SHUFFLE_SCRIPTS[name] + DRAIN)


def test_queues_without_shapes_agree(oracle: Any) -> None:
    script = [
        ("enqueue", 1),
        ("enqueue", [2, 3]),
        ("enqueue_many", [[4], [5]]),
        ("dequeue_many", 2),
        ("dequeue_up_to", 2),
        *[("dequeue",)] * 4,
        ("close",),
        ("dequeue",),
    ]
    compare(oracle, "fifo", {"capacity": 5, "shapes": []}, script)


def compare(oracle: Any, kind: str, attrs: dict[str, Any], script: list[Step]) -> None:
    mine, blocked = ours(kind, attrs, script)
    wait = {at for at, result in enumerate(mine) if result == "waits"}
    expected = list(zip(script, mine, strict=True))
    for patience in PATIENCE_S:
        theirs = oracle.run(
            ORACLE, kind=kind, types=TYPES[kind], attrs=attrs, script=script, block=sorted(blocked),
            wait=sorted(wait), patience=patience,
        )  # fmt: skip
        found = list(zip(script, theirs, strict=True))
        if found == expected:
            break
    assert expected == found


# (kind, attrs): a queue alone, enqueued into once.  Not here: TensorFlow takes a shape of unknown
# rank in a node for that of a scalar, which no program can mean; it is refused here.
MADE: list[tuple[str, dict[str, Any]]] = [
    ("fifo", {"capacity": 0, "shapes": [()]}),
    ("fifo", {"capacity": -1, "shapes": [()]}),
    ("fifo", {"capacity": -7, "shapes": [()]}),
    ("fifo", {"capacity": 3, "shapes": [(None, 2)]}),
    ("fifo", {"capacity": 3, "shapes": [(), ()]}),
    ("shuffle", {"capacity": 3, "shapes": [()], "min_after_dequeue": 2}),
    ("shuffle", {"capacity": 3, "shapes": [()], "min_after_dequeue": 3}),
    ("shuffle", {"capacity": 0, "shapes": [()], "min_after_dequeue": 0}),
    ("shuffle", {"capacity": 3, "shapes": [()], "min_after_dequeue": -1}),
    ("shuffle", {"capacity": -1, "shapes": [()], "min_after_dequeue": 5}),
    ("padding", {"capacity": 3, "shapes": []}),
    ("padding", {"capacity": 3, "shapes": [(), ()]}),
    ("padding", {"capacity": -1, "shapes": [()]}),
    ("priority", {"capacity": 3, "shapes": []}),
    ("priority", {"capacity": 3, "shapes": [(), ()]}),
    ("priority", {"capacity": -1, "shapes": [()]}),
]


@pytest.mark.parametrize(("kind", "attrs"), MADE)
def test_the_same_queues_can_be_made(oracle: Any, kind: str, attrs: dict[str, Any]) -> None:
    script: list[Step] = [("enqueue", (1, 1) if kind == "priority" else 1)]
    try:
        mine, _ = ours(kind, attrs, script)
    except errors.OpError as error:
        mine = [("error", type(error).__name__)]
    wait = [0] if mine == ["waits"] else []
    theirs = oracle.run(
        ORACLE, kind=kind, types=TYPES[kind], attrs=attrs, script=script, block=wait, wait=wait,
        patience=PATIENCE_S[0],
    )  # fmt: skip
    assert mine == theirs


SHARE = """
from tensorflow.python.ops import gen_data_flow_ops as g
server = tf.train.Server.create_local_server()
result = "ok"
with tf.Session(server.target) as one, tf.Session(server.target) as two:
    for session, (kind, attrs) in zip((one, two), nodes):
        attrs = dict(attrs, shapes=[tf.TensorShape(s) for s in attrs["shapes"]])
        types = [tf.as_dtype(name) for name in attrs.pop("component_types")]
        make = {"fifo": g.fifo_queue_v2, "shuffle": g.random_shuffle_queue_v2,
                "padding": g.padding_fifo_queue_v2, "priority": g.priority_queue_v2}[kind]
        try:
            session.run(g.queue_size_v2(make(component_types=types, shared_name="S", **attrs)))
        except tf.errors.OpError as error:
            result = type(error).__name__
"""
A: dict[str, Any] = {"component_types": ["int32"], "shapes": [()], "capacity": 5}
SHARED: list[tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = [
    (("fifo", {}), ("fifo", {})),
    (("fifo", {}), ("fifo", {"capacity": 6})),
    (("fifo", {"capacity": -1}), ("fifo", {"capacity": 2**31 - 1})),
    (("fifo", {}), ("fifo", {"component_types": ["float32"]})),
    (("fifo", {}), ("fifo", {"component_types": ["int32"] * 2, "shapes": [(), ()]})),
    (("fifo", {}), ("fifo", {"shapes": []})),
    (("fifo", {"shapes": []}), ("fifo", {})),
    (("fifo", {}), ("fifo", {"shapes": [(2,)]})),
    (("fifo", {}), ("shuffle", {})),
    (("shuffle", {}), ("fifo", {})),
    (("shuffle", {"min_after_dequeue": 1}), ("shuffle", {"min_after_dequeue": 2})),
    (("shuffle", {"seed": 1}), ("shuffle", {"seed": 1})),
    (("shuffle", {"seed": 1}), ("shuffle", {"seed": 2})),
    (("shuffle", {"seed": 1}), ("shuffle", {})),
    (("shuffle", {}), ("shuffle", {"seed": 1})),
    (("shuffle", {"seed": 1}), ("shuffle", {"seed2": 1})),
    (("padding", {"shapes": [(None,)]}), ("padding", {"shapes": [(None,)]})),
    (("padding", {"shapes": [(None,)]}), ("padding", {"shapes": [(3,)]})),
    (("padding", {"shapes": [(3,)]}), ("padding", {"shapes": [(None,)]})),
    (("padding", {"shapes": [(3,)]}), ("padding", {"shapes": [(4,)]})),
    (("padding", {"shapes": [(3,)]}), ("fifo", {"shapes": [(3,)]})),
    (("fifo", {}), ("padding", {})),
    (("priority", {}), ("priority", {})),
    (("priority", {}), ("priority", {"shapes": [(2,)]})),
    (("priority", {}), ("priority", {"component_types": ["int64"]})),
    (("priority", {}), ("fifo", {})),
]


@pytest.mark.parametrize(("first", "second"), SHARED)
def test_the_same_nodes_may_share_a_queue(
    oracle: Any, first: tuple[str, dict[str, Any]], second: tuple[str, dict[str, Any]]
) -> None:
    nodes = [(kind, {**A, **attrs}) for kind, attrs in (first, second)]
    manager = ResourceManager()
    mine = "ok"
    for kind, attrs in nodes:
        rest = {key: value for key, value in attrs.items() if key != "component_types"}
        try:
            KINDS[kind].open(manager, "", "S", spec_of(kind, attrs["component_types"], rest))
        except errors.OpError as error:
            mine = type(error).__name__
    assert mine == oracle.run(SHARE, nodes=nodes)


PRIVATE = """
server = tf.train.Server.create_local_server()
queue = tf.FIFOQueue(3, [tf.int32], shapes=[()], name="q")
enqueue, size = queue.enqueue(1), queue.size()
with tf.Session(server.target) as one, tf.Session(server.target) as two:
    one.run(enqueue)
    result = one.run(size), two.run(size)
"""


def test_without_a_shared_name_a_queue_belongs_to_its_session(oracle: Any) -> None:
    """What resources.private_name is for."""
    one, two = oracle.run(PRIVATE)
    assert (one, two) == (1, 0)
