"""Every method of a session beside TensorFlow's: the value, or the class of the error and the statement it came from.

Each case is a few statements on the graph of `PRELUDE` that assign `result`; both sides run them, on sessions of
their own process and on sessions of a server of their own kind that is reached over gRPC.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb
from tests.serve.clusters import processes

# Statements of a case one by one: ("value", result), or ("error", class, which statement).
STEPPED = """
import ast

def stepped(source, names):
    kept = names["kept"] = []  # TensorFlow looks into the code that built a node when it explains an error
    for number, statement in enumerate(ast.parse(source).body):
        try:
            kept.append(compile(ast.Module([statement], []), "<case>", "exec"))
            exec(kept[-1], names)
        except Exception as error:
            return "error", type(error).__name__, number
    return "value", names["result"]
"""

PRELUDE = """
from collections import OrderedDict, namedtuple

a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
r1 = tf.add(a, b, name="r1")
r2 = tf.multiply(r1, c, name="r2")
n = tf.no_op(name="n")
k = tf.constant(3.0, name="k")
other = tf.Graph()
with other.as_default():
    stranger = tf.constant(1)
    strange_feed = tf.placeholder(tf.float32, [])
s = tf.Session(target)
one = np.float32(1)
v = tf.Variable(1.0, name="v")

def on(**config):
    return tf.Session(target, config=tf.ConfigProto(**config))

def queue(name):
    return tf.FIFOQueue(1, tf.float32, [[]], name=name)

