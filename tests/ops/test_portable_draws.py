"""Random numbers on devices: those that the host makes, in every step, wherever the next ones are made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.support.toy_device import ToyDevice, toy_devices

TOY, HOST = "/device:TOY:0", "/cpu:0"
SHAPES: list[list[int]] = [[3], [2, 5], [], [1, 0, 2], [4099]]
DRAWS: dict[str, Any] = {
    "uniform": lambda shape: tf.random_uniform(shape, seed=5),
    "uniform of 64 bits": lambda shape: tf.random_uniform(shape, dtype=tf.float64, seed=6),
    "normal": lambda shape: tf.random_normal(shape, seed=5),
    "normal of 64 bits": lambda shape: tf.random_normal(shape, dtype=tf.float64, seed=7),
    "integers": lambda shape: tf.random_uniform(shape, -7, 2**40, tf.int64, seed=5),
    "all integers": lambda shape: tf.random_uniform(shape, -(2**63), 2**63 - 1, tf.int64, seed=8),
}
STATELESS: dict[str, Any] = {
    "uniform": lambda shape, seed: tf.random.stateless_uniform(shape, seed),
    "normal": lambda shape, seed: tf.random.stateless_normal(shape, seed, dtype=tf.float64),
    "integers": lambda shape, seed: tf.random.stateless_uniform(shape, seed, -9, 2**50, tf.int64),
    "all bits": lambda shape, seed: tf.random.stateless_uniform(shape, seed, None, None, tf.uint64),
    "all bits of 32": lambda shape, seed: tf.random.stateless_uniform(
        shape, seed, None, None, tf.uint32
    ),
    "uniform by a seed": lambda shape, seed: tf.raw_ops.StatelessRandomUniform(
        shape=shape, seed=seed
    ),
    "integers by a seed": lambda shape, seed: tf.raw_ops.StatelessRandomUniformInt(
        shape=shape, seed=seed, minval=tf.constant(3, tf.int64), maxval=tf.constant(2**45, tf.int64)
    ),
    "all bits by a seed": lambda shape, seed: tf.raw_ops.StatelessRandomUniformFullInt(
        shape=shape, seed=seed, dtype=tf.int64
    ),
}


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyDevice]:
    with toy_devices(1) as (device,):
        monkeypatch.setattr(device, "is_final", lambda error: True)  # nothing is left to the host
        yield device


def in_steps(device: str, draw: Any) -> list[Any]:
    """Of one node in one session, and of another one beside it."""
    with tf.Graph().as_default(), tf.device(device):
        shape = tf.placeholder(tf.int32, [None])
        wanted = draw(shape), draw(shape)
        with tf.Session() as session:
            return [session.run(wanted, {shape: each}) for each in SHAPES]


@pytest.mark.parametrize("what", DRAWS)
def test_each_step_has_the_numbers_of_the_host(toy: ToyDevice, what: str) -> None:
    there, here = in_steps(TOY, DRAWS[what]), in_steps(HOST, DRAWS[what])
    assert toy.counts["kernel"] >= 2 * len(SHAPES)
    for ours, hosts in zip(there, here, strict=True):
        for each, wanted in zip(ours, hosts, strict=True):
            if what.startswith("normal"):
                np.testing.assert_array_max_ulp(each, wanted, 4)
            else:
                np.testing.assert_array_equal(each, wanted)
                assert each.dtype == wanted.dtype


def test_categories_and_orders_are_those_of_the_host(toy: ToyDevice) -> None:
    """Drawn of what is on the device, of which the host looks at shapes alone."""
    rows = np.random.RandomState(1).normal(size=(6, 7)).astype(np.float32)
    rows[2, :3], rows[3] = -np.inf, np.nan

    def made(device: str) -> list[Any]:
        with tf.Graph().as_default(), tf.device(device):
            logits = tf.placeholder(tf.float32, [None, 7])
            there = logits * 2.0
            wanted = [
                tf.multinomial(there, 9, seed=3),
                tf.multinomial(there, 2, seed=4, output_dtype=tf.int32),
                tf.random_shuffle(there, seed=5),
            ]
            with tf.Session() as session:
                return [session.run(wanted, {logits: rows[:n]}) for n in (6, 1, 2, 6)]

    there = made(TOY)
    assert toy.large["put"] == 4 + 2  # what is fed, and orders of more than a few rows
    assert toy.transfers["got"] == 3 * 4
    for ours, hosts in zip(there, made(HOST), strict=True):
        for each, wanted in zip(ours, hosts, strict=True):
            assert each.dtype == wanted.dtype
            np.testing.assert_array_equal(each, wanted)


@pytest.mark.parametrize("what", STATELESS)
def test_a_seed_gives_the_numbers_of_the_host(toy: ToyDevice, what: str) -> None:
    def made(device: str) -> list[Any]:
        with tf.Graph().as_default(), tf.device(device):
            seed = tf.placeholder(tf.int64, [2])
            wanted = STATELESS[what]([5, 7], seed)
            with tf.Session() as session:
                return [session.run(wanted, {seed: each}) for each in ((0, 0), (7, -(2**40)))]

    there = made(TOY)
    assert toy.counts["kernel"] > 0
    for ours, hosts in zip(there, made(HOST), strict=True):
        np.testing.assert_allclose(ours, hosts, rtol=1e-15 if what == "normal" else 0)


def test_branches_and_loops_draw_on(toy: ToyDevice) -> None:
    def made(device: str) -> list[Any]:
        with tf.Graph().as_default(), tf.device(device):
            which = tf.placeholder(tf.bool, [])
            either = tf.cond(
                which,
                lambda: tf.random_uniform([3], seed=1),
                lambda: tf.random_uniform([3], seed=2),
            )
            _, total = tf.while_loop(
                lambda i, _: i < 3,
                lambda i, x: (i + 1, x * 2.0 + tf.random_uniform([3], seed=3)),
                [tf.constant(0), tf.zeros([3])],
            )
            with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
                ways = (True, False, True, True)
                return [session.run([either, total], {which: way}) for way in ways]

    np.testing.assert_array_equal(made(TOY), made(HOST))
    assert toy.counts["kernel"] > 8


def test_the_general_executor_draws_the_same(toy: ToyDevice) -> None:
    """Where something waits in a branch, a step is no list of instructions."""

    def made(device: str) -> list[Any]:
        with tf.Graph().as_default():
            queue = tf.FIFOQueue(9, tf.float32, [[]])
            fill = queue.enqueue_many([tf.range(5.0)])
            with tf.device(device):
                drawn = tf.random_uniform([3], seed=4)
            found = tf.cond(drawn[0] >= 0.0, lambda: drawn + queue.dequeue(), lambda: drawn)
            with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
                session.run(fill)
                return [session.run(found) for _ in range(4)]

    np.testing.assert_array_equal(made(TOY), made(HOST))


def test_a_traced_step_draws_on(toy: ToyDevice) -> None:
    def made(device: str) -> list[Any]:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with tf.Graph().as_default(), tf.device(device):
            drawn = tf.random_uniform([3], seed=4, name="drawn")
            with tf.Session() as session:
                first, metadata = session.run(drawn), tf.RunMetadata()
                traced = session.run(drawn, options=options, run_metadata=metadata)
                named = [n for d in metadata.step_stats.dev_stats for n in d.node_stats]
                assert any(node.node_name.startswith("drawn") for node in named)
                return [first, traced, session.run(drawn)]

    np.testing.assert_array_equal(made(TOY), made(HOST))


def test_a_shape_may_be_a_variable(toy: ToyDevice) -> None:
    def made(device: str) -> Any:
        with tf.Graph().as_default():
            shape = tf.Variable([2, 3], use_resource=False)
            with tf.device(device):
                drawn = tf.raw_ops.RandomUniform(shape=shape, dtype=tf.float32, seed=3)
            with tf.Session() as session:
                session.run(shape.initializer)
                return session.run(drawn)

    np.testing.assert_array_equal(made(TOY), made(HOST))


def test_without_a_seed_no_two_steps_are_alike(toy: ToyDevice) -> None:
    with tf.Graph().as_default(), tf.device(TOY):
        drawn = tf.random_uniform([100], dtype=tf.float64)
        with tf.Session() as session:
            first, second = session.run(drawn), session.run(drawn)
    assert toy.counts["kernel"] == 2
    assert len(np.unique([first, second])) == 200


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda n: tf.random_uniform(n), "shape"),
        (lambda n: tf.random_uniform([2], n[0], 3, tf.int64), "Need minval < maxval, got 4 >= 3"),
    ],
)
def test_what_no_numbers_are_of_names_its_node(toy: ToyDevice, made: Any, says: str) -> None:
    with tf.Graph().as_default(), tf.device(TOY):
        n = tf.placeholder(tf.int64, [None])
        drawn = made(n)
        with (
            tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session,
            pytest.raises(tf.errors.InvalidArgumentError, match=says) as info,
        ):
            session.run(drawn, {n: [4, -2]})
    assert info.value.op.type.startswith("RandomUniform")
