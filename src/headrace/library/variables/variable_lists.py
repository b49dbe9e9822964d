"""Variables by the dozen: the collections they are kept in, initializing them, asking which are not.

Called by: training (sessions, savers, optimizers), programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import VARIABLE
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import get as op_spec
from headrace.graph.tensor import Tensor
from headrace.library.variables.resource_variables import ResourceVariable
from headrace.ops.array import constants
from headrace.ops.flow import identities as flow
from headrace.ops.state import references as state

__all__ = [
    "all_variables",
    "assert_variables_initialized",
    "global_variables",
    "global_variables_initializer",
    "initialize_all_tables",
    "initialize_all_variables",
    "initialize_local_variables",
    "initialize_variables",
    "is_variable_initialized",
    "local_variables",
    "local_variables_initializer",
    "model_variables",
    "moving_average_variables",
    "report_uninitialized_variables",
    "tables_initializer",
    "trainable_variables",
    "variables_initializer",
]


def global_variables(scope: str | None = None) -> list[Any]:
    """Variables shared by the processes of a cluster; `scope`: only names that match this regex."""
    return scopes.get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def all_variables() -> list[Any]:
    """Old name of `global_variables`."""
    return global_variables()


def local_variables(scope: str | None = None) -> list[Any]:
    """Variables of this process only; `scope`: only names that match this regex."""
    return scopes.get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """What optimizers change by default; `scope`: only names that match this regex."""
    return scopes.get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Variables that inference needs; `scope`: only names that match this regex."""
    return scopes.get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Variables of which averages are kept; `scope`: only names that match this regex."""
    return scopes.get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Operation:
    """An operation that runs the initializers of `var_list`, all at once."""
    if var_list:
        return flow.group(*[variable.initializer for variable in var_list], name=name)
    nothing: Operation = flow.no_op(name=name)
    return nothing


def initialize_variables(var_list: Sequence[Any], name: str = "init") -> Operation:
    """Old name of `variables_initializer`."""
    return variables_initializer(var_list, name)


def global_variables_initializer() -> Operation:
    """An operation that initializes every global variable made so far."""
    return variables_initializer(global_variables())


def initialize_all_variables() -> Operation:
    """Old name of `global_variables_initializer`."""
    return global_variables_initializer()


def local_variables_initializer() -> Operation:
    """An operation that initializes every local variable made so far."""
    return variables_initializer(local_variables())


def initialize_local_variables() -> Operation:
    """Old name of `local_variables_initializer`."""
    return local_variables_initializer()


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that initializes the lookup tables of the graph: what its TABLE_INITIALIZERS collection has."""
    initializers = scopes.get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    made: Operation = (
        flow.group(*initializers, name=name) if initializers else flow.no_op(name=name)
    )
    return made


def initialize_all_tables(name: str = "init_all_tables") -> Operation:
    """Old name of `tables_initializer`."""
    return tables_initializer(name)


def is_variable_initialized(variable: Any) -> Tensor:
    """A bool scalar."""
    if isinstance(variable, ResourceVariable):
        return variable.is_initialized()
    result: Tensor = state.is_variable_initialized_op(variable)
    return result


def report_uninitialized_variables(
    var_list: Sequence[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Vector of the names (strings) of those that are not initialized.

    Of all global and local variables if no list is given.  The names are picked on the session's
    own CPU (or the device that TF_DEVICE_FOR_UNINITIALIZED_VARIABLE_REPORTING names).
    """
    if var_list is None:
        var_list = global_variables() + local_variables() or _state_tensors()
    graph = scopes.get_default_graph()
    with name_scope(name):
        ready = [is_variable_initialized(variable) for variable in var_list]
        place = os.environ.get("TF_DEVICE_FOR_UNINITIALIZED_VARIABLE_REPORTING", "/cpu:0")
        with graph.device(place):
            if not ready:
                none: Tensor = constants.constant([], dtype=dtypes.string)
                return none
            from headrace.ops.array.gathering import boolean_mask

            stacked = op_spec("Pack")(ready, name="stack")
            missing = op_spec("LogicalNot")(stacked)
            names = constants.constant(np.array([v.op.name for v in var_list], object))
            masked: Tensor = boolean_mask(names, missing)
            return masked


def assert_variables_initialized(var_list: Sequence[Any] | None = None) -> Tensor | None:
    """A tensor that cannot be computed before all are initialized; None if there is none.

    Of all global and local variables if no list is given.  `report_uninitialized_variables` says which.
    """
    if var_list is None:
        var_list = global_variables() + local_variables()
    var_list = var_list or _state_tensors()
    if not var_list:
        return None
    graph = scopes.get_default_graph()
    ranks = []
    for variable in var_list:
        with graph.colocate_with(variable.op):
            ranks.append(op_spec("Rank")(variable))
    result: Tensor = ranks[0] if len(ranks) == 1 else op_spec("Pack")(ranks, name="stack")
    return result


def _state_tensors() -> list[Tensor]:
    """The references of a graph that has variable nodes but no variables (an imported one)."""
    graph = scopes.get_default_graph()
    return [op.outputs[0] for op in graph.get_operations() if VARIABLE in op.traits]
