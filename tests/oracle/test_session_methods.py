"""Every method of a session beside TensorFlow's: the value, or the class of the error.

Each case is a few lines on the graph of `PRELUDE` that assign `result`; both sides run them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb

PRELUDE = """
a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
r1 = tf.add(a, b, name="r1")
r2 = tf.multiply(r1, c, name="r2")
n = tf.no_op(name="n")
k = tf.constant(3.0, name="k")
other = tf.Graph()
with other.as_default():
    stranger = tf.constant(1)
    strange_feed = tf.placeholder(tf.float32, [])
s = tf.Session()
one = np.float32(1)

def setup():
    return s.partial_run_setup([r1, r2], [a, b, c])

def begun():
    handle = setup()
    s.partial_run(handle, r1, {a: 1, b: 2})
    return handle

def made(**options):
    return s._make_callable_from_options(CallableOptions(**options))

def connected(source, place, **options):
    found = CallableOptions(**options)
    found.tensor_connection.add(from_tensor=source, to_tensor=place)
    return s._make_callable_from_options(found)
"""

CASES = [
    # run
    "result = s.run([])",
    "result = s.run('k:0')",
    "result = s.run('k')",
    "result = s.run(n)",
    "result = s.run({'x': [k, (n,)]})",
    "result = s.run(None)",
    "result = s.run([[k], [None]])",
    "result = s.run(3)",
    "result = s.run(object())",
    "result = s.run('q:0')",
    "result = s.run(stranger)",
    "result = s.run(k, [1])",
    "result = s.run(k, 3)",
    "result = s.run(k, {strange_feed: 1})",
    "result = s.run(k, {n: 1})",
    "result = s.run(r1, {'a:0': 1, 'b:0': 2})",
    "result = s.run(r1, {'zz:0': 1})",
    "result = s.run(r1, {a: k, b: 1})",
    "result = s.run(r1, {a: None, b: 1})",
    "result = s.run(r1, {a: 'x', b: 1})",
    "result = s.run(r1, {a: [1, 2], b: 1})",
    "result = s.run(r1, {a: 1})",
    "result = s.run(k, {k: 5})",
    "result = s.run(a, {a: 5})",
    "result = s.run(k, run_metadata=tf.RunMetadata())",
    # partial runs
    "h = setup(); result = [s.partial_run(h, r1, {a: 1, b: 2}), s.partial_run(h, r2, {c: 2})]",
    "h = setup(); result = [s.partial_run(h, [], {a: 1, b: 2}), s.partial_run(h, [r1, r2], {c: 2})]",
    "result = s.partial_run(begun(), r1)",
    "result = s.partial_run(begun(), r2, {a: 1, c: 2})",
    "result = s.partial_run(setup(), r2, {a: 1, b: 2})",
    "h = begun(); s.partial_run(h, r2, {c: 2}); result = s.partial_run(h, r2, {c: 2})",
    "result = s.partial_run(setup(), k, {a: 1})",
    "result = s.partial_run(setup(), r1, {k: 1, a: 1, b: 1})",
    "result = s.partial_run(setup(), n, {a: 1})",
    "result = s.partial_run('nope', r1, {a: 1})",
    "result = s.partial_run(None, r1, {a: 1, b: 2})",
    "result = s.partial_run(3, r1, {a: 1, b: 2})",
    "result = s.partial_run('nope', None)",
    "result = s.partial_run('nope', r1, 3)",
    "result = s.partial_run(setup(), r1, {a: 'x', b: 1})",
    "result = s.partial_run(setup(), r1, {a: [1, 2], b: 1})",
    "s.partial_run_setup([], []); result = 0",
    "s.partial_run_setup([], [a]); result = 0",
    "s.partial_run_setup([n], [a]); result = 0",
    "s.partial_run_setup(None, [a]); result = 0",
    "s.partial_run_setup([stranger], [a]); result = 0",
    "s.partial_run_setup([r1], a); result = 0",
    "s.partial_run_setup([r1]); result = 0",
    "s.partial_run_setup(r1, [a, b]); result = 0",
    "s.partial_run_setup([a, r1], [a, b]); result = 0",
    "s.partial_run_setup([r1], [a, a, b]); result = 0",
    # callables
    "result = s.make_callable(r1, [a, b])(1.0, 2.0)",
    "result = s.make_callable('k:0')()",
    "result = s.make_callable(n)()",
    "result = s.make_callable({'q': k})()",
    "result = s.make_callable(r1, [a, b])(1.0)",
    "result = s.make_callable(r1, [a, b])([1.0], 2.0)",
    "result = s.make_callable(r1, a)",
    "result = s.make_callable(None)",
    "result = s.make_callable('zz:0')",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])(one, one)",
    "result = made(feed=['a', 'b'], fetch=['r1:0'])(one, one, foo=3)",
    "result = made(target=['n'])()",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])(one)",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])(np.int32(1), one)",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])(1.0, 2.0)",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])('x', one)",
    "result = made(feed=['a:0'], fetch=['r1:0'])(one)",
    "result = made()",
    "result = made(fetch=['zz:0'])",
    "result = made(feed=['zz:0'], fetch=['k:0'])",
    "result = made(fetch=['k:4'])",
    "result = made(target=['zz'])",
    "result = made(feed=['a'], fetch=['a'])",
    "result = made(feed=['a:0', 'a:0', 'b:0'], fetch=['r1:0'])",
    "result = connected('k:0', 'a:0', feed=['b:0'], fetch=['r1:0'])(one)",
    "result = connected('k:0', 'a:0', fetch=['a:0'])",
    "result = connected('k:0', 'a:0', feed=['a:0', 'b:0'], fetch=['r1:0'])",
    "result = connected('r2:0', 'a:0', feed=['b:0', 'c:0'], fetch=['r2:0'])",
    "result = connected('zz:0', 'a:0', feed=['b:0', 'c:0'], fetch=['r2:0'])",
    "result = connected('k:0', 'zz:0', feed=['b:0', 'c:0'], fetch=['r2:0'])",
    # closed sessions, and sessions that were reset
    "s.close(); s.close(); result = 0",
    "s.close(); result = s.run(k)",
    "s.close(); result = setup()",
    "h = setup(); s.close(); result = s.partial_run(h, r1, {a: 1, b: 2})",
    "s.close(); s.make_callable(k); result = 0",
    "f = s.make_callable(k); s.close(); result = f()",
    "s.close(); result = made(fetch=['k:0'])",
    "f = made(fetch=['k:0']); s.close(); result = f()",
    "s.close(); result = s.list_devices()",
    "tf.Session.reset(''); result = s.run(k)",
    "tf.Session.reset(None); result = tf.Session().run(k)",
    "result = tf.Session.reset(3)",
    "result = tf.Session.reset('', 3)",
    "result = tf.Session.reset('foo://x')",
    # empty graphs
    "result = tf.Session(graph=tf.Graph()).run([])",
    "result = tf.Session(graph=tf.Graph()).partial_run_setup([])",
    "result = tf.Session(graph=tf.Graph()).partial_run('h', [])",
    "tf.Session(graph=tf.Graph()).make_callable([]); result = 0",
    "s = tf.Session(graph=tf.Graph()); result = made(fetch=['k:0'])",
    "result = len(tf.Session(graph=tf.Graph()).list_devices())",
    # what sessions are made of
    "result = tf.Session('foo://x')",
    "result = tf.Session(3)",
    "result = tf.Session(graph=3)",
    "result = tf.Session(config=3)",
    "result = tf.Session(config={})",
    "config = tf.ConfigProto(device_count={'CPU': 3}); result = "
    "[(d.name, d.device_type, d.memory_limit_bytes) for d in tf.Session(config=config).list_devices()]",
    "d = s.list_devices()[0]; result = repr(d).replace(str(d.incarnation), 'I')",
]

DIFFERENT = {
    # A wrong type is a TypeError that says so; there it is whatever the first use of it raises.
    "result = s.run(k, options=3)": "TypeError",
    "result = s.run(k, run_metadata=3)": "TypeError",
    "s.partial_run_setup([r1], [3]); result = 0": "TypeError",
    "result = s._make_callable_from_options(3)": "TypeError",
    # Found when the callable is made, not when it is called.
    "s.make_callable(r1, [3]); result = 0": "TypeError",
}


def ours(source: str) -> tuple[str, Any]:
    with tf.Graph().as_default():
        names: dict[str, Any] = {"tf": tf, "np": np, "CallableOptions": pb.CallableOptions}
        try:
            exec(PRELUDE + source, names)
        except Exception as error:
            return "error", type(error).__name__
        finally:
            if "s" in names:
                names["s"].close()
    return "value", names["result"]


@pytest.mark.parametrize("source", CASES)
def test_a_method_does_as_tensorflows(oracle: Any, source: str) -> None:
    head = "from tensorflow.core.protobuf.config_pb2 import CallableOptions\n"
    theirs = oracle.outcome(head + PRELUDE + source)
    kind, value = ours(source)
    assert kind == theirs[0], (theirs, value)
    if kind == "value":
        np.testing.assert_equal(value, theirs[1])
    else:
        assert value == theirs[1]


@pytest.mark.parametrize("source", DIFFERENT)
def test_where_an_error_says_more(source: str) -> None:
    assert ours(source) == ("error", DIFFERENT[source])
