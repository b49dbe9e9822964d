"""`tf.test`: what a program's own tests use."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.training.testing.test_case import TestCase

LINES = [
    line.split(": ", 1)
    for line in (Path(__file__).parent / "assertions.txt").read_text().splitlines()
    if not line.startswith("#")
]

CASES = """
import random
class Case(tf.test.TestCase):
    def test(self):
        exec(self.line)
result = []
for line in lines:
    case = Case("test")
    case.line = line
    found = unittest.TestResult()
    case.run(found)
    result.append("yes" if found.wasSuccessful() else "no" if found.failures else found.errors[0][1])
"""


def results(lines: list[str]) -> list[str]:
    inside: dict[str, Any] = {"tf": tf, "np": np, "unittest": unittest, "lines": lines}
    exec(CASES.replace("exec(self.line)", "exec(self.line, {**globals(), 'self': self})"), inside)
    return list(inside["result"])


def test_assertions_hold_or_do_not() -> None:
    found = results([line for _, line in LINES])
    assert [f"{a}: {line}" for a, (_, line) in zip(found, LINES, strict=True)] == [
        f"{a}: {line}" for a, line in LINES
    ]


@pytest.fixture
def case() -> Any:
    class Case(TestCase):
        def runTest(self) -> None: ...

    made = Case()
    made.setUp()
    yield made
    made.tearDown()
    made.doCleanups()


def test_failures_say_where_and_what(case: Any) -> None:
    for compare, says in [
        (
            lambda: case.assertAllClose({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]}),
            r"a\[a\].*1 of 2 .*\[1\]",
        ),
        (lambda: case.assertAllEqual(np.zeros(30), np.ones(30)), r"30 of 30[\s\S]*\.\.\."),
        (lambda: case.assertAllEqual([1], [[1]]), r"a is \(1,\), b is \(1, 1\) with contents"),
        (lambda: case.assertAllInRange([0.0], 1, 2, True), r"\(1, 2\][\s\S]*\[0\] : 0.0"),
        (
            lambda: case.assertProtoEquals("versions { producer: 1 }", tf.GraphDef()),
            r"-  producer: 1",
        ),
    ]:
        with pytest.raises(AssertionError, match="(?s)" + says):
            compare()


def test_graphs_with_versions_and_numbers_that_are_near(case: Any) -> None:
    graph = tf.GraphDef()
    graph.versions.producer = tf.GRAPH_DEF_VERSION
    case.assertProtoEqualsVersion("", graph)
    one, other = (
        tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=v)]) for v in (1.0, 1.001)
    )
    case.assertProtoEquals(one, other, relative_tolerance=0.01)
    with pytest.raises(AssertionError, match="differ"):
        case.assertProtoEquals(one, other, relative_tolerance=1e-5)


def test_sessions_of_a_test(case: Any) -> None:
    with case.cached_session() as first, case.cached_session() as again, case.test_session() as old:
        assert first is again is old is tf.get_default_session()
        v = tf.Variable(3.0)
        first.run(v.initializer)
    assert case.evaluate(v) == 3.0
    with case.session() as new:
        assert new is not first
        with pytest.raises(tf.errors.FailedPreconditionError):
            case.evaluate(v)
    with (
        pytest.raises(ValueError, match=r"self.session\(\)"),
        case.cached_session(graph=tf.Graph()),
    ):
        pass
    graph = tf.Graph()
    with case.test_session(graph=graph) as other:
        assert other.graph is graph is tf.get_default_graph()
    with pytest.raises(unittest.SkipTest), case.session(force_gpu=True):
        pass
    for open_one in (case.session, case.cached_session, case.test_session):
        with open_one(use_gpu=False):
            assert tf.constant(1).device == "/device:CPU:0"


def test_a_graph_that_a_test_did_not_leave_is_not_the_next_ones(case: Any) -> None:
    tf.Graph().as_default().__enter__()
    tf.constant(1)
    case.setUp()
    assert tf.get_default_graph().get_operations() == []
    getattr(case, "assertEquals")(1, 1)  # noqa: B009
    case.assertItemsEqual([1, 2], [2, 1])


def test_the_method_test_session_is_no_test() -> None:
    class Case(TestCase): ...

    found = unittest.TestResult()
    Case("test_session").run(found)
    assert (len(found.skipped), found.wasSuccessful()) == (1, True)


def test_errors_of_operations_are_matched(case: Any) -> None:
    def failing() -> Any:
        return case.evaluate(
            tf.check_numerics(tf.constant(np.nan), "no number here", name="checked")
        )

    with case.assertRaisesOpError("no number here"):
        failing()
    with case.assertRaisesOpError("Caused by: checked"):
        failing()
    with case.assertRaisesWithPredicateMatch(ValueError, lambda error: error.args == (1,)):
        raise ValueError(1)
    with pytest.raises(AssertionError, match="is no"), case.assertRaisesOpError("1"):
        raise ValueError(1)
    with (
        pytest.raises(AssertionError, match="does not fit 'other'"),
        case.assertRaisesOpError("other"),
    ):
        failing()
    with pytest.raises(AssertionError, match="OpError not raised"), case.assertRaisesOpError(""):
        pass


def test_threads_fail_their_test(case: Any) -> None:
    def bad(text: str, more: str) -> None:
        raise ValueError(text + more)

    thread = case.checkedThread(bad, ["in a "], {"more": "thread"})
    thread.start()
    with pytest.raises(AssertionError, match="in a thread"):
        thread.join()
    assert not thread.is_alive()


def test_a_thread_that_nobody_joins_fails_its_test(case: Any) -> None:
    go = threading.Event()
    thread = case.checkedThread(go.wait)
    thread.start()
    with pytest.raises(AssertionError, match="still runs"):
        thread.check_termination()
    go.set()
    thread.join()
    other = case.checkedThread(lambda: None)
    with pytest.raises(AssertionError, match="not joined"):
        other.check_termination()
    case._threads.remove(other)


def test_directories_and_streams(case: Any) -> None:
    assert os.path.isdir(case.get_temp_dir())
    assert case.get_temp_dir() == case.get_temp_dir()
    assert case.get_temp_dir().startswith(tf.test.get_temp_dir())
    with open(os.path.join(case.get_temp_dir(), "log"), "w") as stream:
        with case.captureWritesToStream(stream) as captured:
            stream.write("one ")
            os.write(stream.fileno(), b"")
            stream.flush()
            assert captured.contents() == "one "
        stream.write("two")
    assert Path(stream.name).read_text() == "two"
    assert captured.contents() == "one "


JACOBIANS: list[tuple[str, Any, list[int], list[int], Any]] = [
    ("square", lambda x: tf.square(x)[:, :1], [2, 2], [2, 1], np.float32),
    ("complex", lambda x: x * x * tf.conj(x), [2], [2], np.complex128),
    ("sum", tf.reduce_sum, [3], [], np.float64),
    ("rows", lambda x: tf.gather(x, [0, 0]), [2, 2], [2, 2], np.float32),
    ("empty", lambda x: x * 2.0, [0, 2], [0, 2], np.float32),
]


@pytest.mark.parametrize(("name", "function", "x_shape", "y_shape", "dtype"), JACOBIANS)
def test_jacobians_by_backpropagation_and_by_differences_are_near(
    name: str, function: Any, x_shape: list[int], y_shape: list[int], dtype: Any
) -> None:
    with tf.Graph().as_default(), tf.Session():
        x = tf.placeholder(dtype, x_shape)
        y = function(x)
        found, slopes = tf.test.compute_gradient(x, x_shape, y, y_shape)
        parts = 1 + (np.dtype(dtype).kind == "c")
        assert found.shape == slopes.shape == (np.prod(x_shape) * parts, np.prod(y_shape) * parts)
        assert name in ("empty", "rows") or found.any()
        assert tf.test.compute_gradient_error(x, x_shape, y, y_shape) < 2e-3


def test_a_wrong_gradient_is_found() -> None:
    @tf.custom_gradient
    def wrong(x: Any) -> Any:
        return x * x, lambda dy: dy * 3.0 * x

    with tf.Graph().as_default(), tf.Session():
        x = tf.constant([1.0, 2.0])
        assert tf.test.compute_gradient_error(x, [2], wrong(x), [2], np.ones(2)) == pytest.approx(
            1, abs=1e-3
        )


def test_several_inputs_what_is_fed_and_what_is_run_before() -> None:
    with tf.Graph().as_default(), tf.Session():
        x, z, p = tf.constant([1.0]), tf.constant([2.0, 3.0]), tf.placeholder(tf.float64, [])
        v = tf.Variable(4.0)
        y = x * z * v * tf.cast(p, tf.float32)
        pairs = tf.test.compute_gradient(
            [x, z], [[1], [2]], y, [2], [np.ones(1), np.ones(2)], 0.01, [v.initializer], {p: 0.5}
        )
        assert [pair[0].tolist() for pair in pairs] == [[[2.0, 2.0]], [[2.0, 0.0], [0.0, 2.0]]]


def test_gradients_that_there_are_none_of_are_refused() -> None:
    with tf.Graph().as_default():
        x = tf.constant([1.0])
        with tf.Session():
            with pytest.raises(TypeError, match="Don't support type int32 for y"):
                tf.test.compute_gradient(tf.constant(1), [], tf.constant(1), [])
            with pytest.raises(AssertionError, match="Don't support type int32 for x"):
                tf.test.compute_gradient(tf.constant(1), [], x, [1])
            with pytest.raises(AssertionError, match="dx = None"):
                tf.test.compute_gradient(x, [1], tf.constant([1.0]), [1])
            with pytest.raises(AssertionError, match=r"x_shape = \[1\], init_data shape = \[3\]"):
                tf.test.compute_gradient(x, [1], x * 2.0, [1], np.ones(3))
        with pytest.raises(ValueError, match="no default session"):
            tf.test.compute_gradient(x, [1], x * 2.0, [1])


def test_graphs_are_compared_in_any_order() -> None:
    def graph(*nodes: dict[str, Any]) -> tf.GraphDef:
        return tf.GraphDef(node=[tf.NodeDef(**node) for node in nodes])

    a, b = {"name": "a", "op": "Const"}, {"name": "b", "op": "Add", "input": ["a", "^c", "^d"]}
    tf.test.assert_equal_graph_def(graph(a, b), graph({**b, "input": ["a:0", "^d", "^c"]}, a))
    for other, says in [
        (graph(a), "unexpected node 'b': Add"),
        (graph(a, b, {"name": "c"}), "Did not find expected node 'c'"),
        (graph(a, {**b, "op": "Sub"}), "has op 'Add' that is not expected 'Sub'"),
        (graph(a, {**b, "device": "/cpu:0"}), "has device ''"),
        (graph(a, {**b, "input": ["c"]}), r"has inputs \['a'\]"),
        (graph(a, {**b, "input": ["a"]}), r"\^c"),
        (graph(a, {**b, "attr": {"T": tf.AttrValue(type=1)}}), "attr 'T'"),
    ]:
        with pytest.raises(AssertionError, match=says):
            tf.test.assert_equal_graph_def(graph(a, b), other)
    tf.test.assert_equal_graph_def(
        graph(a, b), graph(a, {**b, "attr": {"_class": tf.AttrValue(s=b"loc:@a")}})
    )
    with pytest.raises(TypeError, match=r"Expected tf\.GraphDef for actual, got int"):
        tf.test.assert_equal_graph_def(3, graph())


def test_attributes_are_put_back() -> None:
    class Base:
        @staticmethod
        def name() -> str:
            return "base"

    class Derived(Base): ...

    with tf.test.StubOutForTesting() as stubs:
        stubs.Set(os, "sep", "|")
        stubs.Set(Base, "name", lambda: "stub")
        stubs.SmartSet(Derived, "name", lambda: "smart")
        assert (os.sep, Derived.name()) == ("|", "smart")
        with pytest.raises(AttributeError):
            stubs.SmartSet(os, "nothing", 1)
    assert (os.sep, Base.name(), Derived.name()) == ("/", "base", "base")
    assert "name" not in vars(Derived)


def test_a_cluster_for_a_test() -> None:
    workers, servers = tf.test.create_local_cluster(2, 1)
    try:
        with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
            v = tf.Variable(5.0, name="of_the_ps")
            with tf.Session(workers[1].target) as session:
                session.run(v.initializer)
            with tf.Session(workers[0].target) as session:
                assert session.run(v) == 5.0
    finally:
        for each in (*workers, *servers):
            each.stop()


def test_what_there_is_to_compute_on() -> None:
    test = tf.test
    assert (test.is_gpu_available(), test.gpu_device_name()) == (False, "")
    built = [test.is_built_with_cuda(), test.is_built_with_rocm(), test.is_built_with_gpu_support()]
    assert built == [False] * 3
    assert test.benchmark_config().graph_options.HasField("rewrite_options")
    with pytest.raises(tf.errors.NotFoundError, match="TEST_SRCDIR"):
        test.test_src_dir_path("a/b")


PROGRAM = """
import headrace as tf
tf.flags.DEFINE_integer("size", 2, "of the test")
class Case(tf.test.TestCase):
    def testSize(self):
        with self.session():
            self.assertAllEqual(tf.zeros([tf.flags.FLAGS.size]), [0.0, 0.0])
