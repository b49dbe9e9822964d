"""Array kernel of connectionist temporal classification: the loss of labellings, and its gradient.

The host has the labels, and lays out where labellings may be (`ops._kernels.ctc.Lattice`); along time it is two loops.
Probabilities are logarithms in double precision, as the host's are.
Called by: ops._portable.table.  Threads: any.
Source: as ops._kernels.ctc
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.ctc import Lattice
from headrace.ops._portable.images import constant
from headrace.ops._portable.programs import along, as_program, numbered
from headrace.ops._portable.scattering import sum_of_lines
from headrace.ops._portable.table import arrays, check, is_traced
from headrace.ops.nn.ctc import checked_labels

_ROOM: Final = 16
"""Labels: a lattice has room for a multiple of these, so that few programs are compiled."""


@arrays("CTCLoss", host=(1, 2, 3), reals=True)
def _loss(
    xp: Any,
    inputs: Any,
    labels_indices: Any,
    labels_values: Any,
    sequence_length: Any,
    *,
    preprocess_collapse_repeated: bool,
    ctc_merge_repeated: bool,
    ignore_longer_outputs_than_inputs: bool,
) -> Any:
    labels, lengths = checked_labels(
        inputs,
        labels_indices,
        labels_values,
        sequence_length,
        preprocess_collapse_repeated,
        ignore_longer_outputs_than_inputs,
    )
    check(math.prod(inputs.shape) > 0)
    _, batch, classes = inputs.shape
    longest = max(map(len, labels))
    room = longest if is_traced() else -(-longest // _ROOM) * _ROOM
    lattice = Lattice(labels, classes - 1, ctc_merge_repeated, room)
    lines = np.arange(batch)[:, None] * classes + lattice.places
    known = (lines, lattice.stays, lattice.skips, lattice.inside, lattice.final, lengths)
    given = [constant(xp, inputs, each) for each in known]
    return as_program(xp, _forward_and_back, inputs, *given)


def _forward_and_back(
    xp: Any,
    inputs: Any,
    lines: Any,
    stays: Any,
    skips: Any,
    inside: Any,
    final: Any,
    lengths: Any,
) -> tuple[Any, Any]:
    """lines int64 [batch, places]: where the class of each place is among those of all sequences."""
    steps, batch, classes = inputs.shape
    size = lines.shape[1]
    log_y = _log_softmax(xp, xp.astype(inputs, xp.float64))
    here = xp.take(xp.reshape(log_y, (steps, -1)), xp.reshape(lines, (-1,)), axis=1)
    here = xp.reshape(here, (steps, batch, size))
    never = xp.full_like(here[0, ...], -math.inf)
    walk = _Walk(xp, stays, skips, never)
    alphas = _alphas(xp, walk, here, inside)
    time = numbered(xp, inputs, steps, 2, 0)
    betas = _betas(xp, walk, here, time == xp.expand_dims(lengths - 1, axis=0), final)
    total = _total(xp, alphas, lengths, final)
    possible = xp.logical_and(xp.isfinite(total), lengths > 0)
    some = xp.logical_and(xp.expand_dims(possible, axis=0), time < lengths)
    norm = xp.where(possible, total, xp.zeros_like(total))
    share = xp.exp(alphas + betas - xp.expand_dims(norm, axis=(0, 2)))
    counts = xp.logical_and(xp.expand_dims(some, axis=2), xp.expand_dims(inside, axis=0))
    share = xp.permute_dims(xp.where(counts, share, xp.zeros_like(share)), (1, 2, 0))
    flat = xp.reshape(lines, (-1,))
    sums = sum_of_lines(xp, xp.reshape(share, (-1, steps)), flat, batch * classes)
    slope = xp.exp(log_y) - xp.reshape(xp.permute_dims(sums, (1, 0)), log_y.shape)
    slope = xp.where(xp.expand_dims(some, axis=2), slope, xp.zeros_like(slope))
    loss = xp.where(lengths > 0, -total, xp.zeros_like(total))
    return xp.astype(loss, inputs.dtype), xp.astype(slope, inputs.dtype)


def _log_softmax(xp: Any, x: Any) -> Any:
    x = x - xp.max(x, axis=-1, keepdims=True)
    return x - xp.log(xp.sum(xp.exp(x), axis=-1, keepdims=True))


class _Walk:
    """From place to place in a time step, as `Lattice.onward` and `Lattice.backward`; arrays are [batch, places]."""

    def __init__(self, xp: Any, stays: Any, skips: Any, never: Any) -> None:
        self._xp, self._stays, self._skips, self.never = xp, stays, skips, never

    def onward(self, alpha: Any) -> Any:
        """What each place gets of the places before it, and of itself."""
        skipped = self._xp.where(self._skips, self._moved(alpha, 2), self.never)
        return self._joined(alpha, self._moved(alpha, 1), skipped)

    def backward(self, beta: Any) -> Any:
        """What each place gets of the places after it, and of itself."""
        skipped = self._moved(self._xp.where(self._skips, beta, self.never), -2)
        return self._joined(beta, self._moved(beta, -1), skipped)

    def _joined(self, own: Any, moved: Any, skipped: Any) -> Any:
        kept = self._xp.where(self._stays, own, self.never)
        return self._xp.logaddexp(self._xp.logaddexp(kept, moved), skipped)

    def _moved(self, x: Any, places: int) -> Any:
        if abs(places) >= x.shape[1]:
            return self.never
        edge = self.never[:, : abs(places)]
        parts = [edge, x[:, :-places]] if places > 0 else [x[:, -places:], edge]
        return self._xp.concat(parts, axis=1)


def _alphas(xp: Any, walk: _Walk, here: Any, inside: Any) -> Any:
    """[time, batch, places]: logarithms of what leads there.  Before the first step all is at the first place."""
    size = here.shape[2]
    begins = numbered(xp, here, size, 2, 1)
    reached = xp.logical_or(numbered(xp, here, here.shape[0], 3, 0) > 0, begins < 2)
    here = xp.where(reached, here, xp.zeros_like(here))
    start = xp.where(begins == 0, xp.zeros_like(walk.never), walk.never)

    def step(alpha: Any, row: Any) -> Any:
        found = xp.where(inside, row[0] + walk.onward(alpha), walk.never)
        return found, [found]

    return along(xp, step, start, [here])[1][0]


def _betas(xp: Any, walk: _Walk, here: Any, ends: Any, final: Any) -> Any:
    """[time, batch, places]: logarithms of what leads on from there.  ends [time, batch]: whether a sequence ends."""
    ahead = xp.concat([here[1:, ...], xp.zeros_like(here[:1, ...])], axis=0)
    last = xp.where(final, xp.zeros_like(walk.never), walk.never)

    def step(beta: Any, row: Any) -> Any:
        following, is_last = row
        beta = xp.where(xp.expand_dims(is_last, axis=1), last, walk.backward(beta + following))
        return beta, [beta]

    return along(xp, step, walk.never, [ahead, ends], reverse=True)[1][0]


def _total(xp: Any, alphas: Any, lengths: Any, final: Any) -> Any:
    """[batch]: logarithms of the probabilities of labellings."""
    steps, batch, size = alphas.shape
    last = xp.where(lengths > 0, lengths - 1, xp.zeros_like(lengths))
    places = last * batch + numbered(xp, alphas, batch)
    ends = xp.take(xp.reshape(alphas, (steps * batch, size)), places, axis=0)
    terms = xp.where(final, ends, xp.full_like(ends, -math.inf))
    top = xp.max(terms, axis=1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return xp.log(xp.sum(xp.exp(terms - top), axis=1)) + top[:, 0]
