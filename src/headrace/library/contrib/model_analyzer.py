"""`slim.model_analyzer`: how large the variables and operations of a graph are.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["analyze_ops", "analyze_vars", "tensor_description"]

_LINE = "---------"


def tensor_description(var: Any) -> str:
    """Type and shape: ``(float32 2x3)``."""
    sizes = "x".join(str(size) for size in var.get_shape())
    return f"({var.dtype.name} {sizes})"


def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """How many elements the outputs of all operations have, as far as shapes are known; printed if wanted."""
    if print_info:
        print(_LINE, "Operations: name -> (type shapes) [size]", _LINE, sep="\n")
    total = 0
    for op in graph.get_operations():
        described, elements = [], 0
        for output in op.outputs:
            size = output.get_shape().num_elements() or 0
            if output.get_shape().ndims is not None:
                described.append(tensor_description(output))
            elements += size
        if print_info:
            print(op.name, "\t->", ", ".join(described), f"[{elements}]")
        total += elements
    return total


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> tuple[int, int]:
    """How many elements and bytes variables have; printed if wanted."""
    if print_info:
        print(_LINE, "Variables: name (type shape) [size]", _LINE, sep="\n")
    total, total_bytes = 0, 0
    for variable in variables:
        size = variable.get_shape().num_elements() or 0
        taken = size * variable.dtype.size
        total, total_bytes = total + size, total_bytes + taken
        if print_info:
            print(f"{variable.name} {tensor_description(variable)} [{size}, bytes: {taken}]")
    if print_info:
        print(
            f"Total size of variables: {total}",
            f"Total bytes of variables: {total_bytes}",
            sep="\n",
        )
    return total, total_bytes
