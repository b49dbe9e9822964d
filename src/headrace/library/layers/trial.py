"""What a function of tf.layers makes of inputs of some shape: which variables, and outputs of which shape.

It is called in a graph of its own, where placeholders stand for the variables, so nothing is made in the program's.
Called by: library.layers.classes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from headrace.base.shapes import TensorShape
from headrace.graph.graph import Graph
from headrace.graph.tensor import Tensor
from headrace.library.layers.base import Entered
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.placeholders import placeholder

__all__: list[str] = []

_NOT_CALLED = {"activation": None, "activity_regularizer": None, "training": False}


class Wanted(NamedTuple):
    """A variable.  of: its initializer, regularizer and constraint.  whole: it is not cut into parts."""

    name: str
    shape: Any
    dtype: Any
    of: tuple[Any, Any, Any]
    trainable: bool
    whole: bool


def tried(
    function: Callable[..., Tensor], arguments: Mapping[str, Any], shape: Any, dtype: Any, name: str
) -> tuple[list[Wanted], TensorShape]:
    """What the function asks for, in order, and its outputs' shape.  Raises what it does of such inputs.

    name: of the layer, for errors.
    """
    noted: dict[Tensor, Any] = {}  # regularizers
    found: list[tuple[Tensor, Wanted]] = []

    def note(regularizer: Any) -> Callable[[Tensor], None]:
        def regularized(value: Tensor) -> None:
            noted[value] = regularizer

        return regularized

    def stands_in(getter: Any, name: str, *, shape: Any, dtype: Any, **others: Any) -> Tensor:
        made = placeholder(dtype, shape)
        of = others.get("initializer"), None, others.get("constraint")
        trainable = others.get("trainable") is not False
        whole = others.get("partitioner") is not _cut
        found.append((made, Wanted(name.rpartition("/")[2], shape, dtype, of, trainable, whole)))
        return made

    given = dict(arguments)
    for argument, value in given.items():
        if argument in _NOT_CALLED:
            given[argument] = _NOT_CALLED[argument]
        elif argument.endswith("_regularizer") and value is not None:
            given[argument] = note(value)
    with (
        Graph().as_default(),
        variable_scope(name, custom_getter=stands_in, partitioner=_cut),
    ):
        outputs = function(placeholder(dtype, shape, "inputs"), **{**given, "name": Entered(name)})
    wanted = [each._replace(of=(each.of[0], noted.get(made), each.of[2])) for made, each in found]
    return wanted, outputs.shape


def _cut(**_: Any) -> Any:
    raise AssertionError("what stands for a variable is not cut")
