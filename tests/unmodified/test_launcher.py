"""`headrace run`: Python runs the program, with headrace in TensorFlow's place, in its children too."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from headrace.tools.commands import UsageError
from headrace.tools.main import main
from headrace.tools.run import command_line
from headrace.unmodified.finder import CHILDREN, set_environment
from tests.support.ctrl_c import ctrl_c_ends

RUN = [sys.executable, "-m", "headrace", "run"]
WITHIN_S = 60.0


def start(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """`headrace run` with the arguments, until it ends."""
    return subprocess.run(
        [*RUN, *arguments], capture_output=True, text=True, timeout=WITHIN_S, check=False, **options
    )  # type: ignore[call-overload,no-any-return]


def written(folder: Path, source: str, name: str = "program.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source))
    return str(path)


def printed(folder: Path, source: str, *arguments: str) -> list[str]:
    """Lines that the program prints; it must end well, and say nothing else."""
    done = start(written(folder, source), *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_all_ways_to_import_lead_to_the_same_modules(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        import tensorflow.train
        import tensorflow.compat.v1.train as train
        import tensorflow.nn as nn
        import tensorflow.nn.rnn_cell
        from tensorflow import layers, train as again
        from tensorflow.compat.v1 import nn as more
        from tensorflow.train import AdamOptimizer
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import array_ops
        from tensorflow.python.ops.array_ops import reshape
        from tensorflow.contrib import rnn
        import tensorflow.contrib.rnn.python.ops.core_rnn_cell
        from tensorflow.core.framework.graph_pb2 import GraphDef
        import tensorflow.python.ops.nn_ops as nn_ops
        import headrace
        assert tf is v1 is headrace
        assert tf.train is train is again is headrace.train
        assert tf.nn is nn is more
        assert AdamOptimizer is tf.train.AdamOptimizer
        assert ops.Tensor is tf.Tensor and array_ops.reshape is reshape is tf.reshape
        assert rnn.BasicLSTMCell is tf.nn.rnn_cell.BasicLSTMCell
        assert GraphDef is tf.GraphDef
        assert nn_ops.relu is tf.nn.relu
        assert tf.python.ops.array_ops is array_ops
        tf.train.mine = 3
        assert train.mine == headrace.train.mine == 3
        assert tf.__name__ == tf.__spec__.name == "headrace"
        assert tf.train.__spec__.name == tf.train.__name__ == "headrace.train"
        print("all the same")
        """,
    ) == ["all the same"]


