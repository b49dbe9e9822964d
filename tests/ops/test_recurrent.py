"""LSTM and GRU cells that are one op, beside the same cells made of many: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

BATCH, DEPTH, UNITS, TIME = 2, 3, 4, 5
RNG = np.random.default_rng(3)


def drawn(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


LSTM = {
    "x": drawn(TIME, BATCH, DEPTH),
    "cs_prev": drawn(BATCH, UNITS),
    "h_prev": drawn(BATCH, UNITS),
    "w": drawn(DEPTH + UNITS, 4 * UNITS),
    "wci": drawn(UNITS),
    "wcf": drawn(UNITS),
    "wco": drawn(UNITS),
    "b": drawn(4 * UNITS),
}
GRU = {
    "x": drawn(BATCH, DEPTH),
    "h_prev": drawn(BATCH, UNITS),
    "w_ru": drawn(DEPTH + UNITS, 2 * UNITS),
    "w_c": drawn(DEPTH + UNITS, UNITS),
    "b_ru": drawn(2 * UNITS),
    "b_c": drawn(UNITS),
}


def lstm_step(
    x: Any, cs: Any, h: Any, k: dict[str, Any], order: str, peephole: bool, forget: float
) -> Any:
    parts = tf.split(tf.matmul(tf.concat([x, h], 1), k["w"]) + k["b"], 4, 1)
    i, c, f, o = (parts[order.index(each)] for each in "icfo")
    if peephole:
        i, f = i + cs * k["wci"], f + cs * k["wcf"]
    cs = tf.tanh(c) * tf.sigmoid(i) + tf.sigmoid(f + forget) * cs
    o = o + cs * k["wco"] if peephole else o
    return cs, tf.sigmoid(o) * tf.tanh(cs)


def of_steps(steps: int, order: str, forget: float) -> Callable[[dict[str, Any], bool], Any]:
    def built(k: dict[str, Any], peephole: bool) -> Any:
        cs, h, found = k["cs_prev"], k["h_prev"], []
        for time in range(steps):
            cs, h = lstm_step(k["x"][time], cs, h, k, order, peephole, forget)
            found.append((cs, h))
        return tf.stack([cs for cs, _ in found]), tf.stack([h for _, h in found])

    return built


def of_op(name: str, **attrs: Any) -> Callable[[dict[str, Any], bool], Any]:
    def built(k: dict[str, Any], peephole: bool) -> Any:
        made = getattr(tf.raw_ops, name)(
            seq_len_max=tf.constant(3, tf.int64),
            use_peephole=peephole,
            cell_clip=-1.0,
            **attrs,
            **k,
        )
        return made.cs[:3], made.h[:3]

    return built


def cell(k: dict[str, Any], peephole: bool) -> Any:
    given = {**k, "x": k["x"][0]}
    made = tf.raw_ops.LSTMBlockCell(use_peephole=peephole, cell_clip=-1.0, forget_bias=0.5, **given)
    return made.cs[None], made.h[None]


def gru(k: dict[str, Any], peephole: bool) -> Any:
    made = tf.raw_ops.GRUBlockCell(**k)
    return made.h, made.h * made.h


def gru_of_parts(k: dict[str, Any], peephole: bool) -> Any:
    gates = tf.matmul(tf.concat([k["x"], k["h_prev"]], 1), k["w_ru"]) + k["b_ru"]
    r, u = tf.split(tf.sigmoid(gates), 2, 1)
    c = tf.tanh(tf.matmul(tf.concat([k["x"], k["h_prev"] * r], 1), k["w_c"]) + k["b_c"])
    h = (1 - u) * c + u * k["h_prev"]
    return h, h * h


PAIRS = {
    "a step of an LSTM": (cell, of_steps(1, "icfo", 0.5), LSTM),
    "an LSTM": (of_op("BlockLSTM", forget_bias=0.5), of_steps(3, "icfo", 0.5), LSTM),
    "an LSTM, V2": (of_op("BlockLSTMV2"), of_steps(3, "ifco", 0.0), LSTM),
    "a GRU": (gru, gru_of_parts, GRU),
}


@pytest.mark.parametrize("peephole", [False, True])
@pytest.mark.parametrize("case", PAIRS)
def test_a_cell_is_what_it_is_made_of_and_so_are_its_gradients(case: str, peephole: bool) -> None:
    found = []
    for build in PAIRS[case][:2]:
        inputs = {name: tf.constant(value) for name, value in PAIRS[case][2].items()}
        one, other = build(inputs, peephole)
        slopes = tf.gradients(tf.reduce_sum(one * tf.sin(other)), list(inputs.values()))
        filled = [
            tf.zeros_like(x) if dx is None else dx
            for x, dx in zip(inputs.values(), slopes, strict=True)
        ]
        with tf.Session() as session:
            found.append(session.run([one, other, *filled]))
    for ours, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-5, atol=2e-6)


def test_what_lies_after_the_last_step_is_zero_and_the_state_is_cut_off() -> None:
    given = {name: tf.constant(value) for name, value in LSTM.items()}
    made = tf.raw_ops.BlockLSTM(seq_len_max=tf.constant(2, tf.int64), cell_clip=0.1, **given)
    with tf.Session() as session:
        values = session.run(list(made))
    assert not any(value[2:].any() for value in values)
    assert np.abs(values[1]).max() == np.float32(0.1)


def test_half_precision_is_computed_in_single() -> None:
    given = {name: value.astype(np.float16) for name, value in LSTM.items()}
    wide = {name: value.astype(np.float32) for name, value in given.items()}
    with tf.Session() as session:
        one, other = (
            session.run(tf.raw_ops.BlockLSTM(seq_len_max=np.int64(5), **each).h)
            for each in (given, wide)
        )
    assert one.dtype == np.float16
    np.testing.assert_allclose(one, other, atol=2e-3)


def test_beams_are_followed_back_from_their_ends() -> None:
    ids = [[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]]
    parents = [[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]]]
    for length, wanted in (
        (3, [[[2, 2, 2]], [[6, 5, 6]], [[7, 8, 9]]]),
        (2, [[[1, 2, 2]], [[4, 5, 6]], [[10, 10, 10]]]),
        (9, [[[2, 2, 2]], [[6, 5, 6]], [[7, 8, 9]]]),
    ):
        made = tf.raw_ops.GatherTree(
            step_ids=ids, parent_ids=parents, max_sequence_lengths=[length], end_token=10
        )
        with tf.Session() as session:
            assert session.run(made).tolist() == wanted
    made = tf.raw_ops.GatherTree(
        step_ids=ids, parent_ids=parents, max_sequence_lengths=[3], end_token=6
    )
    with tf.Session() as session:
        assert session.run(made).tolist() == [[[2, 2, 2]], [[6, 5, 6]], [[6, 8, 6]]]