def limited(**options):
    return tf.RunOptions(**options)

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
    "result = type(s.run((k, [k], {'b': k, 'a': (k,)}))).__name__",
    "result = list(s.run(OrderedDict(b=k, a=[k, k])).items())",
    "P = namedtuple('P', 'b a'); found = s.run(P(k, [k])); result = found._fields, found.a, found.b",
    "result = s.run({}), s.run(()), s.run([[], {}, ()])",
    "result = s.run([k, k, [k]])",
    "result = s.run({1: k, 'a': k})",
    "result = s.run([v.initializer, k])",
    "s.run(v.initializer); result = s.run([v, v.value(), 'v:0', 'v/read:0'])",
    "result = s.run([tf.constant('x'), tf.constant([b'y', b'\\xff']), tf.constant(u'\u00e9')])",
    "result = tuple(s.run(tf.SparseTensor([[0, 1]], [2.0], [1, 2])))",
    "found = s.run(tf.SparseTensor([[0, 1]], [2.0], [1, 2])); result = type(found).__name__, found.values",
    "result = tuple(s.run(tf.IndexedSlices(k, tf.constant([1]), tf.constant([2]))))",
    "result = tuple(s.run(tf.IndexedSlices(k, tf.constant([1]))))",
    "p = tf.sparse_placeholder(tf.float32); result = s.run(p.values, {p: ([[0]], [5.0], [1])})",
    "result = [type(x).__name__ for x in s.run([k, tf.constant([1]), tf.constant('x'), tf.constant(True)])]",
    "result = s.run([tf.zeros([0, 2]), tf.constant([], tf.string)])",
    "result = s.run(['k', n])",
    "result = s.run('n')",
    "result = s.run('k:1')",
    "result = s.run('k:x')",
    "result = s.run('')",
    "result = s.run({'a': 'nope'})",
    "result = s.run([1.0])",
    "result = s.run(k.op)",
    "result = s.run({k})",
    "result = s.run(x for x in [k])",
    "result = s.run(r1, {a: np.float64(1), b: True})",
    "result = s.run(r1, {(a, b): 3})",
    "result = s.run(r1, {(a, b): [1, 2]})",
    "result = s.run(r1, {(a, b): (1, 2)})",
    "result = s.run(r1, {(a, b): (1, 2, 3)})",
    "result = s.run(r1, {a: 1, b: 1, 'a:0': 2})",
    "i = tf.placeholder(tf.int32, []); result = s.run(i + 1, {i: 2.5})",
    "i = tf.placeholder(tf.int32, []); result = s.run(i + 1, {i: 2.0})",
    "i = tf.placeholder(tf.int32, []); result = s.run(i + 1, {i: 3000000000})",
    "i = tf.placeholder(tf.int64, [2]); result = s.run(i + 1, {i: range(2)})",
    "i = tf.placeholder(tf.string, []); result = s.run(tf.identity(i), {i: u'\u00e9'})",
    "i = tf.placeholder(tf.string, [None]); result = s.run(tf.identity(i), {i: ['a', b'b']})",
    "i = tf.placeholder(tf.bool, []); result = s.run(tf.logical_not(i), {i: 1})",
    "i = tf.placeholder(tf.float32, [None, 2]); result = s.run(i, {i: [1, 2]})",
    "i = tf.placeholder(tf.float32, [None, 2]); result = s.run(i * 2, {i: np.zeros([0, 2])})",
    "i = tf.placeholder(tf.float32); result = s.run(i * 2, {i: [[1], [2, 3]]})",
    "g = tf.Graph(); g.finalize(); result = tf.Session(target, graph=g).run([])",
    "k.graph.prevent_feeding(k); result = s.run(r1, {k: 1, a: 1, b: 1})",
    "k.graph.prevent_fetching(k.op); result = s.run(k)",
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
    "tf.Session.reset(target); result = s.run(k)",
    "tf.Session.reset(None); result = tf.Session(target).run(k)",
    "result = tf.Session.reset(3)",
    "result = tf.Session.reset(target, 3)",
    "result = tf.Session.reset('foo://x')",
    "result = tf.Session.reset(target, ['nothing.there'])",
    "s.run(v.initializer); tf.Session.reset(target); result = s.run(v)",
    "s.run(v.initializer); tf.Session.reset(target); t = tf.Session(target); result = t.run(v)",
    "s.run(k); tf.Session.reset(target); result = len(s.list_devices())",
    "s.run(k); tf.Session.reset(target); s.close(); result = s.run(k)",
    "h = setup(); tf.Session.reset(target); result = s.partial_run(h, r1, {a: 1, b: 2})",
    "f = made(fetch=['k:0']); tf.Session.reset(target); result = f()",
    "f = s.make_callable(k); f(); tf.Session.reset(target); result = f()",
    # default sessions
    "result = k.eval()",
    "result = k.eval(session=s)",
    "result = r1.eval({a: 1, b: 2}, s)",
    "result = r1.eval(session=s)",
    "result = k.eval(session=3)",
    "result = n.run()",
    "result = n.run(session=s)",
    "result = v.eval()",
    "result = v.eval(s)",
    "result = v.initializer.run(session=s)",
    "result = v.load(3.0)",
    "s.run(v.initializer); v.load(3.0, s); result = v.eval(s)",
    "result = stranger.eval(session=s)",
    "result = stranger.op.run(session=s)",
    "result = tf.get_default_session()",
    "with s: result = tf.get_default_session() is s",
    "with s: result = k.eval()",
    "with s.as_default(): result = k.eval()",
    "with s.as_default(): result = stranger.eval()",
    "with s.as_default(): result = 0\nresult = s.run(k)",
    "with s: result = 0\nresult = s.run(k)",
    "with s: result = 0\nwith s: result = s.run(k)",
    "s.close()\nwith s: result = 1",
    "s.close()\nwith s.as_default(): result = tf.get_default_session() is s",
    "s.close()\nwith s.as_default(): result = k.eval()",
    "with s:\n  with s: result = 0\n  result = k.eval()",
    "with s:\n  with on() as t: a = tf.get_default_session() is t\n  result = a, tf.get_default_session() is s",
    "t = tf.Session(target, graph=other)\nwith t: result = tf.get_default_graph() is other, stranger.eval()",
    "t = tf.Session(target, graph=other)\nwith t.as_default(): result = tf.get_default_graph() is other",
    "t = tf.Session(target, graph=other)\nwith t: result = k.eval()",
    # interactive sessions
    "i = tf.InteractiveSession(target); result = k.eval(), tf.get_default_session() is i; i.close()",
    "i = tf.InteractiveSession(target); i.close(); result = k.eval()",
    "i = tf.InteractiveSession(target); i.close(); i.close(); result = tf.get_default_session()",
    "i = tf.InteractiveSession(target); i.close(); result = i.run(k)",
    "i = tf.InteractiveSession(target, graph=other); result = tf.get_default_graph() is other; i.close()",
    "i = tf.InteractiveSession(target, graph=other); i.close(); result = tf.get_default_graph() is other",
    "i = tf.InteractiveSession(target, graph=3)",
    "i = tf.InteractiveSession('foo://x')",
    # steps that fail, and what is left of them
    "result = s.run(tf.matmul(tf.fill([2, 3], a), tf.fill([2, 3], a)), {a: 1})",
    "result = s.run(tf.reshape(tf.fill([tf.cast(a, tf.int32)], 1.0), [2, 2]), {a: 3}); result = 0",
    "result = s.run(tf.gather([1, 2], tf.cast(a, tf.int32)), {a: 7})",
    "result = s.run(tf.Assert(a > 1, ['no']), {a: 0})",
    "result = s.run(v)",
    "s.run(v.initializer); result = s.run([v, v.assign_add(1.0)])[1]",
    "q = queue('closed'); s.run(q.close()); result = s.run(q.dequeue())",
    "q = queue('shut'); s.run(q.close()); result = s.run(q.enqueue(1.0))",
    "q = queue('e'); result = s.run(q.dequeue(), options=limited(timeout_in_ms=50))",
    # options
    "result = s.run(k, options=limited())",
    "result = s.run(k, options=limited(inter_op_thread_pool=-1))",
    "result = s.run(k, options=limited(timeout_in_ms=-5))",
    "result = s.run(k, options=limited(report_tensor_allocations_upon_oom=True))",
    "result = on(allow_soft_placement=True, log_device_placement=False).run(k)",
    "result = len(on(device_count={'CPU': 2, 'GPU': 0}).list_devices()) >= 1",
    "result = s.run(k, options=limited(timeout_in_ms=10000, inter_op_thread_pool=0))",
    "result = s.run(k, options=limited(trace_level=tf.RunOptions.FULL_TRACE))",
    "m = tf.RunMetadata(); s.run(k, {}, limited(output_partition_graphs=True), m); result = len(m.partition_graphs)",
    "q = queue('f'); result = on(operation_timeout_in_ms=50).run(q.dequeue())",
    "result = on(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1).run(k)",
    "t = on(isolate_session_state=True); t.run(v.initializer); result = t.run(v)",
    "result = on(device_filters=['/job:nobody']).run(k)",
    "r = tf.ConfigProto(); r.rpc_options.compression_algorithm = 'gzip'; result = tf.Session(target, config=r).run(k)",
    # empty graphs
    "result = tf.Session(target, graph=tf.Graph()).run([])",
    "result = tf.Session(target, graph=tf.Graph()).partial_run_setup([])",
    "result = tf.Session(target, graph=tf.Graph()).partial_run('h', [])",
    "tf.Session(target, graph=tf.Graph()).make_callable([]); result = 0",
    "s = tf.Session(target, graph=tf.Graph()); result = made(fetch=['k:0'])",
    "result = len(tf.Session(target, graph=tf.Graph()).list_devices())",
    # what sessions are made of
    "result = tf.Session('foo://x')",
    "result = (s.graph is k.graph, len(s.graph_def.node) == len(k.graph.get_operations()))",
    "s.graph = other",
    "result = tf.Session(target, graph=other).run(stranger)",
    "result = tf.Session(target, graph=other).run(k)",
    "result = tf.Session(3)",
    "result = tf.Session(target, graph=3)",
    "result = tf.Session(target, config=3)",
    "result = tf.Session(target, config={})",
    "config = tf.ConfigProto(device_count={'CPU': 3}); result = "
    "[(d.name, d.device_type, d.memory_limit_bytes) for d in tf.Session(target, config=config).list_devices()]",
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


