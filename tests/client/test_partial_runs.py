"""A step that is fed and fetched from piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf


@pytest.fixture
def sums(graph: tf.Graph) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """a, b, a + 1, (a + 1) * b"""
    a, b = tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="b")
    first = tf.add(a, 1.0, name="first")
    return a, b, first, tf.multiply(first, b, name="second")


def test_pieces_come_as_they_are_asked_for(session: tf.Session, sums: Any) -> None:
    a, b, first, second = sums
    handle = session.partial_run_setup([first, second], [a, b])
    assert session.partial_run(handle, first, {a: 2.0}) == 3.0
    assert session.partial_run(handle, {"x": [second]}, {b: 10.0}) == {"x": [30.0]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup' before"):
        session.partial_run(handle, first)


def test_runs_beside_each_other_keep_apart(session: tf.Session, sums: Any) -> None:
    a, b, first, second = sums
    handles = [session.partial_run_setup([first, second], [a, b]) for _ in range(3)]
    assert len({*handles}) == 3
    assert [session.partial_run(h, first, {a: n}) for n, h in enumerate(handles)] == [1, 2, 3]
    assert [session.partial_run(h, second, {b: 2.0}) for h in handles] == [2.0, 4.0, 6.0]


def test_operations_run_as_soon_as_they_can(session: tf.Session, sums: Any) -> None:
    a, _, first, _ = sums
    seen = tf.Variable(0.0)
    session.run(seen.initializer)
    noted = tf.assign(seen, first)
    handle = session.partial_run_setup([first, noted.op], [a])
    assert session.partial_run(handle, first, {a: 6.0}) == 7.0
    assert session.run(seen) == 7.0


def test_without_a_handle_it_is_a_run(session: tf.Session, sums: Any) -> None:
    a, _, first, _ = sums
    assert session.partial_run(None, first, {a: 1.0}) == 2.0


Ask = Callable[[tf.Session, str, Any], object]


def after_first(ask: Ask) -> Ask:
    def both(session: tf.Session, handle: str, sums: Any) -> object:
        a, _, first, _ = sums
        session.partial_run(handle, first, {a: 1.0})
        return ask(session, handle, sums)

    return both


WRONG: list[tuple[Ask, type[Exception], str]] = [
    (
        lambda run, h, s: run.partial_run(h, s[3], {s[0]: 1.0}),
        tf.errors.InvalidArgumentError,
        "second:0 can't be computed from the feeds that have been fed so far: feed b:0 too",
    ),
    (
        after_first(lambda run, h, s: run.partial_run(h, s[2])),
        tf.errors.InvalidArgumentError,
        "The fetch first:0 has already been fetched",
    ),
    (
        after_first(lambda run, h, s: run.partial_run(h, s[3], {s[0]: 1.0, s[1]: 1.0})),
        tf.errors.InvalidArgumentError,
        "The feed a:0 has already been fed",
    ),
    (
        lambda run, h, s: run.partial_run(h, s[0] + s[1], {s[0]: 1.0, s[1]: 1.0}),
        tf.errors.InvalidArgumentError,
        "add:0 was not specified in partial_run_setup, which has first:0, second:0",
    ),
    (
        lambda run, h, s: run.partial_run(h, s[2].op, {s[0]: 1.0}),
        RuntimeError,
        "requires empty `target_list`.*'first'",
    ),
    (lambda run, h, s: run.partial_run(h, s[2], [1.0]), TypeError, "'dict' must be a dictionary"),
    (lambda run, h, s: run.partial_run(3, s[2]), TypeError, "is a string, not 3"),
    (
        lambda run, h, s: run.partial_run("no", s[2]),
        tf.errors.InvalidArgumentError,
        "Must run 'setup' before performing partial runs! .* called 'no'",
    ),
]


@pytest.mark.parametrize(("ask", "error", "phrase"), WRONG)
def test_what_a_run_does_not_have_to_give_is_refused(
    session: tf.Session, sums: Any, ask: Ask, error: type[Exception], phrase: str
) -> None:
    a, b, first, second = sums
    handle = session.partial_run_setup([first, second], [a, b])
    with pytest.raises(error, match=phrase):
        ask(session, handle, sums)


@pytest.mark.parametrize(
    ("fetches", "feeds", "phrase"),
    [
        ([], [], "Must specify at least one target to fetch or execute"),
        (["a:0"], ["a:0"], "a:0 is both fed and fetched"),
    ],
)
def test_a_run_with_nothing_to_do_cannot_begin(
    session: tf.Session, sums: Any, fetches: list[str], feeds: list[str], phrase: str
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=phrase):
        session.partial_run_setup(fetches, feeds)


def test_an_error_in_a_node_ends_the_run_and_names_the_node(session: tf.Session) -> None:
    index, after = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
    picked = tf.gather([1, 2, 3], index, name="picked")
    total = picked + after
    handle = session.partial_run_setup([picked, total], [index, after])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in \\[0, 3\\)") as told:
        session.partial_run(handle, picked, {index: 7})
    assert told.value.op is picked.op
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup'"):
        session.partial_run(handle, total, {after: 1})


def test_a_closed_session_has_no_runs(graph: tf.Graph, sums: Any) -> None:
    a, _, first, _ = sums
    session = tf.Session()
    handle = session.partial_run_setup([first], [a])
    session.close()
    for call in (
        lambda: session.partial_run(handle, first, {a: 1.0}),
        lambda: session.partial_run_setup([first], [a]),
    ):
        with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
            call()
