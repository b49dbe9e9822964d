"""Random numbers that depend on nothing but a seed of two numbers: the same in every run, and TensorFlow's.

Called by: programs.  Threads: kernels any; wrappers as graph.
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; how seeds become keys found by comparing
with the oracle; nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import ITERATES, NONE, STATEFUL, Traits
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import random_streams
from headrace.ops._kernels.random_streams import Stream
from headrace.ops.array.constants import checked_sizes
from headrace.ops.random.draws import picked, shape_tensor
from headrace.ops.tables import make
from headrace.run.queues.philox import philox_words

__all__ = [
    "stateless_categorical",
    "stateless_multinomial",
    "stateless_normal",
    "stateless_truncated_normal",
    "stateless_uniform",
]

Array = np.ndarray[Any, Any]
_SCRAMBLER: Final = 0x02461E29_3EC8F720
_MASK: Final = 2**64 - 1
_PHILOX: Final = 1
_ALGORITHMS: Final = (_PHILOX, 3)  # and what chooses by the device, which it is on CPUs
_FLOATS = "{half, bfloat16, float, double}"


def _key_of(seed: Array) -> tuple[int, int]:
    """The key, and the upper half of the counter, that a seed [2] stands for.  Raises InvalidArgument."""
    if seed.shape != (2,):
        raise errors.invalid_argument(f"seed must have shape [2], not {text(seed.shape)}")
    low, high = (int(each) & _MASK for each in seed)
    words = [int(each) for each in philox_words(_SCRAMBLER, high, np.array([low], np.uint64))[0]]
    return words[0] | words[1] << 32, words[2] | words[3] << 32


def _stream(seed: Array) -> Stream:
    return Stream(*_key_of(seed), known=True)


def _stream_at(key: Array, counter: Array, alg: Any) -> Stream:
    """Raises InvalidArgument."""
    if key.shape != (1,) or counter.shape != (2,) or np.ndim(alg):
        raise errors.invalid_argument(
            f"key must have shape [1], counter [2] and alg [], not {text(key.shape)}, {text(counter.shape)} and "
            f"{text(np.shape(alg))}"
        )
    if int(alg) not in _ALGORITHMS:
        raise errors.invalid_argument(
            f"Unsupported algorithm id: {int(alg)}: random numbers are made by Philox (1) here"
        )
    stream = Stream(int(key[0]), int(counter[1]), known=True)
    stream.reserve(int(counter[0]))
    return stream


def _check_seed(c: ShapeContext) -> None:
    seed = c.with_rank("seed", 1)
    if seed is not None and seed[0] not in (2, None):
        raise ValueError(f"Dimension must be 2 but is {seed[0]}: seed has two numbers")


def _of_seed(c: ShapeContext) -> Shape:
    _check_seed(c)
    return c.shape_value("shape")


def _check_scalars(c: ShapeContext) -> None:
    for arg in ("minval", "maxval"):
        if c.shape(arg):
            raise ValueError(
                f"{arg} must be a scalar; got a tensor of shape {shape_rules.text(c.shape(arg))}"
            )


def _in_range_of_seed(c: ShapeContext) -> Shape:
    _check_scalars(c)
    return _of_seed(c)


def _in_range_of_key(c: ShapeContext) -> Shape:
    _check_scalars(c)
    return _of_key(c)


def _of_key(c: ShapeContext) -> Shape:
    c.with_rank("key", 1)
    c.with_size("key", 1)
    c.with_rank("counter", 1)
    c.with_rank("alg", 0)
    return c.shape_value("shape")


def _keys(c: ShapeContext) -> list[Shape]:
    _check_seed(c)
    return [(1,), (2,)]


def _filled(stream: Stream, shape: Array, fill: Any, *args: Any) -> Array:
    sizes = checked_sizes(shape, "shape")
    found: Array = fill(stream, shape_rules.num_elements(sizes) or 0, *args)
    return found.reshape(sizes)


_BY_SEED = "shape: T; seed: Tseed"
_BY_KEY = "shape: Tshape; key: uint64; counter: uint64; alg: int32"
_SEED_TYPES = "T: {int32, int64} = int32; Tseed: {int32, int64} = int64"
_KEY_TYPES = "Tshape: {int32, int64} = int32"
_RAISES = "Raises InvalidArgument on a bad shape or seed"


def _fillers(
    name: str, fill: Callable[..., Array], says: str, traits: Traits = NONE
) -> tuple[OpSpec, OpSpec]:
    def by_seed(xp: Any, shape: Array, seed: Array, *, dtype: DType) -> Array:
        return _filled(_stream(seed), shape, fill, dtype.np)

    def by_key(
        xp: Any, shape: Array, key: Array, counter: Array, alg: Any, *, dtype: DType
    ) -> Array:
        return _filled(_stream_at(key, counter, alg), shape, fill, dtype.np)

    by_seed.__doc__ = f"{says}, of shape `shape`.  {_RAISES}."
    by_key.__doc__ = f"{says}, of shape `shape`.  {_RAISES}, or another algorithm."
    types = f"dtype: {_FLOATS} = float"
    first = op(
        name,
        inputs=_BY_SEED,
        outputs="output: dtype",
        attrs=f"{types}; {_SEED_TYPES}",
        shape=_of_seed,
        traits=traits,
        differentiable=False,
    )(by_seed)
    second = op(
        f"{name}V2",
        inputs=_BY_KEY,
        outputs="output: dtype",
        attrs=f"{types}; {_KEY_TYPES}",
        shape=_of_key,
        traits=traits,
        differentiable=False,
    )(by_key)
    return first, second


_fillers("StatelessRandomUniform", random_streams.uniform, "Uniform in [0, 1)")
_fillers(
    "StatelessRandomNormal", random_streams.normal, "Normal, of mean 0 and standard deviation 1"
)
_fillers(
    "StatelessTruncatedNormal",
    random_streams.truncated_normal,
    "Normal, of mean 0 and standard deviation 1 before values 2 or more away from it were redrawn",
    {ITERATES},
)


# -- integers ---------------------------------------------------------------------------------


def _whole(stream: Stream, shape: Array, minval: Any, maxval: Any, kind: DType) -> Array:
    for name, value in (("minval", minval), ("maxval", maxval)):
        if np.ndim(value):
            raise errors.invalid_argument(f"{name} must be 0-D, got shape {text(np.shape(value))}")
    low, high = int(minval), int(maxval)
    if low >= high:
        raise errors.invalid_argument(f"Need minval < maxval, got {low} >= {high}")
    return _filled(stream, shape, random_streams.uniform_int, low, high, kind.np)


@op(
    "StatelessRandomUniformInt",
    inputs="shape: T; seed: Tseed; minval: dtype; maxval: dtype",
    outputs="output: dtype",
    attrs="dtype: {int32, int64}; T: {int32, int64}; Tseed: {int32, int64} = int64",
    shape=_in_range_of_seed,
    differentiable=False,
)
def stateless_random_uniform_int_op(
    xp: Any, shape: Array, seed: Array, minval: Any, maxval: Any, *, dtype: DType
) -> Array:
    """Uniform in [minval, maxval), scalars.  Raises InvalidArgument unless minval < maxval."""
    return _whole(_stream(seed), shape, minval, maxval, dtype)


@op(
    "StatelessRandomUniformIntV2",
    inputs=f"{_BY_KEY}; minval: dtype; maxval: dtype",
    outputs="output: dtype",
    attrs=f"dtype: {{int32, int64, uint32, uint64}}; {_KEY_TYPES}",
    shape=_in_range_of_key,
    differentiable=False,
)
def stateless_random_uniform_int_v2_op(
    xp: Any,
    shape: Array,
    key: Array,
    counter: Array,
    alg: Any,
    minval: Any,
    maxval: Any,
    *,
    dtype: DType,
) -> Array:
    """Uniform in [minval, maxval), scalars.

    Raises InvalidArgument unless minval < maxval, or on another algorithm.
    """
    return _whole(_stream_at(key, counter, alg), shape, minval, maxval, dtype)


def _all_bits(stream: Stream, size: int, kind: np.dtype[Any]) -> Array:
    wide = kind.itemsize == 8
    blocks = -(-size // (2 if wide else 4))
    words = stream.words(stream.reserve(blocks), blocks)
    if wide:
        words = words[:, 0::2] | (words[:, 1::2] << np.uint64(32))
        wider: Array = words.ravel()[:size].view(np.int64)
        return wider.astype(kind)
    narrow: Array = words.ravel()[:size].astype(np.uint32).view(np.int32)
    return narrow.astype(kind)


@op(
    "StatelessRandomUniformFullInt",
    inputs=_BY_SEED,
    outputs="output: dtype",
    attrs=(
        "dtype: {int32, int64, uint32, uint64} = uint64; T: {int32, int64} = int32; "
        "Tseed: {int32, int64, uint32, uint64} = int64"
    ),
    shape=_of_seed,
    differentiable=False,
)
def stateless_random_uniform_full_int_op(
    xp: Any, shape: Array, seed: Array, *, dtype: DType
) -> Array:
    """Uniform in all numbers of the type.  Raises InvalidArgument on a bad shape or seed."""
    return _filled(_stream(seed), shape, _all_bits, dtype.np)


@op(
    "StatelessRandomUniformFullIntV2",
    inputs=_BY_KEY,
    outputs="output: dtype",
    attrs=f"dtype: {{int32, int64, uint32, uint64}} = uint64; {_KEY_TYPES}",
    shape=_of_key,
    differentiable=False,
)
def stateless_random_uniform_full_int_v2_op(
    xp: Any, shape: Array, key: Array, counter: Array, alg: Any, *, dtype: DType
) -> Array:
    """Uniform in all numbers of the type.  Raises InvalidArgument on a bad shape, or another algorithm."""
    return _filled(_stream_at(key, counter, alg), shape, _all_bits, dtype.np)


# -- keys -------------------------------------------------------------------------------------


@op(
    "StatelessRandomGetKeyCounter",
    inputs="seed: Tseed",
    outputs="key: uint64; counter: uint64",
    attrs="Tseed: {int32, int64} = int64",
    shape=_keys,
)
def stateless_random_get_key_counter_op(xp: Any, seed: Array) -> tuple[Array, Array]:
    """The key [1] and the counter [2] with which the numbers of `seed` begin.  Raises InvalidArgument."""
    key, high = _key_of(seed)
    return np.array([key], np.uint64), np.array([0, high], np.uint64)


@op("StatelessRandomGetAlg", outputs="alg: int32", shape=lambda c: (), traits={STATEFUL})
def stateless_random_get_alg_op(xp: Any) -> Any:
    """The algorithm of this device: Philox."""
    return np.int32(_PHILOX)


# -- categories -------------------------------------------------------------------------------


def _multinomial_shape(c: ShapeContext) -> Shape:
    _check_seed(c)
    logits = c.with_rank("logits", 2)
    assert logits is not None
    c.with_rank("num_samples", 0)
    samples = c.value("num_samples")
    if samples is not None and samples < 0:
        raise ValueError(
            f"Dimension size, given by scalar input 1, must be non-negative but is {samples}: num_samples"
        )
    return logits[0], None if samples is None else int(samples)


@op(
    "StatelessMultinomial",
    inputs="logits: T; num_samples: int32; seed: Tseed",
    outputs="output: output_dtype",
    attrs=(
        "T: realnumbertype; Tseed: {int32, int64} = int64; output_dtype: {int32, int64} = int64"
    ),
    shape=_multinomial_shape,
    differentiable=False,
)
def stateless_multinomial_op(
    xp: Any, logits: Array, num_samples: Any, seed: Array, *, output_dtype: DType
) -> Array:
    """[batch, num_samples] of class numbers; logits [batch, classes].  Raises InvalidArgument on "
    "shapes that do not fit."""
    stream = _stream(seed)
    if logits.ndim != 2 or np.ndim(num_samples):
        raise errors.invalid_argument(
            f"logits should be a matrix and num_samples a scalar, not of shapes {text(logits.shape)} and "
            f"{text(np.shape(num_samples))}"
        )
    samples, (batch, classes) = int(num_samples), logits.shape
    if samples < 0:
        raise errors.invalid_argument(f"num_samples should be non-negative, got {samples}")
    if classes < 1:
        raise errors.invalid_argument(f"num_classes should be positive, got {classes}")
    out = np.empty((batch, samples), output_dtype.np)
    if out.size:
        drawn = random_streams.doubles(stream, 0, out.size).reshape(out.shape)
        out[:] = picked(logits.astype(np.float64), drawn)
    return out


