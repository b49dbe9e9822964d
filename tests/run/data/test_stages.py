"""Stages give the same whatever is pulled at once, agree with models, and go on from a saved position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base import errors
from headrace.run.data.batching import Batch, Unbatch
from headrace.run.data.caching import Cache, MemoryCache
from headrace.run.data.counting import Concatenate, Repeat, Shard, Skip, Take, Zip
from headrace.run.data.mixing import Directed, Unique, WithoutFailures
from headrace.run.data.positions import decoded, encoded, restore_position, saved_position
from headrace.run.data.prefetching import Prefetch
from headrace.run.data.shuffling import SeedGenerator, Shuffle
from headrace.run.data.sources import RandomNumbers, Slices
from headrace.run.data.stage import Dataset, Iteration
from headrace.run.queues.philox import Philox
from tests.run.data.stage_numbers import (
    FAILS,
    Failing,
    Whole,
    cycled,
    drained,
    numbers,
    ones,
    over,
    plain,
    some_sizes,
    some_values,
)


def dataset(kind: str, values: list[int], n: int) -> Dataset:
    source = numbers(values)
    if kind == "take":
        return over(source, lambda run, s: Take(run, s, n))
    if kind == "skip":
        return over(source, lambda run, s: Skip(run, s, n))
    if kind == "shard":
        return over(source, lambda run, s: Shard(run, s, n + 1, n // 2))
    if kind == "batch":
        return over(source, lambda run, s: Batch(run, s, n + 1, False))
    if kind == "batch, dropped":
        return over(source, lambda run, s: Batch(run, s, n + 1, True))
    if kind == "unbatch":
        return over(dataset("batch", values, n), Unbatch)
    if kind == "repeat":
        return Whole(lambda run: Repeat(run, source, n))
    if kind == "concatenate":
        return Whole(lambda run: Concatenate(run, [source, dataset("take", values, n)]))
    if kind == "zip":
        return Whole(lambda run: Zip(run, source.stage(run), dataset("skip", values, n).stage(run)))
    if kind == "unique":
        return over(source, Unique)
    if kind == "without failures":
        return over(source, WithoutFailures)
    if kind == "shuffle":
        seeds = SeedGenerator(n, 3, True)
        return Whole(lambda run: Shuffle(run, source, n + 1, seeds))
    if kind == "shuffle and repeat":
        seeds = SeedGenerator(n, 3, True)
        return Whole(lambda run: Shuffle(run, source, n + 1, seeds, 2))
    if kind == "cache":
        cache = Cache()
        return Whole(
            lambda run: Repeat(run, Whole(lambda inner: MemoryCache(inner, source, cache)), 2)
        )
    if kind == "prefetch":
        return Whole(lambda run: Prefetch.over(run, source, n + 1))
    assert kind == "directed"
    chosen = numbers([v % 2 if v >= 0 else v for v in values])
    return Whole(lambda run: Directed(run, chosen.stage(run), source.stage(run), source.stage(run)))


KINDS = [
    "take",
    "skip",
    "shard",
    "batch",
    "batch, dropped",
    "unbatch",
    "repeat",
    "concatenate",
    "zip",
    "unique",
    "without failures",
    "shuffle",
    "shuffle and repeat",
    "cache",
    "prefetch",
    "directed",
]


@pytest.mark.parametrize("kind", KINDS)
@given(values=some_values, n=st.integers(0, 4), sizes=some_sizes)
def test_how_much_is_pulled_at_once_cannot_be_told(
    kind: str, values: list[int], n: int, sizes: list[int]
) -> None:
    one_by_one = drained(dataset(kind, values, n).stage(Iteration()), ones())
    assert drained(dataset(kind, values, n).stage(Iteration()), cycled(sizes)) == one_by_one


@pytest.mark.parametrize("kind", KINDS)
@given(values=some_values, n=st.integers(0, 4), sizes=some_sizes, taken=st.integers(0, 9))
def test_a_saved_position_goes_on_where_it_was(
    kind: str, values: list[int], n: int, sizes: list[int], taken: int
) -> None:
    values = [value for value in values if value >= 0]
    made = dataset(kind, values, n)
    stage = made.stage(Iteration())
    most = cycled(sizes)
    before: list[Any] = []
    while len(before) < taken and (chunk := stage.pull(next(most))) is not None:
        before += plain(chunk)
    position = decoded(encoded(saved_position(stage)))
    rest = drained(stage, ones())
    other = dataset(kind, values, n).stage(Iteration())
    restore_position(other, position)
    assert drained(other, ones()) == rest


MODELS: dict[str, Callable[[list[int], int], list[Any]]] = {
    "take": lambda values, n: values[:n],
    "skip": lambda values, n: values[n:],
    "shard": lambda values, n: values[n // 2 :: n + 1],
    "batch": lambda values, n: [values[i : i + n + 1] for i in range(0, len(values), n + 1)],
    "unbatch": lambda values, n: values,
    "repeat": lambda values, n: values * n,
    "concatenate": lambda values, n: values + values[:n],
    "zip": lambda values, n: list(zip(values, values[n:], strict=False)),
    "unique": lambda values, n: list(dict.fromkeys(values)),
    "cache": lambda values, n: values * 2,
    "prefetch": lambda values, n: values,
}


@pytest.mark.parametrize("kind", MODELS)
@given(values=st.lists(st.integers(0, 6), max_size=14), n=st.integers(0, 4), sizes=some_sizes)
def test_elements_are_those_of_the_model(
    kind: str, values: list[int], n: int, sizes: list[int]
) -> None:
    found = drained(dataset(kind, values, n).stage(Iteration()), cycled(sizes))
    assert found == MODELS[kind](values, n)


def shuffled(values: list[int], size: int, seeds: tuple[int, int]) -> list[int]:
    """As the stage says it does, element by element."""
    random, buffer, source, found = Philox(*seeds), [], iter(values), []
    while True:
        while len(buffer) < size and (value := next(source, None)) is not None:
            buffer.append(value)
        if not buffer:
            return found
        at = random.next() % len(buffer)
        found.append(buffer[at])
        buffer[at] = buffer[0]
        del buffer[0]


@given(values=st.lists(st.integers(0, 99), max_size=40), size=st.integers(1, 9), sizes=some_sizes)
def test_a_shuffle_draws_from_a_full_buffer(values: list[int], size: int, sizes: list[int]) -> None:
    seeds = SeedGenerator(5, 6, False)
    stage = Shuffle(Iteration(), numbers(values), size, seeds)
    assert drained(stage, cycled(sizes)) == shuffled(values, size, (5, 6))


def test_each_pass_has_seeds_of_its_own() -> None:
    seeds = SeedGenerator(1, 2, True)
    passes = [drained(Shuffle(Iteration(), numbers([*range(9)]), 9, seeds), ones()) for _ in "ab"]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1]) == [*range(9)]


def test_what_failed_takes_the_batch_that_was_begun_along() -> None:
    made = dataset("batch", [1, 2, FAILS, 3, 4, 5], 1)
    assert drained(made.stage(Iteration()), cycled([3])) == [[1, 2], "fails", [3, 4], [5]]


def test_side_by_side_all_go_on_behind_a_failure() -> None:

    two = Zip(Iteration(), Failing(Iteration(), [1, FAILS, 3]), Failing(Iteration(), [7, 8, 9]))
    assert drained(two, cycled([3])) == [(1, 7), "fails", (3, 9)]


def test_a_repetition_of_nothing_ends() -> None:
    assert drained(Repeat(Iteration(), numbers([]), -1), ones()) == []
    seeds = SeedGenerator(1, 2, True)
    assert drained(Shuffle(Iteration(), numbers([]), 3, seeds, -1), ones()) == []


def test_elements_of_a_chunk_that_is_not_fresh_are_copies() -> None:
    rows = np.arange(6).reshape(3, 2)
    chunk = Slices(Iteration(), [rows]).pull(2)
    assert chunk is not None
    (first,) = chunk.element(0)
    first[:] = 9
    assert rows[0].tolist() == [0, 1]


def test_random_numbers_go_on_behind_a_position() -> None:
    first, second = (RandomNumbers(Iteration(), 3, 4) for _ in "ab")
    first.pull(7)
    second.restore(first.save())
    assert plain(first.pull(5)) == plain(second.pull(5))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "tree",
    [None, 3, -(2**62), b"x", "y", [], [1, [b""]], {"a": 1}, np.arange(3), np.float32(2)],
    ids=repr,
)
def test_a_tree_comes_back_from_its_bytes(tree: Any) -> None:
    assert repr(decoded(encoded(tree))) == repr(
        np.asarray(tree) if isinstance(tree, np.generic) else tree
    )


def test_a_position_cut_short_is_data_loss() -> None:
    data = encoded([1, b"abc", np.arange(3)])
    for cut in range(len(data)):
        with pytest.raises((errors.DataLossError, errors.InvalidArgumentError)):
            decoded(data[:cut])
