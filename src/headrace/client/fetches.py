"""Fetches: any nest of tensors, operations, names, variables → what to run, and back again.

Called by: client.session.  Threads: any; the results are immutable.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.traits import SESSION_HANDLE
from headrace.graph.graph import Graph, Operation
from headrace.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from headrace.graph.ragged import Ragged, RaggedTensorValue
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor


class InaccessibleTensorError(ValueError):
    """What was asked for belongs to a function, branch or loop, and cannot be had outside of it."""


Build = Callable[[list[Any]], Any]
Expansion = tuple[type, Callable[[Any], tuple[list[Any], Callable[[list[Any]], Any]]]]
_expansions: list[Expansion] = []


def register_fetch_conversion(
    kind: type, expand: Callable[[Any], tuple[list[Any], Callable[[list[Any]], Any]]]
) -> None:
    """Let objects of `kind` be fetched: `expand(obj)` gives the fetches it stands for and how to
    put their values together.
    """
    if any(kind is known for known, _ in _expansions):
        raise ValueError(f"{kind.__name__} has a fetch conversion already")
    _expansions.insert(0, (kind, expand))


def _expand_slices(fetch: IndexedSlices) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    parts: list[Any] = [fetch.values, fetch.indices]
    if fetch.dense_shape is not None:
        parts.append(fetch.dense_shape)
    return parts, lambda values: IndexedSlicesValue(*values)


def _expand_sparse(fetch: SparseTensor) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    parts = [fetch.indices, fetch.values, fetch.dense_shape]
    return parts, lambda values: SparseTensorValue(*values)


def _expand_ragged(fetch: Ragged) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    parts = [fetch.flat_values, *fetch.nested_row_splits]
    return parts, lambda values: RaggedTensorValue.from_nested(values[0], values[1:])


register_fetch_conversion(IndexedSlices, _expand_slices)
register_fetch_conversion(Ragged, _expand_ragged)
register_fetch_conversion(SparseTensor, _expand_sparse)


def _uninterpreted(fetch: Any, why: object) -> str:
    """Text of the error for what stands for nothing in the session's graph."""
    shown = fetch if isinstance(fetch, str) else repr(fetch)
    return f"Argument `fetch` = {shown:.100} cannot be interpreted as a Tensor. ({why})"


