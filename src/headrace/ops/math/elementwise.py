"""Functions of one number: exponentials, roots, trigonometry, rounding, and the ops of their gradients.

Called by: nn, training, users.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/kernels/cwise_ops.h, cwise_ops_gradients.h; gradient nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.traits import (
    ALIASES,
    ELEMENTWISE,
    LIGHT,
    NEVER_FAILS,
    NONE,
    OF_RAGGED,
    OF_SPARSE,
    OF_TWO_RAGGED,
    PER_RECORD,
    Traits,
)
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import Gradient, OpSpec, op
from headrace.graph.shape_fns import merged, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import logarithms
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.zero_where import zero_where
from headrace.ops.array.constants import constant, fill
from headrace.ops.array.shapes import shape
from headrace.ops.math.arithmetic import add_v2, mul, neg, sub, truediv
from headrace.ops.math.broadcasting import broadcast_gradient_args, unbroadcast
from headrace.ops.math.casting import conj
from headrace.ops.tables import FLOATS, FLOATS_AND_COMPLEXES, SIGNED, binary, make, type_attr, unary

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "floor",
    "inv",
    "is_finite",
    "is_inf",
    "is_nan",
    "log",
    "log1p",
    "log_sigmoid",
    "nextafter",
    "reciprocal",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

_MANY: Final = 1 << 14  # elements from which on new memory takes as long to find as arithmetic


def _of_input(derivative: Callable[[Tensor], Tensor]) -> Gradient:
    """dy · derivative(x), computed once dy is there."""

    def gradient(op: Operation, dout: Any) -> Tensor:
        with control_dependencies([dout]):
            made: Tensor = mul(dout, derivative(conj(op.inputs[0])), name="mul")
            return made

    return gradient


def _one(x: Tensor) -> Tensor:
    return constant(1, x.dtype.base_dtype)


# -- exponentials, logarithms, roots ------------------------------------------------------------


def _exp_gradient(op: Operation, dout: Any) -> Tensor:
    with control_dependencies([dout]):
        made: Tensor = mul(dout, conj(op.outputs[0]), name="mul")
        return made


def _plus_one(x: Tensor) -> Tensor:
    one = constant(1, x.dtype.base_dtype, name="add/x")
    total: Tensor = add_v2(one, x, name="add")
    return total


exp = unary(
    "Exp", "exp", FLOATS_AND_COMPLEXES, _exp_gradient, traits={NEVER_FAILS, PER_RECORD, OF_RAGGED}
)
expm1 = unary(
    "Expm1",
    "expm1",
    FLOATS_AND_COMPLEXES,
    _of_input(lambda x: make.Exp(x)),
    traits={NEVER_FAILS, OF_RAGGED},
)
log = unary(
    "Log",
    "log",
    FLOATS_AND_COMPLEXES,
    _of_input(lambda x: make.Reciprocal(x)),
    traits={NEVER_FAILS, PER_RECORD, OF_RAGGED},
)


@op(
    "Log1p",
    inputs="x: T",
    outputs="y: T",
    attrs=type_attr(FLOATS_AND_COMPLEXES),
    shape=unchanged,
    traits={NEVER_FAILS, PER_RECORD, ELEMENTWISE, OF_RAGGED},
)
def log1p(xp: Any, x: Any) -> Any:
    """log(1 + x), element by element."""
    return logarithms.log1p(x) if xp is np else xp.log1p(x)


log1p.gradient(_of_input(lambda x: make.Reciprocal(_plus_one(x))))
log1p.into(logarithms.log1p)


def _of_output(name: str) -> Gradient:
    """The gradient is the op `name` of the output and dy."""
    return lambda op, dout: getattr(make, name)(op.outputs[0], dout)


def _of_conjugate_output(name: str) -> Gradient:
    def gradient(op: Operation, dout: Any) -> Any:
        with control_dependencies([dout]):
            return getattr(make, name)(conj(op.outputs[0]), dout)

    return gradient


sqrt = unary(
    "Sqrt",
    "sqrt",
    FLOATS_AND_COMPLEXES,
    _of_output("SqrtGrad"),
    traits={NEVER_FAILS, PER_RECORD, LIGHT, OF_SPARSE, OF_RAGGED},
)


@op(
    "Rsqrt",
    inputs="x: T",
    outputs="y: T",
    attrs=type_attr(FLOATS_AND_COMPLEXES),
    shape=unchanged,
    traits={PER_RECORD, ELEMENTWISE, OF_RAGGED},
)
def rsqrt(xp: Any, x: Any) -> Any:
    """1 / √x.

    Source: TF 1.15 core/kernels/cwise_op_rsqrt.cc
    """
    return xp.reciprocal(xp.sqrt(x))


rsqrt.gradient(_of_output("RsqrtGrad"))


def _reciprocal(xp: Any, x: Any) -> Any:
    """1 / x.

    Raises InvalidArgument for integers.
    Source: TF 1.15 core/kernels/cwise_op_inverse.cc
    """
    if x.dtype.kind in "iu":
        raise errors.invalid_argument(f"1 / x has no kernel for {x.dtype}; cast x to a float")
    return xp.reciprocal(x)


def _one_over(name: str, traits: Traits = NONE) -> OpSpec:
    spec = op(
        name,
        inputs="x: T",
        outputs="y: T",
        attrs=type_attr(SIGNED),
        shape=unchanged,
        traits={ELEMENTWISE, PER_RECORD, *traits},
    )(_reciprocal)
    spec.gradient(_of_output("ReciprocalGrad"))
    return spec


reciprocal = _one_over("Reciprocal", traits={OF_RAGGED})
inv = _one_over("Inv")


@op(
    "Sigmoid",
    inputs="x: T",
    outputs="y: T",
    attrs=type_attr(FLOATS_AND_COMPLEXES),
    shape=unchanged,
    traits={NEVER_FAILS, PER_RECORD, ELEMENTWISE},
)
def sigmoid_op(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)).

    Source: TF 1.15 core/kernels/cwise_op_sigmoid.cc
    """
    if x.__class__ is not np.ndarray or not x.ndim:
        return xp.reciprocal(1 + xp.exp(-x))
    return _sigmoid(x)


