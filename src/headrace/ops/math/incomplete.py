"""Special functions of several numbers: incomplete gamma and beta functions; modified Bessel functions.

All are computed in double precision and rounded to the type asked for.
Called by: programs, draws from gamma distributions.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/ops/math_ops.cc; gradient nodes as 2.21; formulas in ops._kernels.incomplete
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext, broadcast, unchanged
from headrace.graph.sparse import SparseTensor, of_values
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import incomplete
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import shape
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import cast
from headrace.ops.tables import FLOATS, make, type_attr

__all__ = ["bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "betainc", "igamma", "igammac"]

Array = np.ndarray[Any, Any]


def _of_two(
    name: str,
    inputs: str,
    types: str,
    doc: str,
    function: Callable[[Array, Array], Array],
    output: str = "z",
) -> OpSpec:
    def kernel(xp: Any, a: Any, x: Any) -> Any:
        wide = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
        return np.asarray(function(*wide)).astype(a.dtype)

    kernel.__doc__ = f"{doc}  Raises InvalidArgument if shapes do not broadcast."
    return op(name, inputs=inputs, outputs=f"{output}: T", attrs=type_attr(types), shape=broadcast)(
        kernel
    )


_TWO = "a: T; x: T"
_DOUBLE = "float, double"
igamma = _of_two(
    "Igamma",
    _TWO,
    FLOATS,
    "The lower regularized incomplete gamma function P(a, x): 0 for x = 0, else NaN unless a > 0 and x >= 0.",
    incomplete.gamma_p,
)
igammac = _of_two(
    "Igammac",
    _TWO,
    FLOATS,
    "The upper regularized incomplete gamma function Q(a, x) = 1 - P(a, x).",
    lambda a, x: incomplete.gamma_p(a, x, upper=True),
)
igamma_grad_a = _of_two(
    "IgammaGradA", _TWO, _DOUBLE, "The derivative of P(a, x) by a.", incomplete.gamma_p_slope
)
random_gamma_grad = _of_two(
    "RandomGammaGrad",
    "alpha: T; sample: T",
    _DOUBLE,
    "How numbers drawn from gamma distributions change with their shapes alpha.",
    incomplete.gamma_sample_slope,
    output="output",
)


@igamma.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    return _gamma_gradients(op, dout)


@igammac.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    da, dx = _gamma_gradients(op, dout)
    return -da, -dx


def _gamma_gradients(op: Operation, dout: Tensor) -> tuple[Tensor, Tensor]:
    a, x = op.inputs
    shape_a, shape_x = shape(a), shape(x)
    axes = broadcast_gradient_args(shape_a, shape_x)
    with control_dependencies([dout]):
        slope_a = make.IgammaGradA(a, x)
        slope_x = make.Exp(-x + (a - 1) * make.Log(x) - make.Lgamma(a))
    return (
        make.Reshape(make.Sum(slope_a * dout, axes[0]), shape_a),
        make.Reshape(make.Sum(slope_x * dout, axes[1]), shape_x),
    )


def _beta_shape(c: ShapeContext) -> Shape:
    if all(each == () for each in c.shapes):
        return ()
    found: Shape = None
    for each in c.shapes:
        if each != ():
            found = shapes.merge(found, each)
    return found


@op(
    "Betainc",
    inputs="a: T; b: T; x: T",
    outputs="z: T",
    attrs=type_attr(_DOUBLE),
    shape=_beta_shape,
)
def betainc(xp: Any, a: Any, b: Any, x: Any) -> Any:
    """The regularized incomplete beta function; NaN unless a > 0, b > 0 and x lies in [0, 1].

    Raises InvalidArgument unless all that are no scalars have one shape.
    """
    sized = [(name, each) for name, each in (("a", a), ("b", b), ("x", x)) if np.ndim(each)]
    for name, each in sized[1:]:
        if each.shape != sized[0][1].shape:
            raise errors.invalid_argument(
                f"Shapes of {sized[0][0]} and {name} are inconsistent: {text(sized[0][1].shape)} vs. {text(each.shape)}"
            )
    wide = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (a, b, x)))
    return np.asarray(incomplete.beta_i(*wide)).astype(x.dtype)


@betainc.gradient
def _(op: Operation, dout: Tensor) -> tuple[None, None, Tensor]:
    a, b, x = op.inputs
    shape_a, shape_x = shape(a), shape(x)
    axes = broadcast_gradient_args(shape_a, shape_x)[1]
    log_beta = make.Lgamma(a) + make.Lgamma(b) - make.Lgamma(a + b)
    b_less = b - 1
    minus_x = -x
    with name_scope(None, "xlog1py", [b_less, minus_x]):
        part = make.Xlog1py(b_less, minus_x)
    slope = make.Exp(part + make.Xlogy(a - 1, x) - log_beta)
    return None, None, make.Reshape(make.Sum(slope * dout, axes), shape_x)


def _bessel(name: str, doc: str, function: Callable[[Array], Array]) -> OpSpec:
    def kernel(xp: Any, x: Any) -> Any:
        return np.asarray(function(np.asarray(x, np.float64))).astype(x.dtype)

    kernel.__doc__ = doc
    return op(name, inputs="x: T", outputs="y: T", attrs=type_attr(FLOATS), shape=unchanged)(kernel)


_KIND = "The modified Bessel function of the first kind, of order"
bessel_i0_op = _bessel("BesselI0", f"{_KIND} 0.", lambda x: incomplete.bessel_i(0, x))
bessel_i1_op = _bessel("BesselI1", f"{_KIND} 1.", lambda x: incomplete.bessel_i(1, x))
bessel_i0e_op = _bessel(
    "BesselI0e", f"{_KIND} 0, times exp(-|x|).", lambda x: incomplete.bessel_ie(0, x)
)
bessel_i1e_op = _bessel(
    "BesselI1e", f"{_KIND} 1, times exp(-|x|).", lambda x: incomplete.bessel_ie(1, x)
)


def _named(spec: OpSpec, default_name: str, of_sparse: bool = False) -> Callable[..., Any]:
    def function(x: Any, name: str | None = None) -> Any:
        if of_sparse and isinstance(x, SparseTensor):
            return of_values(function, x, name, default_name)
        with name_scope(name, default_name, [x]):
            made: Tensor = spec(x)
            return made

    function.__name__ = function.__qualname__ = default_name
    function.__doc__ = spec.__doc__
    return of_ragged(function)


bessel_i0 = _named(bessel_i0_op, "bessel_i0")
bessel_i1 = _named(bessel_i1_op, "bessel_i1")
bessel_i0e = _named(bessel_i0e_op, "bessel_i0e", of_sparse=True)
bessel_i1e = _named(bessel_i1e_op, "bessel_i1e", of_sparse=True)


@bessel_i0_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    with control_dependencies([dout]):
        slope: Tensor = bessel_i1(op.inputs[0])
    return dout * slope


@bessel_i1_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    with control_dependencies([dout]):
        # The limit at 0 of what is 0 / 0 there.
        at_zero = make.Equal(x, constant(0.0, x.dtype.base_dtype, name="Equal/y"))
        limit = cast(1.0, x.dtype.base_dtype)
        slope = make.SelectV2(at_zero, limit, bessel_i0(x) - make.RealDiv(y, x, name="div"))
    made: Tensor = dout * slope
    return made


@bessel_i0e_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    with control_dependencies([dout]):
        slope = bessel_i1e(x) - make.Sign(x) * y
    made: Tensor = dout * slope
    return made


@bessel_i1e_op.gradient
def _(op: Operation, dout: Tensor) -> Tensor:
    x, y = op.inputs[0], op.outputs[0]
    with control_dependencies([dout]):
        at_zero = make.Equal(x, constant(0.0, x.dtype.base_dtype, name="Equal/y"))
        limit = cast(0.5, x.dtype.base_dtype)
        slope = bessel_i0e(x) - y * (make.Sign(x) + make.Reciprocal(x))
        slope = make.SelectV2(at_zero, limit, slope)
    made: Tensor = dout * slope
    return made
