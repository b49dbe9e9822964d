"""A Python function of a dataset's elements, as a function of the graph.

Called by: library.data.  Threads: building as graph.
Source: TF 1.15 python/data/ops/dataset_ops.py, for behaviour; the functions' nodes compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base.shapes import TensorShape
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.automatic_dependencies import Ordered
from headrace.graph.convert import convert
from headrace.graph.func_graph import FuncGraph
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.structures import (
    DatasetLeaf,
    element_of,
    flat_shapes,
    flat_types,
    of_tensors,
    spec_of,
    tensors_of,
)


class StructuredFunction:
    """The function, built for elements of one structure.

    reference: how an attr names it.  captured: what its callers pass beside the element.  structure: of its results.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        user: str,
        structure: Any,
    ) -> None:
        """user: the method that it is given to.  structure: of its arguments; a tuple's are several.

        Raises TypeError for results that cannot be an element.
        """
        self._user = user
        outer = scopes.get_default_graph()
        graph = FuncGraph(user, outer)
        with graph.as_default():
            ordered = Ordered(graph)
            tensors = [
                graph.add_argument(dtype, shape, f"args_{at}")
                for at, (dtype, shape) in enumerate(
                    zip(flat_types(structure), flat_shapes(structure), strict=True)
                )
            ]
            returned = func(*_arguments(structure, element_of(structure, tensors)))
            element = self._element(returned, func)
            self.structure = spec_of(element)
            ordered.returns(tensors_of(self.structure, element))
        name = outer.library.free_name(f"__inference_{_plain(user)}_{_name_of(func)}")
        graph.to_function(name, attrs={"_tf_data_function": True})
        self.captured: Sequence[Tensor] = graph.external_captures
        self.reference = pb.NameAttrList(name=name)
        self.reference.attr["_tf_data_function"].b = True

    def _element(self, returned: Any, func: Callable[..., Any]) -> Any:
        if isinstance(returned, list):  # of tensors that need not fit each other
            returned = tuple(returned)
        leaves = []
        for number, leaf in enumerate(nest.flatten(returned)):
            made = of_tensors(leaf)
            if made is not None:
                leaves.append(made)
                continue
            if leaf is None or isinstance(leaf, Operation):
                raise self._unsupported(returned, func)
            try:
                leaves.append(convert(leaf, name=f"component_{number}"))
            except (TypeError, ValueError) as error:
                raise self._unsupported(returned, func) from error
        return nest.pack_sequence_as(returned, leaves)

    def _unsupported(self, returned: Any, func: Callable[..., Any]) -> TypeError:
        return TypeError(
            f"Unsupported return value from function passed to {self._user}: {returned}. {func!r} is to return "
            "tensors, or a structure of them"
        )


class StateFunction:
    """A function of a state and an element, built for states of which no more is known than holds for all of them.

    state: their structure.  results: of the elements that it gives.  reference, captured: as of a `StructuredFunction`.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        user: str,
        state: Any,
        elements: Any,
        gives_elements: bool,
    ) -> None:
        """state: of the first one.  gives_elements: it returns (state, element), else a state.

        Raises TypeError: what it returns is no state.
        """
        while True:
            function = StructuredFunction(func, user, (state, elements))
            found = function.structure
            if gives_elements:
                if not isinstance(found, tuple) or len(found) != 2:
                    raise TypeError(
                        "Invalid `scan_func`. `scan_func` should return a pair consisting of new state and the output "
                        f"value, and gave {found!r}"
                    )
                found, self.results = found
            widened = _widened(state, found)
            if widened == state:
                break
            state = widened
        self.state = state
        self.reference, self.captured = function.reference, function.captured


def _widened(state: Any, found: Any) -> Any:
    """What both are.  Raises TypeError."""
    mine, its = nest.flatten(state), nest.flatten(found)
    try:
        nest.assert_same_structure(state, found)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "The element classes for the new state must match the initial state. "
            f"Expected {state!r}; got {found!r}."
        ) from error
    leaves = []
    for one, other in zip(mine, its, strict=True):
        if type(one) is not type(other):
            raise TypeError(
                "The element classes for the new state must match the initial state. "
                f"Expected {one!r}; got {other!r}."
            )
        widest = one.widest(other)
        if widest is None:
            raise TypeError(
                "The element types for the new state must match the initial state. "
                f"Expected {one.dtype!r}; got {other.dtype!r}."
            )
        leaves.append(widest)
    return nest.pack_sequence_as(state, leaves)


def _arguments(structure: Any, element: Any) -> Sequence[Any]:
    """What a function of elements is called with: a tuple's parts one by one."""
    return element if type(structure) is tuple else (element,)


def _plain(user: str) -> str:
    return user.removesuffix("()").replace(".", "_")


def _name_of(func: Callable[..., Any]) -> str:
    name = getattr(func, "__name__", None) or type(func).__name__
    return name.replace("<", "").replace(">", "")


def dataset_given(function: StructuredFunction, name: str) -> DatasetLeaf:
    """What it gives, which is one dataset.  Raises TypeError."""
    found = function.structure
    if not isinstance(found, DatasetLeaf):
        raise TypeError(
            f"The `{name}` argument must return a `Dataset` object. Got {found!r}: for tensors use map()"
        )
    return found


def scalar_of(function: StructuredFunction, dtype: Any) -> bool:
    """Whether it gives one scalar of that type, as far as is known."""
    leaves = nest.flatten(function.structure)
    return (
        len(leaves) == 1
        and leaves[0].dtype is dtype
        and leaves[0].shape.is_compatible_with(TensorShape([]))
    )
