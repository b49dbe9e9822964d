"""`import headrace` loads what graphs are built of; all else comes when it is first named, and nobody can tell."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as tf
from headrace.base.lazy import names_of

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "headrace"
LAZY = sorted(
    p for p in PACKAGE.rglob("*.py") if "__getattr__, __dir__ = _names_of(" in p.read_text()
)
STAYS_OUT = (
    "headrace.serve headrace.client headrace.plan headrace.training headrace.tools "
    "headrace.codec.protos.framework_pb2 headrace.codec.protos.config_pb2 google.protobuf.descriptor "
    "google_crc32c re2 grpc logging json hashlib secrets random pathlib shutil fractions statistics pprint "
    "concurrent.futures asyncio ssl http wsgiref headrace.base.structured_log headrace.flags headrace.app "
    "headrace.gfile headrace.train"
).split()


def python(source: str) -> str:
    """What `source` prints in a Python that has just started."""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    return done.stdout


def module_of(path: Path) -> str:
    parts = ("headrace", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def for_type_checkers(path: Path) -> dict[str, tuple[str, str]]:
    """name -> (module, name there) of the imports under TYPE_CHECKING."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in node.body:
                assert isinstance(each, ast.ImportFrom)
                assert each.module
                for alias in each.names:
                    found[alias.asname or alias.name] = (each.module, alias.name)
    return found


STAYS_OUT_OF_STEPS = (
    "headrace.serve headrace.plan.functions headrace.plan.columns headrace.plan.joined_loops "
    "headrace.plan.whole_loops headrace.plan.loop_tracing headrace.plan.compile_dataflow "
    "headrace.graph.expansion headrace.graph.function_library headrace.run.exec.dataflow "
    "headrace.run.exec.joined_loops headrace.run.exec.whole_loops headrace.run.queues.column_branches "
    "grpc logging json hashlib secrets random pathlib shutil ssl asyncio concurrent.futures"
).split()


def test_a_first_session_loads_only_what_plain_steps_take() -> None:
    loaded = python("""if True:
        import numpy, ml_dtypes, sys
        known = {*sys.modules}
        import headrace as tf
        x, w = tf.placeholder(tf.float32, [None, 2]), tf.Variable(tf.ones([2, 1]))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([loss, train], {x: [[1.0, 2.0]]})
        print(*({*sys.modules} - known))
    """).split()
    assert "headrace.plan.passes" in loaded
    assert [each for each in STAYS_OUT_OF_STEPS if each in loaded] == []


def test_importing_loads_only_what_graphs_are_built_of() -> None:
    loaded = python("import numpy, ml_dtypes, sys; known = {*sys.modules}\n"
                    "import headrace; print(*({*sys.modules} - known))").split()  # fmt: skip
    assert "headrace.ops.array.constants" in loaded
    assert [each for each in STAYS_OUT if each in loaded] == []


def test_a_step_loads_no_server_no_trace_and_no_partial_runs() -> None:
    loaded = python("import sys, headrace as tf\n"
                    "with tf.Session() as s: s.run(tf.Variable(1.0).initializer)\n"
                    "print(*sys.modules)").split()  # fmt: skip
    assert "headrace.plan.compile" in loaded
    unwanted = (
        "headrace.serve",
        "headrace.run.exec.trace",
        "headrace.client.partial",
        "grpc",
        "logging",
    )
    assert [each for each in unwanted if each in loaded] == []


def test_a_server_that_nobody_watches_loads_nothing_to_watch_it_with() -> None:
    loaded = python("import sys, headrace as tf\n"
                    "with tf.train.Server.create_local_server() as server:\n"
                    "    with tf.Session(server.target) as s: s.run(tf.constant(1.0) + 1.0)\n"
                    "print(*sys.modules)").split()  # fmt: skip
    assert "headrace.serve.observe.step_log" in loaded
    unwanted = (
        "headrace.serve.http headrace.serve.observe.metrics headrace.serve.observe.meter headrace.tools "
        "headrace.base.structured_log prometheus_client bottle opentelemetry wsgiref http.server"
    ).split()
    assert [each for each in unwanted if each in loaded] == []


def test_ops_that_few_programs_need_come_when_one_is_asked_for() -> None:
    """A step of the others asks for none; whoever looks at all ops has all, and who asks for one that is not there."""
    for asked in (
        "OPS['Qr']",
        "OPS.get('Qr')",
        "'Qr' in OPS",
        "'NoSuchOp' in OPS",
        "len(OPS)",
        "[*OPS]",
    ):
        before, after = python(
            "import headrace as tf\n"
            "from headrace.graph.registry import OPS\n"
            "with tf.Session() as s: s.run(tf.zeros([2]) + 1.0)\n"
            f"print(OPS.rest is not None); {asked}; print('Qr' in dict.keys(OPS))"
        ).split()
        assert (before, after) == ("True", "True"), asked


