"""Which functions of tensors take ragged tensors, too: the tables, and the wrapping of what they name.

Elementwise functions are applied to the innermost values; those of two operands broadcast as the operators do.  What
reduces, joins or takes rows has an own function in `ragged_reductions` and `ragged_joining`.
Called by: ops (`install`, once, when the package is imported).  Threads: wrappers as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_dispatch.py); values compared with the oracle
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from headrace.base import errors
from headrace.graph.ragged import Ragged
from headrace.graph.registry import OPS

__all__: list[str] = []

Call = Callable[..., Any]

UNARY_OPS: Final = (
    "Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh DecodeBase64 Digamma Elu Erf Erfc Exp Expm1 Floor Invert IsFinite "
    "IsInf IsNan Lgamma Log Log1p LogicalNot Reciprocal Relu Rint Rsqrt Selu Sin Sinh Softsign Sqrt Square StringStrip "
    "Tan Tanh"
)
"""Ops that are public names themselves, of one operand."""

BINARY_OPS: Final = (
    "Atan2 BitwiseAnd BitwiseOr BitwiseXor Equal FloorDiv FloorMod Greater GreaterEqual LeftShift Less LessEqual "
    "LogicalAnd LogicalOr Maximum Minimum NotEqual Pow RealDiv RightShift SquaredDifference TruncateDiv TruncateMod"
)
"""The same of two operands, which broadcast."""

UNARY: Final = {
    "array.constants": "ones_like zeros_like",
    "flow.identities": "check_numerics identity",
    "math.arithmetic": "negative",
    "math.casting": (
        "angle cast conj imag real saturate_cast to_bfloat16 to_complex128 to_complex64 to_double "
        "to_float to_int32 to_int64"
    ),
    "math.clipping": "clip_by_value",
    "math.elementwise": "log_sigmoid round sigmoid",
    "math.magnitudes": "abs sign",
    "nn.activations": "leaky_relu relu6 softplus",
    "string.byte_strings": "encode_base64 substr",
    "string.regular_expressions": "regex_full_match regex_replace",
    "string.strings": "as_string string_length string_lower string_upper",
}
"""Functions of one operand, their first argument, by file."""

BINARY: Final = {
    "math.arithmetic": "add div div_no_nan divide floordiv multiply subtract truediv",
    "math.casting": "complex",
    "math.comparisons": "logical_xor",
}
"""Functions of two operands, their first arguments, by file."""

OF_LISTS: Final = {"math.sums": "add_n", "string.strings": "string_join"}
"""Functions of a list of operands, by file."""

BY_NAME: Final = {
    "math.reductions": (
        "array.ragged_reductions",
        "reduce_all reduce_any reduce_max reduce_mean reduce_min reduce_prod reduce_sum",
    ),
    "array.joining": ("array.ragged_joining", "concat"),
    "array.packing": ("array.ragged_joining", "stack"),
    "array.shapes": ("array.ragged_joining", "expand_dims rank size"),
    "array.gathering": ("array.ragged_joining", "gather where"),
}
"""By file: where their functions for ragged tensors are, and the names: each is called with the function that is for
tensors and a mapping of arguments by their names."""


def install() -> None:
    """Let everything in the tables take ragged tensors."""
    for listed, handler in ((UNARY_OPS, _unary), (BINARY_OPS, _binary)):
        for name in listed.split():
            dict.__getitem__(OPS, name).of_ragged = functools.partial(_of_op, handler)
    for table, handler in ((UNARY, _unary), (BINARY, _binary), (OF_LISTS, _of_list)):
        for file, listed in table.items():
            module = sys.modules[f"headrace.ops.{file}"]
            for name in listed.split():
                setattr(module, name, _elementwise(getattr(module, name), handler))
    for file, (where, listed) in BY_NAME.items():
        module = sys.modules[f"headrace.ops.{file}"]
        for name in listed.split():
            setattr(module, name, _by_name(getattr(module, name), where))


def _is_ragged(value: Any) -> bool:
    """Whether it is ragged, or a list that has something ragged in it."""
    if value.__class__ is list or value.__class__ is tuple:
        return any(isinstance(each, Ragged) for each in value)
    return isinstance(value, Ragged)


def _elementwise(function: Call, handler: Call) -> Call:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if any(map(_is_ragged, args)) or (kwargs and any(map(_is_ragged, kwargs.values()))):
            given = inspect.signature(function).bind(*args, **kwargs)
            return handler(function, given.args, given.kwargs)
        return function(*args, **kwargs)

    return wrapper


def _by_name(function: Call, where: str) -> Call:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if any(map(_is_ragged, args)) or (kwargs and any(map(_is_ragged, kwargs.values()))):
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            handler = getattr(import_module(f"headrace.ops.{where}"), function.__name__)
            return handler(function, given)
        return function(*args, **kwargs)

    return wrapper


def _of_op(
    handler: Call, spec: Call, inputs: Sequence[Any], name: str | None, attrs: Mapping[str, Any]
) -> Any:
    """See `OpSpec.of_ragged`."""
    if any(map(_is_ragged, inputs)):
        return handler(spec, inputs, {"name": name, **attrs})
    return NotImplemented


def as_ragged(value: Any) -> Any:
    """A ragged tensor of what may be a ragged value."""
    from headrace.ops.array.ragged import RaggedTensor

    if isinstance(value, RaggedTensor):
        return value
    return RaggedTensor.from_nested_row_splits(value.flat_values, value.nested_row_splits)


def _unary(call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if not isinstance(args[0], Ragged) or any(map(_is_ragged, args[1:])):
        raise errors.unimplemented(
            "only the first argument may be a ragged tensor here; make the others dense by to_tensor()"
        )
    given = as_ragged(args[0])
    return given.with_flat_values(call(given.flat_values, *args[1:], **kwargs))


def _binary(call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    from headrace.ops.array.ragged_operators import both_ragged, with_dense

    def function(x: Any, y: Any) -> Any:
        return call(x, y, *args[2:], **kwargs)

    x, y = (as_ragged(each) if isinstance(each, Ragged) else each for each in args[:2])
    if isinstance(x, Ragged) and isinstance(y, Ragged):
        return both_ragged(function, x, y)
    if isinstance(x, Ragged):
        return with_dense(function, x, y, swapped=False)
    return with_dense(function, y, x, swapped=True)


def _of_list(call: Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    from headrace.ops.array.ragged_operators import both_ragged, with_dense

    def second(_: Any, other: Any) -> Any:
        return other

    given = [as_ragged(each) if isinstance(each, Ragged) else each for each in args[0]]
    first: Any = next(each for each in given if isinstance(each, Ragged))
    flat = []
    for each in given:
        if each is first:
            flat.append(first.flat_values)
        elif isinstance(each, Ragged):
            flat.append(both_ragged(second, first, each).flat_values)
        else:
            flat.append(with_dense(second, first, each, swapped=False).flat_values)
    return first.with_flat_values(call(flat, *args[1:], **kwargs))
