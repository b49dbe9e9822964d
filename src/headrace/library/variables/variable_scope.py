"""variable_scope and get_variable: variables that are found again by name.

A graph has one store of variables by full name.  A scope gives names a prefix and holds defaults
(initializer, dtype, …) that `get_variable` calls and scopes inside it inherit.  Entering a variable
scope opens a name scope too, whose name differs when the same scope is entered again.
Called by: layers, make_template, programs.
Threads: the current scope is the thread's own; the store belongs to the graph.
Source: TF 1.15 behaviour; names, reuse rules and errors checked against the oracle
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert, graph_of
from headrace.graph.graph import Graph
from headrace.library.variables.variable_store import VariableStore
from headrace.library.variables.variables import VariableAggregation, VariableSynchronization

__all__ = [
    "AUTO_REUSE",
    "VariableScope",
    "get_local_variable",
    "get_variable",
    "get_variable_scope",
    "no_regularizer",
    "variable_scope",
]


class _ReuseMode(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE: Final = _ReuseMode.AUTO_REUSE
"""As `reuse`: find the variable, or make it if there is none."""

Reuse = bool | _ReuseMode | None


def no_regularizer(_: Any) -> None:
    """A regularizer that stops the scope's from being inherited."""


class VariableScope:
    """A prefix for names, and defaults for what `get_variable` is not told."""

    def __init__(
        self,
        reuse: Reuse,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._reuse = reuse
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = dtype
        self._use_resource = use_resource
        self._constraint = constraint

    @property
    def name(self) -> str:
        """The prefix, without a trailing '/'."""
        return self._name

    @property
    def original_name_scope(self) -> str:
        """The name scope that was opened with it first, with a trailing '/'."""
        return self._name_scope

    @property
    def reuse(self) -> Reuse:
        """True: variables must exist; AUTO_REUSE: they may; otherwise they must not."""
        return self._reuse

    @property
    def initializer(self) -> Any:
        """Default initializer."""
        return self._initializer

    @property
    def dtype(self) -> Any:
        """Default dtype."""
        return self._dtype

    @property
    def use_resource(self) -> bool | None:
        """Default of use_resource: in a branch, loop or function that is a graph of its own, True."""
        function = scopes.function_being_built()
        return True if function is not None and function.functional_flow else self._use_resource

    @property
    def regularizer(self) -> Any:
        """Default regularizer."""
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        """Default caching device."""
        return self._caching_device

    @property
    def partitioner(self) -> Any:
        """Default partitioner."""
        return self._partitioner

    @property
    def custom_getter(self) -> Any:
        """What `get_variable` calls instead of getting the variable itself."""
        return self._custom_getter

    @property
    def constraint(self) -> Any:
        """Default constraint."""
        return self._constraint

    def reuse_variables(self) -> None:
        """From here on variables of this scope must exist."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Change the default initializer."""
        self._initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        """Change the default dtype."""
        self._dtype = dtype

    def set_use_resource(self, use_resource: bool | None) -> None:
        """Change the default of use_resource."""
        self._use_resource = use_resource

    def set_regularizer(self, regularizer: Any) -> None:
        """Change the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        """Change the default caching device."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Change the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Change what `get_variable` calls."""
        self._custom_getter = custom_getter

    def get_collection(self, name: Any) -> list[Any]:
        """What a collection has from this scope."""
        return scopes.get_default_graph().get_collection(name, self._name and self._name + "/")

    def trainable_variables(self) -> list[Any]:
        """The trainable variables of this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Any]:
        """The global variables of this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        """The local variables of this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        var_store: VariableStore,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Reuse = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
    ) -> Any:
        """The variable `name` of this scope (see `tf.get_variable`), defaults filled in."""
        full_name = f"{self._name}/{name}" if self._name else name
        with scopes.get_default_graph().name_scope(
            None
        ):  # the name depends on variable scopes only
            if dtype is not None:
                dtype = dtypes.as_dtype(dtype).base_dtype
                if initializer is not None and not callable(initializer):
                    _check_type(full_name, initializer, dtype)
            return var_store.get_variable(
                full_name,
                shape=shape,
                dtype=_first(dtype, self._dtype),
                initializer=_first(initializer, self._initializer),
                regularizer=_first(regularizer, self._regularizer),
                reuse=_first(reuse, self._reuse),
                trainable=trainable,
                collections=collections,
                caching_device=_first(caching_device, self._caching_device),
                partitioner=_first(partitioner, self._partitioner),
                validate_shape=validate_shape,
                use_resource=_first(use_resource, self.use_resource),
                custom_getter=_first(custom_getter, self._custom_getter),
                constraint=_first(constraint, self._constraint),
                synchronization=synchronization,
                aggregation=aggregation,
            )


def _first(given: Any, default: Any) -> Any:
    return default if given is None else given


def _check_type(name: str, initializer: Any, dtype: dtypes.DType) -> None:
    found = convert(initializer).dtype.base_dtype
    if found != dtype:
        raise ValueError(
            f"Initializer type '{found}' and explicit dtype '{dtype}' don't match: "
            f"give variable {name} only one of them, or tf.cast the initializer"
        )


class _Current(threading.local):
    """A thread's current scope in a graph, and how often scopes were opened (for unique names)."""

    def __init__(self) -> None:
        self.scope = VariableScope(False)
        self.counts: dict[str, int] = {}

    def open(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def close_inside(self, name: str) -> None:
        """What is opened inside `name` next counts from zero again."""
        # Of the scope '' nothing: no name begins so.
        prefix = name + "/"
        for key in [key for key in self.counts if key.startswith(prefix)]:
            del self.counts[key]

    def unique(self, prefix: str) -> str:
        """`prefix`, with ``_1``, ``_2``, … if a scope of that name is open or was opened here."""
        inside = f"{self.scope.name}/" if self.scope.name else ""
        if not self.counts.get(inside + prefix):
            return prefix
        index = 1
        while self.counts.get(f"{inside}{prefix}_{index}"):
            index += 1
        return f"{prefix}_{index}"


_STORE_KEY = ("__variable_store",)
_SCOPE_KEY = ("__varscope",)


def _kept(key: Any, make: Callable[[], Any]) -> Any:
    graph = scopes.get_default_graph()
    kept = graph._collections.get(key) or graph.get_collection_ref(key)
    if not kept:
        kept.append(make())
    return kept[0]


def _current() -> _Current:
    found: _Current = _kept(_SCOPE_KEY, _Current)
    return found


def _default_store() -> VariableStore:
    found: VariableStore = _kept(_STORE_KEY, VariableStore)
    return found


def stored_variables() -> dict[str, Any]:
    """What `get_variable` has made in the default graph, by full name; parts under their own names."""
    return dict(_default_store()._variables)


def get_variable_scope() -> VariableScope:
    """The current scope."""
    return _current().scope


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
) -> Any:
    """The variable `name` of the current scope: made, or found if the scope says so.

    initializer: a function of (shape, dtype=…), an initializer class, a function without
    parameters, or a value (then give no shape); by default glorot_uniform for floats, else zeros.
    Raises ValueError if it exists and may not, must exist and does not, or differs in shape or dtype.
    """
    return get_variable_scope().get_variable(
        _default_store(),
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def partitioned_variable(scope: VariableScope, partitioner: Any, **arguments: Any) -> Any:
    """The variable in parts whose name is that of `scope` itself.

    arguments: as those of `get_variable`; the rest is the scope's.
    """
    with scopes.get_default_graph().name_scope(None):
        return _default_store().get_partitioned(
            scope.name,
            partitioner=partitioner,
            reuse=scope.reuse,
            regularizer=scope.regularizer,
            caching_device=scope.caching_device,
            use_resource=scope.use_resource,
            constraint=scope.constraint,
            **arguments,
        )


def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = False,
    collections: Any = None,
    **others: Any,
) -> Any:
    """`get_variable` for the LOCAL_VARIABLES collection; not trainable.

    others: the further parameters of `get_variable`.
    """
    keys = [*(collections or ()), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, shape, dtype, initializer, regularizer, False, keys, **others)


class _Opened:
    """A scope that has become the current one of its graph and thread.  again: as one that there was before."""

    def __init__(self, scope: VariableScope, again: bool) -> None:
        self.scope, self._current = scope, _current()
        current = self._current
        current.open(scope.name)
        self._outer = current.scope
        self._counts = dict(current.counts) if again else None
        current.scope = scope

    def close(self) -> None:
        """Have the one before back."""
        current = self._current
        current.close_inside(self.scope.name)
        if self._counts is not None:
            current.counts = self._counts
        current.scope = self._outer


class variable_scope:
    """Context manager: variables got inside are named under this scope and inherit its defaults.

    It is of the graph that was the default when it was made, and entered again it is the scope that it was.
    """

    def __init__(
        self,
        name_or_scope: str | VariableScope | None,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Reuse = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        """`default_name` is made unique, and used if `name_or_scope` is None.

        reuse: True, AUTO_REUSE, or None or False to inherit.  `auxiliary_name_scope` False opens no
        name scope.  constraint: of variables got in this scope itself; scopes inside do not inherit it.
        Raises ValueError, TypeError.
        """
        if default_name is None and name_or_scope is None:
            raise TypeError(
                "If default_name is None then name_or_scope is required: a variable_scope has a name"
            )
        if name_or_scope is not None and not isinstance(name_or_scope, (str, VariableScope)):
            raise TypeError(
                f"VariableScope: name_or_scope must be a string or VariableScope, not {name_or_scope!r}"
            )
        if reuse not in (None, False, True, AUTO_REUSE):
            raise ValueError(
                f"The reuse parameter must be True or False or None, or AUTO_REUSE, not {reuse!r}"
            )
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(
                f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope!r}"
            )
        if name_or_scope is None and reuse:
            raise ValueError(
                "reuse=True cannot be used without a name_or_scope: a scope named by default is always new"
            )
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._graph = graph_of(values) if values else scopes.get_default_graph()
        self._unique: str | None = None  # the name made of `default_name`
        self._origin: str | None = None  # the name scope that was opened with it first
        self._reuse = reuse or None
        self._auxiliary = auxiliary_name_scope
        given = (
            ("_initializer", initializer),
            ("_regularizer", regularizer),
            ("_caching_device", caching_device),
            ("_partitioner", partitioner),
            ("_dtype", None if dtype is None else dtypes.as_dtype(dtype)),
            ("_use_resource", use_resource),
            ("_constraint", constraint),
        )
        self._given = [pair for pair in given if pair[1] is not None]
        self._custom_getter = custom_getter
        self._entered: list[tuple[Graph, list[AbstractContextManager[str]], _Opened]] = []

    def __enter__(self) -> VariableScope:
        graph = self._graph
        if graph.building_function:
            graph = scopes.get_default_graph()
        scopes.enter(graph)
        names: list[AbstractContextManager[str]] = []  # what was entered, one or none
        try:
            opened = self._open(graph, names)
        except BaseException:
            for block in names:
                block.__exit__(None, None, None)
            scopes.leave(graph)
            raise
        self._entered.append((graph, names, opened))
        return opened.scope

    def __exit__(self, *_: object) -> None:
        graph, names, opened = self._entered.pop()
        opened.close()
        for block in names:
            block.__exit__(None, None, None)
        scopes.leave(graph)

    def _open(self, graph: Graph, names: list[AbstractContextManager[str]]) -> _Opened:
        target = self._name_or_scope

        def name_scope(name: str | None) -> str:
            block = graph.name_scope(name)
            found = block.__enter__()
            names.append(block)
            return found

        if target is None:
            assert self._default_name is not None
            opened = name_scope(self._default_name) if self._auxiliary else _here(graph, name_scope)
            if self._unique is None:
                self._unique, self._origin = _current().unique(self._default_name), opened
            return self._opened(self._unique, self._origin or "")
        short = target if isinstance(target, str) else target.name.rpartition("/")[2]
        if not short and self._auxiliary:
            origin = target if isinstance(target, str) else target.original_name_scope
            return self._opened(target, origin)
        opened = name_scope(short) if self._auxiliary else _here(graph, name_scope)
        if isinstance(target, VariableScope):
            opened = target.original_name_scope
        if self._origin is None:
            self._origin = opened
        return self._opened(target, self._origin)

    def _opened(self, target: str | VariableScope, origin: str) -> _Opened:
        """Make the new scope current; `origin`: its name scope."""
        outer = _current().scope
        if isinstance(target, VariableScope):
            base, name = target, target.name
            reuse = self._reuse or base.reuse
        else:
            base = outer
            name = f"{outer.name}/{target}" if outer.name else target
            reuse = self._reuse or outer.reuse
        scope = self._derived(base, name, reuse, origin)
        return _Opened(scope, isinstance(target, VariableScope))

    def _derived(self, base: VariableScope, name: str, reuse: Reuse, origin: str) -> VariableScope:
        # A constraint is that of the scope that it was given to, and of none inside.
        made = VariableScope(
            reuse,
            name,
            base.initializer,
            base.regularizer,
            base.caching_device,
            base.partitioner,
            _chained(self._custom_getter, base.custom_getter),
            origin,
            base.dtype,
            base.use_resource,
        )
        for what, value in self._given:
            setattr(made, what, value)
        return made


def _chained(inner: Any, outer: Any) -> Any:
    """`inner`, whose own getter is `outer` if there is one."""
    if inner is None or outer is None:
        return outer if inner is None else inner

    # By the name that every getter has for it.
    def both(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return inner(partial(outer, getter), *args, **kwargs)

    return both


def unique_variable_scope(prefix: str) -> str:
    """`prefix`, numbered if a scope of that name was opened inside the current one."""
    return _current().unique(prefix)


def pure_variable_scope(
    name: str, custom_getter: Any = None
) -> AbstractContextManager[VariableScope]:
    """Context manager: the scope `name` inside the current one, without a name scope."""
    return _Pure(variable_scope(name, custom_getter=custom_getter), name)


def _here(graph: Graph, name_scope: Callable[[str | None], str]) -> str:
    """The name scope that is in force, entered anew."""
    here = graph.get_name_scope()
    return name_scope(here + "/" if here else None)


class _Pure(AbstractContextManager[VariableScope]):
    """Enters the variable scope alone."""

    def __init__(self, scope: variable_scope, name: str) -> None:
        self._scope, self._name = scope, name
        self._entered: list[_Opened] = []

    def __enter__(self) -> VariableScope:
        self._entered.append(self._scope._opened(self._name, self._name))
        return self._entered[-1].scope

    def __exit__(self, *_: object) -> None:
        self._entered.pop().close()
