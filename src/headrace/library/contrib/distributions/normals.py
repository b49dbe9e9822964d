"""Normal distributions of vectors: of a place, and a scale that standard normal vectors are multiplied with.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15; scales are linear operators, so that a diagonal costs what a diagonal does
"""

from __future__ import annotations

import math
from typing import Any, Final

from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.checks.values import assert_near
from headrace.library.contrib.distributions.given import initial
from headrace.library.contrib.distributions.scales import scale_operator
from headrace.library.distributions.base import FULLY_REPARAMETERIZED, Distribution
from headrace.library.distributions.divergence import RegisterKL
from headrace.ops.array.broadcast import broadcast_dynamic_shape, broadcast_static_shape
from headrace.ops.array.constants import zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, matrix_transpose
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.linalg.products import matmul
from headrace.ops.linalg.solving import cholesky
from headrace.ops.math.casting import cast
from headrace.ops.math.magnitudes import square
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.nn.activations import softplus
from headrace.ops.random.draws import random_normal
from headrace.ops.tables import make

__all__ = [
    "MultivariateNormalDiag",
    "MultivariateNormalDiagPlusLowRank",
    "MultivariateNormalDiagWithSoftplusScale",
    "MultivariateNormalFullCovariance",
    "MultivariateNormalTriL",
]

_LOG_2_PI: Final = math.log(2.0 * math.pi)


class _Normal(Distribution):
    """loc + scale · z, z standard normal."""

    def _finish(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool,
        allow_nan_stats: bool,
        given: dict[str, Any],
        scope: str,
    ) -> None:
        if scale is None:
            raise ValueError("Missing required `scale` parameter.")
        if not scale.dtype.is_floating:
            raise TypeError("`scale` must have floating-point dtype.")
        self._scale_operator = scale
        self._loc = None if loc is None else convert(loc, scale.dtype, name="loc")
        parents = [] if self._loc is None else [self._loc]
        super().__init__(
            scale.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [*parents, *scale.graph_parents],
            scope,
        )

    @property
    def loc(self) -> Any:
        """The place, or None for 0."""
        return self._loc

    @property
    def scale(self) -> Any:
        """The operator."""
        return self._scale_operator

    def _batch_shape(self) -> Any:
        batch = self.scale.batch_shape
        return batch if self._loc is None else broadcast_static_shape(batch, self._loc.shape[:-1])

    def _batch_shape_tensor(self) -> Any:
        batch = self.scale.batch_shape_tensor()
        if self._loc is None:
            return batch
        return broadcast_dynamic_shape(batch, sizes_of(self._loc)[:-1])

    def _event_shape(self) -> Any:
        return TensorShape([self.scale.range_dimension])

    def _event_shape_tensor(self) -> Any:
        return expand_dims(self.scale.range_dimension_tensor(), 0)

    def _whole(self) -> Any:
        return concat([self.batch_shape_tensor(), self.event_shape_tensor()], 0)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_normal(concat([[n], self._whole()], 0), dtype=self.dtype, seed=seed)
        made = self.scale.matvec(drawn)
        return made if self._loc is None else made + self._loc

    def _log_prob(self, value: Tensor) -> Any:
        apart = value if self._loc is None else value - self._loc
        z = self.scale.solvevec(apart)
        count = cast(self.scale.range_dimension_tensor(), self.dtype)
        length = reduce_sum(square(z), axis=-1)
        return -0.5 * (length + count * _LOG_2_PI) - self.scale.log_abs_determinant()

    def _entropy(self) -> Any:
        count = cast(self.scale.range_dimension_tensor(), self.dtype)
        found = 0.5 * count * (1.0 + _LOG_2_PI) + self.scale.log_abs_determinant()
        return found + zeros(self.batch_shape_tensor(), dtype=self.dtype)

    def _mean(self) -> Any:
        wide = zeros(self._whole(), dtype=self.dtype)
        return wide if self._loc is None else wide + self._loc

    def _mode(self) -> Any:
        return self._mean()

    def _covariance(self) -> Any:
        dense = self.scale.to_dense()
        whole = concat([self._whole(), self.event_shape_tensor()], 0)
        return matmul(dense, dense, adjoint_b=True) + zeros(whole, dtype=self.dtype)

    def _variance(self) -> Any:
        found = reduce_sum(square(self.scale.to_dense()), axis=-1)
        return found + zeros(self._whole(), dtype=self.dtype)

    def _stddev(self) -> Any:
        return make.Sqrt(self._variance())


