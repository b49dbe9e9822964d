"""Programs that end with their sessions open: they end at once, with their own exit code, and print nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT_S = 60.0
OPEN = {
    "local": "keep = tf.Session(); keep.run(tf.constant(1) + 1)",
    "server": "keep = tf.Session(served()); keep.run(tf.constant(1) + 1)",
    "a server that is not there": "keep = tf.Session('grpc://localhost:1')",
    "interactive": "keep = tf.InteractiveSession(); tf.constant(1).eval()",
    "threads of a pool": "keep = tf.Session(); keep.run(tf.random_uniform([2000, 2000]) * tf.ones([2000, 2000]))",
    "threads of functions": "keep = tf.Session(); keep.run([tf.py_func(lambda: 1, [], tf.int64) for _ in range(2)])",
    "a function that goes on": """
keep = tf.Session()
made = [tf.py_func(threading.Event().wait, [], tf.bool) for _ in range(2)]
try:
    keep.run(made, options=tf.RunOptions(timeout_in_ms=20))
except tf.errors.DeadlineExceededError:
    pass
""",
    "callables": """
session = tf.Session(served())
x = tf.constant(1) + 1
keep = [session, session.make_callable(x), session._make_callable_from_options(pb.CallableOptions(fetch=[x.name]))]
keep[1](), keep[2]()
""",
    "partial run": """
x = tf.placeholder(tf.float32)
y = x + 1
keep = tf.Session(served())
keep.partial_run_setup([y], [x])
""",
    "a step in a thread": """
keep = tf.Session(served())
wait_in_a_thread(keep)
""",
    "a local step in a thread": """
keep = tf.Session()
wait_in_a_thread(keep)
""",
    "a blocked queue runner": """
queue = tf.FIFOQueue(1, tf.int32)
tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(1)]))
keep = tf.Session(served())
tf.train.start_queue_runners(keep)
keep.run(queue.dequeue())
""",
    "a step that was told to wait long": """
from headrace.run import long_waits
long_waits.threshold_s = 0.02
import logging
logging.getLogger("headrace").addHandler(logging.NullHandler())
logging.getLogger("headrace").propagate = False
keep = tf.Session()
try:
    keep.run(tf.FIFOQueue(1, tf.int32).dequeue(), options=tf.RunOptions(timeout_in_ms=200))
except tf.errors.DeadlineExceededError:
    pass
""",
    "a session that could not be made": """
try:
    tf.Session("grpc://localhost:1", config=3)
except TypeError:
    pass
keep = None
""",
}
KEPT = {
    "a global": "",
    "a cycle": "class A: pass\na = A(); a.it = keep; a.a = a; del keep, a",
    "builtins": "import builtins; builtins.keep = keep; del keep",
    "sys": "sys.modules['kept'] = keep; del keep",
    "its own class": "tf.Session.kept = keep",
}
PREAMBLE = """
import sys, threading
import headrace as tf
from headrace.codec import protos as pb

def served():
    global server
    server = tf.train.Server.create_local_server()
    return server.target

def wait_in_a_thread(session):
    begun = threading.Event()
    def function():
        begun.set()
        return 1
    queue = tf.FIFOQueue(1, tf.int64)
    both = [queue.dequeue(), tf.py_func(function, [], tf.int64)]
    threading.Thread(target=session.run, args=(both,), daemon=True).start()
    begun.wait()
"""


@pytest.mark.parametrize("what", OPEN)
def test_a_program_may_end_with_its_session_open(what: str) -> None:
    """Sessions are held in every way by one program, where it is cheap to have several."""
    parts = [PREAMBLE]
    for kept in KEPT if what in ("local", "server") else ["a global"]:
        parts += [OPEN[what], KEPT[kept]]
    source = "\n".join([*parts, "sys.exit(7)"])
    ended = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "", "")
