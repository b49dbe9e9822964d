"""Regular expressions mean what TensorFlow's mean, and none of them holds up a process.

What TensorFlow makes of each pattern is recorded in regular_expressions.txt; tests/oracle compares that with it.
"""

from __future__ import annotations

import ast
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.ops.string import regular_expressions
from headrace.ops.string.regular_expressions import regex_replace_op, static_regex_replace_op
from headrace.run.exec import polling
from headrace.run.scope import Scope
from tests.support.limits import deadline_that_says

ATTEMPTS = 20
SOON_S = 10.0  # of the processor: what goes wrong takes minutes, or for ever
RECORDED = Path(__file__).with_name("regular_expressions.txt")


def recorded() -> list[tuple[Any, ...]]:
    """(pattern, rewrite, strings, all replaced, first replaced, whole matches), or the first three and a phrase."""
    lines = RECORDED.read_text().splitlines()
    return [ast.literal_eval(f"({line})") for line in lines if line and not line.startswith("#")]


NEWER = {b"(?<n>a)b"}
"""What RE2 accepts since 2023, but not the one in TensorFlow 2.21."""
CASES = recorded()
SOUND = [case for case in CASES if len(case) == 6]
REFUSED = [case for case in CASES if len(case) == 4 and case[0] not in NEWER]


def run(made: Callable[[], Any], **options: Any) -> Any:
    with tf.Graph().as_default():
        fetch = made()
        with tf.Session() as session:
            return session.run(fetch, **options)


def replaced(strings: Any, pattern: Any, rewrite: Any, **attrs: Any) -> Any:
    """By the op with inputs; the static one is another kernel over the same function."""
    return run(
        lambda: regex_replace_op(
            tf.constant(strings, tf.string),
            tf.constant(pattern, tf.string),
            tf.constant(rewrite, tf.string),
            **attrs,
        )
    )


def identify(case: tuple[Any, ...]) -> str:
    return f"{case[0]!r:.40} -> {case[1]!r:.20}"


def test_the_table_has_patterns_of_both_kinds() -> None:
    assert len(SOUND) > 100
    assert len(REFUSED) > 40


@pytest.mark.parametrize("case", SOUND, ids=identify)
def test_a_pattern_means_what_it_means_in_tensorflow(case: tuple[Any, ...]) -> None:
    pattern, rewrite, strings, every, first, whole = case
    assert replaced(strings, pattern, rewrite).tolist() == every
    assert replaced(strings, pattern, rewrite, replace_global=False).tolist() == first
    assert run(lambda: tf.regex_replace(tf.constant(strings), pattern, rewrite)).tolist() == every
    assert run(lambda: tf.strings.regex_full_match(tf.constant(strings), pattern)).tolist() == whole


