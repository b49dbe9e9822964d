"""tf.contrib.rnn's grids of LSTMs over frequencies and time, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

rnn = tf.contrib.rnn
Values = dict[str, Any]
UNITS, BATCH = 2, 3
rng = np.random.RandomState(5)


def sig(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def block(
    v: Values,
    windows: list[Any],
    states: list[Any],
    number: int,
    shared: bool,
    coupled: bool,
    peep: bool,
    clip: float | None,
) -> tuple[list[Any], list[Any]]:
    """(outputs, states) of the windows of one block."""

    def gates(given: Any, which: str) -> list[Any]:
        which = "f" if shared else which
        made = given @ v[f"W_{which}_{number}_0"] + v[f"B_{which}_{number}"]
        return np.split(made, 3 if coupled else 4, 1)

    def seen(gate: str, which: str, freq: Any, time: Any) -> Any:
        if not peep:
            return 0.0
        which = "freq" if shared else which
        return (
            v[f"W_{gate}_diag_{which}f_{number}"] * freq
            + v[f"W_{gate}_diag_{which}t_{number}"] * time
        )

    c_freq = m_freq = np.zeros((BATCH, UNITS))
    outputs, kept = [], []
    for window, (c_time, m_time) in zip(windows, states, strict=True):
        given = np.hstack([window, m_time, m_freq])
        new, leaves = {}, {}
        for which, c in (("freq", c_freq), ("time", c_time)):
            parts = gates(given, which[0])
            enter = sig(parts[0] + seen("I", which, c_freq, c_time))
            stays = 1 - enter if coupled else sig(parts[2] + 0.7 + seen("F", which, c_freq, c_time))
            new[which] = stays * c + enter * np.tanh(parts[1])
            if clip is not None:
                new[which] = np.clip(new[which], -clip, clip)
            leaves[which] = parts[-1]
        c_freq, c_time = new["freq"], new["time"]
        m_freq = sig(leaves["freq"] + seen("O", "freq", c_freq, c_time)) * np.tanh(c_freq)
        m_time = sig(leaves["time"] + seen("O", "time", c_freq, c_time)) * np.tanh(c_time)
        outputs += [m_time, m_freq]
        kept += [c_time, m_time]
    return outputs, kept


def stepped(cell: Any, x: Any, state: Any) -> tuple[Any, Any, Values]:
    """Output and state of one step, with variables drawn at random, and their values."""
    with tf.Graph().as_default(), tf.Session() as session:
        made = cell()
        given = (
            made.state_tuple_type(*map(tf.constant, state))
            if isinstance(state, list)
            else tf.constant(state)
        )
        found = made(tf.constant(x), given)
        assert found[0].shape == [BATCH, made.output_size]
        for variable in tf.global_variables():
            variable.load(rng.standard_normal(variable.shape.as_list()), session)
        prefix = tf.global_variables()[0].op.name.partition("/")[0] + "/"
        values = session.run({v.op.name.removeprefix(prefix): v for v in tf.global_variables()})
        output, after = session.run(found)
    return output, after, values


@pytest.mark.parametrize("peep", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_a_step_of_a_grid(peep: bool, shared: bool, coupled: bool) -> None:
    x = rng.standard_normal((BATCH, 7))
    states = [rng.standard_normal((BATCH, UNITS)) for _ in range(6)]
    output, after, v = stepped(
        lambda: rnn.GridLSTMCell(
            UNITS, peep, shared, 0.8, forget_bias=0.7, feature_size=3, frequency_skip=2, num_frequency_blocks=[3],
            couple_input_forget_gates=coupled,
        ),
        x, states,
    )  # fmt: skip
    windows = [x[:, at : at + 3] for at in (0, 2, 4)]
    pairs = list(zip(states[::2], states[1::2], strict=True))
    outputs, kept = block(v, windows, pairs, 0, shared, coupled, peep, 0.8)
    np.testing.assert_allclose(output, np.hstack(outputs), rtol=1e-6)
    np.testing.assert_allclose(np.hstack(after), np.hstack(kept), rtol=1e-6)
    assert after._fields[:3] == ("state_f00_b00_c", "state_f00_b00_m", "state_f01_b00_c")
    assert ("W_F_diag_freqt_0" in v) == (peep and not coupled)


@pytest.mark.parametrize("is_tuple", [True, False])
def test_blocks_have_weights_of_their_own(is_tuple: bool) -> None:
    x = rng.standard_normal((BATCH, 8))
    states = [rng.standard_normal((BATCH, UNITS)) for _ in range(6)]
    output, after, v = stepped(
        lambda: rnn.GridLSTMCell(
            UNITS, forget_bias=0.7, feature_size=2, frequency_skip=1, num_frequency_blocks=[1, 2],
            start_freqindex_list=[0, 5], end_freqindex_list=[2, 8], state_is_tuple=is_tuple,
        ),
        x, states if is_tuple else np.hstack(states),
    )  # fmt: skip
    pairs = list(zip(states[::2], states[1::2], strict=True))
    first = block(v, [x[:, 0:2]], pairs[:1], 0, False, False, False, None)
    second = block(v, [x[:, 5:7], x[:, 6:8]], pairs[1:], 1, False, False, False, None)
    np.testing.assert_allclose(output, np.hstack(first[0] + second[0]), rtol=1e-6)
    np.testing.assert_allclose(
        np.hstack(after) if is_tuple else after, np.hstack(first[1] + second[1]), rtol=1e-6
    )


@pytest.mark.parametrize("offset", [0, 1, -1])
def test_a_grid_may_go_both_ways(offset: int) -> None:
    x = rng.standard_normal((BATCH, 4))
    states = [rng.standard_normal((BATCH, UNITS)) for _ in range(8)]
    output, after, v = stepped(
        lambda: rnn.BidirectionalGridLSTMCell(
            UNITS, forget_bias=0.7, feature_size=2, frequency_skip=2, num_frequency_blocks=[2],
            backward_slice_offset=offset,
        ),
        x, states,
    )  # fmt: skip
    pairs = list(zip(states[::2], states[1::2], strict=True))
    forth = {name.removeprefix("fwd/"): value for name, value in v.items()}
    back = {name.removeprefix("bwd/"): value for name, value in v.items()}
    moved = np.pad(x, [(0, 0), (max(0, -offset), max(0, offset))])[:, max(0, offset) :]
    first = block(forth, [x[:, :2], x[:, 2:]], pairs[:2], 0, False, False, False, None)
    second = block(back, [moved[:, 2:4], moved[:, :2]], pairs[2:], 0, False, False, False, None)
    np.testing.assert_allclose(output, np.hstack(first[0] + second[0]), rtol=1e-6)
    np.testing.assert_allclose(np.hstack(after), np.hstack(first[1] + second[1]), rtol=1e-6)
    assert after._fields[4] == "bwd_state_f00_b00_c"


def test_a_grid_is_unrolled_and_trained() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        cell = rnn.GridLSTMCell(2, feature_size=2, frequency_skip=2, num_frequency_blocks=[2])
        x = tf.constant(rng.standard_normal((2, 3, 4)), tf.float32)
        outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        assert outputs.shape == [2, 3, 8]
        loss = tf.reduce_sum(tf.square(outputs - 0.3))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        session.run(tf.global_variables_initializer())
        first = session.run(loss)
        for _ in range(5):
            session.run(step)
        assert session.run(loss) < first


def test_grids_that_are_refused() -> None:
    with pytest.raises(ValueError, match="Must specify num_frequency_blocks"):
        rnn.GridLSTMCell(2)
    with pytest.raises(ValueError, match="should be 1 if"):
        rnn.GridLSTMCell(2, num_frequency_blocks=[1, 2])
    with pytest.raises(ValueError, match="one element for each block"):
        rnn.GridLSTMCell(
            2, num_frequency_blocks=[1], start_freqindex_list=[0, 1], end_freqindex_list=[1, 2]
        )
    with tf.Graph().as_default():
        cell = rnn.GridLSTMCell(2, feature_size=2, frequency_skip=2, num_frequency_blocks=[3])
        with pytest.raises(ValueError, match="Invalid num_frequency_blocks, requires 2 but gets 3"):
            cell(tf.zeros([2, 4]), cell.zero_state(2, tf.float32))