@sigmoid_op.into
def _sigmoid(x: Any, out: Any = None) -> Any:
    made = np.negative(x, out)
    np.exp(made, made)
    np.add(made, 1, made)
    if made.dtype.kind == "f":  # the same bits in half the time
        return np.divide(1, made, made)
    return np.reciprocal(made, made)


sigmoid_op.gradient(_of_conjugate_output("SigmoidGrad"))


@of_ragged
def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
    with name_scope(name, "Sigmoid", [x]) as scope:
        made: Tensor = sigmoid_op(x, name=scope)
        return made


@of_ragged
def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(sigmoid(x)), without overflow: -softplus(-x)."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        x = convert(x, name="x")
        made: Tensor = neg(make.Softplus(neg(x)), name=scope)
        return made


# -- trigonometry -----------------------------------------------------------------------------


def _minus_times(derivative: Callable[[Tensor], Tensor], first: bool = False) -> Gradient:
    """-dy · derivative(x); first: whether -dy is made before the other."""

    def gradient(op: Operation, dout: Any) -> Tensor:
        with control_dependencies([dout]):
            less = neg(dout) if first else None
            factor = derivative(conj(op.inputs[0]))
            made: Tensor = mul(neg(dout) if less is None else less, factor, name="mul")
            return made

    return gradient


def _asin_slope(x: Tensor) -> Tensor:
    x2, one = make.Square(x), _one(x)
    made: Tensor = reciprocal(sqrt(sub(one, x2)))
    return made


def _atan_slope(x: Tensor) -> Tensor:
    x2, one = make.Square(x), _one(x)
    made: Tensor = reciprocal(add_v2(one, x2, name="Add"))
    return made


