"""The operation that a SavedModel runs when it is loaded: variables and tables that are not in its checkpoint.

Called by: programs.  Threads: as graph.
"""

from __future__ import annotations

from typing import Any

from headrace.graph import scopes
from headrace.graph.graph import Operation
from headrace.library.variables.variable_lists import (
    global_variables_initializer,
    local_variables_initializer,
    tables_initializer,
)
from headrace.ops.flow.identities import group

__all__ = ["main_op", "main_op_with_restore"]


def main_op() -> Operation:
    """An operation that initializes global and local variables and tables."""
    return group(
        global_variables_initializer(), local_variables_initializer(), tables_initializer()
    )


def main_op_with_restore(restore_op_name: Any) -> Operation:
    """The same, and after it the operation `restore_op_name`.  Raises TypeError (not an operation)."""
    with scopes.get_default_graph().control_dependencies([main_op()]):
        return group(restore_op_name)
