"""Steps that hooks take part in: what is fetched again and again is made ready once, and changes are seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf


class Sum(tf.train.SessionRunHook):
    """Fetches one more value."""

    def __init__(self, tensor: Any) -> None:
        self.args = tf.train.SessionRunArgs(tensor)
        self.found: list[float] = []

    def before_run(self, run_context: Any) -> Any:
        return self.args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.found.append(float(run_values.results))


@pytest.fixture
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("hooked", [False, True])
def test_a_dict_of_fetches_may_change_between_steps(graph: Any, hooked: bool) -> None:
    a, b = tf.constant(1.0), tf.constant(2.0)
    hook = Sum(a + b)
    with tf.train.MonitoredSession(hooks=[hook] if hooked else []) as session:
        wanted = {"a": a, "b": b}
        for _ in range(4):
            assert session.run(wanted) == {"a": 1.0, "b": 2.0}
        wanted["a"] = b
        assert [session.run(wanted) for _ in range(3)] == [{"a": 2.0, "b": 2.0}] * 3
        del wanted["b"]
        assert [session.run(wanted) for _ in range(3)] == [{"a": 2.0}] * 3
        assert list(session.run({"b": b, "a": a})) == ["b", "a"]
        assert session.run({"a": a, "both": [a, b]}) == {"a": 1.0, "both": [1.0, 2.0]}
    assert hook.found == ([3.0] * 12 if hooked else [])


def test_what_a_step_gives_is_the_callers_own(graph: Any) -> None:
    a = tf.constant(1.0)
    with tf.train.MonitoredSession() as session:
        session.run({"a": a})
        found = session.run({"a": a})
        found["a"] = 5.0
        assert session.run({"a": a}) == {"a": 1.0}


def test_nests_of_the_same_tensors_share_what_was_planned(graph: Any) -> None:
    a, b = tf.constant([1.0]) * 2.0, tf.constant([2.0]) * 2.0
    with tf.Session() as session:
        made = []
        step = session._engine.step
        session._engine.step = lambda *given: made.append(given) or step(*given)  # type: ignore
        assert session.run([a, b]) == [[2.0], [4.0]]
        assert session.run({"a": a, "b": [b]}) == {"a": [2.0], "b": [[4.0]]}
        assert session.make_callable((a, b))() == ([2.0], [4.0])
        assert len(made) == 1
        assert session.run([b, a]) == [[4.0], [2.0]]
        assert session.run([a, b, a + b]) == [[2.0], [4.0], [6.0]]
        assert len(made) == 3
