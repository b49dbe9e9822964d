"""Initializers: what variables start as, as functions of a shape.

Called by: variable_store, layers, programs.  Threads: as graph.
Source: Glorot and Bengio, AISTATS 2010; He et al., ICCV 2015; LeCun et al., "Efficient BackProp",
1998; Saxe et al., ICLR 2014; TF 1.15 behaviour, nodes checked against the oracle
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.graph.tensor import Tensor
from headrace.ops.array import constants
from headrace.ops.linalg.diagonals import eye
from headrace.ops.random import draws as random_ops
from headrace.ops.tables import make

__all__ = [
    "Initializer",
    "constant_initializer",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "he_normal",
    "he_uniform",
    "identity_initializer",
    "lecun_normal",
    "lecun_uniform",
    "ones_initializer",
    "orthogonal_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "truncated_normal_initializer",
    "uniform_unit_scaling_initializer",
    "variance_scaling_initializer",
    "zeros_initializer",
]


class Initializer:
    """A function (shape, dtype=None, partition_info=None) -> tensor, with a config to rebuild it from.

    partition_info: of a part of a partitioned variable (`.full_shape`, `.var_offset`).
    """

    dtype: DType = dtypes.float32

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say how to initialize")

    def get_config(self) -> dict[str, Any]:
        """Arguments of the constructor, as plain data."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """One made with the arguments that `get_config` gave."""
        return cls(**config)

    def _kind(self, dtype: Any) -> DType:
        return self.dtype if dtype is None else dtypes.as_dtype(dtype)


class zeros_initializer(Initializer):
    """Zeros, False or empty strings."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return constants.zeros(shape, self._kind(dtype))

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"dtype": self.dtype.name}


class ones_initializer(Initializer):
    """Ones or True."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return constants.ones(shape, self._kind(dtype))

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"dtype": self.dtype.name}


class constant_initializer(Initializer):
    """`value`: a scalar for every element, or a list of elements in row order."""

    def __init__(
        self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False
    ) -> None:
        """verify_shape: refuse a value of another shape.  Raises TypeError."""
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value={value!r:.80} of type: {type(value).__name__}; "
                "a constant initializer takes a number, list or array"
            )
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self,
        shape: Any,
        dtype: Any = None,
        partition_info: Any = None,
        verify_shape: bool | None = None,
    ) -> Tensor:
        verify = self._verify_shape if verify_shape is None else verify_shape
        return constants.constant(self.value, self._kind(dtype), shape, verify_shape=verify)

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"value": self.value, "dtype": self.dtype.name}


class random_uniform_initializer(Initializer):
    """Uniform in [minval, maxval)."""

    def __init__(
        self,
        minval: Any = 0.0,
        maxval: Any = None,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        kind = self._kind(dtype)
        return random_ops.random_uniform(shape, self.minval, self.maxval, kind, self.seed)

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {
            "minval": self.minval,
            "maxval": self.maxval,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


class _Normal(Initializer):
    def __init__(
        self,
        mean: Any = 0.0,
        stddev: Any = 1.0,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            "mean": self.mean,
            "stddev": self.stddev,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


class random_normal_initializer(_Normal):
    """Normal of this mean and standard deviation."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        kind = self._kind(dtype)
        return random_ops.random_normal(shape, self.mean, self.stddev, kind, self.seed)


