"""Array kernels of recurrent cells: a step of an LSTM or a GRU as one op, an LSTM along time, and the gradients.

Along time it is one loop of XLA's (`lax.scan`) where `xp` is jax.numpy.
Called by: ops._portable.table.  Threads: any.
Source: as ops.nn.recurrent and ops.nn.gated_recurrent
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from headrace.ops._portable.programs import along, as_program
from headrace.ops._portable.table import arrays, check, device_of
from headrace.ops.nn.recurrent import ICFO, IFCO

_CELL = ("forget_bias", "cell_clip", "use_peephole")


def _sigmoid(xp: Any, x: Any) -> Any:
    return 1.0 / (1.0 + xp.exp(-x))


def _wide(xp: Any, x: Any) -> Any:
    return xp.astype(x, xp.float32)


def _split(x: Any, count: int) -> list[Any]:
    """[batch, count units] in parts."""
    units = x.shape[-1] // count
    before = (slice(None),) * (x.ndim - 1)
    return [x[(*before, slice(at * units, (at + 1) * units))] for at in range(count)]


# -- an LSTM ----------------------------------------------------------------------------------------------------------


def _fits(x: Any, cs: Any, h: Any, w: Any, peepholes: Any, b: Any) -> None:
    check(cs.ndim == 2 and h.shape == cs.shape and w.ndim == 2)
    batch, units = cs.shape
    check(x.shape[-2] == batch and math.prod(x.shape) > 0 and units > 0)
    check(w.shape == (x.shape[-1] + units, 4 * units) and b.shape == (4 * units,))
    check(all(each.shape == (units,) for each in peepholes))


class _Lstm:
    """The weights of one, in float32, and what its attrs say.  order: of the gates."""

    def __init__(
        self,
        xp: Any,
        depth: int,
        w: Any,
        peepholes: Any,
        b: Any,
        order: str,
        *,
        use_peephole: bool,
        forget_bias: float = 0.0,
        cell_clip: float = 0.0,
    ) -> None:
        self._xp = xp
        wide = _wide(xp, w)
        self.by_inputs, self.by_outputs = wide[:depth, :], wide[depth:, :]
        self.bias = _wide(xp, b)
        self.peepholes = [_wide(xp, each) for each in peepholes] if use_peephole else None
        self.order, self._forget, self._clip = order, forget_bias, cell_clip

    def step(self, gates: Any, cs: Any) -> tuple[Any, ...]:
        """i, cs, f, o, ci, co, h of gates [batch, 4 units] and the state before."""
        xp, part = self._xp, dict(zip(self.order, _split(gates, 4), strict=True))
        enter, forget, leave = part["i"], part["f"] + self._forget, part["o"]
        if self.peepholes is not None:
            enter, forget = enter + cs * self.peepholes[0], forget + cs * self.peepholes[1]
        i, ci, f = _sigmoid(xp, enter), xp.tanh(part["c"]), _sigmoid(xp, forget)
        new = ci * i + f * cs
        if self._clip > 0:
            limit = xp.full_like(new, self._clip)
            new = xp.minimum(xp.maximum(new, -limit), limit)
        if self.peepholes is not None:
            leave = leave + new * self.peepholes[2]
        o, co = _sigmoid(xp, leave), xp.tanh(new)
        return i, new, f, o, ci, co, o * co

    def slopes(self, made: Any, before: Any, dcs: Any, dh: Any) -> tuple[Any, Any, list[Any]]:
        """Gradients of the state before, of the gates, and of the peepholes."""
        xp = self._xp
        i, cs, f, o, ci, co, *_ = made
        do = o * (1 - o) * dh * co
        dcs = (1 - co * co) * dh * o + dcs
        if self.peepholes is not None:
            dcs = dcs + do * self.peepholes[2]
        dci = (1 - ci * ci) * dcs * i
        df = f * (1 - f) * dcs * before
        di = i * (1 - i) * dcs * ci
        out = dcs * f
        of_peepholes = [xp.zeros_like(before[0, :])] * 3
        if self.peepholes is not None:
            out = out + di * self.peepholes[0] + df * self.peepholes[1]
            shares = (di * before, df * before, do * cs)
            of_peepholes = [xp.sum(each, axis=0) for each in shares]
        by_letter = {"i": di, "c": dci, "f": df, "o": do}
        return out, xp.concat([by_letter[each] for each in self.order], axis=1), of_peepholes


@arrays("LSTMBlockCell", reals=True, attrs=_CELL)
def _lstm_cell(
    xp: Any, x: Any, cs: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, **attrs: Any
) -> tuple[Any, ...]:
    check(x.ndim == 2)
    _fits(x, cs, h, w, (wci, wcf, wco), b)
    lstm = _Lstm(xp, x.shape[1], w, (wci, wcf, wco), b, ICFO, **attrs)
    gates = xp.matmul(_wide(xp, xp.concat([x, h], axis=1)), _wide(xp, w)) + lstm.bias
    return tuple([xp.astype(each, x.dtype) for each in lstm.step(gates, _wide(xp, cs))])


@arrays("LSTMBlockCellGrad", reals=True)
def _lstm_cell_grad(
    xp: Any,
    x: Any,
    cs_prev: Any,
    h_prev: Any,
    w: Any,
    wci: Any,
    wcf: Any,
    wco: Any,
    b: Any,
    *more: Any,
    use_peephole: bool,
) -> tuple[Any, ...]:
    check(x.ndim == 2 and all(each.shape == cs_prev.shape for each in more))
    _fits(x, cs_prev, h_prev, w, (wci, wcf, wco), b)
    lstm = _Lstm(xp, x.shape[1], w, (wci, wcf, wco), b, ICFO, use_peephole=use_peephole)
    *made, dcs, dh = (_wide(xp, each) for each in more)
    before, gates, of_peepholes = lstm.slopes(made, _wide(xp, cs_prev), dcs, dh)
    return tuple([xp.astype(each, x.dtype) for each in (before, gates, *of_peepholes)])


# -- along time -------------------------------------------------------------------------------------------------------


def _limited(limit: Any, time: int) -> int:
    check(limit.ndim == 0 and 0 < int(limit) <= time)
    return int(limit)


def _to_length(xp: Any, x: Any, time: int) -> Any:
    """With zeros behind it."""
    missing = time - x.shape[0]
    if not missing:
        return x
    none = xp.zeros((missing, *x.shape[1:]), dtype=x.dtype, device=device_of(x))
    return xp.concat([x, none], axis=0)


def _sequence(order: str) -> Callable[..., Any]:
    def kernel(xp: Any, seq_len_max: Any, x: Any, *state: Any, **attrs: Any) -> list[Any]:
        cs, h, w, wci, wcf, wco, b = state
        check(x.ndim == 3)
        _fits(x, cs, h, w, (wci, wcf, wco), b)
        steps = _limited(seq_len_max, x.shape[0])
        made: list[Any] = as_program(xp, _forward, x, *state, order=order, steps=steps, **attrs)
        return made

    return kernel


def _forward(xp: Any, x: Any, *state: Any, order: str, steps: int, **attrs: Any) -> list[Any]:
    cs, h, w, *peepholes, b = state
    lstm = _Lstm(xp, x.shape[2], w, peepholes, b, order, **attrs)
    given = xp.matmul(_wide(xp, x[:steps, ...]), lstm.by_inputs) + lstm.bias

    def step(carried: Any, row: Any) -> Any:
        cs, h = carried
        made = lstm.step(row[0] + xp.matmul(h, lstm.by_outputs), cs)
        return (made[1], made[6]), list(made)

    _, made = along(xp, step, (_wide(xp, cs), _wide(xp, h)), [given])
    return [_to_length(xp, xp.astype(each, x.dtype), x.shape[0]) for each in made]


arrays("BlockLSTM", host=(0,), reals=True, attrs=_CELL)(_sequence(ICFO))
arrays("BlockLSTMV2", host=(0,), reals=True, attrs=_CELL[1:])(_sequence(IFCO))


def _sequence_back(order: str) -> Callable[..., Any]:
    def kernel(xp: Any, seq_len_max: Any, *inputs: Any, use_peephole: bool) -> list[Any]:
        x, cs_prev, h_prev, w, wci, wcf, wco, b, *more = inputs
        check(x.ndim == 3)
        _fits(x, cs_prev, h_prev, w, (wci, wcf, wco), b)
        check(all(each.shape == (*x.shape[:2], cs_prev.shape[1]) for each in more))
        steps = _limited(seq_len_max, x.shape[0])
        made: list[Any] = as_program(
            xp, _back, *inputs, order=order, steps=steps, use_peephole=use_peephole
        )
        return made

    return kernel


def _back(xp: Any, *inputs: Any, order: str, steps: int, use_peephole: bool) -> list[Any]:
    x, cs_prev, h_prev, w, wci, wcf, wco, b, *more = inputs
    time, depth = x.shape[0], x.shape[2]
    lstm = _Lstm(xp, depth, w, (wci, wcf, wco), b, order, use_peephole=use_peephole)
    rows = [_wide(xp, each[:steps, ...]) for each in more]
    cs_first, h_first = (xp.expand_dims(_wide(xp, each), axis=0) for each in (cs_prev, h_prev))
    before = xp.concat([cs_first, rows[1][:-1, ...]], axis=0)

    def step(carried: Any, row: Any) -> Any:
        dcs, dh = carried
        *made, cs_grad, h_grad, cs_before = row
        dcs, gates, of_peepholes = lstm.slopes(made, cs_before, dcs + cs_grad, dh + h_grad)
        return (dcs, xp.matmul(gates, lstm.by_outputs.T)), [gates, *of_peepholes]

    nothing = xp.zeros_like(cs_first[0, ...])
    carried, found = along(xp, step, (nothing, nothing), [*rows, before], reverse=True)
    gates, *of_peepholes = found
    dx = _to_length(xp, xp.matmul(gates, lstm.by_inputs.T), time)
    last = xp.concat([h_first, rows[6][:-1, ...]], axis=0)
    flat = xp.concat([_wide(xp, x[:steps, ...]), last], axis=2)
    flat = xp.reshape(flat, (-1, flat.shape[2]))
    by_gate = xp.reshape(gates, (-1, gates.shape[2]))
    peepholes = [xp.sum(each, axis=0) for each in of_peepholes]
    made = [dx, *carried, xp.matmul(flat.T, by_gate), *peepholes, xp.sum(by_gate, axis=0)]
    return [xp.astype(each, x.dtype) for each in made]


arrays("BlockLSTMGrad", host=(0,), reals=True)(_sequence_back(ICFO))
arrays("BlockLSTMGradV2", host=(0,), reals=True)(_sequence_back(IFCO))


# -- a GRU ------------------------------------------------------------------------------------------------------------


def _gru_fits(x: Any, h: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> None:
    check(x.ndim == h.ndim == 2 and x.shape[0] == h.shape[0] and math.prod(x.shape) > 0)
    units = h.shape[1]
    taken = x.shape[1] + units
    check(units > 0 and w_ru.shape == (taken, 2 * units) and w_c.shape == (taken, units))
    check(b_ru.shape == (2 * units,) and b_c.shape == (units,))


@arrays("GRUBlockCell", reals=True)
def _gru_cell(xp: Any, x: Any, h: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> tuple[Any, ...]:
    _gru_fits(x, h, w_ru, w_c, b_ru, b_c)
    gates = _sigmoid(xp, xp.matmul(xp.concat([x, h], axis=1), w_ru) + b_ru)
    r, u = _split(gates, 2)
    c = xp.tanh(xp.matmul(xp.concat([x, h * r], axis=1), w_c) + b_c)
    return r, u, c, (1 - u) * c + u * h


@arrays("GRUBlockCellGrad", reals=True)
def _gru_cell_grad(
    xp: Any,
    x: Any,
    h: Any,
    w_ru: Any,
    w_c: Any,
    b_ru: Any,
    b_c: Any,
    r: Any,
    u: Any,
    c: Any,
    d_h: Any,
) -> tuple[Any, ...]:
    _gru_fits(x, h, w_ru, w_c, b_ru, b_c)
    check(r.shape == u.shape == c.shape == d_h.shape == h.shape)
    depth = x.shape[1]
    dc = d_h * (1 - u) * (1 - c * c)
    du = d_h * (h - c) * u * (1 - u)
    by_candidate = xp.matmul(dc, w_c.T)
    reset = by_candidate[:, depth:]
    gates = xp.concat([reset * h * r * (1 - r), du], axis=1)
    by_gates = xp.matmul(gates, w_ru.T)
    dx = by_gates[:, :depth] + by_candidate[:, :depth]
    return dx, by_gates[:, depth:] + reset * r + d_h * u, dc, gates
