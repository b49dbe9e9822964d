"""Candidate samplers: few classes drawn of many, with how often each is to be expected among them.

Called by: library.nn.sampled_losses, programs.  Threads: any; what learned_unigram has seen is under a lock.
Source: behaviour of TF 1.15 (core/kernels/candidate_sampler_ops.cc, range_sampler.cc)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.base.traits import SIZED_BY_VALUES, STATEFUL
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.places import all_below
from headrace.ops._kernels.word_streams import Words, doubles_of, wide_below
from headrace.ops.random.draws import seeds_of, stream_of
from headrace.run.exec.kernel import KernelContext

__all__ = [
    "compute_accidental_hits",
    "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler",
    "uniform_candidate_sampler",
]

Array = np.ndarray[Any, Any]
_RESERVED: Final = 2048  # words for each class that is drawn
_FIRST_RUNS: Final = (
    16  # before logarithms of all classes are kept, which takes as long as a hundred runs
)
_MOST_KEPT: Final = 1 << 20  # classes, for which they are


class Sampler:
    """Every class below `count` is as likely."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._different: _WithDifferent | None = None

    def draw(self, words: Words, size: int) -> Array:
        """`size` classes, int64."""
        return self.made_of(words.take(2 * size))

    def draw_first(self, words: Words, size: int, wanted: int) -> Array:
        """As `draw`, of a step that has drawn nothing yet; and behind them, maybe, the first `wanted` different ones,
        and how often these are to be expected, as `_WithDifferent` has them.
        """
        make = self._different
        if make is None or make.wanted != wanted:
            make = self._different = _WithDifferent(self, wanted)
        return words.first(2 * size, make)

    def made_of(self, words: Array) -> Array:
        """Classes [.., n] of words [.., 2 n]."""
        return wide_below(words, self._count)

    def share(self, classes: Array) -> Array:
        """The probability of each class, float32 of the shape of `classes`."""
        return np.full(classes.shape, 1 / self._count, np.float32)

    def expected(self, classes: Array, count: int, tries: int) -> Array:
        """How often each of the classes comes up among `count` of as many tries, float32."""
        return _expected(self.share(classes), count, tries)

    def expected_of_each(self, classes: Array, count: int, tries: Array) -> Array:
        """As `expected`, of classes [n, m] and the tries [n] of each step, float32 [n, m]."""
        shares = self.share(classes)
        often = _often(_missed(shares), tries[:, None])
        at_once = tries == count
        often[at_once] = shares[at_once] * np.float32(count)
        return often

    def learn(self, classes: Array) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class _WithDifferent:
    """Classes that the sampler draws, and the different ones of them."""

    sampler: Sampler
    wanted: int

    def __call__(self, words: Array) -> Array:
        """[n, size + 1 + 2 wanted] of words [n, 2 size]: the classes drawn, how many it took until as many different
        ones as are wanted were there, those in the order in which they came, and bits of how often each is to be
        expected; zeros where there are too few.
        """
        drawn, wanted = self.sampler.made_of(words), self.wanted
        count, size = drawn.shape
        order = drawn.argsort(axis=1, kind="stable")
        ordered = np.take_along_axis(drawn, order, 1)
        new = np.ones(drawn.shape, bool)
        np.put_along_axis(new, order[:, 1:], ordered[:, 1:] != ordered[:, :-1], 1)
        seen = new.cumsum(axis=1)
        enough = seen[:, -1] >= wanted
        found = np.zeros((count, size + 1 + 2 * wanted), np.int64)
        found[:, :size] = drawn
        tries = (seen[enough] < wanted).sum(axis=1) + 1
        different = drawn[new & (seen <= wanted) & enough[:, None]].reshape(-1, wanted)
        found[enough, size] = tries
        found[enough, size + 1 : size + 1 + wanted] = different
        often = self.sampler.expected_of_each(different, wanted, tries)
        found[enough, size + 1 + wanted :] = often.view(np.int32)
        return found