class truncated_normal_initializer(_Normal):
    """Normal, without what is more than two standard deviations from the mean."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        kind = self._kind(dtype)
        return random_ops.truncated_normal(shape, self.mean, self.stddev, kind, self.seed)


class uniform_unit_scaling_initializer(Initializer):
    """Uniform, within sqrt(3 / inputs) * factor of 0: keeps the scale of what a layer passes on."""

    def __init__(
        self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        sizes = shape if partition_info is None else partition_info.full_shape
        inputs = max(math.prod(float(size) for size in sizes[:-1]), 1.0)
        limit = math.sqrt(3 / inputs) * self.factor
        return random_ops.random_uniform(shape, -limit, limit, self._kind(dtype), self.seed)

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"factor": self.factor, "seed": self.seed, "dtype": self.dtype.name}


_MODES = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS = ("normal", "uniform", "truncated_normal", "untruncated_normal")
_TRUNCATION = 0.87962566103423978  # standard deviation of a unit normal cut off at 2


class variance_scaling_initializer(Initializer):
    """Random with variance scale / n, n the number of inputs, of outputs or their mean (`mode`)."""

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        """distribution: truncated_normal (also called normal), untruncated_normal or uniform."""
        if scale <= 0:
            raise ValueError(f"Argument `scale` must be a positive float, not {scale}")
        if mode not in _MODES:
            raise ValueError(f"Argument `mode` should be one of {_MODES}, not {mode!r}")
        if distribution.lower() not in _DISTRIBUTIONS:
            raise ValueError(
                f"Argument `distribution` should be one of {_DISTRIBUTIONS}, not {distribution!r}"
            )
        self.scale = scale
        self.mode = mode
        self.distribution = distribution.lower()
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        kind = self._kind(dtype)
        inputs, outputs = _fans(shape if partition_info is None else partition_info.full_shape)
        fan = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[self.mode]
        variance = self.scale / max(1.0, fan)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return random_ops.random_uniform(shape, -limit, limit, kind, self.seed)
        if self.distribution == "untruncated_normal":
            return random_ops.random_normal(shape, 0.0, math.sqrt(variance), kind, self.seed)
        spread = math.sqrt(variance) / _TRUNCATION
        return random_ops.truncated_normal(shape, 0.0, spread, kind, self.seed)

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {
            "scale": self.scale,
            "mode": self.mode,
            "distribution": self.distribution,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


def _fans(shape: Any) -> tuple[float, float]:
    """How many inputs and outputs a unit has, for weights of `shape` (convolutions: [..., in, out])."""
    sizes = [float(size) for size in shape]
    if not sizes:
        return 1.0, 1.0
    if len(sizes) == 1:
        return sizes[0], sizes[0]
    field = math.prod(sizes[:-2])
    return field * sizes[-2], field * sizes[-1]


class glorot_uniform_initializer(variance_scaling_initializer):
    """Uniform within sqrt(6 / (inputs + outputs)) of 0."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"seed": self.seed, "dtype": self.dtype.name}


class glorot_normal_initializer(variance_scaling_initializer):
    """Truncated normal of variance 2 / (inputs + outputs)."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"seed": self.seed, "dtype": self.dtype.name}


def he_normal(seed: int | None = None) -> Initializer:
    """Truncated normal of variance 2 / inputs."""
    return variance_scaling_initializer(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> Initializer:
    """Uniform within sqrt(6 / inputs) of 0."""
    return variance_scaling_initializer(2.0, "fan_in", "uniform", seed)


def lecun_normal(seed: int | None = None) -> Initializer:
    """Truncated normal of variance 1 / inputs."""
    return variance_scaling_initializer(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> Initializer:
    """Uniform within sqrt(3 / inputs) of 0."""
    return variance_scaling_initializer(1.0, "fan_in", "uniform", seed)


class orthogonal_initializer(Initializer):
    """`gain` times a random matrix with orthonormal rows or columns; further axes count as rows."""

    def __init__(
        self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        sizes = [int(size) for size in shape]
        if len(sizes) < 2:
            raise ValueError(
                "The tensor to initialize, specified by argument `shape` must be at least two-dimensional, "
                f"as a matrix is: {sizes}"
            )
        kind = self._kind(dtype)
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        tall = (max(rows, columns), min(rows, columns))
        drawn = random_ops.random_normal(tall, dtype=kind, seed=self.seed)
        q, r = make.Qr(drawn, full_matrices=False)
        q = make.Mul(q, make.Sign(make.DiagPart(r)), name="mul")  # makes the distribution uniform
        if rows < columns:
            from headrace.ops.array.shapes import matrix_transpose

            q = matrix_transpose(q)
        made: Tensor = self.gain * make.Reshape(q, sizes)
        return made

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}


class identity_initializer(Initializer):
    """`gain` times an identity matrix."""

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        whole = shape if partition_info is None else partition_info.full_shape
        if isinstance(whole, TensorShape):
            whole = whole.as_list()
        if len(whole) != 2:
            raise ValueError(
                "The tensor to initialize, specified by argument `shape` must be at least two-dimensional, and for an "
                f"identity matrix no more: {list(whole)}"
            )
        found: Tensor = eye(whole[0], whole[1], dtype=self._kind(dtype))
        if partition_info is not None:
            found = make.Slice(found, partition_info.var_offset, shape)
        return self.gain * found

    def get_config(self) -> dict[str, Any]:
        """See `Initializer.get_config`."""
        return {"gain": self.gain, "dtype": self.dtype.name}


def _floating(dtype: Any) -> DType:
    kind = dtypes.as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(
            f"Argument `dtype` is expected to be floating point for this initializer, and is {kind.name}"
        )
    return kind
