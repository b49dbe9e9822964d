"""The variables of a graph by full name, and the rules for making or finding one.

Called by: variable_scope.  Threads: as graph.
Source: TF 1.15 behaviour; errors and nodes checked against the oracle
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.base.shapes import TensorShape, as_shape
from headrace.graph import scopes
from headrace.graph.behavior import resource_variables_enabled
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import init_scope
from headrace.graph.registry import get as op_spec
from headrace.graph.tensor import Tensor
from headrace.library.variables import initializers
from headrace.library.variables.partitioned import (
    PartitionedVariable,
    PartitionInfo,
    axis_and_count,
    slices,
)
from headrace.library.variables.variable_creation import check_lifted
from headrace.library.variables.variables import Variable

__all__: list[str] = []


class VariableStore:
    """`get_variable` with everything decided: full name, dtype, defaults."""

    def __init__(self) -> None:
        self._variables: dict[str, Variable] = {}
        self._partitioned: dict[str, PartitionedVariable] = {}

    def get_variable(
        self,
        name: str,
        *,
        shape: Any,
        dtype: Any,
        initializer: Any,
        custom_getter: Any,
        partitioner: Any,
        trainable: bool | None,
        **others: Any,
    ) -> Any:
        """The variable (see `variable_scope.get_variable`), by way of `custom_getter` if there is one.

        others: regularizer, reuse, collections, caching_device, validate_shape, use_resource,
        constraint, synchronization, aggregation.
        """
        if custom_getter is not None and not callable(custom_getter):
            raise ValueError(f"Passed a custom_getter which is not callable: {custom_getter!r}")
        if partitioner is not None and not callable(partitioner):
            raise ValueError(f"Partitioner must be callable, but received: {partitioner!r}")
        if trainable is None:
            trainable = others["synchronization"].name != "ON_READ"
        arguments = {
            "shape": shape,
            "dtype": dtypes.as_dtype(dtype).base_dtype,
            "initializer": initializer,
            "trainable": trainable,
            "partitioner": partitioner,
            **others,
        }
        if custom_getter is not None:
            with scopes.get_default_graph()._located(None):  # it may make nodes of its own
                return custom_getter(getter=self._get, name=name, **arguments)
        return self._get(name, **arguments)

    def _get(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        partitioner: Any = None,
        reuse: Any = None,
        **others: Any,
    ) -> Any:
        dtype = dtypes.as_dtype(dtype).base_dtype
        scalar = isinstance(shape, (list, tuple)) and not shape
        if partitioner is not None and not scalar:
            with scopes.get_default_graph().name_scope(None):
                return self.get_partitioned(
                    name, partitioner, shape, dtype, initializer, reuse, **others
                )
        if reuse is True and name in self._partitioned:
            return self._found_parts(name, as_shape(shape), dtype, None)
        if f"{name}/part_0" in self._variables:
            raise ValueError(
                "No partitioner was provided, but a partitioned version of the variable was found: "
                f"{name}/part_0; give the partitioner it was made with, or another name"
            )
        return self._get_one(name, shape, dtype, initializer, reuse, **others)

    # -- one variable -------------------------------------------------------------------------

    def _get_one(
        self,
        name: str,
        shape: Any,
        dtype: dtypes.DType,
        initializer: Any,
        reuse: Any,
        partition_info: PartitionInfo | None = None,
        regularizer: Any = None,
        trainable: bool | None = True,
        collections: Any = None,
        caching_device: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        constraint: Any = None,
        **others: Any,
    ) -> Variable:
        constant = initializer is not None and not callable(initializer)
        if constant and shape is not None:
            raise ValueError(
                f"If initializer is a constant, do not specify shape: the initializer of variable {name} is a value"
            )
        wanted = as_shape(shape)
        known = self._variables.get(name)
        if known is not None:
            return self._found(known, name, wanted, dtype, reuse)
        if reuse is True:
            raise _absent(name)
        if initializer is None:
            initializer = default_initializer(name, shape, dtype)
        check_lifted(initializer, name)
        with init_scope():
            value, value_dtype = initializer, None
            if not constant:
                value, value_dtype = _initial(
                    name, initializer, wanted, dtype, partition_info, validate_shape
                )
            made = Variable(
                value,
                trainable=trainable,
                collections=collections,
                caching_device=caching_device,
                name=name,
                dtype=value_dtype,
                validate_shape=validate_shape,
                constraint=constraint,
                use_resource=resource_variables_enabled() if use_resource is None else use_resource,
                **others,
            )
        self._variables[name] = made
        if regularizer:
            _regularize(made, name, regularizer)
        return made

    def _found(
        self, known: Variable, name: str, shape: TensorShape, dtype: dtypes.DType, reuse: Any
    ) -> Variable:
        if not reuse:
            raise ValueError(
                f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
                f"its variable_scope, to share it? It was made at {known.op.built_at}"
            )
        _check_same(name, shape, dtype, known)
        return known

    # -- in parts -----------------------------------------------------------------------------

    def get_partitioned(
        self,
        name: str,
        partitioner: Callable[..., Any],
        shape: Any,
        dtype: Any,
        initializer: Any,
        reuse: Any,
        **others: Any,
    ) -> PartitionedVariable:
        """The variable of that full name in parts, cut as `partitioner` says; others: see `get_variable`.

        The shape must be given where the initializer is no tensor.  A tensor as initializer decides the dtype.
        """
        dtype = dtypes.as_dtype(dtype).base_dtype
        if name in self._variables:
            raise ValueError(
                "A partitioner was provided, but an unpartitioned version of the variable was found: "
                f"{name}; get it without one, or use another name"
            )
        constant = initializer is not None and not callable(initializer)
        whole = as_shape(shape)
        if isinstance(initializer, Tensor):
            whole = whole.merge_with(initializer.shape)
        partitions = _asked(partitioner, name, whole, dtype)
        if name in self._partitioned:
            if not reuse:
                raise ValueError(
                    f"Partitioned variable with name {name} already exists. Did you mean to set reuse=True or "
                    "reuse=tf.AUTO_REUSE in its variable_scope, to share it?"
                )
            return self._found_parts(name, whole, dtype, partitions)
        if reuse is True:
            raise _absent(name)
        if isinstance(initializer, Tensor):
            dtype = initializer.dtype.base_dtype
        sizes: list[int] = whole.as_list()  # type: ignore[assignment]
        axis, count = axis_and_count(partitions)
        parts = []
        for index, (offset, size) in enumerate(slices(sizes, count, axis)):
            part, part_shape, part_name = initializer, size, f"{name}/part_{index}"
            if constant:
                with scopes.get_default_graph().name_scope(f"{part_name}/PartitionedInitializer"):
                    value = convert(initializer, dtype)
                    whole.assert_is_compatible_with(value.shape)
                    part, part_shape = op_spec("Slice")(value, offset, size), None  # type: ignore[assignment]
            made = self._get_one(
                part_name,
                part_shape,
                dtype,
                part,
                reuse,
                partition_info=PartitionInfo(sizes, offset),
                **others,
            )
            made._set_save_slice_info(Variable.SaveSliceInfo(name, sizes, offset, size))
            parts.append(made)
        result = PartitionedVariable(name, whole, dtype, parts, partitions)
        self._partitioned[name] = result
        return result

    def _found_parts(
        self,
        name: str,
        shape: TensorShape,
        dtype: dtypes.DType,
        partitions: list[int] | None,
    ) -> PartitionedVariable:
        known = self._partitioned[name]
        _check_same(name, shape, dtype, known, "reuse partitioned")
        if partitions is not None and partitions != known._get_partitions():
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified partitions {partitions} "
                f"and found partitions {known._get_partitions()}: it is cut already"
            )
        return known


def _absent(name: str) -> ValueError:
    return ValueError(
        f"Variable {name} does not exist, or was not created with tf.get_variable(): "
        "reuse=tf.AUTO_REUSE in its variable_scope makes it"
    )


def _check_same(
    name: str, shape: TensorShape, dtype: dtypes.DType, known: Any, what: str = "share"
) -> None:
    if not shape.is_compatible_with(known.get_shape()):
        raise ValueError(
            f"Trying to {what} variable {name}, but specified shape {shape} and found shape {known.get_shape()}: "
            "what is shared keeps its shape"
        )
    if not dtype.is_compatible_with(known.dtype):
        raise ValueError(
            f"Trying to {what} variable {name}, but specified dtype {dtype.name} and found dtype {known.dtype.name}: "
            "what is shared keeps its dtype"
        )


def default_initializer(name: str, shape: Any, dtype: dtypes.DType) -> Any:
    """What a variable without an initializer starts as.  Raises ValueError."""
    if shape is None:
        raise ValueError(
            f"Variable {name} did not get an initializer, so its `shape` argument must be specified. "
            f"Shape of a new variable ({name}) must be fully defined, but instead was <unknown>"
        )
    if dtype.is_floating:
        return initializers.glorot_uniform_initializer()
    if dtype.is_integer or dtype.is_bool or dtype == dtypes.string:
        return initializers.zeros_initializer()
    raise ValueError(
        f"An initializer for variable {name} of {dtype} is required: there is no default"
    )


def _initial(
    name: str,
    initializer: Any,
    shape: TensorShape,
    dtype: dtypes.DType,
    partition_info: PartitionInfo | None,
    validate_shape: bool,
) -> tuple[Callable[[], Any], dtypes.DType | None]:
    if isinstance(initializer, type):
        initializer = initializer()
    if shape.is_fully_defined():
        extra: dict[str, Any] = {"dtype": dtype}
        if _takes_partition_info(initializer):
            extra["partition_info"] = partition_info
        wanted = shape if validate_shape else TensorShape(None)
        return (lambda: _fitting(name, initializer(shape.as_list(), **extra), wanted, dtype)), dtype
    parameters = inspect.signature(initializer).parameters
    empty = inspect.Parameter.empty
    if all(
        p.default is not empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        for p in parameters.values()
    ):
        return initializer, None
    raise ValueError(
        f"The initializer passed is not valid. Shape of a new variable ({name}) must be fully defined, but instead was "
        f"{shape}; an initializer that takes nothing needs none"
    )


def _fitting(name: str, value: Any, shape: TensorShape, dtype: dtypes.DType) -> Any:
    """What an initializer gave.  Raises ValueError: it is no value of the shape that was asked for."""
    if value.__class__ is Tensor and value._raw == shape._raw:
        return value
    found = getattr(value, "shape", None)
    if found is None:  # of numbers and lists of them
        value = convert(value, dtype, "initial_value")
        found = value.shape
    if shape.is_compatible_with(found):
        return value
    raise ValueError(
        f"The initial value's shape ({TensorShape(found)}) is not compatible with the explicitly supplied `shape` "
        f"argument ({shape}) of variable {name}: its initializer gives another shape than it is asked for"
    )


def _takes_partition_info(initializer: Any) -> bool:
    """Whether it has an argument of that name; quick for what is written in Python."""
    call = initializer if hasattr(initializer, "__code__") else type(initializer).__call__
    code = getattr(call, "__code__", None)
    if code is not None and not hasattr(call, "__wrapped__"):
        return "partition_info" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return "partition_info" in inspect.signature(initializer).parameters
    except (TypeError, ValueError):
        return False


def _regularize(variable: Variable, name: str, regularizer: Any) -> None:
    graph = variable.graph
    scope = graph.name_scope(f"{name}/Regularizer/")
    with graph.colocate_with(variable.op), scope, init_scope(), graph._located(None):
        loss = regularizer(variable)
    if loss is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def _asked(
    partitioner: Callable[..., Any], name: str, shape: TensorShape, dtype: dtypes.DType
) -> list[int]:
    """What the partitioner says of the variable, checked: how many parts along each axis."""
    if not shape.is_fully_defined() or not shape.rank:
        raise ValueError(
            f"Shape of a new partitioned variable ({name}) must be fully defined, but instead was {shape}; "
            "it has at least one dimension"
        )
    parts = partitioner(shape=shape, dtype=dtype)
    if not isinstance(parts, (list, tuple)):
        raise ValueError(
            f"Partitioner must return a sequence, but saw: {parts!r}, for variable {name}"
        )
    if len(parts) != shape.rank:
        raise ValueError(
            f"Partitioner returned a partition list that does not match the Variable's rank: {parts} vs. {shape}, "
            f"that of {name}"
        )
    if any(count < 1 for count in parts):
        raise ValueError(
            f"Partitioner returned zero partitions for some axes: {parts}, for variable {name}"
        )
    if sum(count > 1 for count in parts) > 1:
        raise ValueError(
            f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {parts}, of {name}"
        )
    return [int(count) for count in parts]
