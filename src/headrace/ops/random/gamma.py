"""Draws from gamma distributions.

With seeds a node gives TensorFlow's numbers; see ops.random.draws.  Each output has 256 blocks of its stream to itself,
in which normal and uniform numbers are drawn, two a block, until a pair is accepted.
Called by: programs.  Threads: kernels any; wrappers as graph.
Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; the order in which numbers are
taken found by comparing with the oracle; nodes as 2.21
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.base.traits import DRAWS, ITERATES, STATEFUL
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.random_streams import Stream, doubles_of, normals_of, outputs_of
from headrace.ops.array.broadcast import broadcast_dynamic_shape, broadcast_to
from headrace.ops.array.constants import checked_sizes, ones
from headrace.ops.array.joining import concat
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape, shape
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.random.draws import seeds_of, stream_of
from headrace.ops.tables import make
from headrace.run.exec.kernel import KernelContext

__all__ = ["random_gamma"]

Array = np.ndarray[Any, Any]
_BLOCKS_PER_OUTPUT: Final = 256


class _Source:
    """Numbers of as many outputs, each from the blocks of its own, the second of a block before the first."""

    def __init__(self, stream: Stream, starts: Array) -> None:
        self._stream = stream
        self._next = starts.copy()
        count = len(starts)
        self._normals, self._uniforms = np.empty((count, 2)), np.empty((count, 2))
        self._normals_left, self._uniforms_left = np.zeros(count, int), np.zeros(count, int)

    def _take(self, which: Array, held: Array, left: Array, made: Any) -> Array:
        empty = which[left[which] == 0]
        if empty.size:
            held[empty] = made(self._stream.words_at(self._next[empty]))
            self._next[empty] += np.uint64(1)
            left[empty] = 2
        left[which] -= 1
        found: Array = held[which, left[which]]
        return found

    def normal(self, which: Array) -> Array:
        return self._take(which, self._normals, self._normals_left, normals_of)

    def uniform(self, which: Array) -> Array:
        return self._take(which, self._uniforms, self._uniforms_left, doubles_of)


def _exponential(stream: Stream, starts: Array, alphas: Array) -> Array:
    """One number for each start; alphas are 1."""
    return -np.log1p(-_Source(stream, starts).uniform(np.arange(len(starts))))


def _drawn(stream: Stream, starts: Array, alphas: Array) -> Array:
    """One number for each start."""
    source = _Source(stream, starts)
    found, left = np.empty(len(starts)), np.arange(len(starts))
    ds = alphas + np.where(alphas < 1, 2.0 / 3, -1.0 / 3)
    cs = 1.0 / 3 / np.sqrt(ds)
    while left.size:
        x = source.normal(left)
        v = 1 + cs[left] * x
        proper = v > 0
        some, x, v = left[proper], x[proper], v[proper] ** 3
        d = ds[some]
        u = source.uniform(some)
        square = x * x
        with np.errstate(divide="ignore"):
            accepted = (u < 1 - 0.0331 * square * square) | (
                np.log(u) < 0.5 * square + d * (1 - v + np.log(v))
            )
        done = some[accepted]
        found[done] = d[accepted] * v[accepted]
        small = done[alphas[done] < 1]
        found[small] *= source.uniform(small) ** (1 / alphas[small])
        refused = np.ones(len(left), bool)
        refused[np.flatnonzero(proper)[accepted]] = False
        left = left[refused]
    return found


def _gamma(stream: Stream, samples: int, alphas: Array) -> Array:
    """float64 [samples, len(alphas)]."""
    if not stream.seeded:
        return stream.numpy.standard_gamma(alphas, (samples, len(alphas)))
    first = stream.reserve(_BLOCKS_PER_OUTPUT * samples * len(alphas))
    found = np.empty(len(alphas) * samples)
    plain = alphas == 1
    for rows, draw in ((np.flatnonzero(plain), _exponential), (np.flatnonzero(~plain), _drawn)):
        for outputs, row in outputs_of(rows, samples):
            starts = (first + _BLOCKS_PER_OUTPUT * outputs).astype(np.uint64)
            found[outputs] = draw(stream, starts, alphas[row])
    return found.reshape(len(alphas), samples).T


def _shape(c: ShapeContext) -> Shape:
    return shape_rules.concatenate(c.shape_value("shape"), c.shape("alpha"))


@op(
    "RandomGamma",
    inputs="shape: S; alpha: T",
    outputs="output: T",
    attrs="seed: int = 0; seed2: int = 0; S: {int32, int64}; T: {half, float, double}",
    shape=_shape,
    traits={STATEFUL, DRAWS, ITERATES},
)
def random_gamma_op(
    ctx: KernelContext, shape: Array, alpha: Array, *, seed: int, seed2: int
) -> Array:
    """shape + alpha.shape of numbers.  Raises InvalidArgument on a bad shape, or an alpha that is not above 0."""
    sizes = checked_sizes(shape, "shape")
    alphas = np.asarray(alpha, np.float64).ravel()
    if not np.all((alphas > 0) & np.isfinite(alphas)):
        raise errors.invalid_argument(
            "shapes of gamma distributions (alpha) are finite and above 0"
        )
    stream = stream_of(ctx, seed, seed2)
    count = shape_rules.num_elements(sizes) or 0
    found = _gamma(stream, count, alphas)
    return found.astype(alpha.dtype).reshape(sizes + alpha.shape)


@random_gamma_op.gradient
def _(op: Operation, dout: Tensor) -> tuple[None, Tensor]:
    """As if the uniform numbers stayed what they are; see RandomGammaGrad."""
    sizes, alpha = op.inputs
    sample = op.outputs[0]
    with control_dependencies([dout]):
        count = shape(sizes)[0]
        aligned = concat([ones([count], dtype=dtypes.int32), shape(alpha)], 0)
        slope = make.RandomGammaGrad(reshape(alpha, aligned), sample)
        return None, reduce_sum(dout * slope, axis=range_of(count))


def random_gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """shape + (alpha, broadcast with beta) of numbers from gamma distributions of shape alpha and rate beta (1)."""
    kind = dtypes.as_dtype(dtype)
    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        sizes = convert(shape, dtypes.int32, "shape")
        alphas = convert(alpha, kind, "alpha")
        rates = convert(1.0 if beta is None else beta, kind, "beta")
        whole = broadcast_dynamic_shape(_sizes(alphas), _sizes(rates))
        spread = broadcast_to(alphas, whole)
        drawn = make.RandomGamma(sizes, spread, **seeds_of(seed))
        made: Tensor = make.Maximum(np.finfo(kind.np).tiny, drawn / rates)
        return made


_sizes = shape
