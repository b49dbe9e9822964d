"""Connectionist temporal classification: the loss of labellings and its gradient, and the search for the best ones.

All of a batch goes forward together, a time step at a time; probabilities are logarithms in double precision.
Called by: ops.nn.ctc.  Threads: pure functions.
Source: Graves et al., "Connectionist temporal classification", ICML 2006; Graves and Jaitly, "Towards end-to-end speech
recognition with recurrent neural networks", ICML 2014
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NEVER = -np.inf


def log_softmax(logits: Array) -> Array:
    """float64, along the last axis."""
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    x -= np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return x


def _logsumexp(one: Array, other: Array, third: Array) -> Array:
    """Of each three; `logaddexp` goes an element at a time, which takes three times as long."""
    most = np.maximum(np.maximum(one, other), third)
    base = np.where(most == NEVER, 0.0, most)
    total: Array = np.exp(one - base)
    total += np.exp(other - base)
    total += np.exp(third - base)
    with np.errstate(divide="ignore"):
        np.log(total, out=total)
    total += base
    return total


class Lattice:
    """Where labellings may be: blanks around and between the labels, and how they may go on.

    places int [batch, 2 * most + 1]: the class of each place; count [batch]: how many a labelling has; final: where one
    may end.
    """

    def __init__(
        self, labels: Sequence[Sequence[int]], blank: int, merged: bool, room: int = 0
    ) -> None:
        """merged: a label that comes twice in turn, with no blank between, counts once.  room: for as many labels."""
        most = max(room, *map(len, labels)) if labels else room
        self.count = np.array([2 * len(each) + 1 for each in labels])
        self.places = np.full((len(labels), 2 * most + 1), blank, np.int64)
        for row, each in zip(self.places, labels, strict=True):
            row[1 : 2 * len(each) : 2] = each
        self.is_label = self.places != blank
        self.stays = np.ones_like(self.is_label) if merged else ~self.is_label
        self.skips = self.is_label.copy()
        self.skips[:, :2] = False
        if merged:
            self.skips[:, 2:] &= self.places[:, 2:] != self.places[:, :-2]
        every = np.arange(2 * most + 1)
        self.inside = every < self.count[:, None]
        self.final = self.inside & (every >= self.count[:, None] - 2)

    def onward(self, alpha: Array) -> Array:
        """What each place gets of the places before it, and of itself."""
        moved = np.full_like(alpha, NEVER)
        moved[:, 1:] = alpha[:, :-1]
        skipped = np.full_like(alpha, NEVER)
        skipped[:, 2:] = alpha[:, :-2]
        skipped = np.where(self.skips, skipped, NEVER)
        return _logsumexp(np.where(self.stays, alpha, NEVER), moved, skipped)

    def backward(self, beta: Array) -> Array:
        """What each place gets of the places after it, and of itself."""
        moved = np.full_like(beta, NEVER)
        moved[:, :-1] = beta[:, 1:]
        skipped = np.full_like(beta, NEVER)
        skipped[:, :-2] = np.where(self.skips, beta, NEVER)[:, 2:]
        return _logsumexp(np.where(self.stays, beta, NEVER), moved, skipped)


def loss(
    logits: Array, labels: Sequence[Sequence[int]], lengths: Array, merged: bool
) -> tuple[Array, Array]:
    """Minus the logarithms of the labels' probabilities [batch], and the gradient [time, batch, classes].

    logits [time, batch, classes], the last class the blank; lengths [batch]: of 0 has loss 0 and no gradient.
    """
    steps, batch, classes = logits.shape
    gradient = np.zeros(logits.shape)
    lattice = Lattice(labels, classes - 1, merged)
    log_y = log_softmax(logits) if steps else np.zeros(logits.shape)
    rows = np.arange(batch)[:, None]
    size = lattice.places.shape[1]
    alphas = np.full((steps, batch, size), NEVER)
    for t in range(steps):
        here = log_y[t][rows, lattice.places]
        if t:
            alphas[t] = here + lattice.onward(alphas[t - 1])
        else:
            alphas[0, :, :2] = here[:, :2]
        alphas[t][~lattice.inside] = NEVER
    last = np.maximum(lengths - 1, 0)
    ends = alphas[last, np.arange(batch)] if steps else np.full((batch, size), NEVER)
    total = np.logaddexp.reduce(np.where(lattice.final, ends, NEVER), axis=1)
    possible = np.isfinite(total) & (lengths > 0)
    beta = np.full((batch, size), NEVER)
    for t in reversed(range(steps)):
        ending = (lengths - 1 == t)[:, None]
        if t + 1 < steps:
            beta = lattice.backward(beta + log_y[t + 1][rows, lattice.places])
        beta = np.where(ending, np.where(lattice.final, 0.0, NEVER), beta)
        some = possible & (t < lengths)
        share = np.exp(alphas[t] + beta - np.where(possible, total, 0.0)[:, None])
        share[~some | ~lattice.inside.any(axis=1)] = 0
        np.subtract.at(gradient[t], (rows, lattice.places), np.where(lattice.inside, share, 0.0))
        gradient[t][some] += np.exp(log_y[t][some])
        gradient[t][~some] = 0
    return np.where(lengths > 0, -total, 0.0), gradient


class BeamSearch:
    """The labellings of one sequence that are likeliest, as prefixes of labels in a tree.

    After each step the likeliest prefixes of all that there might be are kept.  (TensorFlow's search forgets some.)
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._parent, self._label = [-1], [-1]  # of nodes; the root has neither
        self._children: dict[tuple[int, int], int] = {}
        self._beam = np.zeros(1, np.int64)  # nodes, best first
        self._blank, self._ended = np.zeros(1), np.full(1, NEVER)

    @property
    def _total(self) -> Array:
        made: Array = np.logaddexp(self._blank, self._ended)
        return made

    def step(self, log_y: Array) -> None:
        """log_y [classes]: the last one is the blank."""
        classes = len(log_y) - 1
        total, nodes = self._total, self._beam.tolist()
        at = {node: place for place, node in enumerate(nodes)}
        labels = np.array([self._label[node] for node in nodes])
        # labellings that stay: by a blank, by their last label again, or as their parent's that grow
        ended = self._ended.copy()
        grown = total[:, None] + log_y[:-1]
        same = np.flatnonzero(labels >= 0)
        grown[same, labels[same]] = self._blank[same] + log_y[labels[same]]
        ended[same] += log_y[labels[same]]
        for place, node in enumerate(nodes):
            parent = at.get(self._parent[node])
            if parent is not None:
                label = self._label[node]
                ended[place] = np.logaddexp(ended[place], grown[parent, label])
                grown[parent, label] = NEVER
        blank = total + log_y[-1]
        scores = np.concatenate((np.logaddexp(blank, ended), grown.ravel()))
        count = min(self._width, len(scores))
        chosen = np.argpartition(-scores, count - 1)[:count]
        chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
        chosen = chosen[(scores[chosen] > NEVER) | (chosen < len(nodes))]
        self._keep(chosen, nodes, blank, ended, scores, classes)

    def _keep(
        self,
        chosen: Array,
        nodes: list[int],
        blank: Array,
        ended: Array,
        scores: Array,
        classes: int,
    ) -> None:
        stays = chosen < len(nodes)
        safe = np.where(stays, chosen, 0)
        self._blank = np.where(stays, blank[safe], NEVER)
        self._ended = np.where(stays, ended[safe], scores[chosen])
        beam = []
        for number in chosen.tolist():
            if number < len(nodes):
                beam.append(nodes[number])
                continue
            parent, label = divmod(number - len(nodes), classes)
            beam.append(self._child(nodes[parent], label))
        self._beam = np.array(beam, np.int64)

    def _child(self, parent: int, label: int) -> int:
        found = self._children.get((parent, label))
        if found is None:
            found = self._children[parent, label] = len(self._label)
            self._parent.append(parent)
            self._label.append(label)
        return found

    def best(self, count: int, merge: bool) -> list[tuple[list[int], float]]:
        """Labels and logarithms of probabilities, best first; fewer if there are fewer."""
        total = self._total
        order = np.argsort(-total, kind="stable")[:count]
        return [(self._labels(int(self._beam[at]), merge), float(total[at])) for at in order]

    def _labels(self, node: int, merge: bool) -> list[int]:
        found: list[int] = []
        while node > 0:
            label = self._label[node]
            if not (merge and found and found[-1] == label):
                found.append(label)
            node = self._parent[node]
        return found[::-1]