SAME_EVERYWHERE = {
    # TensorFlow's master checks less of a callable than its local sessions do; ours checks the same.
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])(one)",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])(np.int32(1), one)",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])(1.0, 2.0)",
    "result = made(feed=['a:0', 'b:0'], fetch=['r1:0'])('x', one)",
    "result = made(fetch=['zz:0'])",
    "result = made(feed=['zz:0'], fetch=['k:0'])",
    "result = made(fetch=['k:4'])",
    "s = tf.Session(target, graph=tf.Graph()); result = made(fetch=['k:0'])",
}
"""What gives over gRPC what it gives in the own process, and in TensorFlow something else."""

OVER_GRPC = {
    # Aborted, as every other method of a session that was reset.
    "s.run(k); tf.Session.reset(target); result = len(s.list_devices())": (
        "error",
        "AbortedError",
        2,
    ),
    # A session can always be closed: `with` blocks end with their own errors.
    "s.run(k); tf.Session.reset(target); s.close(); result = s.run(k)": (
        "error",
        "RuntimeError",
        3,
    ),
}
"""What headrace gives over gRPC where TensorFlow gives something else."""

SERVE = """
if not hasattr(tf, "methods_server"):
    tf.methods_server = tf.train.Server({"localhost": ["localhost:0"]})
result = tf.methods_server.target
"""