class Measured(tf.test.Benchmark):
    def benchmarkSum(self):
        with tf.Session() as session:
            total = tf.reduce_sum(tf.ones([9]), name="total")
            found = self.run_op_benchmark(session, total, min_iters=3, store_trace=True, mbs=1, name="sum")
            assert "total" in found["extras"].pop("full_trace_chrome_format")
            assert self.evaluate(total) == 9
    def benchmarkOther(self):
        self.report_benchmark(iters=1, metrics=[dict(name="speed", value=5)])
if __name__ == "__main__":
    tf.test.main()
"""


OTHER = """entry {
  name: "Measured.benchmarkOther"
  iters: 1
  metrics {
    name: "speed"
    value: 5
  }
}
"""


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_runs_its_tests(tmp_path: Path) -> None:
    passed = run(tmp_path)
    assert (passed.returncode, "OK" in passed.stderr) == (0, True), passed.stderr
    failed = run(tmp_path, "--size=3")
    assert (failed.returncode, "Shape mismatch" in failed.stderr) == (1, True), failed.stderr


def test_a_program_runs_its_benchmarks(tmp_path: Path) -> None:
    done = run(tmp_path, "--benchmarks=all")
    assert done.returncode == 0, done.stderr
    assert OTHER in done.stdout
    assert 'entry {\n  name: "Measured.sum"\n  iters: 3\n  wall_time: ' in done.stdout
    assert 'key: "full_trace_chrome_format"' in done.stdout
    assert "Measured.sum" not in run(tmp_path, "--benchmarks=Other").stdout