def test_a_command_loads_nothing_of_the_other_commands() -> None:
    loaded = python("import sys, headrace.tools.main; print(*sys.modules)").split()
    assert {"headrace.tools.serve", "headrace.tools.demo.command"} <= {*loaded}
    unwanted = ("rich", "importlib.metadata", "headrace.tools.demo.run", "headrace.tools.report")
    assert [each for each in unwanted if each in loaded] == []


@pytest.mark.parametrize("path", LAZY, ids=module_of)
def test_the_lazy_names_are_those_that_type_checkers_see(path: Path) -> None:
    module = importlib.import_module(module_of(path))
    declared = for_type_checkers(path)
    assert declared
    for name, (source, there) in declared.items():
        if source == module.__name__:
            wanted = importlib.import_module(f"{source}.{there}")
        else:
            wanted = getattr(__import__(source, fromlist=[there]), there)
        assert module.__getattr__(name) is wanted, name
        assert getattr(module, name) is wanted, name
    table = path.read_text().split("names_of(\n")[1].split("\n    )\n")[0]
    written = {
        (key.value, word.partition("=")[0])
        for node in ast.walk(ast.parse(f"f({table})"))
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
        for word in value.value.split()
    }
    assert written == {
        (source, name) for name, (source, _) in declared.items() if source != module.__name__
    }


@pytest.mark.parametrize(
    "source",
    [
        "import headrace as tf; print(tf.train.GradientDescentOptimizer.__name__)",
        "from headrace import train; print(train.GradientDescentOptimizer.__name__)",
        "import headrace.train as train; print(train.GradientDescentOptimizer.__name__)",
        "from headrace.train import GradientDescentOptimizer as c; print(c.__name__)",
        "import headrace; print(headrace.compat.v1.train.GradientDescentOptimizer.__name__)",
        "import sys; from headrace import *; sys.stdout.write(train.GradientDescentOptimizer.__name__ + '\\n')",
        "from headrace.train import *; print(GradientDescentOptimizer.__name__)",
        "import headrace, importlib; importlib.reload(headrace.nn); importlib.reload(headrace.train)\n"
        "print(headrace.train.GradientDescentOptimizer.__name__)",
    ],
)  # fmt: skip
def test_every_way_to_reach_a_lazy_name_works(source: str) -> None:
    assert python(source) == "GradientDescentOptimizer\n"


def test_dir_lists_lazy_names_before_they_are_used() -> None:
    source = "import headrace as tf; print(*dir(tf), *dir(tf.train))"
    listed = python(source).split()
    assert {"Session", "GraphDef", "train", "constant", "AdamOptimizer", "__name__"} <= {*listed}
    assert "TYPE_CHECKING" not in listed


def test_threads_that_ask_for_a_lazy_name_at_once_all_get_it() -> None:
    source = """
import headrace as tf, threading
start, found = threading.Barrier(8), []
def ask():
    start.wait()
    found.append((tf.Session, tf.train.Server, tf.GraphDef))
threads = [threading.Thread(target=ask) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(len(found), len(set(found)))
"""
    assert python(source) == "8 1\n"


def test_what_is_lazy_pickles_by_where_it_is_defined() -> None:
    for thing in (tf.Session, tf.train.ClusterSpec, tf.train.AdamOptimizer, tf.NodeDef):
        assert pickle.loads(pickle.dumps(thing)) is thing
    spec = tf.train.ClusterSpec({"ps": ["a:1"]})
    assert pickle.loads(pickle.dumps(spec)) == spec
    node = tf.NodeDef(name="n", op="NoOp")
    assert pickle.loads(pickle.dumps(node)) == node


@pytest.mark.parametrize("module", [tf, tf.train])
def test_a_name_that_does_not_exist_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_of_the_kind'"):
        module.nothing_of_the_kind  # noqa: B018
    assert not hasattr(module, "names_of")


def test_a_lazy_name_may_be_called_otherwise_where_it_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sample", type(sys)("sample"))
    find, listing = names_of("sample", {"headrace.base.shapes": "Dimension Form=TensorShape"})
    assert find("Form") is tf.TensorShape
    assert sys.modules["sample"].Form is tf.TensorShape
    assert "Form" in listing()
    with pytest.raises(AttributeError):
        find("TensorShape")


@pytest.mark.parametrize("collects", [True, False])
def test_imports_leave_the_garbage_collector_as_it_was(collects: bool) -> None:
    """Also those that fail."""
    assert (
        python(f"""if True:
        import gc
        import headrace as tf
        if not {collects}:
            gc.disable()
        tf.train.Server, tf.estimator, tf.Session().run(tf.constant(1))
        print(gc.isenabled())
        import sys
        sys.modules["headrace.training.saver"] = None
        try:
            tf.train.Saver
        except ImportError:
            print(gc.isenabled())
    """).split()
        == [str(collects)] * 2
    )
