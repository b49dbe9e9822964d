"""`headrace check`: what it lists, how it counts, what it tells its caller."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.tools.check.lookup import Lookup
from headrace.tools.main import main

ROOT = Path(__file__).resolve().parents[2]


def check(*arguments: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = main(["check", *map(str, arguments)], out, err)
    return code, out.getvalue(), err.getvalue()


def findings(*paths: Any) -> dict[str, Any]:
    code, out, err = check("--json", *paths)
    assert err == ""
    document: dict[str, Any] = json.loads(out)
    counted = [each for each in document["findings"] if not each["guarded"]]
    assert code == (1 if counted else 0)
    return document


@pytest.fixture
def program(tmp_path: Path) -> Any:
    def write(source: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.write_text(source)
        return path

    return write


def test_names_that_are_not_there_are_listed_with_file_line_and_total(program: Any) -> None:
    path = program(
        "import tensorflow as tf\n"
        "x = tf.constant(1)\n"
        "y = tf.no_such_name(x)\n"
        "tf.contrib.no_such_space.thing(tf.no_such_name)\n"
        "z = tf.mul(x, y)\n"
    )
    code, out, err = check(path)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == f"{path}:3: headrace does not have tf.no_such_name"
    assert lines[1].startswith(f"{path}:4: headrace does not have tf.contrib.no_such_space.thing")
    assert lines[2].startswith(f"{path}:4: headrace does not have tf.no_such_name")
    assert lines[3] == f"{path}:5: TensorFlow 1.0 removed tf.mul; use tf.multiply"
    assert lines[4] == "1 file: 3 of 5 names missing, in 4 places"


def test_the_nearest_name_is_offered(program: Any) -> None:
    _, out, _ = check(program("import tensorflow as tf\ntf.train.GradientDescentOptimiser\n"))
    assert "did you mean tf.train.GradientDescentOptimizer" in out


def test_what_is_all_there_is_said_so(program: Any) -> None:
    path = program(
        "import tensorflow as tf\ntf.train.Server\ntf.Session().run\ntf.app.flags.FLAGS.rate\n"
    )
    assert check(path) == (0, "1 file: nothing is missing of 4 names\n", "")


@pytest.mark.parametrize(
    "line",
    [
        "tf.train.Server.create_local_server()",
        "tf.GraphKeys.GLOBAL_VARIABLES",
        "tf.RunOptions.FULL_TRACE",
        "tf.errors.OutOfRangeError",
        "tf.flags.FLAGS.whatever.there",
        "tf.float32.base_dtype.whatever",
        "tf.compat.v1.train.AdamOptimizer(0.1)",
        "tf.__version__.split('.')",
        "tf.nn.rnn_cell.LSTMCell",
        "import tensorflow.compat.v1.train",
        "from tensorflow.python.client import timeline",
        "from tensorflow.python.framework import ops; ops.convert_to_tensor, ops.RegisterGradient",
        "from tensorflow.python.platform import gfile; gfile.Exists",
        "from tensorflow.core.protobuf import config_pb2; config_pb2.ConfigProto",
        "import headrace; headrace.constant",
    ],
)
def test_what_headrace_has_is_found_wherever_tensorflow_has_it(program: Any, line: str) -> None:
    document = findings(program(f"import tensorflow as tf\n{line}\n"))
    assert document["findings"] == []
    assert document["total"]["names"] > 1


@pytest.mark.parametrize(
    "line",
    [
        "tf.GraphKeys.NO_SUCH_KEY",
        "tf.errors.NoSuchError",
        "tf.train.Server.no_such_method",
        "tf.nn.rnn_cell.NoSuchCell",
        "tf.compat.v1.no_such_name",
        "import tensorflow.no_such_module",
        "from tensorflow.train import no_such_name",
        "from tensorflow.python.framework.no_such_module import x",
        "from tensorflow.python.framework import no_such_module",
    ],
)
def test_what_it_has_not_is_found_too(program: Any, line: str) -> None:
    document = findings(program(f"import tensorflow as tf\n{line}\n"))
    assert [(each["line"], each["kind"]) for each in document["findings"]] == [(2, "missing")]
    assert re.search("no_?such", document["findings"][0]["name"].lower())


def test_an_error_that_says_what_to_use_is_its_own_kind(program: Any) -> None:
    path = program("from tensorflow.contrib import cluster_resolver as c\nc.TPUClusterResolver\n")
    (found,) = findings(path)["findings"]
    assert (found["kind"], found["line"], found["name"]) == (
        "unsupported", 2, "tf.contrib.cluster_resolver.TPUClusterResolver",
    )  # fmt: skip
    assert "no TPUs" in found["message"]


def test_what_the_program_looks_for_first_is_not_counted(program: Any) -> None:
    path = program(
        "import tensorflow as tf\n"
        "if hasattr(tf, 'no_such_name'):\n"
        "    tf.no_such_name()\n"
        "try:\n"
        "    from tensorflow.contrib import no_such_space\n"
        "except ImportError:\n"
        "    no_such_space = None\n"
    )
    code, out, _ = check(path)
    assert (code, out) == (
        0, "1 file: nothing is missing of 3 names; 2 uses that the program looks for first not counted\n",
    )  # fmt: skip
    assert check("--guarded", path)[1].count("(looked for first)") == 2
    assert [each["guarded"] for each in findings(path)["findings"]] == [True, True]


def test_everything_that_an_import_of_all_brings_is_known(program: Any) -> None:
    path = program("from tensorflow import *\nconstant(1)\nmine()\ncontrib.no_such_space\n")
    (found,) = findings(path)["findings"]
    assert (found["line"], found["name"]) == (4, "tf.contrib.no_such_space")


def test_python_2_is_told_once_a_file_and_its_names_all_the_same(program: Any) -> None:
    path = program(
        "import tensorflow as tf\nprint tf.no_such_name\ntry:\n    pass\nexcept tf.errors.OpError, e:\n"
        "    print e\n"
    )  # fmt: skip
    code, out, _ = check(path)
    assert code == 1
    assert out.splitlines() == [
        f"{path}:2: python 2: a print statement: Python 3 does not understand it; 2 more such lines "
        "(2 x a print statement, 1 x except with a comma)",
        f"{path}:2: headrace does not have tf.no_such_name",
        "1 file: 1 of 3 names missing, in 1 place; 1 file of Python 2",
    ]


def test_names_are_found_in_lines_that_no_parser_takes(program: Any) -> None:
    path = program(
        "import tensorflow as tf\nx = tf.no_such_name ? y\nfrom tensorflow.x import y as z oops\n"
    )
    found = findings(path)
    assert [each["name"] for each in found["findings"]] == [None, "tf.no_such_name", "tf.x.y"]
    assert found["total"]["unreadable_files"] == 1


def test_a_notebook_is_named_by_cell_and_line(program: Any) -> None:
    cells = [
        ["# text"],
        ["%matplotlib inline\n", "import tensorflow as tf"],
        ["\n", "tf.no_such_name"],
    ]
    kinds = ["markdown", "code", "code"]
    notebook = {"cells": [{"cell_type": k, "source": s} for k, s in zip(kinds, cells, strict=True)]}
    path = program(json.dumps(notebook), "lesson.ipynb")
    _, out, _ = check(path)
    assert out.startswith(f"{path}:cell 3:2: headrace does not have tf.no_such_name")
    (found,) = findings(path)["findings"]
    assert (found["cell"], found["line"]) == (3, 2)


def test_folders_are_read_whole_and_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import tensorflow as tf\ntf.no_such_name")
    (tmp_path / "b.py").write_bytes(b"\0")
    (tmp_path / "c.ipynb").write_text("{")
    (tmp_path / "d.py").write_text("x = 1")
    document = findings(tmp_path)
    assert [Path(each["file"]).name for each in document["findings"]] == ["a.py", "b.py", "c.ipynb"]
    assert document["total"] == {
        "files": 4, "names": 2, "missing_names": 1, "places": 1, "guarded": 0, "python2_files": 0,
        "unreadable_files": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: PATH"),
        (["no/such/file.py"], "there is no no/such/file.py"),
        (["tests/tools/no_programs"], "there is no tests/tools/no_programs"),
    ],
)
def test_usage_is_another_exit_status(arguments: list[str], complaint: str) -> None:
    code, out, err = check(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err


def test_a_folder_without_programs_is_wrong_usage(tmp_path: Path) -> None:
    code, _, err = check(tmp_path)
    assert code == 2
    assert f"there are no Python files and no notebooks in {tmp_path}" in err


def test_nothing_of_a_program_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    path = tmp_path / "program.py"
    path.write_text(f"import tensorflow as tf\nopen({str(mark)!r}, 'w')\n")
    done = subprocess.run(
        [sys.executable, "-m", "headrace.tools.main", "check", path],
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"1 file: nothing is missing of 1 name\n"
    assert not mark.exists()


def test_the_examples_use_nothing_that_is_not_there() -> None:
    document = findings(ROOT / "examples")
    assert document["findings"] == []
    assert document["total"]["files"] > 10


def test_a_lookup_answers_for_every_name_of_the_public_namespaces() -> None:
    import headrace as tf

    lookup = Lookup()
    for space, prefix in (
        (tf, "tensorflow"),
        (tf.train, "tensorflow.train"),
        (tf.nn, "tensorflow.nn"),
    ):
        missing = [name for name in space.__all__ if not lookup.exists(f"{prefix}.{name}")]
        assert missing == []
    assert not lookup.exists("tensorflow.no_such_name")


def test_programs_in_the_manner_of_tutorials_use_nothing_that_is_not_there() -> None:
    document = findings(ROOT / "tests" / "unmodified" / "programs")
    assert document["findings"] == []
    assert document["total"]["files"] >= 12
