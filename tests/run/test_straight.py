"""Code as rows and compiled to straight-line source: the same values and errors, part by part."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.exec import instructions as does
from headrace.run.exec import outcome, straight
from headrace.run.exec.instructions import CALL, MANY, RELEASE, Instruction
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.straight import HOT, Code, Part


class Step:
    """As much of a step as errors look at."""

    step_id = 0


PLAIN: Any = Step()


class Thing:
    """A value whose end can be seen."""


def node(number: int = 0) -> NodeInfo:
    return NodeInfo(f"n{number}", "Add", "/cpu:0", {}, None, {})


class Made:
    """Instructions, one after the other."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []

    def _add(
        self, kernel: Any, inputs: tuple[int, ...], outputs: tuple[int, ...], kind: int
    ) -> Made:
        made = Instruction(kernel, inputs, outputs, node(len(self.instructions)), kind)
        self.instructions.append(made)
        return self

    def call(self, kernel: Callable[..., Any], inputs: tuple[int, ...], out: int) -> Made:
        return self._add(kernel, inputs, (out,), CALL)

    def opaque(self, kernel: Callable[..., Any], inputs: tuple[int, ...], out: int) -> Made:
        """What does not become a line of source."""
        return self._add(lambda *values: [kernel(*values)], inputs, (out,), MANY)

    def release(self, *registers: int) -> Made:
        return self._add(does.release(registers), (), registers, RELEASE)

    def part(self, start: int = 0) -> Part:
        return Part(self.instructions, start)

    def both(self, registers: list[Any]) -> tuple[list[Any], list[Any]]:
        """The registers after the rows, and after the compiled part."""
        before, after = registers.copy(), registers.copy()
        Code(self.instructions).run(before)
        self.part().function(after)
        return before, after


def plus(*values: int) -> int:
    return sum(values)


def test_what_comes_after_a_part_finds_its_registers() -> None:
    made = Made().call(plus, (1, 2), 3).call(plus, (3, 3), 4).call(plus, (4, 1, 2, 3), 5)
    before, after = made.both([None, 10, 20, None, None, None])
    assert before == after == [None, 10, 20, 30, 60, 120]


def test_a_register_is_written_for_others_only_if_they_look() -> None:
    made = Made().call(plus, (1, 1), 2).call(plus, (2, 1), 2).opaque(plus, (2,), 3)
    made.call(plus, (3, 2), 2)
    before, after = made.both([None, 1, None, None])
    assert before == after == [None, 1, 6, 3]
    assert made.release(1).both([None, 1, None, None]) == ([None, None, 6, 3], [None, None, 6, 3])
    lonely = Made().call(plus, (1, 1), 2).call(plus, (2, 1), 2).call(plus, (2, 2), 2)
    text, _ = lonely.part()._source(lonely.instructions)
    assert text.count("r[2] =") == 1


def test_a_register_that_something_else_writes_is_read_anew() -> None:
    made = Made().call(plus, (1, 1), 2).opaque(plus, (1, 1, 1), 2).call(plus, (2, 1), 3)
    before, after = made.both([None, 1, None, None])
    assert before == after == [None, 1, 3, 4]


def test_operators_become_signs_and_what_is_read_twice_is_loaded_once() -> None:
    made = Made().call(operator.sub, (1, 2), 3).call(operator.truediv, (3, 2), 3)
    made.call(operator.ge, (3, 1), 4).call(operator.neg, (2,), 5)
    text, names = made.part()._source(made.instructions)
    assert all(made in text for made in ("v3 = v1 - v2", "v3 / v2", "v3 >= v1"))
    assert [kernel for name, kernel in names.items() if name != "failed"] == [operator.neg]
    assert text.count("= r[2]") == 1
    before, after = made.both([None, 9, 2, None, None, None])
    assert before == after == [None, 9, 2, 3.5, False, -2]


def test_what_was_loaded_is_not_taken_for_what_is_written_there_later() -> None:
    made = Made().call(plus, (1, 2), 3).opaque(plus, (3, 3), 2).call(plus, (1, 2), 3)
    before, after = made.both([None, 1, 2, None])
    assert before == after == [None, 1, 6, 7]


def test_a_released_value_is_gone_before_the_next_instruction() -> None:
    seen: list[Any] = []

    def thing(_: Any) -> Thing:
        made = Thing()
        seen.append(weakref.ref(made))
        return made

    alive: list[bool] = []

    def look(_: Any) -> int:
        alive.append(seen[0]() is not None)
        return 0

    made = Made().call(thing, (1,), 2).call(look, (1,), 3).release(2).call(look, (1,), 3)
    made.opaque(thing, (1,), 2).call(look, (1,), 3)
    made.part().function([None, 0, None, None])
    assert alive == [True, False, False]