@pytest.mark.parametrize("case", REFUSED, ids=identify)
@pytest.mark.parametrize("strings", [["a"], []], ids=["a string", "none"])
def test_a_pattern_that_tensorflow_refuses_is_refused_when_the_step_runs(
    case: tuple[Any, ...], strings: list[str]
) -> None:
    pattern, rewrite, _, phrase = case
    given = np.array(strings, object)
    for made in (
        lambda: tf.regex_replace(tf.constant(given, tf.string), pattern, rewrite),
        lambda: tf.strings.regex_full_match(
            tf.constant(given, tf.string), tf.constant(pattern, tf.string)
        ),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid pattern: ") as caught:
            run(made)
        assert f"error: {phrase}" in str(caught.value)


def test_groups_may_be_named_as_in_newer_releases_of_re2() -> None:
    assert replaced(["ab"], "(?<n>a)b", r"\1").tolist() == [b"a"]


def test_five_thousand_parentheses_are_a_pattern() -> None:
    pattern = "(" * 5000 + "a" + ")" * 5000
    assert replaced(["bab"], pattern, r"<\1\9>").tolist() == [b"b<aa>b"]
    assert run(lambda: tf.strings.regex_full_match(tf.constant("a"), pattern))


def test_what_backtracks_for_ever_elsewhere_ends_at_once() -> None:
    began = time.thread_time()
    strings = ["a" * 26 + "!", "a" * 100_000 + "!"]
    assert replaced(strings, "(a+)+$", "x").tolist() == [text.encode() for text in strings]
    assert time.thread_time() - began < SOON_S


LOUD = """
import headrace as tf
from headrace.ops.string import regular_expressions
from headrace.ops.string.regular_expressions import regex_replace_op, static_regex_replace_op
for pattern, rewrite in [("(", ""), ("a{1001}", ""), ("a?" * 9000, ""), ("b", "\\\\q"), ("[ab]*a[ab]{900}c", "")]:
    with tf.Graph().as_default(), tf.Session() as session:
        try:
            session.run(regex_replace_op("ab" * 5000, pattern, rewrite))
        except tf.errors.OpError:
            pass
"""


def test_re2_writes_nothing_to_stderr() -> None:
    done = subprocess.run([sys.executable, "-c", LOUD], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# -- what a pattern may take ------------------------------------------------------------------


def many(count: int) -> Any:
    return np.array(b"a" * count, object)


def fed(made: Callable[[Any], Any], value: Any, options: tf.RunOptions | None = None) -> Any:
    """A step fed with `value`, so that nothing of it is known before it runs."""
    with tf.Graph().as_default():
        text = tf.placeholder(tf.string)
        fetch = made(text)
        with tf.Session() as session:
            return session.run(fetch, {text: value}, options=options)


def test_a_million_matches_heed_the_deadline_between_them() -> None:
    def replace(limited: tf.RunOptions) -> None:
        began = time.monotonic()
        try:
            fed(lambda text: tf.regex_replace(text, "a", "b"), many(20_000_000), limited)
        finally:
            late_s = time.monotonic() - began - limited.timeout_in_ms / 1000
            assert late_s < 15.0  # all of it would take half a minute

    error = deadline_that_says(replace, "in the middle of an operation")
    assert error.node_def is not None or "StaticRegexReplace" in str(error)


@pytest.mark.parametrize("calls", [1, 1000])
def test_a_replacement_ends_before_the_next_match_once_its_step_is_cancelled(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope, polled = Scope(), []

    def poll() -> None:
        polled.append(None)
        if len(polled) == calls:
            scope.cancel(tf.errors.CancelledError(None, None, "the client has gone"))
        polling.poll()

    monkeypatch.setattr(regular_expressions, "poll", poll)
    before = polling.current()
    polling.use(scope)
    try:
        with pytest.raises(tf.errors.CancelledError, match="the client has gone"):
            static_regex_replace_op.kernel(
                np, many(1_000_000), pattern=b"a", rewrite=b"b", replace_global=True
            )
    finally:
        polling.use(before)
    assert len(polled) == calls


def test_other_threads_work_during_one_long_search() -> None:
    search = regular_expressions.Regex(b"(a?){1000}b", captures=True).searcher(b"a" * 20_000)
    counted, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(ATTEMPTS):  # on a busy machine the other may have no processor meanwhile
            began, before = time.thread_time(), counted[0]
            assert search(0)[0] == (-1, -1)
            took, during = time.thread_time() - began, counted[0] - before
            assert took > 0.05  # it is one call of RE2
            if during > 10_000:  # of some 10 million a second
                break
        else:
            pytest.fail("the other thread had to wait for the search")
    finally:
        over.set()
        thread.join()


COSTLY = [
    b"a?", b"a??", b"a*b*", b"a{0,30}", b"a{0,1000}", b"(?:a?){1000}", b"(a|)", b".?", rb"\C?", rb"\b|",
    rb"\pL", rb"(?i)[^\pL\pN]", rb"[\x{100}-\x{10ffff}]?", b"ab|", b"()",
]  # fmt: skip


@pytest.mark.parametrize("unit", COSTLY)
@pytest.mark.parametrize("size", [1 << 10, 1 << 13, 1 << 14, 1 << 20])
def test_a_pattern_is_compiled_or_refused_in_bounded_time(unit: bytes, size: int) -> None:
    began = time.thread_time()
    with contextlib.suppress(tf.errors.ResourceExhaustedError):
        regular_expressions.Regex(unit * (size // len(unit)), captures=True)
    assert time.thread_time() - began < SOON_S  # 0.4 s at worst where this was written


LIMITED = [
    ("HEADRACE_MAX_PATTERN_BYTES", 10, b"a" * 11, b"x", 1),
    ("HEADRACE_MAX_PATTERN_BYTES", 100, rb"\pL\pL", b"x", 1),
    ("HEADRACE_MAX_PATTERN_BYTES", 100, b"a{1000}", b"x", 1),
    ("HEADRACE_MAX_PATTERN_STEPS", 10**8, b"(a?){100}b", b"x", 1_000_000),
    ("HEADRACE_MAX_EXPANDED_BYTES", 1000, b"a", b"x" * 11, 100),
    ("HEADRACE_MAX_EXPANDED_BYTES", 1000, b"(a+)", rb"\1\1\1", 400),
]


@pytest.mark.parametrize(("variable", "limit", "pattern", "rewrite", "size"), LIMITED)
def test_a_limit_is_an_error_that_says_how_to_raise_it(
    variable: str, limit: int, pattern: bytes, rewrite: bytes, size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, str(limit))
    regular_expressions._compiled.cache_clear()

    def attempt() -> Any:
        return fed(lambda text: tf.regex_replace(text, pattern, rewrite), many(size))

    with pytest.raises(tf.errors.ResourceExhaustedError, match=f"may set {variable} higher") as e:
        attempt()
    assert f"more than the {limit} " in str(e.value)
    monkeypatch.delenv(variable)
    assert isinstance(attempt(), bytes)


@pytest.mark.parametrize("pattern", ["^s3://.*", "s3", "^a b.*", "^ab", "ab.*", "a|b", "^a.", "a*"])
def test_patterns_that_say_how_strings_begin(pattern: str) -> None:
    """What is known without the engine is what the engine says."""
    from headrace.ops.string.regular_expressions import _compiled

    strings = [
        b"",
        b"s3",
        b"s3://",
        b"s3://x",
        b"s3://x\n",
        b"s3://\xff",
        b"a b",
        b"ab",
        b"abc",
        b"b",
    ]
    with tf.Session() as session:
        found = session.run(tf.strings.regex_full_match(tf.constant(strings), pattern))
    regex = _compiled(pattern.encode(), False)
    assert found.tolist() == [regex.matches(each) for each in strings]