class _LogUniform(Sampler):
    """Class c with the share log((c + 2) / (c + 1)) / log(count + 1): as words by frequency."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._runs = 0
        self._missed: Array | None = None  # logarithms of how likely it is not to draw a class

    def made_of(self, words: Array) -> Array:
        drawn = np.exp(doubles_of(words) * math.log(self._count + 1)).astype(np.int64) - 1
        return drawn % self._count

    def expected(self, classes: Array, count: int, tries: int) -> Array:
        if tries == count or self._count > _MOST_KEPT:
            return super().expected(classes, count, tries)
        if self._missed is None:
            self._runs += 1
            if self._runs <= _FIRST_RUNS:
                return super().expected(classes, count, tries)
            self._missed = _missed(self.share(np.arange(self._count)))
        return _often(self._missed.take(classes), tries)

    def share(self, classes: Array) -> Array:
        known = classes.astype(np.float64)
        shares = np.log((known + 2) / (known + 1)) / math.log(self._count + 1)
        return shares.astype(np.float32)


class _Learned(Sampler):
    """By how often a class was a true one before, and once more."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._weights = np.ones(count, np.int64)

    def draw(self, words: Words, size: int) -> Array:
        sums = np.cumsum(self._weights)
        return np.searchsorted(sums, words.below(int(sums[-1]), size), side="right")

    def draw_first(self, words: Words, size: int, wanted: int) -> Array:
        return self.draw(words, size)  # of weights that change

    def share(self, classes: Array) -> Array:
        weights = self._weights[classes].astype(np.float32)
        return weights / np.float32(self._weights.sum())

    def learn(self, classes: Array) -> None:
        np.add.at(self._weights, classes.ravel(), 1)


def _distinct(sampler: Sampler, words: Words, count: int) -> tuple[Array, int, Array | None]:
    """`count` different classes, int64, how many were drawn for them; how often each is to be expected, if known."""
    size = max(64, 2 * count)
    first = sampler.draw_first(words, size, count)
    if len(first) > size and (tries := int(first[size])):
        often = first[size + 1 + count :].astype(np.int32).view(np.float32)
        return first[size + 1 : size + 1 + count].copy(), tries, often
    drawn = first[:size].tolist()
    found: dict[int, None] = dict.fromkeys(drawn)  # in the order in which they came first
    while len(found) < count:
        more = sampler.draw(words, max(64, 2 * (count - len(found)))).tolist()
        drawn += more
        found.update(dict.fromkeys(more))
    different = list(found)[:count]
    return np.array(different, np.int64), drawn.index(different[-1]) + 1, None


def _expected(shares: Array, count: int, tries: int) -> Array:
    """How often a class of that share comes up, as far as it can come up once only."""
    if tries == count:
        return shares * np.float32(count)
    return _often(_missed(shares), tries)


def _missed(shares: Array) -> Array:
    """The logarithm of how likely it is not to draw a class of that share."""
    found: Array = np.log1p(-shares.astype(np.float64))
    return found


def _often(missed: Array, tries: Any) -> Array:
    """How likely it is to draw a class at least once."""
    found: Array = -np.expm1(tries * missed)
    return found.astype(np.float32)


class _Memory(NamedTuple):
    sampler: Sampler
    lock: threading.Lock


def sample(
    ctx: KernelContext,
    kind: Callable[[int], Sampler],
    true_classes: Array,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seeds: tuple[int, int],
) -> tuple[Array, Array, Array]:
    """Classes drawn [num_sampled], how often each true one [batch, num_true] and each of those is expected.

    Raises InvalidArgument.
    """
    if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
        raise errors.invalid_argument(
            f"true_classes must be [batch, {num_true}], and has shape {list(true_classes.shape)}"
        )
    if unique and num_sampled > range_max:
        raise errors.invalid_argument(
            f"Sampler's range is too small: {num_sampled} different classes cannot be drawn of {range_max}"
        )
    if not all_below(true_classes, range_max):
        outside = (true_classes < 0) | (true_classes >= range_max)
        raise errors.invalid_argument(
            f"`true_candidate` out of range [0, {range_max}), received {int(true_classes[outside][0])}"
        )
    memory = ctx.memo.get("sampler")
    if memory is None:  # two steps may come here at once
        memory = ctx.memo.setdefault("sampler", _Memory(kind(range_max), threading.Lock()))
    words = Words(stream_of(ctx, *seeds), _RESERVED * num_sampled)
    sampler = memory.sampler
    with memory.lock:
        often = None
        if unique:
            sampled, tries, often = _distinct(sampler, words, num_sampled)
        else:
            sampled = sampler.draw(words, num_sampled).astype(np.int64, copy=False)
            tries = num_sampled
        expected = sampler.expected(true_classes, num_sampled, tries)
        if often is None:
            often = sampler.expected(sampled, num_sampled, tries)
        sampler.learn(true_classes)
    return sampled, expected, often


def sampler_shapes(c: ShapeContext) -> list[Shape]:
    """Of classes, expected counts of true classes and of those.  Raises ValueError."""
    count = c.attr("num_sampled")
    given = c.with_rank("true_classes", 2)
    assert given is not None
    return [(count,), (given[0], c.attr("num_true")), (count,)]


