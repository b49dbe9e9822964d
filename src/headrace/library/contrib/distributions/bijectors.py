"""Transformations of numbers and vectors: Affine, Exp, Sigmoid, SoftmaxCentered, …

Called by: programs, library.contrib.distributions.  Threads: as graph.
Source: behaviour of TF 1.15
"""

from __future__ import annotations

import math
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.library.contrib.distributions.bijector import Bijector
from headrace.library.contrib.distributions.scales import scale_operator
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.array.shapes import shape as sizes_of
from headrace.ops.flow.checks import assert_positive
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import where_v2
from headrace.ops.math.elementwise import sigmoid
from headrace.ops.math.magnitudes import abs as modulus
from headrace.ops.math.magnitudes import square
from headrace.ops.math.reductions import reduce_logsumexp, reduce_sum
from headrace.ops.nn.activations import softplus
from headrace.ops.nn.softmax import softmax
from headrace.ops.tables import make

__all__ = [
    "AbsoluteValue",
    "Affine",
    "AffineLinearOperator",
    "AffineScalar",
    "Exp",
    "Gumbel",
    "Permute",
    "PowerTransform",
    "Reciprocal",
    "Sigmoid",
    "SoftmaxCentered",
    "Softplus",
    "Softsign",
    "Square",
    "Weibull",
]


class AffineScalar(Bijector):
    """y = scale · x + shift, number by number."""

    def __init__(
        self,
        shift: Any = None,
        scale: Any = None,
        validate_args: bool = False,
        name: str = "affine_scalar",
    ) -> None:
        with name_scope(name, values=[scale, shift]):
            given = [each for each in (shift, scale) if each is not None]
            self._shift = None if shift is None else convert(shift, name="shift")
            self._scale = None if scale is None else convert(scale, name="scale")
            parents = [each for each in (self._shift, self._scale) if each is not None]
        kind = parents[0].dtype if given else dtypes.float32
        super().__init__(parents, True, validate_args, kind, 0, name=name)

    @property
    def shift(self) -> Any:
        """What is added, or None."""
        return self._shift

    @property
    def scale(self) -> Any:
        """What is multiplied with, or None."""
        return self._scale

    def _forward(self, x: Any) -> Any:
        y = x if self._scale is None else self._scale * x
        return y if self._shift is None else y + self._shift

    def _inverse(self, y: Any) -> Any:
        x = y if self._shift is None else y - self._shift
        return x if self._scale is None else x / self._scale

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        if self._scale is None:
            return constant(0.0, x.dtype)
        return make.Log(modulus(self._scale))


