"""What layers of `tf.contrib.layers` have in common: scopes, names of variables, what goes into collections.

Called by: library.contrib.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.base.arguments import several
from headrace.graph.collections import GraphKeys
from headrace.graph.names import name_scope
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.contrib.layer_utils import collect_named_outputs, get_variable_collections
from headrace.library.contrib.variables import model_variable, parts_of
from headrace.library.layers.base import add_regularization, is_new
from headrace.library.layers.parameters import OfVariable, Parameters
from headrace.library.variables.variable_scope import (
    VariableScope,
    get_variable,
    no_regularizer,
    variable_scope,
)
from headrace.ops.nn.bias import bias_add

__all__: list[str] = []

Collections = str | Sequence[str] | Mapping[str, Any] | None
"""Those of all variables, or by the short name of each."""


def layer_scope(
    scope: Any,
    default_name: str,
    values: Sequence[Any],
    reuse: Any,
    names: Mapping[str, str] | None = None,
) -> variable_scope:
    """The scope of a layer, in which get_variable makes model variables.

    names: what variables are called that tf.layers calls otherwise.
    """
    return variable_scope(
        scope, default_name, values, reuse=reuse, custom_getter=_getter(dict(names or {}))
    )


def _getter(names: Mapping[str, str]) -> Callable[..., Any]:
    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        outer, slash, last = name.rpartition("/")
        kwargs["rename"] = outer + slash + names.get(last, last)
        return _model_variable(getter, *args, **kwargs)

    return get


def _model_variable(
    getter: Callable[..., Any],
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    reuse: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    rename: str = "",
    use_resource: bool | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
    **_: Any,
) -> Any:
    others = {"synchronization": synchronization, "aggregation": aggregation}
    return model_variable(
        rename,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        collections=collections,
        trainable=trainable,
        caching_device=caching_device,
        partitioner=partitioner,
        custom_getter=functools.partial(getter, reuse=reuse),
        use_resource=use_resource,
        **{name: value for name, value in others.items() if value is not None},
    )


@contextmanager
def as_layer(scope: VariableScope) -> Iterator[None]:
    """Where a layer of tf.layers has its nodes: where the scope was opened first, if it is one that is entered again.

    It takes the name of its scope once within it, which shows where a node wants the same.
    """
    with variable_scope(scope):
        pass
    with name_scope(scope.original_name_scope):
        yield


class LayerParameters(Parameters):
    """Those of a layer of tf.layers, within a scope of contrib's: variables under their names there.

    There are biases if there is no normalizer and they have an initializer.
    variables_collections: where they go beside the usual ones.  names: as for `layer_scope`.
    """

    def __init__(
        self,
        normalizer_fn: Callable[..., Any] | None,
        biases_initializer: Any,
        biases_regularizer: Any,
        trainable: bool,
        variables_collections: Collections,
        names: Mapping[str, str],
    ) -> None:
        use_bias = not normalizer_fn and biases_initializer is not None
        of_bias = (biases_initializer, biases_regularizer, None)
        super().__init__(None, use_bias, of_bias, None, trainable)
        self._collections, self._names = variables_collections, dict(names)

    def variable(self, name: str, shape: Sequence[Any], dtype: Any, of: OfVariable) -> Any:
        """One in the scope in force; penalties of its parts are computed under the name that tf.layers has."""
        initializer, regularizer, constraint = of
        known = get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES)
        made = get_variable(
            name,
            shape,
            dtype,
            initializer,
            None if regularizer is None else no_regularizer,
            self._trainable,
            constraint=constraint,
        )
        if regularizer is not None and is_new(made, known):
            add_regularization(name, made, regularizer)
        add_to_collections(made, self._collections, self._names.get(name, name))
        return made

    def named_variable(self, name: str, shape: Sequence[Any], dtype: Any, of: OfVariable) -> Any:
        """A model variable of that name, where no layer of tf.layers makes it."""
        initializer, regularizer, _ = of
        keys = get_variable_collections(self._collections, name)
        return model_variable(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=self._trainable,
            collections=[keys] if isinstance(keys, str) else keys,
        )

    def with_biases(self, outputs: Tensor, count: int, data_format: str) -> Tensor:
        """With biases added, if wanted, where no layer of tf.layers does it."""
        if not self._use_bias:
            return outputs
        kind = outputs.dtype.base_dtype
        biases = self.named_variable("biases", [count], kind, self._of_bias)
        return bias_add(outputs, biases, data_format)


def add_to_collections(var: Any, collections: Collections, name: str) -> None:
    """Put a variable, each part of a partitioned one, where `collections` has variables of that name."""
    keys = get_variable_collections(collections, name)
    keys = [keys] if isinstance(keys, str) else () if keys is None else keys
    for key in several("layers", "variables_collections", keys, "names, or a dict of such lists"):
        for part in parts_of(var):
            known = get_default_graph().get_collection_ref(key)
            if not any(each is part for each in known):
                known.append(part)


def finished(
    outputs: Tensor,
    activation_fn: Callable[..., Any] | None,
    outputs_collections: str | Iterable[str] | None,
    scope: VariableScope,
) -> Any:
    """With the activation applied, in the collections under the name of the scope."""
    if activation_fn is not None:
        outputs = _function("activation_fn", activation_fn)(outputs)
    return collect_named_outputs(outputs_collections, scope.name, outputs)


def normalized(
    outputs: Tensor,
    normalizer_fn: Callable[..., Any] | None,
    normalizer_params: Mapping[str, Any] | None,
) -> Any:
    """What the normalizer makes of it, if there is one."""
    if normalizer_fn is None:
        return outputs
    return _function("normalizer_fn", normalizer_fn)(outputs, **(normalizer_params or {}))


def _function(name: str, given: Any) -> Callable[..., Any]:
    if not callable(given):
        raise TypeError(
            f"{name} must be a function, as tf.nn.relu is one, or None, and is {given!r}"
        )
    function: Callable[..., Any] = given
    return function
