"""What `headrace check` reads: files, folders, notebooks, encodings, and Python of an age that this one refuses."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.tools.check import python2, sources


def names(text: str) -> list[str]:
    return [path.name for path in sources.files([text])]


def test_a_folder_is_its_programs_and_notebooks_in_order(tmp_path: Path) -> None:
    for name in (
        "b.py",
        "a.ipynb",
        "c.txt",
        "sub/d.py",
        ".hidden/e.py",
        "venv/f.py",
        "sub/__pycache__/g.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    assert names(str(tmp_path)) == ["a.ipynb", "b.py", "d.py"]
    assert names(str(tmp_path / "c.txt")) == ["c.txt"]
    assert [*sources.files([str(tmp_path / "b.py")] * 2)] == [tmp_path / "b.py"]
    with pytest.raises(FileNotFoundError):
        names(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "# -*- coding: latin-1 -*-\nx = 'é'\n"),
        ("x = 'é'".encode(), "x = 'é'"),
        (b"\xef\xbb\xbfx", "x"),
        (b"x = '\xe9'", "x = 'é'"),
        (b"# coding: nonsense\nx", "# coding: nonsense\nx"),
        (b"a\r\nb\rc", "a\nb\nc"),
    ],
)
def test_text_is_read_whatever_its_encoding(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "x.py").write_bytes(data)
    assert sources.read(tmp_path / "x.py").text == text


def notebook(*cells: tuple[str, str]) -> str:
    return json.dumps({"cells": [{"cell_type": k, "source": s.splitlines(True)} for k, s in cells]})


def test_a_notebook_is_its_code_cells_without_what_only_ipython_knows(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(
        notebook(
            ("markdown", "# tf.gone"),
            (
                "code",
                "%matplotlib inline\n!pip install x\nimport tensorflow as tf\nx = !ls\ny = %time f()",
            ),
            ("code", "%%bash\necho tf.gone"),
            ("code", "%%time\nif x:\n    %timeit f()\n    tf.a\ntf.b?\nf(\n  a % b)"),
        )
    )
    source = sources.read(path)
    ast.parse(source.text)
    assert source.text.split("\n") == [
        "pass", "pass", "import tensorflow as tf", "x = None", "y = None",
        "", "",
        "pass", "if x:", "    pass", "    tf.a", "pass", "f(", "  a % b)", "",
    ]  # fmt: skip
    assert source.place(3) == (2, 3)
    assert source.place(11) == (4, 4)


def test_a_notebook_of_the_third_format_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "x.ipynb"
    cell = {"cell_type": "code", "input": "x = 1"}
    path.write_text(json.dumps({"worksheets": [{"cells": [cell]}]}))
    assert sources.read(path).text == "x = 1\n"


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"3", b'{"cells": [3]}', b'{"cells": 3}', b"[" * 100_000]
)
def test_what_is_no_notebook_says_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.ipynb"
    path.write_bytes(data)
    with pytest.raises(sources.UnreadableError, match="no notebook"):
        sources.read(path)


def test_what_is_no_text_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_bytes(b"\0\1")
    with pytest.raises(sources.UnreadableError, match="zero bytes"):
        sources.read(tmp_path / "x.py")


OLD: dict[str, tuple[str, str, str]] = {
    "print": ('print "a", tf.b % 3', "print('a', tf.b % 3)", "a print statement"),
    "print of a call": ("print f(x), y", "print(f(x), y)", "a print statement"),
    "print without a line's end": ("print x,", "print(x)", "a print statement"),
    "print to a file": ("print >>sys.stderr, tf.x", "(print >> sys.stderr, tf.x)", "a print statement"),
    "print and %": ("print ('%d') % tf.x", "print('%d') % tf.x", "a print statement"),
    "print after a colon": ("if x: print tf.y", "if x:\n    print(tf.y)", "a print statement"),
    "print with a comment": ("print x  # tf", "print(x)", "a print statement"),
    "print over lines": ('print "a %d" % \\\n  tf.x', "print('a %d' % tf.x)", "a print statement"),
    "print over lines in brackets": ("print 'a', f(1,\n   tf.x)", "print('a', f(1, tf.x))", "a print statement"),
    "except": ("try: pass\nexcept tf.E, e: tf.x", "try:\n    pass\nexcept tf.E as e:\n    tf.x", "except with a comma"),
    "except of several": (
        "try: a\nexcept (A, tf.B), e: b", "try:\n    a\nexcept (A, tf.B) as e:\n    b", "except with a comma",
    ),
    "raise": ('raise tf.E, "a"', "raise tf.E('a')", "raise with a comma"),
    "exec": ("exec x in y", "exec(x, y)", "an exec statement"),
    "backticks": ("x = `tf.y`", "x = repr(tf.y)", "backticks"),
    "<>": ('x <> "<>"', "x != '<>'", "<> for !="),
    "octal": ("f(0755, 10)", "f(493, 10)", "an octal number that begins with 0"),
    "long": ("x = 10L", "x = 10", "a long number"),
    "a tuple for a parameter": ("def f(a, (b, c)): tf.x", "def f(a, b, c):\n    tf.x", "parameters in brackets"),
    "a tuple for a lambda's": ("f = lambda (a, b): tf.x", "f = lambda a, b: tf.x", "parameters in brackets"),
    "tabs and spaces": ("if x:\n        a\n\tb", "if x:\n    a\n    b", "tabs and spaces mixed"),
}  # fmt: skip


@pytest.mark.parametrize("what", OLD)
def test_old_python_is_understood(what: str) -> None:
    source, plain, said = OLD[what]
    parsed = python2.parse(source)
    assert ast.unparse(parsed.tree) == plain
    assert said in [text for _, text in parsed.old]
    assert parsed.broken == []


def test_lines_stay_where_they_are() -> None:
    parsed = python2.parse("print 1\n\nprint 'a', \\\n   2\nx = y\n")
    assert [node.lineno for node in parsed.tree.body] == [1, 3, 5]
    assert [line for line, _ in parsed.old] == [1, 3]


def test_what_looks_like_a_print_statement_in_a_string_stays() -> None:
    source = 'print 1\nx = """\nprint 2\n"""\nprint 3, """\nprint 4"""\n'
    parsed = python2.parse(source)
    assert ast.unparse(parsed.tree) == "print(1)\nx = '\\nprint 2\\n'\nprint(3, '\\nprint 4')"
    assert [line for line, _ in parsed.old] == [1, 5]


def test_what_is_no_python_at_all_is_left_out_line_by_line() -> None:
    parsed = python2.parse("a = 1\nthis is no python\nif so so:\n    b\nc = 3")
    assert [line for line, _ in parsed.broken] == [2, 3]
    assert parsed.blanked == {2: "this is no python", 3: "if so so:"}
    assert ast.unparse(parsed.tree) == "a = 1\npass\nif True:\n    b\nc = 3"


@given(st.text(alphabet="print x,()\n\t:'\"\\#[]{}=%`<>0L if def lambda", max_size=60))
def test_anything_is_read_somehow(text: str) -> None:
    parsed = python2.parse(text)
    assert isinstance(parsed.tree, ast.Module)
    compiled = ast.unparse(parsed.tree)
    assert isinstance(compiled, str)
