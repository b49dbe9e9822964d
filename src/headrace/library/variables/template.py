"""make_template: a function that makes variables on its first call and uses them on later ones.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour, checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.library.variables.variable_scope import (
    AUTO_REUSE,
    VariableScope,
    pure_variable_scope,
    unique_variable_scope,
    variable_scope,
)

__all__ = ["make_template"]


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """`func_` as a template: its `get_variable` calls share variables between calls.

    kwargs: arguments that every call passes.  create_scope_now_: name its variable scope now, not on
    the first call.  unique_name_: that very name, even if another template has it (they share).
    """
    if kwargs:
        func_ = partial(func_, **kwargs)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """A function with a variable scope of its own."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: Any = None,
    ) -> None:
        if name is None:
            raise ValueError("a template needs a name")
        self._name = name
        self._func = func
        self._unique_name = unique_name
        self._custom_getter = custom_getter
        self._created = False
        self._scope: VariableScope | None = None
        if create_scope_now:
            own = unique_name or unique_variable_scope(name)
            with pure_variable_scope(own, custom_getter=custom_getter) as scope:
                self._scope = scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.  Raises ValueError if a later call makes a trainable variable."""
        if self._scope is not None:
            reuse = True if self._created else AUTO_REUSE
            with variable_scope(self._scope, reuse=reuse):
                return self._call(args, kwargs)
        with variable_scope(
            self._unique_name, self._name, custom_getter=self._custom_getter
        ) as scope:
            self._scope = scope
            return self._call(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        graph = scopes.get_default_graph()
        before = len(trained := graph.get_collection_ref(GraphKeys.TRAINABLE_VARIABLES))
        result = self._func(*args, **kwargs)
        if not self._created:
            self._created = True
        elif len(trained) != before:
            raise ValueError(
                "Trainable variable created when calling a template after the first time, perhaps you used "
                f"tf.Variable when you meant tf.get_variable: {[v.name for v in trained[before:]]} of "
                f"template {self._name!r}"
            )
        return result

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """Its scope; None before it is named."""
        return self._scope

    @property
    def var_scope(self) -> VariableScope | None:
        """Same as `variable_scope`."""
        return self._scope

    @property
    def variable_scope_name(self) -> str | None:
        """Its scope's name, without a trailing '/'; None before it is named."""
        return None if self._scope is None else self._scope.name

    @property
    def global_variables(self) -> list[Any]:
        """Its global variables."""
        return [] if self._scope is None else self._scope.global_variables()

    @property
    def local_variables(self) -> list[Any]:
        """Its local variables."""
        return [] if self._scope is None else self._scope.local_variables()

    @property
    def variables(self) -> list[Any]:
        """Its global and local variables."""
        return self.global_variables + self.local_variables

    @property
    def trainable_variables(self) -> list[Any]:
        """Its trainable variables."""
        return [] if self._scope is None else self._scope.trainable_variables()

    @property
    def non_trainable_variables(self) -> list[Any]:
        """Its variables that are not trainable."""
        trainable = self.trainable_variables
        return [variable for variable in self.variables if variable not in trainable]