@pytest.fixture(scope="module", params=["local", "grpc"])
def targets(request: pytest.FixtureRequest, oracle: Any) -> Iterator[tuple[str, str]]:
    """What sessions are on: theirs, ours."""
    if request.param == "local":
        yield "", ""
        return
    with processes({"localhost": 1}) as cluster:
        yield oracle.run(SERVE), cluster.target("localhost:0")


def ours(source: str, target: str) -> Any:
    names: dict[str, Any] = {
        "tf": tf,
        "np": np,
        "CallableOptions": pb.CallableOptions,
        "target": target,
    }
    with tf.Graph().as_default():
        exec(STEPPED + PRELUDE, names)
        try:
            return names["stepped"](source, names)
        finally:
            for name in "sti":
                if isinstance(names.get(name), (tf.Session, tf.InteractiveSession)):
                    names[name].close()


@pytest.mark.parametrize("source", CASES)
def test_a_method_does_as_tensorflows(oracle: Any, targets: tuple[str, str], source: str) -> None:
    head = "from tensorflow.core.protobuf.config_pb2 import CallableOptions\n"
    whole = head + STEPPED + PRELUDE + "result = stepped(case, globals())"
    found = ours(source, targets[1])
    if targets[1] and source in OVER_GRPC:
        assert found == OVER_GRPC[source]
        return
    there = "" if source in SAME_EVERYWHERE else targets[0]
    theirs = oracle.run(whole, case=source, target=there)
    if found[0] == theirs[0] == "value":
        np.testing.assert_equal(found[1], theirs[1])
    else:
        assert found == theirs


@pytest.mark.parametrize("source", DIFFERENT)
def test_where_an_error_says_more(source: str) -> None:
    assert ours(source, "")[:2] == ("error", DIFFERENT[source])


ACCEPTED = [
    # Thread pools are TensorFlow's; programs that choose among them run.
    "result = on(session_inter_op_thread_pool=4 * [{}]).run(k, options=limited(inter_op_thread_pool=3))",
    "result = on(use_per_session_threads=True).run(k)",
    "result = on(session_inter_op_thread_pool=[{'num_threads': 2}]).run(k)",
]


@pytest.mark.parametrize("source", ACCEPTED)
def test_what_means_nothing_here_is_accepted(targets: tuple[str, str], source: str) -> None:
    assert ours(source, targets[1]) == ("value", 3.0)
