"""What tests/ops records of TensorFlow's regular expressions and file globs is what TensorFlow does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.ops.test_file_globs import CASES as GLOBS
from tests.ops.test_file_globs import NAMES
from tests.ops.test_regular_expressions import CASES

REGEX = """
import re

def outcome(make):
    try:
        with tf.Session() as session:
            return session.run(make()).tolist()
    except tf.errors.InvalidArgumentError as error:
        found = error
    except ValueError as error:  # TensorFlow's client fails to show some of these errors
        found = error
    if isinstance(found, UnicodeDecodeError):
        return "invalid UTF-8"
    while "error: " not in str(found):
        found = found.__context__
    return re.search(r"error: ([^:\\n]*)", str(found))[1].strip()

result = []
for case in cases:
    pattern, rewrite, strings = case[:3]
    tf.reset_default_graph()
    text, ops = tf.constant(strings), tf.raw_ops
    one, other = tf.constant(pattern), tf.constant(rewrite)
    first = {"pattern": pattern, "rewrite": rewrite, "replace_global": False}
    result.append((
        outcome(lambda: ops.RegexReplace(input=text, pattern=one, rewrite=other)),
        outcome(lambda: ops.StaticRegexReplace(input=text, **first)),
        outcome(lambda: ops.RegexFullMatch(input=text, pattern=one)),
    ))
"""


def test_the_table_of_regular_expressions_is_tensorflows(oracle: Any) -> None:
    theirs = oracle.run(REGEX, cases=CASES)
    for case, found in zip(CASES, theirs, strict=True):
        if len(case) == 6:
            assert (case[0], *found) == (case[0], *case[3:])
        else:
            assert [case[3].startswith(each) for each in found] == [True] * 3, (case, found)


def test_the_table_of_file_globs_is_tensorflows(oracle: Any, tmp_path: Path) -> None:
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    source = """
import os
before = os.getcwd()
os.chdir(folder)
try:
    with tf.Session() as session:
        result = [
            (session.run(tf.matching_files(each)).tolist(), sorted(tf.gfile.Glob(each))) for each in patterns
        ]
finally:
    os.chdir(before)
"""
    theirs = oracle.run(source, patterns=list(GLOBS), folder=os.fspath(tmp_path))
    for (pattern, names), (matching, globbed) in zip(GLOBS.items(), theirs, strict=True):
        assert (pattern, [os.fsdecode(name) for name in matching]) == (pattern, names.split())
        assert (pattern, globbed) == (pattern, sorted(names.split()))


@pytest.mark.parametrize("depth", [1000, 5000, 20_000])
def test_nested_parentheses_are_no_trouble_there_either(depth: int, oracle: Any) -> None:
    source = "result = tf.Session().run(tf.regex_replace('bab', '(' * n + 'a' + ')' * n, r'<\\1>'))"
    assert oracle.run(source, n=depth) == b"b<a>b"