def test_modules_can_be_loaded_again(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import importlib, tensorflow as tf
        importlib.reload(tf.train)
        importlib.reload(tf)
        print(tf.train.AdamOptimizer.__name__, importlib.import_module("tensorflow.train") is tf.train)
        """,
    ) == ["AdamOptimizer True"]


def test_the_program_sees_what_python_would_show_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import tensorflow as tf\nhere = tf.__name__\n")
    assert printed(
        tmp_path,
        """
        import sys, os, beside
        if __name__ == "__main__":
            print(sys.argv[0] == __file__, *sys.argv[1:])
            print(os.path.samefile(sys.path[0], os.path.dirname(__file__)), __spec__, beside.here)
            print(sys.modules["__main__"].__dict__ is globals())
        """,
        "--steps=3",
        "--help",
        "-m",
        "--",
        "x",
    ) == ["True --steps=3 --help -m -- x", "True None headrace", "True"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(None)", 0),
        ("import sys; sys.exit('no')", 1),
        ("import tensorflow as tf; tf.app.run(main=lambda argv: 7)", 7),
        ("raise ValueError('x')", 1),
        ("import os; os._exit(9)", 9),
    ],
)
def test_the_exit_status_is_the_programs(tmp_path: Path, source: str, code: int) -> None:
    assert start(written(tmp_path, source)).returncode == code


def test_the_traceback_is_the_programs_own(tmp_path: Path) -> None:
    program = written(
        tmp_path, "import tensorflow as tf\n\ndef f():\n    raise ValueError('mine')\nf()\n"
    )
    done = start(program)
    assert done.stderr == subprocess.run(
        [sys.executable, written(tmp_path, Path(program).read_text().replace("import tensorflow as tf", ""))],
        capture_output=True, text=True, check=False,
    ).stderr  # fmt: skip


def test_a_signal_ends_it_as_it_ends_python(tmp_path: Path) -> None:
    source = "import signal, tensorflow as tf\nprint('up', flush=True)\nsignal.pause()\n"
    for number, code in ((signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)):
        with subprocess.Popen(
            [*RUN, written(tmp_path, source)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "up\n"
            if number == signal.SIGINT:
                _, err = ctrl_c_ends(program, WITHIN_S)
            else:
                program.send_signal(number)
                _, err = program.communicate(timeout=WITHIN_S)
        assert program.returncode == code
        assert err.endswith("KeyboardInterrupt\n" if number == signal.SIGINT else "")


def test_folders_zip_files_modules_and_code_run(tmp_path: Path) -> None:
    source = "import sys, tensorflow as tf\nprint(tf.__name__, __name__, *sys.argv[1:])\n"
    written(tmp_path, source, "folder/__main__.py")
    written(tmp_path, source, "package/__init__.py")
    written(tmp_path, source, "package/tool.py")
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as file:
        file.writestr("__main__.py", source)
    for arguments in (["folder"], ["program.zip"], ["--", "program.zip"]):
        done = start(*arguments, "x", cwd=tmp_path)
        assert (done.stdout, done.stderr) == ("headrace __main__ x\n", "")
    done = start("-m", "package.tool", "x", cwd=tmp_path)
    assert done.stdout == "headrace package x\nheadrace __main__ x\n"
    assert start("-c", source, "x").stdout == "headrace __main__ x\n"
    assert start("-", "x", input=source).stdout == "headrace __main__ x\n"


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    done = start(str(tmp_path / "nothing.py"))
    assert done.returncode == 2
    assert "No such file" in done.stderr
    done = subprocess.run(
        [sys.executable, "-I", "-m", "headrace", "run", "x.py"], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 2
    assert "-I, -E or -S" in done.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["train.py", "-m", "--help"], ["train.py", "-m", "--help"]),
        (["--", "-odd.py", "a"], ["./-odd.py", "a"]),
        (["-m", "pytest", "-x"], ["-m", "pytest", "-x"]),
        (["-mpytest", "-x"], ["-m", "pytest", "-x"]),
        (["-c", "1", "2"], ["-c", "1", "2"]),
        (["-", "2"], ["-", "2"]),
    ],
)
def test_words_become_a_command_of_python(words: list[str], line: list[str]) -> None:
    assert command_line(words) == line


@pytest.mark.parametrize("words", [[], ["--"], ["-m"], ["-c"], ["-x"], ["--steps=3", "train.py"]])
def test_words_that_make_no_command_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        command_line(words)


def test_help_is_that_of_the_command_and_what_follows_the_script_is_the_scripts() -> None:
    out = io.StringIO()
    assert main(["run", "--help"], out) == 0
    assert "headrace run -m MODULE" in out.getvalue()


SHOW = "import tensorflow as tf; print(tf.__name__)"


def test_child_processes_have_it_too(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        f"""
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", {SHOW!r}], capture_output=True, text=True).stdout.strip())
        """,
    ) == ["headrace"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_have_it_and_pickles_arrive(
    tmp_path: Path, method: str
) -> None:
    assert printed(
        tmp_path,
        f"""
        import multiprocessing
        import tensorflow as tf
        from tensorflow.python.framework import ops

        class Job:
            def __init__(self, spec, error):
                self.spec, self.error = spec, error

        def work(job, replies):
            import tensorflow.compat.v1 as again
            assert again is tf and isinstance(job, Job)
            with tf.Graph().as_default(), tf.Session() as session:
                replies.put((float(session.run(tf.add(1.0, 2.0))), job.spec, tf.float32, type(job.error)))

        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            replies = context.Queue()
            job = Job(tf.train.ClusterSpec({{"ps": ["a:1"]}}), tf.errors.AbortedError(None, None, "x"))
            child = context.Process(target=work, args=(job, replies))
            child.start()
            value, spec, dtype, kind = replies.get(timeout=50)
            child.join()
            print(value, spec == job.spec, dtype is tf.float32, kind is tf.errors.AbortedError, child.exitcode)
        """,
    ) == ["3.0 True True True 0"]


def test_pools_work_where_the_program_is_a_module_of_a_package(tmp_path: Path) -> None:
    written(tmp_path, "", "package/__init__.py")
    source = """
        import multiprocessing
        import tensorflow as tf

        class Job:
            def __init__(self, number):
                self.number = number

        def work(job):
            import tensorflow.compat.v1 as again
            return again.__name__, job.number

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, [Job(1), Job(2)]))
        """
    written(tmp_path, source, "package/program.py")
    done = start("-m", "package.program", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[('headrace', 1), ('headrace', 2)]\n", "")


def test_threads_that_import_at_once_get_the_same(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import threading
        start, found = threading.Barrier(8), []
        def ask():
            start.wait()
            import tensorflow.compat.v1 as tf
            import tensorflow.contrib.rnn
            from tensorflow import nn
            from tensorflow.python.ops import array_ops
            found.append((tf.Session, array_ops, array_ops.reshape, nn.relu))
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for each in threads: each.start()
        for each in threads: each.join()
        print(len(found), len(set(found)))
        """,
    ) == ["8 1"]


