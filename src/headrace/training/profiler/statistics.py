"""How many floating point operations a node takes: functions registered by op type, as TensorFlow counts.

Called by: training.profiler, programs, which register functions for more ops.  Threads: as graph; functions are
registered when modules are imported.
Source: TF 1.15 behaviour (python/profiler); the ops counted, and what an element of each costs, are TensorFlow's
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from headrace.base.shapes import TensorShape

__all__ = ["OpStats", "RegisterStatistics", "get_stats_for_node_def"]

_registered: Final[dict[tuple[str, str], Callable[..., Any]]] = {}
FLOPS: Final = "flops"


class OpStats:
    """A number that is known of a node, or None."""

    def __init__(self, statistic_type: str, value: Any = None) -> None:
        self._statistic_type = statistic_type
        self.value = value

    @property
    def statistic_type(self) -> str:
        """What the number is of: "flops"."""
        return self._statistic_type

    @property
    def value(self) -> Any:
        """The number, or None."""
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value

    def __iadd__(self, other: OpStats) -> OpStats:
        """Both together.  Raises ValueError for another type."""
        if other.statistic_type != self._statistic_type:
            raise ValueError(
                f"Can't add an OpStat of type {self._statistic_type} to one of {other.statistic_type}."
            )
        if self._value is None:
            self._value = other.value
        elif other.value is not None:
            self._value += other.value
        return self


class RegisterStatistics:
    """Decorator: the function (graph, node) gives the OpStats of nodes of the type."""

    def __init__(self, op_type: str, statistic_type: str) -> None:
        """Raises TypeError for what is no string, ValueError for a comma in the type."""
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string.")
        if "," in op_type:
            raise TypeError("op_type must not contain a comma.")
        if not isinstance(statistic_type, str) or "," in statistic_type:
            raise TypeError("statistic_type must be a string without a comma.")
        self._key = (op_type, statistic_type)

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Raises KeyError for a type that has one."""
        if self._key in _registered:
            raise KeyError(
                f"Registering two statistics functions with name '{','.join(self._key)}'! (Previous registration was "
                f"{_registered[self._key]})"
            )
        _registered[self._key] = f
        return f


def get_stats_for_node_def(graph: Any, node: Any, statistic_type: str) -> Any:
    """OpStats of a node of the graph; of no value where nothing is registered.

    Raises ValueError where shapes are not known.
    """
    function = _registered.get((node.op, statistic_type))
    return OpStats(statistic_type) if function is None else function(graph, node)


# -- the operations of ops ----------------------------------------------------------------------


def _known(shape: TensorShape) -> list[int]:
    """The sizes.  Raises ValueError where one is not known."""
    shape.assert_is_fully_defined()
    return [each or 0 for each in shape.as_list()]


def _count(shape: TensorShape) -> int:
    return math.prod(_known(shape))


def _counting(names: str, count: Callable[[Any], Any]) -> None:
    """`count` (operation) gives the operations of nodes of these types."""

    def found(graph: Any, node: Any) -> OpStats:
        return OpStats(FLOPS, count(graph.get_operation_by_name(node.name)))

    for name in names.split():
        RegisterStatistics(name, FLOPS)(found)


def _input(op: Any, at: int = 0) -> int:
    return _count(op.inputs[at].shape)


def _output(op: Any) -> int:
    return _count(op.outputs[0].shape)


def _reduced(op: Any) -> int:
    return _input(op) - _output(op)


def _product(op: Any, flag: str) -> int:
    """flag: the attr that says whether the first factor is transposed."""
    depth = _known(op.inputs[0].shape)[-2 if op.get_attr(flag) else -1]
    return _output(op) * depth * 2


def _window(op: Any) -> int:
    area: int = math.prod(op.get_attr("ksize"))
    return area


def _convolution(op: Any, with_depth: bool = True) -> int:
    """Products and sums: of every output, as many as the kernel has elements for it."""
    sizes = _known(op.inputs[1].shape)
    each = math.prod(sizes[:-1]) if with_depth else math.prod(sizes[:2])
    return _output(op) * each * 2


def _convolution_gradient(op: Any, image: int, kernel: TensorShape) -> int:
    height, width, _, depth = _known(kernel)
    strides: int = math.prod(op.get_attr("strides"))
    return 2 * image * height * width * depth // strides


def _only_channels_last(op: Any) -> None:
    """Raises ValueError for another order of dimensions, as TensorFlow does."""
    if op.get_attr("data_format") not in (b"NHWC", "NHWC"):
        raise ValueError("Only NHWC format is supported in flops computations")


def _of_image_gradient(op: Any) -> int:
    _only_channels_last(op)
    return _convolution_gradient(op, _output(op), op.inputs[1].shape)


def _of_kernel_gradient(op: Any) -> int:
    _only_channels_last(op)
    return _convolution_gradient(op, _input(op), op.outputs[0].shape)


_counting("Reciprocal Square Log Neg AssignSub AssignAdd", _input)
_counting("BiasAdd", _input)
_counting("Rsqrt", lambda op: 2 * _input(op))
_counting("L2Loss", lambda op: 3 * _input(op) - 1)
_counting("Softmax", lambda op: 5 * _input(op))
_counting("Add AddV2 Sub Mul RealDiv Maximum Minimum Pow", _output)
_counting("Greater GreaterEqual Less LessEqual Equal NotEqual", _output)
_counting("SquaredDifference", lambda op: 2 * _output(op))
_counting("RsqrtGrad", lambda op: 4 * _output(op))
_counting("Sum ArgMax ArgMin BiasAddGrad", _reduced)
_counting("Mean", lambda op: _reduced(op) + _output(op))
_counting("AddN", lambda op: (len(op.inputs) - 1) * _input(op))
_counting("MatMul", lambda op: _product(op, "transpose_a"))
_counting("BatchMatMul BatchMatMulV2 BatchMatMulV3", lambda op: _product(op, "adj_x"))
_counting("MaxPool AvgPool", lambda op: _window(op) * _output(op))
_counting("MaxPoolGrad", lambda op: _window(op) * _input(op, 1) + _input(op, 2))
_counting("AvgPoolGrad", lambda op: 2 * _window(op) * _input(op, 1))
_counting("Conv2D Conv3D", _convolution)
_counting("DepthwiseConv2dNative Dilation2D", lambda op: _convolution(op, with_depth=False))
_counting("Conv2DBackpropInput", _of_image_gradient)
_counting("Conv2DBackpropFilter", _of_kernel_gradient)
