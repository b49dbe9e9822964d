"""How far distributions are apart: functions registered for pairs of classes, found by the nearest bases.

Called by: library.distributions, programs.  Threads: as graph; classes are registered when modules are imported.
Source: TF 1.15 behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.graph.names import control_dependencies, name_scope
from headrace.library.distributions.base import Distribution
from headrace.library.nearest_function import NearestFunction
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.math.reductions import reduce_any
from headrace.ops.tables import make

__all__ = ["RegisterKL", "cross_entropy", "kl_divergence"]

Divergence = Callable[..., Any]
_DIVERGENCES: Final = NearestFunction("KL")


def kl_divergence(
    distribution_a: Distribution,
    distribution_b: Distribution,
    allow_nan_stats: bool = True,
    name: str | None = None,
) -> Any:
    """The Kullback-Leibler divergence KL(a || b), [*batch].

    Raises NotImplementedError for classes of which nobody said what it is.
    """
    function = _DIVERGENCES.find(type(distribution_a), type(distribution_b))
    if function is None:
        raise NotImplementedError(
            "No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{type(distribution_a).__name__} and distribution_b type {type(distribution_b).__name__}"
        )
    with name_scope("KullbackLeibler"):
        made = function(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return made
        made = identity(made, name="kl")
        names = f"{distribution_a.name} and {distribution_b.name}"
        says = (
            f"KL calculation between {names} returned NaN values (and was called with "
            "allow_nan_stats=False). Values:"
        )
        fine = Assert(make.LogicalNot(reduce_any(make.IsNan(made))), [says, made])
        with control_dependencies([fine]):
            return identity(made, name="checked_kl")


def cross_entropy(
    ref: Distribution, other: Distribution, allow_nan_stats: bool = True, name: str | None = None
) -> Any:
    """The entropy of `ref` and its divergence from `other`, [*batch]."""
    with name_scope(name, "cross_entropy"):
        return ref.entropy() + kl_divergence(ref, other, allow_nan_stats)


class RegisterKL:
    """Decorator: the function (a, b, name=None) gives the divergence of two classes and those derived from them."""

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Divergence) -> Divergence:
        """Raises TypeError for what is no function, ValueError for a pair that has one."""
        made: Divergence = _DIVERGENCES.register(self._key, kl_fn)
        return made