def _atanh_slope(x: Tensor) -> Tensor:
    x2, one = make.Square(x), _one(x)
    made: Tensor = reciprocal(sub(one, x2))
    return made


def _tan_gradient(op: Operation, dout: Any) -> Tensor:
    with control_dependencies([dout]):
        secant = reciprocal(make.Cos(conj(op.inputs[0])))
        made: Tensor = mul(make.Square(secant), dout, name="mul")
        return made


def _over(function: str) -> Gradient:
    """dy / function(y)."""

    def gradient(op: Operation, dout: Any) -> Tensor:
        with control_dependencies([dout]):
            return truediv(dout, getattr(make, function)(conj(op.outputs[0])))

    return gradient


sin = unary(
    "Sin",
    "sin",
    FLOATS_AND_COMPLEXES,
    _of_input(lambda x: make.Cos(x)),
    traits={PER_RECORD, OF_SPARSE, OF_RAGGED},
)
cos = unary(
    "Cos",
    "cos",
    FLOATS_AND_COMPLEXES,
    _minus_times(lambda x: make.Sin(x), first=True),
    traits={PER_RECORD, OF_RAGGED},
)
tan = unary(
    "Tan", "tan", FLOATS_AND_COMPLEXES, _tan_gradient, traits={PER_RECORD, OF_SPARSE, OF_RAGGED}
)
asin = unary(
    "Asin",
    "asin",
    FLOATS_AND_COMPLEXES,
    _of_input(_asin_slope),
    traits={PER_RECORD, OF_SPARSE, OF_RAGGED},
)
acos = unary(
    "Acos", "acos", FLOATS_AND_COMPLEXES, _minus_times(_asin_slope), traits={PER_RECORD, OF_RAGGED}
)
atan = unary(
    "Atan",
    "atan",
    FLOATS_AND_COMPLEXES,
    _of_input(_atan_slope),
    traits={PER_RECORD, OF_SPARSE, OF_RAGGED},
)
sinh = unary(
    "Sinh", "sinh", FLOATS_AND_COMPLEXES, _of_input(lambda x: make.Cosh(x)), traits={OF_RAGGED}
)
cosh = unary(
    "Cosh", "cosh", FLOATS_AND_COMPLEXES, _of_input(lambda x: make.Sinh(x)), traits={OF_RAGGED}
)
tanh = unary(
    "Tanh",
    "tanh",
    FLOATS_AND_COMPLEXES,
    _of_conjugate_output("TanhGrad"),
    traits={NEVER_FAILS, PER_RECORD, OF_SPARSE, OF_RAGGED},
)
asinh = unary("Asinh", "asinh", FLOATS_AND_COMPLEXES, _over("Cosh"), traits={OF_SPARSE, OF_RAGGED})
acosh = unary("Acosh", "acosh", FLOATS_AND_COMPLEXES, _over("Sinh"), traits={OF_RAGGED})
atanh = unary(
    "Atanh", "atanh", FLOATS_AND_COMPLEXES, _of_input(_atanh_slope), traits={OF_SPARSE, OF_RAGGED}
)


def _atan2_gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
    y, x = op.inputs
    with control_dependencies([dout]):
        over_square = truediv(dout, add_v2(make.Square(y), make.Square(x), name="add"))
        dy = mul(x, over_square, name="mul")
        return unbroadcast(y, x, dy, mul(neg(y), over_square, name="mul"))


atan2 = binary(
    "Atan2", "atan2", FLOATS, _atan2_gradient, inputs="y: T; x: T", traits={OF_TWO_RAGGED}
)

# -- rounding and kinds of numbers --------------------------------------------------------------

floor = unary("Floor", "floor", FLOATS, traits={PER_RECORD, OF_RAGGED}, differentiable=False)
ceil = unary("Ceil", "ceil", FLOATS, traits={PER_RECORD, OF_RAGGED}, differentiable=False)
rint = unary("Rint", "rint", FLOATS, traits={PER_RECORD, OF_RAGGED}, differentiable=False)
is_nan = unary("IsNan", "isnan", FLOATS, output="bool", traits={PER_RECORD, OF_RAGGED})
is_inf = unary("IsInf", "isinf", FLOATS, output="bool", traits={PER_RECORD, OF_RAGGED})
is_finite = unary("IsFinite", "isfinite", FLOATS, output="bool", traits={PER_RECORD, OF_RAGGED})