def test_options_of_python_go_on_to_the_program(tmp_path: Path) -> None:
    program = written(tmp_path, "import sys\nprint(sys.flags.utf8_mode, sys.warnoptions)\n")
    line = [sys.executable, "-W", "error", "-X", "utf8", *RUN[1:], program]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout == "1 ['error']\n"


def test_a_child_that_imports_no_tensorflow_loads_no_headrace(tmp_path: Path) -> None:
    environment = dict(os.environ)
    set_environment(environment)
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print([m for m in sys.modules if m.startswith('headrace')])"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_another_sitecustomize_is_run_as_well(tmp_path: Path) -> None:
    written(tmp_path, "import builtins\nbuiltins.other = __file__\n", "site/sitecustomize.py")
    show = "print(tf.__name__, other == sitecustomize.__file__)"
    program = written(tmp_path, f"import sitecustomize, tensorflow as tf\n{show}\n")
    done = start(program, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")})
    assert (done.stdout, done.stderr) == ("headrace True\n", "")


def test_the_environment_is_set_once_and_keeps_what_was_there() -> None:
    environment = {"PYTHONPATH": "/a:/b"}
    set_environment(environment)
    set_environment(environment)
    assert environment == {"PYTHONPATH": f"{CHILDREN}:/a:/b", "HEADRACE_AS_TENSORFLOW": "1"}


def test_a_python_without_headrace_is_left_as_it_is(tmp_path: Path) -> None:
    """Such as that of another virtual environment: its own tensorflow is found, or none."""
    written(tmp_path, "__version__ = 'its own'\n", "lib/tensorflow/__init__.py")
    environment = {"PYTHONPATH": f"{CHILDREN}:{tmp_path / 'lib'}", "HEADRACE_AS_TENSORFLOW": "1"}
    venv.create(tmp_path / "other")
    other = tmp_path / "other" / "bin" / "python"
    source = "import tensorflow; print(tensorflow.__version__)"
    done = subprocess.run(
        [other, "-c", source], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "its own\n"


def test_a_tensorflow_that_is_installed_is_hidden(tmp_path: Path) -> None:
    written(tmp_path, "raise SystemExit('the wrong one')\n", "lib/tensorflow/__init__.py")
    program = written(tmp_path, SHOW)
    done = start(program, env={**os.environ, "PYTHONPATH": str(tmp_path / "lib")})
    assert (done.stdout, done.stderr) == ("headrace\n", "")


INSTALL = "import headrace\nheadrace.install_as_tensorflow()\nheadrace.install_as_tensorflow()\n"


def python(source: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload,no-any-return]  # fmt: skip


def test_code_can_do_the_same_and_doing_it_twice_changes_nothing() -> None:
    done = python(INSTALL + f"import sys, subprocess\n{SHOW}\nprint(len([f for f in sys.meta_path if type(f).__module__"
                  f" == 'headrace.unmodified.finder']))\nsubprocess.run([sys.executable, '-c', {SHOW!r}])")  # fmt: skip
    assert done.stdout.split() == ["headrace", "2", "headrace"] or done.stdout.split() == [
        "headrace",
        "headrace",
        "2",
    ]


def test_it_says_why_it_comes_too_late(tmp_path: Path) -> None:
    path = written(tmp_path, "__version__ = '2.99'\n", "tensorflow/__init__.py")
    done = python("import tensorflow\n" + INSTALL, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert f"ImportError: TensorFlow 2.99 was imported before, from {path}" in done.stderr
    assert "before anything imports tensorflow" in done.stderr


def test_notebooks_load_it_as_an_extension() -> None:
    done = python(f"import headrace\nheadrace.load_ipython_extension(None)\n{SHOW}")
    assert (done.stdout, done.stderr) == ("headrace\n", "")


def test_pytest_runs_tests_that_import_tensorflow(tmp_path: Path) -> None:
    written(tmp_path, "import tensorflow as tf\n", "conftest.py")
    written(
        tmp_path,
        """
        import tensorflow as tf
        def test_sum():
            with tf.Session() as session:
                assert session.run(tf.add(1, 2)) == 3
        """,
        "test_it.py",
    )
    quiet = ["-q", "-p", "no:cacheprovider"]
    done = start("-m", "pytest", *quiet, cwd=tmp_path)
    assert "1 passed" in done.stdout
    plugin = ["-p", "headrace.unmodified.pytest"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, *plugin], cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert "1 passed" in done.stdout


def test_usual_checks_of_versions_accept_it(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import importlib.metadata, importlib.util, re
        import tensorflow as tf
        assert tuple(map(int, tf.__version__.split("."))) >= (1, 4)
        assert [int(x) for x in tf.VERSION.split(".")[:2]] == [1, 15]
        assert tf.__version__.startswith("1.") and tf.__version__ >= "1.12" and float(tf.__version__[:3]) < 2
        assert re.fullmatch(r"(\\d+)\\.(\\d+)(\\.(\\d+))?([ab](\\d+))?", tf.__version__)  # distutils' StrictVersion
        assert tf.version.VERSION == tf.__version__ == importlib.metadata.version("tensorflow")
        assert importlib.metadata.version("tensorflow-gpu") == tf.__version__
        assert importlib.util.find_spec("tensorflow") is not None
        assert tf.version.GRAPH_DEF_VERSION == tf.GRAPH_DEF_VERSION
        print(tf.version.headrace)
        """,
    ) != ["1.15.5"]


@pytest.mark.skipif(find_spec("pkg_resources") is None, reason="setuptools has it no more")
@pytest.mark.parametrize("first", ["pkg_resources", "headrace"])
def test_pkg_resources_knows_of_it(tmp_path: Path, first: str) -> None:
    """Whichever is there first."""
    program = written(
        tmp_path,
        f"""
        import warnings
        warnings.simplefilter("ignore")  # setuptools says that there is importlib.metadata
        import {first}
        import headrace
        headrace.install_as_tensorflow()
        import pkg_resources
        pkg_resources.require("tensorflow>=1.4,<2")
        print(pkg_resources.get_distribution("tensorflow-gpu").version)
        """,
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1.15.5\n", "")


def test_modules_that_are_got_by_a_call_ask_for_no_names(tmp_path: Path) -> None:
    source = """
        print(__import__("tensorflow.python.ops", fromlist=["dummy"]).__name__)
        print(__import__("tensorflow.python.ops.array_ops", fromlist=[""]).__name__)
        print(__import__("tensorflow", fromlist=["dummy"]).VERSION[:4])
        """
    assert printed(tmp_path, source) == [
        "headrace.python.ops", "tensorflow.python.ops.array_ops", "1.15",
    ]  # fmt: skip


def test_the_log_is_the_one_that_programs_set_up(tmp_path: Path) -> None:
    source = """
        import logging

        own = logging.getLogger("tensorflow")
        own.setLevel(logging.INFO)
        import tensorflow as tf

        tf.logging.info("shown")
        logging.getLogger("headrace").info("of headrace")
        own.setLevel(logging.ERROR)
        tf.logging.warn("hidden")
        logging.getLogger("headrace").warning("hidden, of headrace")
        own.disabled = True
        tf.logging.error("hidden as well")
        """
    done = start(written(tmp_path, source))
    assert done.stderr == "INFO:tensorflow:shown\nINFO:headrace:of headrace\n"


def test_packagings_versions_compare() -> None:
    version = pytest.importorskip("packaging.version")
    import headrace as tf

    assert version.parse("1.4") <= version.parse(tf.__version__) < version.parse("2.0")
    assert not version.parse(tf.__version__).is_prerelease


def test_modules_that_are_made_look_like_modules(tmp_path: Path) -> None:
    assert printed(
        tmp_path,
        """
        import importlib, importlib.util, inspect, pkgutil
        import tensorflow.python.ops.array_ops as array_ops
        assert importlib.util.find_spec("tensorflow.python.ops.array_ops").name == array_ops.__name__
        assert importlib.reload(array_ops) is array_ops
        assert not hasattr(array_ops, "__wrapped__") and not hasattr(array_ops, "__file__")
        assert list(pkgutil.iter_modules(array_ops.__path__)) == []
        assert inspect.getmodule(array_ops.reshape).__name__ == "headrace.ops.array.shapes"
        assert "reshape" in dir(array_ops) and "array_ops" in repr(array_ops)
        print("modules")
        """,
    ) == ["modules"]


IMPORTS = [
    ("import tensorflow.keras", "ModuleNotFoundError", "tensorflow.keras", "use tf.layers"),
    ("import tensorflow.python.nothing", "ModuleNotFoundError", "tensorflow.python.nothing", "does not have"),
    ("from tensorflow.keras import layers", "ModuleNotFoundError", "tensorflow.keras", "use tf.layers"),
    ("from tensorflow import keras", "ImportError", "tensorflow", "use tf.layers"),
    ("from tensorflow import matmull", "ImportError", "tensorflow", "did you mean tf.matmul?"),
    ("from tensorflow import mul", "ImportError", "tensorflow", "use tf.multiply"),
    ("from tensorflow.train import AdamOptimiser", "ImportError", "tensorflow.train", "tf.train.AdamOptimizer"),
    ("from tensorflow.contrib import kafka", "ImportError", "tensorflow.contrib", "feed a queue"),
    ("from tensorflow.python.ops.array_ops import rehsape", "ImportError", "tensorflow.python.ops.array_ops",
     "did you mean tf.reshape"),
    ("from tensorflow.python.framework.ops import no_such_thing", "ImportError", "tensorflow.python.framework.ops",
     "does not have tensorflow.python.framework.ops.no_such_thing"),
    ("from tensorflow.python.ops.io_ops import restore_nothing", "ImportError", "tensorflow.python.ops.io_ops",
     "does not have tensorflow.python.ops.io_ops.restore_nothing"),
    ("from tensorflow.contrib.cudnn_rnn import CudnnLSTM", "ImportError", "tensorflow.contrib.cudnn_rnn", "LSTMCell"),
    ("import tensorflow.contrib.mpi", "ModuleNotFoundError", "tensorflow.contrib.mpi", "use grpc"),
]  # fmt: skip


def test_imports_that_find_nothing_say_what_there_is(tmp_path: Path) -> None:
    lines = [f"try: {line}\nexcept ImportError as e: print(repr((type(e).__mro__[2].__name__, e.name, str(e))))\n"
             for line, *_ in IMPORTS]  # fmt: skip
    program = written(tmp_path, "".join(lines))
    done = start(program)
    assert done.stderr == ""
    replies = [eval(line) for line in done.stdout.splitlines()]
    assert len(replies) == len(IMPORTS)
    for number, ((line, kind, name, said), reply) in enumerate(zip(IMPORTS, replies, strict=True)):
        assert (reply[0], reply[1]) == (kind, name), line
        assert said in reply[2], line
        assert f"used at {program}:{2 * number + 1}" in reply[2], line


def test_names_of_internals_explain_themselves(tmp_path: Path) -> None:
    program = """
        import tensorflow as tf
        from tensorflow.python.framework import ops
        assert not hasattr(ops, "nothing") and getattr(ops, "nothing", 3) == 3
        assert not hasattr(tf, "matmull")
        try:
            ops.nothing
        except AttributeError as error:
            print(error)
        """
    first, second = printed(tmp_path, program)
    assert first.endswith("headrace does not have tensorflow.python.framework.ops.nothing")
    assert second.endswith("program.py:7")