def _op(name: str, kind: type[Sampler], what: str) -> OpSpec:
    def kernel(
        ctx: KernelContext,
        true_classes: Array,
        *,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int,
        seed2: int,
    ) -> Any:
        return sample(
            ctx, kind, true_classes, num_true, num_sampled, unique, range_max, (seed, seed2)
        )

    kernel.__doc__ = f"""num_sampled classes below range_max, {what}, and how often classes are to be expected.

    true_classes int64 [batch, num_true]; sampled_candidates int64 [num_sampled]; true_expected_count float32, of
    true_classes; sampled_expected_count float32, of the sampled ones.  unique: no class comes twice.
    Raises InvalidArgument if true_classes do not fit, or there are too few classes to be unique.
    """
    return op(
        name,
        inputs="true_classes: int64",
        outputs="sampled_candidates: int64; true_expected_count: float; sampled_expected_count: float",
        attrs="num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; "
        "seed: int = 0; seed2: int = 0",
        shape=sampler_shapes,
        traits={STATEFUL},
        differentiable=False,
    )(kernel)


uniform_op = _op("UniformCandidateSampler", Sampler, "each as likely")
log_uniform_op = _op("LogUniformCandidateSampler", _LogUniform, "low ones more often")
learned_unigram_op = _op("LearnedUnigramCandidateSampler", _Learned, "by how often they were true")


def _hit_shapes(c: ShapeContext) -> list[Shape]:
    shape_rules.merge(c.with_rank("true_classes", 2), (None, c.attr("num_true")))
    c.with_rank("sampled_candidates", 1)
    return [(None,), (None,), (None,)]


@op(
    "ComputeAccidentalHits",
    inputs="true_classes: int64; sampled_candidates: int64",
    outputs="indices: int32; ids: int64; weights: float",
    attrs="num_true: int; seed: int = 0; seed2: int = 0",
    shape=_hit_shapes,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def compute_accidental_hits_op(
    xp: Any, true_classes: Array, sampled_candidates: Array, *, num_true: int
) -> Any:
    """Where a true class was sampled: row of true_classes, place in sampled_candidates, the lowest float32.

    Raises InvalidArgument unless true_classes is [batch, num_true].
    """
    if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
        raise errors.invalid_argument(
            f"true_classes must be [batch, {num_true}], and has shape {list(true_classes.shape)}"
        )
    if sampled_candidates.ndim != 1:
        raise errors.invalid_argument(
            f"sampled_candidates must be a vector, and has shape {list(sampled_candidates.shape)}"
        )
    places = {found: at for at, found in enumerate(sampled_candidates.tolist())}
    hits = [
        (row, places[each])
        for row, classes in enumerate(true_classes.tolist())
        for each in classes
        if each in places
    ]
    rows, at = np.array(hits, np.int64).reshape(-1, 2).T
    weights = np.full(len(hits), np.finfo(np.float32).min, np.float32)
    return rows.astype(np.int32), at.copy(), weights


Samples = tuple[Tensor, Tensor, Tensor]
"""By name, too: those of the op's outputs."""


def _function(spec: OpSpec, name: str, what: str) -> Callable[..., Samples]:
    def sampler(
        true_classes: Any,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None = None,
        name: str | None = None,
    ) -> Samples:
        samples: Samples = spec(
            true_classes,
            num_true=num_true,
            num_sampled=num_sampled,
            unique=unique,
            range_max=range_max,
            name=name,
            **seeds_of(seed),
        )
        return samples

    sampler.__name__ = sampler.__qualname__ = name
    sampler.__doc__ = f"""num_sampled classes below range_max, {what}.

    Returns the classes int64 [num_sampled], and how often true_classes [batch, num_true] and the sampled ones are to be
    expected among them, float32.  unique: no class comes twice.
    """
    return sampler


uniform_candidate_sampler = _function(uniform_op, "uniform_candidate_sampler", "each as likely")
log_uniform_candidate_sampler = _function(
    log_uniform_op, "log_uniform_candidate_sampler", "class c by log((c + 2) / (c + 1))"
)
learned_unigram_candidate_sampler = _function(
    learned_unigram_op, "learned_unigram_candidate_sampler", "by how often they were true before"
)


def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Where a true class was sampled: its row, its place among the sampled ones, and the lowest float32 number."""
    hits: Samples = compute_accidental_hits_op(
        true_classes, sampled_candidates, num_true=num_true, name=name, **seeds_of(seed)
    )
    return hits
