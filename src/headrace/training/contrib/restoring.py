"""Values into variables: `tf.contrib.framework.assign_from_checkpoint` and kin.

Called by: programs.  Threads: as graph; what is returned is called with a session, by one thread at a time.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headrace.base.arguments import check_mapping
from headrace.graph.scopes import get_default_graph
from headrace.library.contrib.variables import get_unique_variable, get_variable_full_name
from headrace.ops.array.placeholders import placeholder
from headrace.ops.flow.identities import group
from headrace.training import logging
from headrace.training.saver.checkpoint_readers import NewCheckpointReader
from headrace.training.saver.saver import Saver

__all__ = [
    "assign_from_checkpoint",
    "assign_from_checkpoint_fn",
    "assign_from_values",
    "assign_from_values_fn",
]


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[Any, dict[Any, Any]]:
    """An op that sets variables, and what to feed to it.  Raises ValueError: no such variable, another size."""
    check_mapping(
        "assign_from_values",
        "var_names_to_values",
        var_names_to_values,
        "values by names of variables",
    )
    feeds: dict[Any, Any] = {}
    assigned = []
    for name, value in var_names_to_values.items():
        variable = get_unique_variable(name)
        fed = _placeholder(variable)
        feeds[fed] = np.reshape(value, variable.get_shape().as_list())
        assigned.append(variable.assign(fed))
    return group(*assigned), feeds


def _placeholder(variable: Any) -> Any:
    name = get_default_graph().unique_name(f"placeholder/{variable.op.name}")
    return placeholder(variable.dtype.base_dtype, variable.get_shape(), name=name)


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[Any], object]:
    """A function of a session that sets variables: `init_fn` of many.  Raises ValueError as `assign_from_values`."""
    assign, feeds = assign_from_values(var_names_to_values)

    def restore(session: Any) -> object:
        return session.run(assign, feeds)

    return restore


def _by_name(var_list: Any) -> dict[str, list[Any]]:
    """The variables by their names in the checkpoint; the parts of one share a name."""
    if isinstance(var_list, Mapping):
        return {
            name: list(found) if isinstance(found, (list, tuple)) else [found]
            for name, found in var_list.items()
        }
    grouped: dict[str, list[Any]] = {}
    for variable in var_list:
        grouped.setdefault(get_variable_full_name(variable), []).append(variable)
    return grouped


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """An op that sets variables to what a checkpoint has, and what to feed to it.

    var_list: variables, or by names in the checkpoint; of a partitioned one its parts.
    Raises ValueError: the checkpoint does not have one, unless ignored, or in another shape; NotFoundError.
    """
    reader = NewCheckpointReader(model_path)
    feeds: dict[Any, Any] = {}
    assigned = []
    for name, variables in _by_name(var_list).items():
        if not reader.has_tensor(name):
            said = f'Checkpoint is missing variable "{name}"'
            if not ignore_missing_vars:
                raise ValueError(f"{said}: {model_path}")
            logging.warning(said)
            continue
        whole = reader.get_tensor(name)
        for variable in variables:
            part = _part(name, variable, whole)
            sizes = variable.get_shape().as_list()
            if part.size != variable.get_shape().num_elements():
                raise ValueError(
                    f"Total size of new array must be unchanged for {name} lh_shape: [{part.shape}], "
                    f"rh_shape: [{sizes}]"
                )
            fed = _placeholder(variable)
            feeds[fed] = part.reshape(sizes)
            assigned.append(variable.assign(fed))
    return group(*assigned), feeds


def _part(name: str, variable: Any, whole: Any) -> Any:
    """What a part of a partitioned variable is of the whole; else the whole."""
    info = getattr(variable, "_save_slice_info", None)
    if info is None:
        return whole
    if list(whole.shape) != list(info.full_shape):
        raise ValueError(
            f'Variable slice {info.full_name} has full shape {list(info.full_shape)}, and "{name}" in the checkpoint '
            f"{list(whole.shape)}"
        )
    return whole[
        tuple(
            slice(start, start + size)
            for start, size in zip(info.var_offset, info.var_shape, strict=True)
        )
    ]


def assign_from_checkpoint_fn(
    model_path: str,
    var_list: Any,
    ignore_missing_vars: bool = False,
    reshape_variables: bool = False,
) -> Callable[[Any], object] | None:
    """A function of a session that restores variables: `init_fn` of many; None if the checkpoint has none of them.

    var_list: as of `tf.train.Saver`.  reshape_variables: as its `reshape`.  Raises ValueError: no variables.
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    wanted = var_list
    if ignore_missing_vars:
        reader = NewCheckpointReader(model_path)
        if not isinstance(var_list, Mapping):
            wanted = {variable.op.name: variable for variable in var_list}
        there = {}
        for name, variable in wanted.items():
            if reader.has_tensor(name):
                there[name] = variable
            else:
                logging.warning("Variable %s missing in checkpoint %s", name, model_path)
        wanted = there
    if not wanted:
        logging.warning("No Variables to restore")
        return None
    saver = Saver(wanted, reshape=reshape_variables)

    def restore(session: Any) -> None:
        saver.restore(session, model_path)

    return restore