class AffineLinearOperator(Bijector):
    """y = scale · x + shift of vectors, scale a tf.linalg.LinearOperator."""

    def __init__(
        self,
        shift: Any = None,
        scale: Any = None,
        adjoint: bool = False,
        validate_args: bool = False,
        name: str = "affine_linear_operator",
    ) -> None:
        """Raises TypeError for another scale, ValueError for one that has no inverse."""
        with name_scope(name, values=[shift]):
            self._shift = None if shift is None else convert(shift, name="shift")
            self._scale, self._adjoint = scale, adjoint
            parents = [] if self._shift is None else [self._shift]
            kind = None if self._shift is None else self._shift.dtype
            if scale is not None:
                if not hasattr(scale, "log_abs_determinant"):
                    raise TypeError("scale is not an instance of tf.LinearOperator")
                if scale.is_non_singular is False:
                    raise ValueError("Scale matrix must be non-singular.")
                if kind is not None and kind.base_dtype != scale.dtype:
                    raise TypeError(
                        f"shift.dtype({kind}) is incompatible with scale.dtype({scale.dtype})."
                    )
                parents += scale.graph_parents
                kind = scale.dtype
        super().__init__(parents, True, validate_args, kind, 1, name=name)

    @property
    def shift(self) -> Any:
        """What is added, or None."""
        return self._shift

    @property
    def scale(self) -> Any:
        """The operator, or None."""
        return self._scale

    @property
    def adjoint(self) -> bool:
        """Whether the operator's conjugate transpose is applied."""
        return self._adjoint

    def _forward(self, x: Any) -> Any:
        y = x if self._scale is None else self._scale.matvec(x, adjoint=self._adjoint)
        return y if self._shift is None else y + self._shift

    def _inverse(self, y: Any) -> Any:
        x = y if self._shift is None else y - self._shift
        if self._scale is None:
            return x
        column = self._scale.solve(expand_dims(x, -1), adjoint=self._adjoint)
        return squeeze(column, -1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        if self._scale is None:
            return constant(0.0, x.dtype)
        return self._scale.log_abs_determinant()


class Affine(AffineLinearOperator):
    """y = scale · x + shift of vectors; scale is a sum of what is given of it."""

    def __init__(
        self,
        shift: Any = None,
        scale_identity_multiplier: Any = None,
        scale_diag: Any = None,
        scale_tril: Any = None,
        scale_perturb_factor: Any = None,
        scale_perturb_diag: Any = None,
        validate_args: bool = False,
        name: str = "affine",
    ) -> None:
        """Raises ValueError for a factor of a perturbation without what is perturbed."""
        with name_scope(name):
            scale = scale_operator(
                shift,
                scale_identity_multiplier,
                scale_diag,
                scale_tril,
                scale_perturb_factor,
                scale_perturb_diag,
                validate_args,
            )
            if shift is not None and scale is not None:
                shift = convert(shift, scale.dtype, name="shift")
        super().__init__(shift, scale, False, validate_args, name)


class _OfNumbers(Bijector):
    """Transforms number by number."""

    def __init__(self, validate_args: bool, name: str, parents: Any = ()) -> None:
        super().__init__(parents, False, validate_args, None, 0, name=name)


class PowerTransform(Bijector):
    """y = (1 + x · power)^(1 / power); exp(x) for a power of 0."""

    def __init__(
        self, power: float = 0.0, validate_args: bool = False, name: str = "power_transform"
    ) -> None:
        """Raises ValueError for a power below 0."""
        if power is None or power < 0:
            raise ValueError("`power` must be a non-negative TF constant.")
        self._power = power
        super().__init__((), False, validate_args, None, 0, name=name)

    @property
    def power(self) -> float:
        """As it was given."""
        return self._power

    def _forward(self, x: Any) -> Any:
        if self._power == 0.0:
            return make.Exp(x)
        return make.Exp(make.Log1p(x * self._power) / self._power)

    def _inverse(self, y: Any) -> Any:
        if self._power == 0.0:
            return make.Log(y)
        return make.Expm1(make.Log(y) * self._power) / self._power

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return (self._power - 1.0) * make.Log(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        if self._power == 0.0:
            return x
        return (1.0 / self._power - 1.0) * make.Log1p(x * self._power)


class Exp(PowerTransform):
    """y = exp(x)."""

    def __init__(self, validate_args: bool = False, name: str = "exp") -> None:
        super().__init__(0.0, validate_args, name)


class Sigmoid(_OfNumbers):
    """y = 1 / (1 + exp(-x))."""

    def __init__(self, validate_args: bool = False, name: str = "sigmoid") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        return make.Log(y) - make.Log1p(-y)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -make.Log1p(-y) - make.Log(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -softplus(-x) - softplus(x)


def softplus_inverse(x: Any, name: str | None = None) -> Any:
    """y with softplus(y) = x; exact to rounding for small and large x."""
    with name_scope(name, "softplus_inverse", [x]):
        x = convert(x, name="x")
        threshold = math.log(_PRECISION[x.dtype.base_dtype.name]) + 2.0
        small, large = make.Less(x, math.exp(threshold)), make.Greater(x, -threshold)
        middle = where_v2(make.LogicalOr(small, large), ones_like(x), x)
        found = middle + make.Log(-make.Expm1(-middle))
        return where_v2(small, make.Log(x), where_v2(large, x, found))


_PRECISION = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


class Softplus(_OfNumbers):
    """y = c · log(1 + exp(x / c)), c the hinge's softness."""

    def __init__(
        self, hinge_softness: Any = None, validate_args: bool = False, name: str = "softplus"
    ) -> None:
        self._softness = (
            None if hinge_softness is None else convert(hinge_softness, name="softness")
        )
        super().__init__(validate_args, name)

    @property
    def hinge_softness(self) -> Any:
        """As it was given."""
        return self._softness

    def _scaled(self, x: Any) -> Any:
        return x if self._softness is None else x / cast(self._softness, x.dtype)

    def _forward(self, x: Any) -> Any:
        made = softplus(self._scaled(x))
        return made if self._softness is None else made * cast(self._softness, x.dtype)

    def _inverse(self, y: Any) -> Any:
        made = softplus_inverse(self._scaled(y))
        return made if self._softness is None else made * cast(self._softness, y.dtype)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -make.Log(-make.Expm1(-self._scaled(y)))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -softplus(-self._scaled(x))


class Softsign(_OfNumbers):
    """y = x / (1 + |x|)."""

    def __init__(self, validate_args: bool = False, name: str = "softsign") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return x / (1.0 + modulus(x))

    def _inverse(self, y: Any) -> Any:
        return y / (1.0 - modulus(y))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -2.0 * make.Log1p(modulus(x))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -2.0 * make.Log1p(-modulus(y))


class Reciprocal(_OfNumbers):
    """y = 1 / x."""

    def __init__(self, validate_args: bool = False, name: str = "reciprocal") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return 1.0 / x

    def _inverse(self, y: Any) -> Any:
        return 1.0 / y

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -2.0 * make.Log(modulus(x))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -2.0 * make.Log(modulus(y))


class Square(_OfNumbers):
    """y = x² of numbers that are not negative."""

    def __init__(self, validate_args: bool = False, name: str = "square") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return square(x)

    def _inverse(self, y: Any) -> Any:
        return make.Sqrt(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return math.log(2.0) + make.Log(x)


class AbsoluteValue(_OfNumbers):
    """y = |x|; the inverse is the pair (-y, y)."""

    def __init__(self, validate_args: bool = False, name: str = "absolute_value") -> None:
        super().__init__(validate_args, name)

    def inverse(self, y: Any, name: str = "inverse") -> Any:
        """(-y, y)."""
        with self._scope(name):
            y = convert(y, name="y")
            return -y, y

    def inverse_log_det_jacobian(
        self, y: Any, event_ndims: Any, name: str = "inverse_log_det_jacobian"
    ) -> Any:
        """(0, 0)."""
        with self._scope(name):
            zeros = self._over_events(zeros_like(convert(y, name="y")), y, event_ndims, 0)
            return zeros, zeros

    def _forward(self, x: Any) -> Any:
        return modulus(x)


class _Placed(_OfNumbers):
    """With two parameters."""

    def __init__(
        self, pair: dict[str, Any], positive: tuple[str, ...], validate: bool, name: str
    ) -> None:
        with name_scope(name, values=list(pair.values())):
            found = {key: convert(each, name=key) for key, each in pair.items()}
            if validate:
                with control_dependencies([assert_positive(found[each]) for each in positive]):
                    found = {key: identity(each) for key, each in found.items()}
        self._first, self._second = found.values()
        super().__init__(validate, name, list(found.values()))


class Gumbel(_Placed):
    """y = exp(-exp(-(x - loc) / scale)): Gumbel's distribution function."""

    def __init__(
        self, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool = False, name: str = "gumbel"
    ) -> None:
        super().__init__({"loc": loc, "scale": scale}, ("scale",), validate_args, name)

    @property
    def loc(self) -> Any:
        """The mode."""
        return self._first

    @property
    def scale(self) -> Any:
        """The width."""
        return self._second

    def _forward(self, x: Any) -> Any:
        return make.Exp(-make.Exp(-(x - self.loc) / self.scale))

    def _inverse(self, y: Any) -> Any:
        return self.loc - self.scale * make.Log(-make.Log(y))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return make.Log(self.scale / (-make.Log(y) * y))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        z = (x - self.loc) / self.scale
        return -z - make.Exp(-z) - make.Log(self.scale)


class Weibull(_Placed):
    """y = 1 - exp(-(x / scale)^concentration): Weibull's distribution function."""

    def __init__(
        self,
        scale: Any = 1.0,
        concentration: Any = 1.0,
        validate_args: bool = False,
        name: str = "weibull",
    ) -> None:
        pair = {"scale": scale, "concentration": concentration}
        super().__init__(pair, ("scale", "concentration"), validate_args, name)

    @property
    def scale(self) -> Any:
        """The width."""
        return self._first

    @property
    def concentration(self) -> Any:
        """The exponent."""
        return self._second

    def _forward(self, x: Any) -> Any:
        return -make.Expm1(-make.Pow(x / self.scale, self.concentration))

    def _inverse(self, y: Any) -> Any:
        return self.scale * make.Pow(-make.Log1p(-y), 1 / self.concentration)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        k = self.concentration
        return -make.Log1p(-y) + (1 / k - 1) * make.Log(-make.Log1p(-y)) + make.Log(self.scale / k)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        k, z = self.concentration, x / self.scale
        return -make.Pow(z, k) + (k - 1) * make.Log(z) + make.Log(k / self.scale)


class Permute(Bijector):
    """The elements of vectors in another order."""

    def __init__(
        self, permutation: Any, validate_args: bool = False, name: str | None = None
    ) -> None:
        """permutation: int32 [n], each place once.  Raises TypeError for what is not whole."""
        name = name or "permute"
        with name_scope(name, values=[permutation]):
            self._permutation = convert(permutation, name="permutation")
        if not self._permutation.dtype.is_integer:
            raise TypeError(
                f"permutation.dtype ({self._permutation.dtype.name}) should be `int`-like."
            )
        super().__init__([self._permutation], True, validate_args, None, 1, name=name)

    @property
    def permutation(self) -> Any:
        """As it was given."""
        return self._permutation

    def _forward(self, x: Any) -> Any:
        return gather(x, self._permutation, axis=-1)

    def _inverse(self, y: Any) -> Any:
        return gather(y, make.InvertPermutation(self._permutation), axis=-1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return constant(0.0, x.dtype)


class SoftmaxCentered(Bijector):
    """y = softmax([x, 0]): vectors of n numbers become probabilities of n + 1 classes."""

    def __init__(self, validate_args: bool = False, name: str = "softmax_centered") -> None:
        super().__init__((), False, validate_args, None, 1, name=name)

    def _forward_event_shape(self, shape: TensorShape) -> Any:
        return _longer(shape, 1)

    def _inverse_event_shape(self, shape: TensorShape) -> Any:
        return _longer(shape, -1)

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return concat([shape[:-1], shape[-1:] + 1], 0)

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return concat([shape[:-1], shape[-1:] - 1], 0)

    def _forward(self, x: Any) -> Any:
        made = softmax(concat([x, zeros_like(x[..., :1])], -1))
        made.set_shape(_longer(x.shape, 1))
        return made

    def _inverse(self, y: Any) -> Any:
        logs = make.Log(y)
        made = logs[..., :-1] - logs[..., -1:]
        made.set_shape(_longer(y.shape, -1))
        return made

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -reduce_sum(make.Log(y), axis=-1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        whole = concat([x, zeros_like(x[..., :1])], -1)
        count = cast(sizes_of(whole)[-1], x.dtype)
        return reduce_sum(x, axis=-1) - count * reduce_logsumexp(whole, axis=-1)


def _longer(shape: TensorShape, by: int) -> TensorShape:
    if shape.ndims is None or shape[-1].value is None:
        return shape
    return shape[:-1].concatenate(TensorShape([shape[-1].value + by]))
