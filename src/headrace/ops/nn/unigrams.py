"""Candidate samplers that were left over: all classes, and classes by weights that are given or stand in a file.

Called by: programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/candidate_sampler_ops.cc, range_sampler.cc)
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.traits import STATEFUL
from headrace.graph.registry import op
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.word_streams import Alias, Words
from headrace.ops.nn.candidates import Array, Sampler, sample, sampler_shapes
from headrace.ops.random.draws import seeds_of
from headrace.run.exec.kernel import KernelContext
from headrace.run.readers.files import file_error

__all__ = ["all_candidate_sampler", "fixed_unigram_candidate_sampler"]


@op(
    "AllCandidateSampler",
    inputs="true_classes: int64",
    outputs="sampled_candidates: int64; true_expected_count: float; sampled_expected_count: float",
    attrs="num_true: int >= 1; num_sampled: int >= 1; unique: bool; seed: int = 0; seed2: int = 0",
    shape=sampler_shapes,
    traits={STATEFUL},
    differentiable=False,
)
def all_candidate_sampler_op(
    ctx: KernelContext,
    true_classes: Array,
    *,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int,
    seed2: int,
) -> Any:
    """All classes below num_sampled, in order, each expected once.

    true_classes int64 [batch, num_true]; sampled_candidates int64 [num_sampled]; true_expected_count float32, of
    true_classes; sampled_expected_count float32 [num_sampled].  Raises InvalidArgument if true_classes do not fit.
    """
    if true_classes.ndim != 2 or true_classes.shape[1] != num_true:
        raise errors.invalid_argument(
            f"true_classes must be [batch, {num_true}], and has shape {list(true_classes.shape)}"
        )
    outside = (true_classes < 0) | (true_classes >= num_sampled)
    if outside.any():
        raise errors.invalid_argument(
            f"`true_candidate` out of range [0, {num_sampled}), received {int(true_classes[outside][0])}"
        )
    one = np.float32(1)
    return (
        np.arange(num_sampled, dtype=np.int64),
        np.full(true_classes.shape, one),
        np.full(num_sampled, one),
    )


class _Weighted(Sampler):
    """By weights that stay as they are."""

    def __init__(self, weights: Array) -> None:
        super().__init__(len(weights))
        self._shares = weights / np.float32(weights.sum(dtype=np.float32))
        self._alias = Alias(weights)

    def draw(self, words: Words, size: int) -> Array:
        return self._alias.draw(words, size)

    def draw_first(self, words: Words, size: int, wanted: int) -> Array:
        return self.draw(words, size)

    def share(self, classes: Array) -> Array:
        return self._shares[classes].astype(np.float32, copy=False)


def _weights_in(ctx: KernelContext, vocab_file: bytes) -> list[float]:
    """The last field of every line of a CSV file."""
    try:
        with ctx.runtime.files.open(vocab_file, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:
        raise file_error(vocab_file, error) from error
    found = []
    for number, fields in enumerate(csv.reader(io.StringIO(content.decode(errors="replace"))), 1):
        try:
            found.append(float(fields[-1]))
        except (IndexError, ValueError):
            raise errors.invalid_argument(
                f"Wrong vocabulary format at line: {','.join(fields)}: line {number} of "
                f"{vocab_file.decode(errors='replace')} does not end with a weight"
            ) from None
    return found


@op(
    "FixedUnigramCandidateSampler",
    inputs="true_classes: int64",
    outputs="sampled_candidates: int64; true_expected_count: float; sampled_expected_count: float",
    attrs="num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; "
    "vocab_file: string = ''; distortion: float = 1.0; num_reserved_ids: int = 0; num_shards: int >= 1 = 1; "
    "shard: int >= 0 = 0; unigrams: list(float) = []; seed: int = 0; seed2: int = 0",
    shape=sampler_shapes,
    traits={STATEFUL},
    differentiable=False,
)
def fixed_unigram_candidate_sampler_op(
    ctx: KernelContext,
    true_classes: Array,
    *,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: bytes,
    distortion: float,
    num_reserved_ids: int,
    num_shards: int,
    shard: int,
    unigrams: Sequence[float],
    seed: int,
    seed2: int,
) -> Any:
    """num_sampled classes below range_max, each as often as its weight to the power of `distortion` says.

    Weights: unigrams, or the last fields of the lines of vocab_file, of which every num_shards-th from `shard` on; the
    first num_reserved_ids classes have none.  true_classes int64 [batch, num_true]; sampled_candidates int64
    [num_sampled]; true_expected_count float32, of true_classes; sampled_expected_count float32 [num_sampled].
    Raises InvalidArgument (true_classes, weights and range_max do not fit, or there are too few classes to be unique),
    NotFound and what else opening the file may raise: FailedPrecondition, PermissionDenied.
    """

    def made(count: int) -> _Weighted:
        if bool(vocab_file) == bool(unigrams):
            raise errors.invalid_argument(
                "Must provide either vocab_file or unigrams: "
                + ("both are" if unigrams else "neither is")
            )
        if shard >= num_shards:
            raise errors.invalid_argument(
                f"shard must be below num_shards, and they are {shard} and {num_shards}"
            )
        listed = _weights_in(ctx, vocab_file) if vocab_file else list(unigrams)
        every = [0.0] * num_reserved_ids + [each**distortion for each in listed]
        weights = np.array(every[shard::num_shards], np.float32)
        if len(weights) != count:
            raise errors.invalid_argument(
                f"range is {count} must be equal to weights size  {len(weights)}: range_max says how many weights "
                "there are in the shard"
            )
        if not (weights >= 0).all() or not weights.any():
            raise errors.invalid_argument("weights must not be negative, nor all 0")
        return _Weighted(weights)

    return sample(ctx, made, true_classes, num_true, num_sampled, unique, range_max, (seed, seed2))


Samples = tuple[Tensor, Tensor, Tensor]


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """All classes below num_sampled; see the op."""
    samples: Samples = all_candidate_sampler_op(
        true_classes,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        name=name,
        **seeds_of(seed),
    )
    return samples


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """num_sampled classes below range_max by weights of `unigrams` or of the lines of `vocab_file`; see the op."""
    samples: Samples = fixed_unigram_candidate_sampler_op(
        true_classes,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=unigrams,
        name=name,
        **seeds_of(seed),
    )
    return samples