@op(
    "Round",
    inputs="x: T",
    outputs="y: T",
    attrs=type_attr(SIGNED),
    shape=unchanged,
    traits={PER_RECORD, ALIASES},
    differentiable=False,
)
def round_op(xp: Any, x: Any) -> Any:
    """The nearest integer, the even one of two; integers stay.

    Source: TF 1.15 core/kernels/cwise_op_round.cc
    """
    return x if x.dtype.kind == "i" else np.rint(x)


@of_ragged
def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer, the even one of two; an integer tensor itself."""
    tensor = convert(x, name="x")
    if tensor.dtype.is_integer:
        return tensor
    made: Tensor = round_op(tensor, name=name)
    return made


# -- gradients as ops ---------------------------------------------------------------------------


def _grad_op(name: str, kernel: Callable[..., Any], traits: Traits = NONE) -> OpSpec:
    """Op `name` of a function's value y and the gradient dy there."""

    def checked(xp: Any, y: Any, dy: Any) -> Any:
        if y.shape != dy.shape:
            raise errors.invalid_argument(
                f"y and dy must have one shape, but have {list(y.shape)} and {list(dy.shape)}"
            )
        return kernel(xp, y, dy)

    checked.__doc__ = f"{kernel.__doc__}  Raises InvalidArgument unless both have one shape."
    return op(
        name,
        inputs="y: T; dy: T",
        outputs="z: T",
        attrs=type_attr(FLOATS_AND_COMPLEXES),
        shape=merged,
        traits={ELEMENTWISE, *traits},
    )(checked)


def _tanh_grad(xp: Any, y: Any, dy: Any) -> Any:
    """dy · (1 - y²)."""
    if y.__class__ is not np.ndarray or not y.ndim:
        return dy * (1 - y * y)
    made = y * y
    np.subtract(1, made, made)
    return np.multiply(dy, made, made)


def _sigmoid_grad(xp: Any, y: Any, dy: Any) -> Any:
    """dy · y · (1 - y)."""
    if y.__class__ is not np.ndarray or not y.ndim:
        return dy * y * (1 - y)
    made = dy * y
    return np.multiply(made, _less_than_one(y), made)


def _less_than_one(y: Any) -> Any:
    """1 - y; of many, memory that is there."""
    if y.size < _MANY or y.dtype.kind != "f":
        return 1 - y
    return np.subtract(1, y, scratch(0, y.shape, y.dtype))


def _conjugate(y: Any) -> Any:
    return np.conj(y) if y.dtype.kind == "c" else y


def _sqrt_grad(xp: Any, y: Any, dy: Any) -> Any:
    """dy / 2y, 0 where dy is; of complex numbers with y conjugated, as for the two below."""
    return zero_where(dy, dy * y.dtype.type(0.5) / _conjugate(y))


def _rsqrt_grad(xp: Any, y: Any, dy: Any) -> Any:
    """-dy · y³ / 2, 0 where dy is."""
    y = _conjugate(y)
    return zero_where(dy, dy * y.dtype.type(-0.5) * (y * y * y))


def _reciprocal_grad(xp: Any, y: Any, dy: Any) -> Any:
    """-dy · y², 0 where dy is."""
    y = _conjugate(y)
    return zero_where(dy, -dy * (y * y))


tanh_grad = _grad_op("TanhGrad", _tanh_grad, traits={NEVER_FAILS})
sigmoid_grad = _grad_op("SigmoidGrad", _sigmoid_grad, traits={NEVER_FAILS})
sqrt_grad = _grad_op("SqrtGrad", _sqrt_grad, traits={NEVER_FAILS})
rsqrt_grad = _grad_op("RsqrtGrad", _rsqrt_grad, traits={NEVER_FAILS})
reciprocal_grad = _grad_op("ReciprocalGrad", _reciprocal_grad)
inv_grad = _grad_op("InvGrad", _reciprocal_grad)