class _Pick:
    """The build of one tensor: the value at its index."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __call__(self, values: list[Any]) -> Any:
        return values[self.index]


def _nothing(values: list[Any]) -> Any:
    return None


def _picking(indices: list[int], kind: type[list[Any]] | type[tuple[Any, ...]]) -> Build:
    """A list or tuple of the values at these indices."""
    if len(indices) < 2:
        return lambda values: kind([values[index] for index in indices])
    pick = itemgetter(*indices)
    return pick if kind is tuple else lambda values: list(pick(values))


class Fetches:
    """A nest of fetches, resolved against one graph.

    tensors: what to fetch, each once.  targets: operations to run.  build(values of tensors) gives
    the nest with values in the places of tensors and None in those of operations.  single: the nest is one tensor or
    operation, as such.
    """

    __slots__ = ("_index", "_session", "build", "single", "targets", "tensors")

    def __init__(self, graph: Graph, fetches: Any, session: Any = None) -> None:
        """session: whose handles of tensors are fetched as such.

        Raises TypeError (None or something unfetchable), ValueError (another graph's).
        """
        self._session = session
        self.tensors: list[Tensor] = []
        self.targets: list[Operation] = []
        self._index: dict[Tensor, int] = {}
        self.build: Build = self._visit(graph, fetches)
        self._session = None
        self.single = self.build is _nothing or isinstance(self.build, _Pick)

    def _visit(self, graph: Graph, fetch: Any) -> Build:
        if fetch is None:
            raise TypeError(
                'Argument `fetch` = None has invalid type "NoneType". Cannot be None: give a tensor, an operation, a '
                "name or a nest of them"
            )
        if isinstance(fetch, (list, tuple)):
            return self._sequence(graph, fetch)
        if isinstance(fetch, Mapping):
            keys = list(fetch)
            builds = [self._visit(graph, fetch[key]) for key in keys]
            kind: Callable[..., Any] = type(fetch)
            if isinstance(fetch, defaultdict):
                kind = partial(kind, fetch.default_factory)
            if kind is dict:
                return lambda values: {
                    key: build(values) for key, build in zip(keys, builds, strict=True)
                }
            return lambda values: kind(
                [(key, build(values)) for key, build in zip(keys, builds, strict=True)]
            )
        if hasattr(type(fetch), "__attrs_attrs__"):
            names = [field.name for field in type(fetch).__attrs_attrs__]
            builds = [self._visit(graph, getattr(fetch, name)) for name in names]
            kind_ = type(fetch)
            return lambda values: kind_(
                **{n: b(values) for n, b in zip(names, builds, strict=True)}
            )
        for known, expand in _expansions:
            if isinstance(fetch, known):
                parts, join = expand(fetch)
                part_builds = [self._visit(graph, part) for part in parts]
                return lambda values: join([build(values) for build in part_builds])
        return self._leaf(graph, fetch)

    def _sequence(self, graph: Graph, fetch: Any) -> Build:
        builds = [self._visit(graph, item) for item in fetch]
        kind = type(fetch)
        picks = [build for build in builds if isinstance(build, _Pick)]
        if len(picks) == len(builds) and kind in (list, tuple):
            return _picking([pick.index for pick in picks], kind)
        if kind is list:
            plan: list[Any] = [b.index if isinstance(b, _Pick) else b for b in builds]
            return lambda values: [
                values[each] if each.__class__ is int else each(values) for each in plan
            ]
        if kind is tuple:
            return lambda values: tuple([build(values) for build in builds])
        if hasattr(fetch, "_fields"):
            return lambda values: kind(*[build(values) for build in builds])
        return lambda values: kind([build(values) for build in builds])

    def _leaf(self, graph: Graph, fetch: Any) -> Build:
        try:
            element = graph.as_graph_element(fetch)
        except TypeError as error:
            raise TypeError(
                f'Argument `fetch` = {fetch!r:.100} has invalid type "{type(fetch).__name__}" must be a string or '
                f"Tensor. ({error}; give a tensor, an operation, a name or a nest of them)"
            ) from None
        except ValueError as error:
            raise ValueError(_uninterpreted(fetch, error)) from None
        except KeyError as error:
            raise ValueError(_uninterpreted(fetch, error.args[0])) from None
        if not graph.is_fetchable(element):
            raise InaccessibleTensorError(
                f"{type(element).__name__} {element.name} has been marked as not fetchable: it belongs to "
                "another function "
                "or block of code, which can return it"
            )
        if isinstance(element, Operation):
            if element not in self.targets:
                self.targets.append(element)
            return _nothing
        if element._dtype._base is dtypes.variant:
            raise errors.internal(
                f"Tensorflow type {element._dtype.as_datatype_enum} not convertible to numpy dtype. {element.name} is "
                "a variant, which NumPy has no dtype for: fetch what ops make of it"
            )
        kind = element._dtype._base.name
        index = self._index.setdefault(element, len(self.tensors))
        if index == len(self.tensors):
            self.tensors.append(element)
        if self._session is not None and SESSION_HANDLE in element.op.traits:
            return self._handle(element, index)
        if element._dtype.is_quantized:
            return lambda values: np.asarray(values[index])[kind][()]
        return _Pick(index)

    def _handle(self, handle: Tensor, index: int) -> Build:
        """Its value as a TensorHandle."""
        from headrace.client.session_handles import TensorHandle

        session = weakref.ref(self._session)
        dtype = handle.op.inputs[0].dtype.base_dtype
        return lambda values: TensorHandle.fetched(values[index], dtype, session())


def cache_key(fetches: Any) -> Any:
    """A hashable value that is equal for nests of the same objects in the same form.

    Raises TypeError for nests that have none (unhashable leaves).
    """
    kind = type(fetches)
    if kind in _leaves:
        return fetches
    if isinstance(fetches, (list, tuple)):
        return (kind, *[each if type(each) in _leaves else cache_key(each) for each in fetches])
    if isinstance(fetches, Mapping):
        return (kind, *((key, cache_key(value)) for key, value in fetches.items()))
    hash(fetches)
    _leaves.add(kind)
    return fetches


_leaves: set[type] = {Tensor, Operation, str}
"""Types of fetches that are no nests, and hashable."""