# -- functions --------------------------------------------------------------------------------


def _keyed(seed: Any) -> tuple[Any, Any]:
    key, counter = make.StatelessRandomGetKeyCounter(seed)
    return key, counter


_ANY_ALGORITHM = 3
_BY_NAME = {"auto_select": _ANY_ALGORITHM, "philox": _PHILOX}


def _algorithm(alg: Any) -> Any:
    """The number of an algorithm that may be a name.  Raises ValueError."""
    if not isinstance(alg, str):
        return alg
    if alg not in _BY_NAME:
        raise ValueError(
            f"Unsupported algorithm name: {alg!r}; there are {' and '.join(_BY_NAME)} here"
        )
    return _BY_NAME[alg]


def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Uniform in [minval, maxval); seed [2].  For integers without both limits: in all numbers of the type.

    Raises ValueError for a type that is none of these, or one limit without the other.
    """
    kind = dtypes.as_dtype(dtype)
    if kind not in _UNIFORM:
        raise ValueError(
            f"Argument `dtype` got invalid value {kind}. Accepted dtypes are {', '.join(k.name for k in _UNIFORM)}."
        )
    if kind.is_integer:
        if (minval is None) != (maxval is None):
            raise ValueError(
                f"For integer `dtype` argument {kind}, argument `minval` and `maxval` must be both None or not None. "
                f"Got `minval`={minval} and `maxval`={maxval}."
            )
    elif maxval is None:
        maxval = 1
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as scope:
        sizes = shape_tensor(shape)
        if kind.is_integer and minval is None:
            key, counter = _keyed(seed)
            full: Tensor = make.StatelessRandomUniformFullIntV2(
                sizes, key, counter, _algorithm(alg), dtype=kind, name=scope
            )
            return full
        low, high = convert(minval, kind, "min"), convert(maxval, kind, "max")
        key, counter = _keyed(seed)
        if kind.is_integer:
            whole: Tensor = make.StatelessRandomUniformIntV2(
                sizes, key, counter, _algorithm(alg), low, high, name=scope
            )
            return whole
        drawn = make.StatelessRandomUniformV2(sizes, key, counter, _algorithm(alg), dtype=kind)
        made: Tensor = make.AddV2(drawn * (high - low), low, name=scope)
        return made


_UNIFORM = (
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint32,
    dtypes.uint64,
)


def _scaled(
    kind: str,
    default_name: str,
    shape: Any,
    seed: Any,
    mean: Any,
    stddev: Any,
    dtype: Any,
    name: str | None,
    alg: Any,
) -> Tensor:
    wanted = dtypes.as_dtype(dtype)
    with name_scope(name, default_name, [shape, seed, mean, stddev]) as scope:
        sizes = shape_tensor(shape)
        centre, spread = convert(mean, wanted, "mean"), convert(stddev, wanted, "stddev")
        key, counter = _keyed(seed)
        drawn = getattr(make, kind)(sizes, key, counter, _algorithm(alg), dtype=wanted)
        made: Tensor = make.AddV2(drawn * spread, centre, name=scope)
        return made


def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Normal of this mean and standard deviation (tensors that broadcast); seed [2]."""
    return _scaled(
        "StatelessRandomNormalV2",
        "stateless_random_normal",
        shape,
        seed,
        mean,
        stddev,
        dtype,
        name,
        alg,
    )


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Normal, without values more than two standard deviations from the mean; seed [2]."""
    return _scaled(
        "StatelessTruncatedNormalV2",
        "stateless_truncated_normal",
        shape,
        seed,
        mean,
        stddev,
        dtype,
        name,
        alg,
    )


def stateless_multinomial(
    logits: Any,
    num_samples: Any,
    seed: Any,
    output_dtype: Any = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """[batch, num_samples] of class numbers; logits [batch, classes], unnormalized log probabilities; seed [2]."""
    return _categories("stateless_multinomial", logits, num_samples, seed, output_dtype, name)


def stateless_categorical(
    logits: Any,
    num_samples: Any,
    seed: Any,
    dtype: Any = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """[batch, num_samples] of class numbers; logits [batch, classes], unnormalized log probabilities; seed [2]."""
    return _categories("stateless_categorical", logits, num_samples, seed, dtype, name)


def _categories(
    default_name: str, logits: Any, num_samples: Any, seed: Any, dtype: Any, name: str | None
) -> Tensor:
    with name_scope(name, default_name, [logits, seed]):
        values = convert(logits, name="logits")
        kind = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
        made: Tensor = make.StatelessMultinomial(values, num_samples, seed, output_dtype=kind)
        return made
