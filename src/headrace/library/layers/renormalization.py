"""Batch renormalization: what a batch's statistics lack beside those of many batches, corrected while training.

Called by: library.layers, library.contrib.  Threads: as graph.
Source: Ioffe, NIPS 2017; TF 1.15 behaviour: variables ``renorm_mean``, ``renorm_stddev`` and a ``…_weight`` of each,
by which they are divided, since they begin with 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.layers.parameters import chosen
from headrace.library.variables.assigning import assign_sub
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import get_variable
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.flow.identities import identity, stop_gradient
from headrace.ops.math.casting import cast
from headrace.ops.tables import make

_KEYS = ("rmax", "rmin", "dmax")


def checked_clipping(clipping: Any) -> dict[str, Any]:
    """The limits that are given, by name.  Raises ValueError for other names."""
    found = dict(clipping or {})
    if found.keys() - set(_KEYS):
        raise ValueError(f"renorm_clipping {found} contains keys not in {list(_KEYS)}")
    return found


@dataclass(frozen=True, slots=True)
class Renorm:
    """The averages of a layer, in its scope, and how they are used."""

    mean: Any
    mean_weight: Any
    stddev: Any
    stddev_weight: Any
    clipping: dict[str, Any]
    momentum: float

    @classmethod
    def made(cls, size: int, kind: Any, clipping: dict[str, Any], momentum: float) -> Renorm:
        """With variables in the scope that is open."""
        parts = [
            get_variable(f"renorm_{what}", shape, kind, zeros_initializer(), trainable=False)
            for what, shape in (
                ("mean", [size]),
                ("mean_weight", []),
                ("stddev", [size]),
                ("stddev_weight", []),
            )
        ]
        mean, mean_weight, stddev, stddev_weight = parts
        return cls(mean, mean_weight, stddev, stddev_weight, clipping, momentum)

    def corrections(
        self, mean: Tensor, variance: Tensor, epsilon: float, training: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Factor and offset for what was normalized by these, and the mean and variance of many batches with this one.

        Without training the factor is 1 and the offset 0.
        """
        stddev = make.Sqrt(variance + epsilon)
        mixed_mean = self.mean + (1.0 - convert(self.mean_weight)) * mean
        mixed_stddev = self.stddev + (1.0 - convert(self.stddev_weight)) * stddev
        factor, offset = stddev / mixed_stddev, (mean - mixed_mean) / mixed_stddev
        with control_dependencies([factor, offset]):  # the averages as they were before this batch
            mean, stddev = identity(mean), identity(stddev)
        factor, offset = self._clipped(factor, offset)
        factor = chosen(training, lambda: factor, lambda: ones_like(factor))
        offset = chosen(training, lambda: offset, lambda: zeros_like(offset))
        new_mean = self._moved(self.mean, self.mean_weight, mean, training)
        new_stddev = self._moved(self.stddev, self.stddev_weight, stddev, training)
        new_variance = make.Square(new_stddev) - epsilon
        names = (stop_gradient(factor, name="renorm_r"), stop_gradient(offset, name="renorm_d"))
        return (*names, new_mean, new_variance)

    def _clipped(self, factor: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        least, most, far = (self.clipping.get(key) for key in ("rmin", "rmax", "dmax"))
        if least is not None:
            factor = make.Maximum(factor, least)
        if most is not None:
            factor = make.Minimum(factor, most)
        if far is not None:
            offset = make.Minimum(make.Maximum(offset, -far), far)
        return factor, offset

    def _moved(self, average: Any, weight: Any, value: Tensor, training: Any) -> Tensor:
        """The average after it moved towards the value; as it is without training."""
        value = identity(value)

        def moved() -> Tensor:
            with control_dependencies([value]):
                one = constant(1.0, weight.dtype.base_dtype)
            found: Tensor = self._towards(average, value) / self._towards(weight, one)
            return found

        found: Tensor = chosen(training, moved, lambda: identity(convert(average)))
        return found

    def _towards(self, variable: Any, value: Tensor) -> Tensor:
        with name_scope(None, "AssignMovingAvg", [variable, value]) as scope:
            share = cast(constant(1.0 - self.momentum), variable.dtype.base_dtype)
            update = assign_sub(variable, (variable - value) * share, name=scope)
        with control_dependencies([getattr(update, "op", update)]):
            found: Tensor = variable.read_value()
            return found


def composed(factor: Tensor, offset: Tensor, gamma: Any, beta: Any) -> tuple[Any, Any]:
    """What x · factor + offset, then · gamma + beta is: one scale and one offset."""
    if gamma is not None:
        factor, offset = factor * gamma, offset * gamma
    return factor, offset if beta is None else offset + beta
