"""Variables by name, scope and collection: `tf.contrib.framework.model_variable`, `get_variables` and kin.

Called by: library.contrib, training.contrib, programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.base.arguments import several
from headrace.graph.collections import GraphKeys
from headrace.graph.scopes import get_default_graph
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.library.variables.variable_scope import get_variable
from headrace.library.variables.variables import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
)

__all__ = [
    "VariableDeviceChooser",
    "add_model_variable",
    "filter_variables",
    "get_local_variables",
    "get_model_variables",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variable_full_name",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "global_variable",
    "local_variable",
    "model_variable",
    "variable",
]


@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Iterable[str] | None = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Callable[..., Any] | None = None,
    use_resource: bool | None = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """`tf.get_variable` on a device; its defaults may come from an `arg_scope`.

    device: a name, or a function from the op to one.  custom_getter: called in the place of tf.get_variable.
    """
    keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
    getter = get_variable if custom_getter is None else custom_getter
    with get_default_graph().device(device or ""):
        return getter(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=list(dict.fromkeys(keys)),
            caching_device=caching_device,
            partitioner=partitioner,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
        )


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = "float32",
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Iterable[str] | None = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Callable[..., Any] | None = None,
    use_resource: bool | None = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """`variable`, in the collection MODEL_VARIABLES too: what evaluation restores."""
    return variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=[
            *(collections or ()),
            GraphKeys.GLOBAL_VARIABLES,
            GraphKeys.MODEL_VARIABLES,
        ],
        caching_device=caching_device,
        device=device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        use_resource=use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def add_model_variable(var: Any) -> None:
    """Put it into MODEL_VARIABLES, unless it is there."""
    known = get_default_graph().get_collection_ref(GraphKeys.MODEL_VARIABLES)
    if not any(each is var for each in known):
        known.append(var)


def local_variable(
    initial_value: Any,
    validate_shape: bool = True,
    name: str | None = None,
    use_resource: bool | None = None,
) -> Any:
    """A variable in LOCAL_VARIABLES, which is neither trained nor saved."""
    return _made(GraphKeys.LOCAL_VARIABLES, initial_value, validate_shape, name, use_resource)


def global_variable(
    initial_value: Any,
    validate_shape: bool = True,
    name: str | None = None,
    use_resource: bool | None = None,
) -> Any:
    """A variable in GLOBAL_VARIABLES, which is saved and not trained."""
    return _made(GraphKeys.GLOBAL_VARIABLES, initial_value, validate_shape, name, use_resource)


def _made(
    collection: str,
    initial_value: Any,
    validate_shape: bool,
    name: str | None,
    use_resource: bool | None,
) -> Any:
    return Variable(
        initial_value,
        trainable=False,
        collections=[collection],
        validate_shape=validate_shape,
        name=name,
        use_resource=use_resource,
    )


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """Those of a collection whose names begin with `scope` (a name or a variable scope) and end with `suffix`."""
    prefix = getattr(scope, "name", scope)
    for what, given in (("scope", prefix), ("suffix", suffix)):
        if given is not None and not isinstance(given, str):
            raise TypeError(
                f"get_variables: {what} must be a string or None, and is {given!r:.200}"
            )
    if suffix is not None:
        if ":" not in suffix:
            suffix += ":"
        prefix = (prefix or "") + ".*" + suffix
    return get_default_graph().get_collection(collection, prefix)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` of MODEL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` of LOCAL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` of TRAINABLE_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """Global variables whose names end so."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Global variables of that name, in any scope beneath `scope`."""
    if not isinstance(given_name, str):
        raise TypeError(
            f"get_variables_by_name: given_name must be a string, and is {given_name!r:.200}"
        )
    return get_variables(scope=scope, suffix="/" + given_name + ":|^" + given_name + ":")


def get_unique_variable(var_op_name: str) -> Any:
    """The one variable of that name, without ``:0``.  Raises ValueError: there is none, or more than one."""
    found = get_variables(scope=var_op_name)
    if len(found) > 1:
        found = [each for each in found if each.op.name == var_op_name]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError(
            f"Couldn't find variable {var_op_name}: the graph has "
            f"{[each.op.name for each in get_variables()]}"
        )
    raise ValueError(
        f"Variable {var_op_name} does not uniquely identify a variable: there are {[v.name for v in found]}"
    )


def get_variables_to_restore(
    include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
) -> list[Any]:
    """Global variables beneath the scopes of `include` (all if None), less those beneath the scopes of `exclude`.

    Raises TypeError: no list.
    """
    for name, given in (("include", include), ("exclude", exclude)):
        if given is not None and not isinstance(given, (list, tuple)):
            raise TypeError(f"{name} is provided but is not a list or a tuple.")
    scopes = [None] if include is None else include
    found = [each for scope in scopes for each in get_variables(scope)]
    left_out = {id(each) for scope in exclude or () for each in get_variables(scope)}
    return [each for each in found if id(each) not in left_out]


def filter_variables(
    var_list: Iterable[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """Those whose names match one of `include_patterns` (all if None) and none of `exclude_patterns`.

    reg_search: anywhere in the name, else from its start.
    """
    matches = re.search if reg_search else re.match
    found = several("filter_variables", "var_list", var_list, "variables")
    if include_patterns is not None:
        found = [v for v in found if any(matches(each, v.name) for each in include_patterns)]
    if exclude_patterns is not None:
        found = [v for v in found if not any(matches(each, v.name) for each in exclude_patterns)]
    return found


def get_variable_full_name(var: Any) -> str:
    """What a checkpoint calls it: of a part of a partitioned variable the name of the whole."""
    if not hasattr(var, "op"):
        raise TypeError(f"get_variable_full_name: var must be a variable, and is {var!r:.200}")
    part = getattr(var, "_save_slice_info", None)
    return str(var.op.name if part is None or not part.full_name else part.full_name)


class VariableDeviceChooser:
    """Devices of variables, one after the other: ``/job:ps/task:0/device:CPU:0``, ``/job:ps/task:1/device:CPU:0``, …"""

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: int | None = None,
    ) -> None:
        """num_tasks: of the job; with 0 all are on the device as this task has it."""
        self._job_name, self._num_tasks, self._replica = job_name, num_tasks, replica
        self._device_type, self._device_index = device_type, device_index
        self._next_task_id = 0

    def __call__(self, op: Any) -> str:
        """The device of the next variable."""
        parts = []
        if self._num_tasks > 0:
            parts.append(f"/job:{self._job_name}")
        if self._replica is not None:
            parts.append(f"/replica:{self._replica}")
        if self._num_tasks > 0:
            parts.append(f"/task:{self._next_task_id}")
            self._next_task_id = (self._next_task_id + 1) % self._num_tasks
        return "".join([*parts, f"/device:{self._device_type}:{self._device_index}"])


def parts_of(var: Any) -> list[Any]:
    """The variable, or the variables that a partitioned one consists of."""
    return list(var) if isinstance(var, PartitionedVariable) else [var]
