"""A step of an LSTM, or all of a sequence, as one op each; and the gradients.

Called by: ops.nn.gated_recurrent, library.contrib, programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/lstm_ops.cc, contrib/rnn); values checked against the oracle
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.linalg.products import matmul
from headrace.ops.tables import make
from headrace.run.exec.polling import poll

__all__: list[str] = []

Array = np.ndarray[Any, Any]
ICFO, IFCO = "icfo", "ifco"
"""How the gates lie side by side in an LSTM's kernel: entering, candidate, forgetting, leaving."""


class _Gates(NamedTuple):
    """What a step of an LSTM makes, [batch, units] each, as the outputs of its ops."""

    i: Array
    cs: Array
    f: Array
    o: Array
    ci: Array
    co: Array
    h: Array


class _Weights(NamedTuple):
    """Of an LSTM, in the type that it is computed in.  peepholes: entering, forgetting, leaving."""

    kernel: Array
    bias: Array
    peepholes: tuple[Array, Array, Array] | None
    order: str

    def parts(self, gates: Array) -> dict[str, Array]:
        """The four blocks of [batch, 4 units], by letter."""
        return dict(zip(self.order, np.split(gates, 4, axis=-1), strict=True))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), 0 where that overflows."""
    with np.errstate(over="ignore"):
        found: Array = np.reciprocal(1 + np.exp(-x))
    return found


def _wide(x: Array) -> Array:
    return x.astype(np.float32, copy=False)


def _stepped(gates: Array, cs: Array, w: _Weights, forget_bias: float, clip: float) -> _Gates:
    """gates [batch, 4 units]: inputs and last outputs by the kernel, plus the bias."""
    part = w.parts(gates)
    enter, forget, leave = part["i"], part["f"] + np.float32(forget_bias), part["o"]
    if w.peepholes is not None:
        enter, forget = enter + cs * w.peepholes[0], forget + cs * w.peepholes[1]
    i, ci, f = sigmoid(enter), np.tanh(part["c"]), sigmoid(forget)
    new = ci * i + f * cs
    if clip > 0:
        new = np.clip(new, -np.float32(clip), np.float32(clip))
    if w.peepholes is not None:
        leave = leave + new * w.peepholes[2]
    o, co = sigmoid(leave), np.tanh(new)
    return _Gates(i, new, f, o, ci, co, o * co)


class _Slopes(NamedTuple):
    """Gradients of a step: of the state before, of the gates, of each peephole."""

    cs: Array
    gates: Array
    peepholes: tuple[Array, Array, Array]


def _slopes(step: _Gates, before: Array, dcs: Array, dh: Array, w: _Weights) -> _Slopes:
    do = step.o * (1 - step.o) * dh * step.co
    dcs = (1 - step.co * step.co) * dh * step.o + dcs
    if w.peepholes is not None:
        dcs = dcs + do * w.peepholes[2]
    dci = (1 - step.ci * step.ci) * dcs * step.i
    df = step.f * (1 - step.f) * dcs * before
    di = step.i * (1 - step.i) * dcs * step.ci
    out = dcs * step.f
    zero = np.zeros(before.shape[1:], before.dtype)
    of_peepholes = (zero, zero, zero)
    if w.peepholes is not None:
        out = out + di * w.peepholes[0] + df * w.peepholes[1]
        of_peepholes = (
            (di * before).sum(axis=0),
            (df * before).sum(axis=0),
            (do * step.cs).sum(axis=0),
        )
    by_letter = {"i": di, "c": dci, "f": df, "o": do}
    return _Slopes(out, np.concatenate([by_letter[each] for each in w.order], 1), of_peepholes)


# -- what fits --------------------------------------------------------------------------------


def need(good: bool, says: str) -> None:
    """Raises InvalidArgument, unless `good`."""
    if not good:
        raise errors.invalid_argument(says)


def need_rank(array: Array, name: str, rank: int) -> None:
    """Raises InvalidArgument: another rank."""
    need(array.ndim == rank, f"{name} must be rank {rank} but is rank {array.ndim}")


def need_size(array: Array, name: str, axis: int, size: int, what: str) -> None:
    """Raises InvalidArgument: another size along `axis` than `what`, which is `size`."""
    found = array.shape[axis]
    need(found == size, f"{name}.dim_size({axis}) != {what}: {found} vs. {size}")


def check_states(batch: int, units: int, **states: Array) -> None:
    """Raises InvalidArgument: a state that is not [batch, units]."""
    for name, state in states.items():
        need_rank(state, name, 2)
        need(state.shape[0] == batch, f"{name}.dims(0) != batch_size: {len(state)} vs. {batch}")
        need(state.shape[1] == units, f"{name}.dims(1) != cell_size: {state.shape[1]} vs. {units}")


def _check_lstm(
    x: Array, rank: int, cs: Array, h: Array, w: Array, peepholes: Any, b: Array
) -> None:
    """Raises InvalidArgument."""
    need_rank(x, "x", rank)
    need_rank(cs, "cs_prev", 2)
    units = cs.shape[1]
    check_states(x.shape[-2], units, cs_prev=cs, h_prev=h)
    need_rank(w, "w", 2)
    need_size(w, "w", 0, x.shape[-1] + units, "input_size + cell_size")
    need_size(w, "w", 1, 4 * units, "cell_size * 4")
    for name, peephole in zip(("wci", "wcf", "wco"), peepholes, strict=True):
        need_rank(peephole, name, 1)
        need_size(peephole, name, 0, units, "cell_size")
    need_rank(b, "b", 1)
    need_size(b, "b", 0, 4 * units, "cell_size * 4")


def check_like(shape: tuple[int, ...], **arrays: Array) -> None:
    """Raises InvalidArgument: an array of another shape."""
    for name, array in arrays.items():
        need(
            array.shape == shape,
            f"{name} must have shape {text(shape)}, and has shape {text(array.shape)}",
        )


def _steps(limit: Array, time: int) -> int:
    """The steps to run.  Raises InvalidArgument."""
    need(limit.ndim == 0, f"seq_len_max_tensor must be rank 0 but is rank {limit.ndim}")
    need(
        0 <= int(limit) <= time,
        f"seq_len_max must be from 0 to the {time} steps of x, and is {int(limit)}",
    )
    return int(limit)


def _cell_shapes(c: ShapeContext) -> list[Shape]:
    x, cs = c.with_rank("x", 2), c.with_rank("cs_prev", 2)
    assert x is not None
    assert cs is not None
    return [(x[0], cs[1])] * 7


def _block_shapes(c: ShapeContext) -> list[Shape]:
    x, b = c.with_rank("x", 3), c.with_rank("b", 1)
    assert x is not None
    assert b is not None
    if b[0] is not None and b[0] % 4:
        raise ValueError(
            f"Dimension size must be evenly divisible by 4 but is {b[0]}: b has an entry for each of four gates"
        )
    return [(x[0], x[1], None if b[0] is None else b[0] // 4)] * 7


# -- a step of an LSTM ------------------------------------------------------------------------

_STATES = "cs_prev: T; h_prev: T; w: T; wci: T; wcf: T; wco: T; b: T"
_MADE = "i: T; cs: T; f: T; o: T; ci: T; co: T; h: T"
_OF_PEEPHOLES = "wci_grad: T; wcf_grad: T; wco_grad: T"
_LSTM_ATTRS = (
    "forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; T: {half, float}"
)


@op(
    "LSTMBlockCell",
    inputs=f"x: T; {_STATES}",
    outputs=_MADE,
    attrs=_LSTM_ATTRS,
    shape=_cell_shapes,
)
def lstm_block_cell_op(
    xp: Any,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """A step of an LSTM: its gates, the new state cs and the outputs h, [batch, units] each.

    x [batch, depth]; cs_prev, h_prev [batch, units]; w [depth + units, 4 units], of entering, candidate, forgetting,
    leaving; b [4 units]; wci, wcf, wco [units], heeded if use_peephole.  cell_clip: cs stays within it, if above 0.
    Raises InvalidArgument.
    """
    _check_lstm(x, 2, cs_prev, h_prev, w, (wci, wcf, wco), b)
    weights = _weights(w, b, (wci, wcf, wco), use_peephole, ICFO)
    gates = np.concatenate([_wide(x), _wide(h_prev)], 1) @ weights.kernel + weights.bias
    made = _stepped(gates, _wide(cs_prev), weights, forget_bias, cell_clip)
    return tuple(each.astype(x.dtype, copy=False) for each in made)


def _weights(w: Array, b: Array, peepholes: Any, used: bool, order: str) -> _Weights:
    held = tuple(_wide(each) for each in peepholes) if used else None
    return _Weights(_wide(w), _wide(b), held, order)  # type: ignore[arg-type]


def _cell_grad_shapes(c: ShapeContext) -> list[Shape]:
    x, cs = c.with_rank("x", 2), c.with_rank("cs_prev", 2)
    assert x is not None
    assert cs is not None
    units = cs[1]
    gates = None if units is None else 4 * units
    return [(x[0], units), (x[0], gates), (units,), (units,), (units,)]


@op(
    "LSTMBlockCellGrad",
    inputs=f"x: T; {_STATES}; i: T; cs: T; f: T; o: T; ci: T; co: T; cs_grad: T; h_grad: T",
    outputs=f"cs_prev_grad: T; dicfo: T; {_OF_PEEPHOLES}",
    attrs="use_peephole: bool; T: {half, float}",
    shape=_cell_grad_shapes,
)
def lstm_block_cell_grad(
    xp: Any,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    i: Array,
    cs: Array,
    f: Array,
    o: Array,
    ci: Array,
    co: Array,
    cs_grad: Array,
    h_grad: Array,
    *,
    use_peephole: bool,
) -> Any:
    """Gradients of LSTMBlockCell's state, gates [batch, 4 units] and peepholes; what is cut off is not heeded.

    Raises InvalidArgument.
    """
    _check_lstm(x, 2, cs_prev, h_prev, w, (wci, wcf, wco), b)
    check_like(cs_prev.shape, i=i, cs=cs, f=f, o=o, ci=ci, co=co, cs_grad=cs_grad, h_grad=h_grad)
    weights = _weights(w, b, (wci, wcf, wco), use_peephole, ICFO)
    step = _Gates(*(_wide(each) for each in (i, cs, f, o, ci, co, co)))
    found = _slopes(step, _wide(cs_prev), _wide(cs_grad), _wide(h_grad), weights)
    made = (found.cs, found.gates, *found.peepholes)
    return tuple(each.astype(x.dtype, copy=False) for each in made)


@lstm_block_cell_op.gradient
def _(op: Operation, *grads: Any) -> Any:
    x, cs, h, w, wci, wcf, wco, b = op.inputs
    state, gates, *peepholes = lstm_block_cell_grad(
        x,
        cs,
        h,
        w,
        wci,
        wcf,
        wco,
        b,
        *op.outputs[:6],
        grads[1],
        grads[6],
        use_peephole=op.get_attr("use_peephole"),
    )
    both = matmul(gates, w, transpose_b=True)
    dx, dh = _apart(both, x, h)
    dw = matmul(concat([x, h], 1), gates, transpose_a=True)
    return [dx, state, dh, dw, *peepholes, make.BiasAddGrad(gates)]


def _apart(both: Any, x: Any, h: Any) -> tuple[Any, Any]:
    """[batch, depth + units] as the gradients of x and h."""
    depth, units = shape_of(x)[1], shape_of(h)[1]
    dx, dh = slice_of(both, [0, 0], [-1, depth]), slice_of(both, [0, depth], [-1, units])
    dx.set_shape(x.shape)
    dh.set_shape(h.shape)
    return dx, dh


# -- an LSTM along time -----------------------------------------------------------------------


def _run(
    seq_len_max: Array, x: Array, cs: Array, h: Array, weights: _Weights, forget: float, clip: float
) -> Any:
    steps = _steps(seq_len_max, len(x))
    units, depth = cs.shape[1], x.shape[2]
    made = [np.zeros((*x.shape[:2], units), x.dtype) for _ in _Gates._fields]
    given = _wide(x[:steps]) @ weights.kernel[:depth] + weights.bias
    by_outputs = weights.kernel[depth:]
    cs, h = _wide(cs), _wide(h)
    for time in range(steps):
        poll()
        step = _stepped(given[time] + h @ by_outputs, cs, weights, forget, clip)
        cs, h = step.cs, step.h
        for array, value in zip(made, step, strict=True):
            array[time] = value
    return tuple(made)


@op(
    "BlockLSTM",
    inputs=f"seq_len_max: int64; x: T; {_STATES}",
    outputs=_MADE,
    attrs=_LSTM_ATTRS,
    shape=_block_shapes,
)
def block_lstm_op(
    xp: Any,
    seq_len_max: Array,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """LSTMBlockCell along x [time, batch, depth], seq_len_max steps of it: [time, batch, units] each, then zeros.

    Raises InvalidArgument.
    """
    _check_lstm(x, 3, cs_prev, h_prev, w, (wci, wcf, wco), b)
    weights = _weights(w, b, (wci, wcf, wco), use_peephole, ICFO)
    return _run(seq_len_max, x, cs_prev, h_prev, weights, forget_bias, cell_clip)


@op(
    "BlockLSTMV2",
    inputs=f"seq_len_max: int64; x: T; {_STATES}",
    outputs=_MADE,
    attrs="cell_clip: float = 0.0; use_peephole: bool = false; T: {half, float}",
    shape=_block_shapes,
)
def block_lstm_v2_op(
    xp: Any,
    seq_len_max: Array,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """BlockLSTM whose gates lie as entering, forgetting, candidate, leaving, and which forgets by its bias alone.

    Raises InvalidArgument.
    """
    _check_lstm(x, 3, cs_prev, h_prev, w, (wci, wcf, wco), b)
    weights = _weights(w, b, (wci, wcf, wco), use_peephole, IFCO)
    return _run(seq_len_max, x, cs_prev, h_prev, weights, 0.0, cell_clip)


def _block_grad_shapes(c: ShapeContext) -> list[Shape]:
    states = ("cs_prev", "h_prev")
    weights = ("wci", "wcf", "wco", "b")
    return [
        c.with_rank("x", 3),
        *(c.with_rank(name, 2) for name in (*states, "w")),
        *(c.with_rank(name, 1) for name in weights),
    ]


_BLOCK_GRAD_INPUTS = f"seq_len_max: int64; x: T; {_STATES}; {_MADE}; cs_grad: T; h_grad: T"
_OF_INPUTS = "x_grad: T; cs_prev_grad: T; h_prev_grad: T"
_BLOCK_GRAD_OUTPUTS = f"{_OF_INPUTS}; w_grad: T; {_OF_PEEPHOLES}; b_grad: T"
_BLOCK_GRAD_ATTRS = "use_peephole: bool; T: {half, float}"


def _run_back(arrays: tuple[Array, ...], used: bool, order: str) -> Any:
    """The gradients of BlockLSTM; arrays: its inputs, its outputs, the gradients of cs and h."""
    seq_len_max, x, cs_prev, h_prev, w, *peepholes, b = arrays[:9]
    _check_lstm(x, 3, cs_prev, h_prev, w, peepholes, b)
    names = (*_Gates._fields, "cs_grad", "h_grad")
    shape = (*x.shape[:2], cs_prev.shape[1])
    check_like(shape, **dict(zip(names, arrays[9:], strict=True)))
    steps, depth = _steps(seq_len_max, len(x)), x.shape[2]
    weights = _weights(w, b, peepholes, used, order)
    made = _Gates(*(_wide(each) for each in arrays[9:16]))
    cs_grad, h_grad = _wide(arrays[16]), _wide(arrays[17])
    dcs, dh = np.zeros(shape[1:], np.float32), np.zeros(shape[1:], np.float32)
    gates = np.zeros((steps, shape[1], 4 * shape[2]), np.float32)
    of_peepholes = [np.zeros(shape[2:], np.float32) for _ in range(3)]
    by_outputs = weights.kernel[depth:].T
    for time in reversed(range(steps)):
        poll()
        before = made.cs[time - 1] if time else _wide(cs_prev)
        step = _Gates(*(each[time] for each in made))
        found = _slopes(step, before, dcs + cs_grad[time], dh + h_grad[time], weights)
        gates[time], dcs = found.gates, found.cs
        dh = found.gates @ by_outputs
        for total, one in zip(of_peepholes, found.peepholes, strict=True):
            total += one
    dx = np.zeros(x.shape, np.float32)
    dx[:steps] = gates @ weights.kernel[:depth].T
    last = np.concatenate([_wide(h_prev)[None], made.h[: max(steps - 1, 0)]])[:steps]
    flat = np.concatenate([_wide(x[:steps]), last], 2).reshape(-1, depth + shape[2])
    dw = flat.T @ gates.reshape(-1, 4 * shape[2])
    db = gates.sum(axis=(0, 1))
    return tuple(each.astype(x.dtype, copy=False) for each in (dx, dcs, dh, dw, *of_peepholes, db))


@op(
    "BlockLSTMGrad",
    inputs=_BLOCK_GRAD_INPUTS,
    outputs=_BLOCK_GRAD_OUTPUTS,
    attrs=_BLOCK_GRAD_ATTRS,
    shape=_block_grad_shapes,
)
def block_lstm_grad(xp: Any, *arrays: Array, use_peephole: bool) -> Any:
    """Gradients of all inputs of BlockLSTM but the first; what is cut off is not heeded.

    Raises InvalidArgument.
    """
    return _run_back(arrays, use_peephole, ICFO)


@op(
    "BlockLSTMGradV2",
    inputs=_BLOCK_GRAD_INPUTS,
    outputs=_BLOCK_GRAD_OUTPUTS,
    attrs=_BLOCK_GRAD_ATTRS,
    shape=_block_grad_shapes,
)
def block_lstm_grad_v2(xp: Any, *arrays: Array, use_peephole: bool) -> Any:
    """Gradients of all inputs of BlockLSTMV2 but the first.  Raises InvalidArgument."""
    return _run_back(arrays, use_peephole, IFCO)


def _sequence_gradient(made_by: Any) -> Any:
    def gradient(op: Operation, *grads: Any) -> Any:
        found = made_by(
            *op.inputs, *op.outputs, grads[1], grads[6], use_peephole=op.get_attr("use_peephole")
        )
        return [None, *found]

    return gradient


block_lstm_op.gradient(_sequence_gradient(block_lstm_grad))
block_lstm_v2_op.gradient(_sequence_gradient(block_lstm_grad_v2))