class MultivariateNormalDiag(_Normal):
    """With independent coordinates, of standard deviations scale_diag + scale_identity_multiplier."""

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiag",
    ) -> None:
        """loc, scale_diag [B1, …, Bb, n].  Raises ValueError where nothing says n."""
        given = initial(locals())
        with name_scope(name) as scope:
            loc = None if loc is None else convert(loc, name="loc")
            multiplier = scale_identity_multiplier
            if scale_diag is None and multiplier is None and loc is not None:
                multiplier = convert(1.0, loc.dtype)
            scale = scale_operator(loc, multiplier, scale_diag, None, validate=validate_args)
        self._finish(loc, scale, validate_args, allow_nan_stats, given, scope)


class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """With independent coordinates, of standard deviations softplus(scale_diag)."""

    def __init__(
        self,
        loc: Any,
        scale_diag: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiagWithSoftplusScale",
    ) -> None:
        given = initial(locals())
        super().__init__(loc, softplus(scale_diag), None, validate_args, allow_nan_stats, name)
        self._parameters = given


class MultivariateNormalTriL(_Normal):
    """Of a scale that is a lower triangle."""

    def __init__(
        self,
        loc: Any = None,
        scale_tril: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalTriL",
    ) -> None:
        """scale_tril [B1, …, Bb, n, n]; ones on the diagonal if None."""
        given = initial(locals())
        with name_scope(name) as scope:
            loc = None if loc is None else convert(loc, name="loc")
            multiplier = None
            if scale_tril is None and loc is not None:
                multiplier = convert(1.0, loc.dtype)
            scale = scale_operator(loc, multiplier, None, scale_tril, validate=validate_args)
        self._finish(loc, scale, validate_args, allow_nan_stats, given, scope)


class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """Of a covariance [B1, …, Bb, n, n], whose Cholesky factor is the scale."""

    def __init__(
        self,
        loc: Any = None,
        covariance_matrix: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalFullCovariance",
    ) -> None:
        given = initial(locals())
        with name_scope(name):
            factor = None
            if covariance_matrix is not None:
                matrix = convert(covariance_matrix, name="covariance_matrix")
                checks = []
                if validate_args:
                    says = "Matrix was not symmetric."
                    checks = [assert_near(matrix, matrix_transpose(matrix), message=says)]
                with control_dependencies(checks):
                    factor = cholesky(matrix)
        super().__init__(loc, factor, validate_args, allow_nan_stats, name)
        self._parameters = given


class MultivariateNormalDiagPlusLowRank(_Normal):
    """Of a diagonal scale and a product of slim matrices."""

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        scale_identity_multiplier: Any = None,
        scale_perturb_factor: Any = None,
        scale_perturb_diag: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiagPlusLowRank",
    ) -> None:
        """scale_perturb_factor [B1, …, Bb, n, k], scale_perturb_diag [B1, …, Bb, k]."""
        given = initial(locals())
        with name_scope(name) as scope:
            loc = None if loc is None else convert(loc, name="loc")
            scale = scale_operator(
                loc,
                scale_identity_multiplier,
                scale_diag,
                None,
                scale_perturb_factor,
                scale_perturb_diag,
                validate_args,
            )
        self._finish(loc, scale, validate_args, allow_nan_stats, given, scope)


@RegisterKL(_Normal, _Normal)
def _(a: _Normal, b: _Normal, name: str | None = None) -> Any:
    with name_scope(name, "kl_mvn", [a.loc, b.loc]):
        apart = b.mean() - a.mean()
        count = cast(a.scale.range_dimension_tensor(), a.dtype)
        between = reduce_sum(square(b.scale.solvevec(apart)), axis=-1)
        turned = b.scale.solve(a.scale.to_dense())
        trace = reduce_sum(square(turned), axis=[-2, -1])
        logs = b.scale.log_abs_determinant() - a.scale.log_abs_determinant()
        return logs + 0.5 * (-count + trace + between)