def test_a_value_whose_register_is_used_again_is_gone_too() -> None:
    seen: list[Any] = []

    def thing(*_: Any) -> Thing:
        made = Thing()
        seen.append(weakref.ref(made))
        return made

    def look(_: Any) -> list[bool]:
        return [ref() is not None for ref in seen]

    made = Made().call(thing, (1,), 2).call(thing, (2,), 2).call(look, (1,), 3)
    made.opaque(thing, (2,), 2).call(look, (1,), 4)
    registers: list[Any] = [None, 0, None, None, None]
    made.part().function(registers)
    assert registers[3:] == [[False, True], [False, False, True]]


@pytest.mark.parametrize("failing", range(6))
def test_the_failing_instruction_and_its_inputs_are_found(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kernel(*values: int) -> int:
        if values[0] == failing:
            raise ValueError("that one")
        return values[0] + 1

    made = Made()
    for number in range(6):  # registers in turn, an opaque one between, several parts
        add = made.opaque if number == 3 else made.call
        add(kernel, (1 + number % 2, 3), 1 + (number + 1) % 2)
    registers: list[Any] = [PLAIN, 0, None, 77]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(straight, "PART", 4)
        parts = [made.part(), made.part(4)]
    which = int(failing >= parts[0].end)
    if which:
        parts[0].function(registers)
    shown: list[list[Any]] = []
    monkeypatch.setattr(outcome, "_describe", lambda value: shown.append(value) or "")
    with pytest.raises(tf.errors.OpError, match="that one") as caught:
        parts[which].function(registers)
    assert caught.value.node == f"n{failing}"
    assert shown == [failing, 77]


@pytest.mark.parametrize("failing", range(10))
def test_a_row_that_fails_is_found(failing: int) -> None:
    def kernel(*values: int) -> int:
        if values[0] == failing:
            raise ValueError("that one")
        return values[0] + 1

    made = Made()
    for number in range(10):  # the same registers again and again: rows that are equal, but for one
        made.call(kernel, (1, 2) if number != 4 else (1, 2, 2), 1)
    code = Code(made.instructions)
    code.run([PLAIN, 100, 77])
    with pytest.raises(tf.errors.OpError, match="that one") as caught:
        code.run([PLAIN, 0, 77])
    assert caught.value.node == f"n{failing}"


def test_what_fails_beside_a_waiter_is_named_once() -> None:
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(10, [tf.float32], shapes=[[3]])
        fill = queue.enqueue([[1.0, 2.0, 3.0]])
        index = tf.placeholder(tf.int32, [], name="index")
        y = queue.dequeue()
        for _ in range(10):
            y = tf.gather(tf.tanh(y), [2, 0, 1])
        picked = tf.gather(y, index, name="picked")
        with tf.Session() as session:
            for number in (0, 1, 2, 3):
                session.run(fill)
                if number < 3:
                    session.run(picked, {index: number})
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                session.run(picked, {index: 3})
            assert caught.value.node == "picked"
            assert caught.value.message.count("picked") <= 1


def hot(run: Callable[[], Any]) -> Any:
    for _ in range(HOT + 1):
        value = run()
    return value


def test_a_step_that_runs_often_is_compiled_and_still_names_what_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Part] = []

    def part(*arguments: Any) -> Part:
        made.append(Part(*arguments))
        return made[-1]

    monkeypatch.setattr(straight, "Part", part)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None], name="x")
        index = tf.placeholder(tf.int32, [], name="index")
        y = x
        for _ in range(10):  # which plan.rules.elementwise leaves alone
            y = tf.gather(tf.tanh(y), [2, 0, 1])
        picked = tf.gather(y, index, name="picked")
        result = tf.negative(picked + 1.0, name="result")
        with tf.Session() as session:
            feeds = {x: np.float32([1, 2, 3]), index: 1}
            first = session.run(result, feeds)
            assert hot(lambda: session.run(result, feeds)) == first
            assert [(each.start, each.end > 20) for each in made] == [(0, True)]
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                session.run(result, {x: np.float32([1, 2, 3]), index: 3})
            assert caught.value.node == "picked"
            assert caught.value.op is picked.op
            assert session.run(result, feeds) == first


def test_a_short_segment_stays_as_it_is() -> None:
    made = Made()
    for _ in range(straight.FEWEST - 1):
        made.call(plus, (1, 1), 2)
    code = Code(made.instructions)
    hot(lambda: code.run([PLAIN, 1, None]))
    assert code.parts == []
