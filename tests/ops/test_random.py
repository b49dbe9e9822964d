"""Random numbers: TensorFlow's own where seeded, of the right distribution where not, never twice the same."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import dtypes, errors
from headrace.ops._kernels import random_streams
from headrace.ops._kernels.random_streams import Stream
from headrace.ops._kernels.word_streams import Words
from headrace.ops.random import draws
from headrace.run.queues.philox import philox_words

# Known answers of Philox 4x32-10 from the authors' Random123 distribution (kat_vectors): counter, key -> numbers.
KNOWN = [
    (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (2**64 - 1, 2**64 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        0x85A308D3243F6A88,
        0x0370734413198A2E,
        0x299F31D0A4093822,
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


@pytest.mark.parametrize(("low", "high", "key", "numbers"), KNOWN)
def test_philox_gives_its_authors_numbers(low: int, high: int, key: int, numbers: str) -> None:
    words = philox_words(key, high, np.array([low], np.uint64))
    assert " ".join(f"{int(word):08x}" for word in words[0]) == numbers


def session_values(make: Any, runs: int = 1) -> list[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = make()
        return [session.run(tensor) for _ in range(runs)]


# What TensorFlow 2.21 gives for seed=5, seed2=9 in a session's first run.
FIRST = [
    (lambda: raw("RandomUniform", [3]), [0.85900664, 0.21150982, 0.17018116]),
    (lambda: raw("RandomPoissonV2", [3], 0.5), [0, 0, 0]),
    (lambda: raw("RandomPoissonV2", [3], 9.99), [10, 6, 8]),
    (lambda: raw("RandomPoissonV2", [3], 20.0), [18, 15, 14]),
]


def raw(name: str, *inputs: Any, **attrs: Any) -> Any:
    from headrace.graph.registry import get

    attrs.setdefault("dtype", tf.float32)
    return get(name)(*inputs, seed=5, seed2=9, **attrs)


@pytest.mark.parametrize(("make", "expected"), FIRST)
def test_seeded_numbers_are_tensorflows(make: Any, expected: Any) -> None:
    np.testing.assert_array_equal(session_values(make)[0], np.float32(expected))


SEEDED = {
    "uniform": lambda: tf.random_uniform([7], seed=1),
    "integers": lambda: tf.random_uniform([7], 0, 10**6, tf.int32, seed=1),
    "normal": lambda: tf.random_normal([7], seed=1),
    "truncated normal": lambda: tf.truncated_normal([7], seed=1),
    "shuffle": lambda: tf.random_shuffle(np.arange(50), seed=1),
    "multinomial": lambda: tf.multinomial(np.zeros((2, 1000)), 5, seed=1),
    "poisson": lambda: tf.random_poisson(1000.0, [7], seed=1),
}


@pytest.mark.parametrize("what", SEEDED)
def test_a_seeded_node_goes_on_in_each_run_and_starts_over_in_each_session(what: str) -> None:
    first = [value.tolist() for value in session_values(SEEDED[what], 3)]
    assert first[0] != first[1] != first[2] != first[0]
    assert [value.tolist() for value in session_values(SEEDED[what], 3)] == first


UNSEEDED = {
    "uniform": lambda: tf.random_uniform([7]),
    "integers": lambda: tf.random_uniform([7], 0, 10**6, tf.int32),
    "normal": lambda: tf.random_normal([7]),
    "truncated normal": lambda: tf.truncated_normal([7]),
    "shuffle": lambda: tf.random_shuffle(np.arange(50)),
    "multinomial": lambda: tf.multinomial(np.zeros((2, 1000)), 5),
    "poisson": lambda: tf.random_poisson(1000.0, [7]),
}


@pytest.mark.parametrize("what", UNSEEDED)
def test_an_unseeded_node_never_repeats_itself(what: str) -> None:
    seen = [value.tolist() for _ in range(2) for value in session_values(UNSEEDED[what], 2)]
    assert len({str(values) for values in seen}) == 4


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_moments_and_ranges_are_the_distributions(dtype: str, seed: int) -> None:
    kind = dtypes.as_dtype(dtype).np
    stream, size = Stream(seed, seed), 40_000
    uniform = random_streams.uniform(stream, size, kind).astype(np.float64)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(uniform.var() - 1 / 12) < 0.003
    normal = random_streams.normal(stream, size, kind).astype(np.float64)
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.02
    truncated = random_streams.truncated_normal(stream, size, kind).astype(np.float64)
    assert np.abs(truncated).max() <= 2
    assert abs(truncated.std() - 0.8796) < 0.02


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("rate", [0.3, 9.9, 10.0, 50.0, 1e6])
def test_counts_have_the_mean_and_the_variance_of_their_rate(rate: float, seed: int) -> None:
    counts = session_values(lambda: tf.random_poisson(rate, [20_000], tf.float64, seed=seed))[0]
    assert abs(counts.mean() / rate - 1) < 0.05
    assert abs(counts.var() / rate - 1) < 0.05


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(("low", "high", "kind"), [
    (-3, 4, np.int32), (-(2**31), 2**31 - 1, np.int32), (-(2**63), 2**63 - 1, np.int64), (5, 6, np.int64),
])  # fmt: skip
def test_integers_stay_in_their_range(low: int, high: int, kind: Any, seed: int) -> None:
    drawn = random_streams.uniform_int(Stream(seed, seed), 5000, low, high, np.dtype(kind))
    assert drawn.dtype == kind
    assert low <= int(drawn.min()) <= int(drawn.max()) < high
    if high - low < 10:
        assert set(drawn.tolist()) == set(range(low, high))


def test_large_arrays_are_the_chunks_that_small_ones_are() -> None:
    large = random_streams.uniform(Stream(1, 2), 100_000, np.dtype(np.float32))
    words = philox_words(1, 2, np.arange(25_000, dtype=np.uint64)).ravel()
    assert large[-1] == np.float32((int(words[-1]) & 0x7FFFFF) / 2**23)


def test_two_steps_at_once_never_get_the_same_numbers() -> None:
    stream, drawn = Stream(1, 2), []

    def draw() -> None:
        for _ in range(50):
            drawn.append(tuple(random_streams.uniform(stream, 4, np.dtype(np.float32)).tolist()))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 200


def test_a_shuffle_keeps_every_row() -> None:
    (rows,) = session_values(lambda: tf.random_shuffle(np.arange(30).reshape(10, 3), seed=4))
    assert sorted(rows.tolist()) == np.arange(30).reshape(10, 3).tolist()


def test_impossible_classes_are_never_drawn_and_likely_ones_often() -> None:
    logits = [[0.0, np.log(3.0), -np.inf]]
    (drawn,) = session_values(lambda: tf.multinomial(logits, 4000, seed=2))
    counts = Counter(drawn.ravel().tolist())
    assert set(counts) == {0, 1}
    assert abs(counts[1] / 4000 - 0.75) < 0.03


REFUSED = [
    lambda: tf.random_uniform([2], 3, 3, tf.int32),
    lambda: tf.random_uniform(tf.placeholder_with_default([-1], [1])),
    lambda: tf.random_poisson(-1.0, [2]),
    lambda: tf.random_poisson(np.nan, [2], seed=1),
    lambda: tf.random_poisson(np.inf, [2], seed=1),
    lambda: tf.random_poisson(1e5, [2], tf.float16, seed=1),  # none of its counts fits
    lambda: tf.multinomial(np.zeros((1, 0), np.float32), 2),
]


@pytest.mark.parametrize("make", REFUSED)
def test_what_no_distribution_has_is_refused(make: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        session_values(make)


def test_graph_seeds_make_programs_repeatable_node_by_node() -> None:
    def program() -> list[Any]:
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(8)
            nodes = [tf.random_uniform([2]), tf.random_uniform([2]), tf.random_normal([2], seed=3)]
            return [value.tolist() for value in session.run(nodes)]

    first = program()
    assert first == program()
    assert first[0] != first[1]


@pytest.mark.parametrize("asked", [[5] * 70, [5, 300, 7, 5, 5, 90, 5]])
def test_words_of_steps_are_those_at_their_places_whatever_else_was_asked_for(
    asked: list[int],
) -> None:
    stream, reference = Stream(3, 4), Stream(3, 4)
    for number, count in enumerate(asked):
        words = Words(stream, 4096)
        if number % 3 == 1:
            stream.reserve(11)
        place = 1024 * number + 11 * len(range(1, number, 3))
        wanted = reference.words(place, 2 * count).reshape(-1)
        assert words.take(count).tolist() == wanted[:count].tolist()
        assert words.take(3 * count).tolist() == wanted[count : 4 * count].tolist()


SMALL_DRAWS = {
    "uniform": lambda stream, size: random_streams.uniform(stream, size, np.dtype(np.float32)),
    "uniform of 64 bits": lambda stream, size: random_streams.uniform(
        stream, size, np.dtype(float)
    ),
    "normal": lambda stream, size: random_streams.normal(stream, size, np.dtype(np.float32)),
    "doubles": lambda stream, size: random_streams.doubles_of_run(stream, size, size),
    "integers": lambda stream, size: random_streams.uniform_int(
        stream, size, -5, 9, np.dtype(np.int32)
    ),
}


@pytest.mark.parametrize("draw", SMALL_DRAWS.values(), ids=SMALL_DRAWS)
@pytest.mark.parametrize(
    "sizes", [[1] * 100, [3] * 40, [0, 0, 0, 64, 64, 1, 1, 1, 65, 65, 65, 9, 9, 64]]
)
def test_small_draws_are_those_at_their_places_however_many_were_made_ahead(
    sizes: list[int], draw: Any
) -> None:
    stream, place = Stream(5, 6), 0
    for number, size in enumerate(sizes):
        if number % 7 == 5:
            stream.reserve(2)  # somebody else takes some
            place += 2
        wanted = draw(Stream(5, 6, first=place), size)
        assert draw(stream, size).tolist() == wanted.tolist()
        place += 256 * size


@pytest.mark.parametrize("classes", [1, 2, 7])
def test_classes_are_picked_alike_by_comparing_all_and_by_searching(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(classes)
    logits = random.normal(size=(60, classes)) * 3
    logits[random.random(logits.shape) < 0.1] = np.nan
    logits[random.random(logits.shape) < 0.1] = np.inf
    logits[:20] = np.where(np.isfinite(logits[:20]), logits[:20], -np.inf)
    logits[:10] = 1.0
    drawn = random.random((60, 9))
    drawn[:, 0] = 0.0
    compared = draws.picked(logits, drawn)
    monkeypatch.setattr(draws, "_FEW_COMPARED", 0)
    assert compared.tolist() == draws.picked(logits, drawn).tolist()
    for row, found in zip(logits, compared, strict=True):
        possible = np.flatnonzero(np.isfinite(row))
        assert {*found.tolist()} <= ({*possible.tolist()} or {classes})
    assert compared[:10].tolist() == np.floor(drawn[:10] * classes).tolist()
