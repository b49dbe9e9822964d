"""Segments compiled to straight-line source: the same values and errors as the closures, part by part."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run import instructions as make
from headrace.run import program, straight
from headrace.run.program import Segment, run_segment
from headrace.run.straight import HOT, Part, Recipe


class Thing:
    """A value whose end can be seen."""


class Made:
    """Instructions beside what `Part` wants to know of them."""

    def __init__(self) -> None:
        self.instructions: list[Callable[[list[Any]], None]] = []
        self.recipes: list[Recipe | None] = []
        self.inputs: list[tuple[int, ...]] = []
        self.outputs: list[tuple[int, ...]] = []

    def _add(
        self, work: Any, recipe: Recipe | None, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> Made:
        self.instructions.append(work)
        self.recipes.append(recipe)
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        return self

    def call(self, kernel: Callable[..., Any], inputs: tuple[int, ...], out: int) -> Made:
        work = make.call(kernel, inputs, (out,), True)
        return self._add(work, (kernel, inputs, (out,)), inputs, (out,))

    def opaque(self, kernel: Callable[..., Any], inputs: tuple[int, ...], out: int) -> Made:
        return self._add(make.call(kernel, inputs, (out,), True), None, inputs, (out,))

    def release(self, *registers: int) -> Made:
        return self._add(make.release(registers), (None, registers, ()), (), ())

    def part(self, start: int = 0) -> Part:
        return Part(self.instructions, self.recipes, self.inputs, self.outputs, start)

    def both(self, registers: list[Any]) -> tuple[list[Any], list[Any]]:
        """The registers after the closures, and after the compiled part."""
        before, after = registers.copy(), registers.copy()
        for work in self.instructions:
            work(before)
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
    lonely = Made().call(plus, (1, 1), 2).call(plus, (2, 1), 2).call(plus, (2, 2), 2)
    text, _ = lonely.part()._source(
        lonely.instructions, lonely.recipes, lonely.inputs, lonely.outputs
    )
    assert text.count("r[2] =") == 1


def test_a_register_that_something_else_writes_is_read_anew() -> None:
    made = Made().call(plus, (1, 1), 2).opaque(plus, (1, 1, 1), 2).call(plus, (2, 1), 3)
    before, after = made.both([None, 1, None, None])
    assert before == after == [None, 1, 3, 4]


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
def test_the_failing_instruction_and_its_inputs_are_found(failing: int) -> None:
    def kernel(*values: int) -> int:
        if values[0] == failing:
            raise ValueError("that one")
        return values[0] + 1

    made = Made()
    for number in range(6):  # registers in turn, an opaque one between, several parts
        add = made.opaque if number == 3 else made.call
        add(kernel, (1 + number % 2, 3), 1 + (number + 1) % 2)
    registers: list[Any] = [None, 0, None, 77]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(straight, "PART", 4)
        parts = [made.part(), made.part(4)]
    which = int(failing >= parts[0].end)
    if which:
        parts[0].function(registers)
    with pytest.raises(ValueError, match="that one") as caught:
        parts[which].function(registers)
    assert parts[which].failed(caught.value, registers) == (failing, [failing, 77])


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

    monkeypatch.setattr(program, "Part", part)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None], name="x")
        index = tf.placeholder(tf.int32, [], name="index")
        y = x
        for _ in range(10):  # which plan.fuse leaves alone
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
    segment = Segment()
    for _ in range(straight.FEWEST - 1):
        segment.instructions.append(make.call(plus, (1, 1), (2,), True))
        segment.recipes.append((plus, (1, 1), (2,)))
        segment.inputs.append((1, 1))
        segment.outputs.append((2,))

    class Step:
        stats = None

    hot(lambda: run_segment(segment, [None, 1, None], Step()))  # type: ignore[arg-type]
    assert segment.parts == []
    assert segment.runs == HOT + 1
