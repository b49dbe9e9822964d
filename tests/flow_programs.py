"""Random programs of nested branches and loops, as nested tuples: what they give in Python, and as graphs.

"x" is the input, "i" and "a" are the innermost loop's counter and variable.  (kind, e) is e after something else that
the test knows about: it says what that is in Python and in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hypothesis import strategies as st

import headrace as tf

MODULUS = 1009
LEAVES = st.sampled_from(["x", "i", "a", 2, 3])

Somewhere = Callable[[], AbstractContextManager[Any]]
"""A device scope for the next node."""

anywhere: Somewhere = nullcontext


def _longer(part: st.SearchStrategy[Any], *more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(st.sampled_from(["+", "*", "-"]), part, part),
        st.tuples(st.just("if"), part, st.integers(0, 6), part, part),
        st.tuples(st.just("loop"), st.integers(0, 3), part, part),
        *more,
    )


EXPRESSIONS = st.recursive(LEAVES, _longer, max_leaves=12)


def expressions_with(*kinds: str) -> st.SearchStrategy[Any]:
    """Programs with nodes of these kinds too."""
    return st.recursive(
        LEAVES,
        lambda part: _longer(part, st.tuples(st.sampled_from(kinds), part)),
        max_leaves=8,
    )


def in_python(
    e: Any, names: Mapping[str, int], kinds: Mapping[str, Callable[[int], int]] | None = None
) -> int:
    """What the program gives; `kinds`: what nodes of these make of a value."""
    if isinstance(e, int):
        return e
    if isinstance(e, str):
        return names[e]
    if e[0] == "if":
        _, test, limit, yes, no = e
        return in_python(yes if in_python(test, names, kinds) % 7 > limit else no, names, kinds)
    if e[0] == "loop":
        _, times, start, body = e
        value = in_python(start, names, kinds)
        for i in range(times):
            value = in_python(body, {**names, "i": i, "a": value}, kinds)
        return value
    if e[0] not in ("+", "-", "*"):
        assert kinds is not None
        return kinds[e[0]](in_python(e[1], names, kinds))
    left, right = in_python(e[1], names, kinds), in_python(e[2], names, kinds)
    return {"+": left + right, "-": left - right, "*": left * right}[e[0]] % MODULUS


def as_graph(
    e: Any,
    names: Mapping[str, Any],
    on: Somewhere = anywhere,
    kinds: Mapping[str, Callable[[Any], Any]] | None = None,
) -> Any:
    """The program as a tensor; `kinds`: what nodes of these make of a tensor, each called in a scope of `on`."""

    def made(part: Any, inside: Mapping[str, Any] = names) -> Any:
        return as_graph(part, inside, on, kinds)

    if isinstance(e, int):
        with on():
            return tf.constant(e, tf.int64)
    if isinstance(e, str):
        return names[e]
    if e[0] == "if":
        _, test, limit, yes, no = e
        value = made(test)
        with on():
            pred = value % 7 > limit
        with on():
            return tf.cond(pred, lambda: made(yes), lambda: made(no))
    if e[0] == "loop":
        _, times, start, body = e

        def step(i: Any, a: Any) -> Any:
            value = made(body, {**names, "i": i, "a": a})
            with on():
                return i + 1, tf.identity(value)

        begins = made(start)
        with on():
            zero = tf.constant(0, tf.int64)
            limits = {"parallel_iterations": 1 + times % 2}  # fewer than there are, now and then
            return tf.while_loop(lambda i, a: i < times, step, [zero, begins], **limits)[1]
    if e[0] not in ("+", "-", "*"):
        assert kinds is not None
        value = made(e[1])
        with on():
            return kinds[e[0]](value)
    left, right = made(e[1]), made(e[2])
    with on():
        return {"+": left.__add__, "-": left.__sub__, "*": left.__mul__}[e[0]](right) % MODULUS


def smooth(e: Any, names: dict[str, Any], on: Somewhere = anywhere) -> Any:
    """The program on floats, with operations that stay small."""

    def made(part: Any, inside: dict[str, Any] = names) -> Any:
        return smooth(part, inside, on)

    if isinstance(e, int):
        with on():
            return tf.constant(e / 7, tf.float64)
    if isinstance(e, str):
        return names[e]
    if e[0] == "if":
        _, test, limit, yes, no = e
        value = made(test)
        with on():
            pred = tf.sin(value) * 3.0 > limit - 2.0
        with on():
            return tf.cond(pred, lambda: made(yes), lambda: made(no))
    if e[0] == "loop":
        _, times, start, body = e

        def step(i: Any, a: Any) -> Any:
            return i + 1.0, made(body, {**names, "i": i, "a": a})

        begins = made(start)
        with on():
            zero = tf.constant(0, tf.float64)
            limits = {"parallel_iterations": 1 + times % 2}  # fewer than there are, now and then
            return tf.while_loop(lambda i, a: i < times, step, [zero, begins], **limits)[1]
    left, right = made(e[1]), made(e[2])
    with on():
        found = {
            "+": lambda: left + tf.sin(right),
            "-": lambda: left - right * 0.5,
            "*": lambda: tf.tanh(left) * right,
        }
        return found[e[0]]()


def devices(names: list[str | None], choices: list[int]) -> Somewhere:
    """Scopes of the devices, as chosen, again and again."""

    def forever() -> Iterator[str | None]:
        while True:
            for choice in choices:
                yield names[choice % len(names)]

    chosen = forever()
    return lambda: tf.device(next(chosen))