def _check_alike(y: Any, dy: Any) -> None:
    if y.shape != dy.shape:
        raise ValueError("y and dy must have one shape")


@tanh_grad.into
def _(y: Any, dy: Any, out: Any) -> Any:
    _check_alike(y, dy)
    slope = y * y
    np.subtract(1, slope, slope)
    return np.multiply(dy, slope, out)


@sigmoid_grad.into
def _(y: Any, dy: Any, out: Any) -> Any:
    _check_alike(y, dy)
    rest = _less_than_one(y)
    np.multiply(dy, y, out)
    return np.multiply(out, rest, out)


def _times(factor: float, x: Any, *, first: bool) -> Any:
    """factor · x, or x · factor, the factor a constant named as an operator's."""
    count = constant(factor, x.dtype.base_dtype, name="mul/x" if first else "mul/y")
    return mul(count, x, name="mul") if first else mul(x, count, name="mul")


@tanh_grad.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    with control_dependencies([dout]):
        y, dy = conj(op.inputs[0]), conj(op.inputs[1])
        scaled = mul(mul(_times(-2.0, dout, first=False), dy, name="mul"), y, name="mul")
        return scaled, tanh_grad(y, dout)


@sigmoid_grad.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    with control_dependencies([dout]):
        y, dy = conj(op.inputs[0]), conj(op.inputs[1])
        both = mul(dout, dy, name="mul")
        two = constant(2, both.dtype.base_dtype, name="mul_1/x")
        twice = mul(mul(two, both, name="mul"), y, name="mul")
        return sub(both, twice, name="sub"), sigmoid_grad(y, dout)


@sqrt_grad.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    y, z = op.inputs[0], op.outputs[0]
    with control_dependencies([dout]):
        ratio = truediv(dout, y)
        dy = mul(neg(conj(ratio)), z, name="mul")
        half = constant(0.5, ratio.dtype.base_dtype, name="mul_1/x")
        return dy, mul(half, ratio, name="mul")


@rsqrt_grad.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    y, dy = op.inputs
    with control_dependencies([dout]):
        cy, cdout = conj(y), conj(dout)
        scaled = mul(_times(-1.5, cdout, first=True), dy, name="mul")
        return mul(scaled, make.Square(cy), name="mul"), rsqrt_grad(cy, dout)


def _reciprocal_grad_gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
    y, dy = op.inputs
    with control_dependencies([dout]):
        cy, cdout = conj(y), conj(dout)
        scaled = mul(mul(_times(-2.0, cdout, first=False), dy, name="mul"), cy, name="mul")
        return scaled, reciprocal_grad(cy, dout)


reciprocal_grad.gradient(_reciprocal_grad_gradient)
inv_grad.gradient(_reciprocal_grad_gradient)

# -- NextAfter ----------------------------------------------------------------------------------


def _nextafter_gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    kind = x.dtype.base_dtype
    shape_x, shape_y = shape(x), shape(y)
    axes_x, axes_y = broadcast_gradient_args(shape_x, shape_y)
    with control_dependencies([dout]):
        slopes = []
        for value, name, sizes in ((1, "ones", shape_x), (0, "zeros", shape_y)):
            with name_scope(name) as scope:
                slopes.append(fill(sizes, constant(value, kind), name=scope))
        return (
            make.Reshape(make.Sum(mul(slopes[0], dout, name="mul"), axes_x), shape_x),
            make.Reshape(make.Sum(mul(slopes[1], dout, name="mul"), axes_y), shape_y),
        )


nextafter = binary(
    "NextAfter",
    "nextafter",
    None,
    _nextafter_gradient,
    inputs="x1: T; x2: T",
    output="output: T",
    attrs="T: {double, float} = float",
)
