"""Functions of TensorFlow's gen_* modules: one op each, with its inputs and attrs as parameters.

Made from the op's schema when first asked for; which parameters there are, and in which order, is in raw_ops.txt.
Called by: facade.  Threads: any.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from headrace.base.missing import missing
from headrace.base.text import snake
from headrace.graph.registry import OPS, OpSpec
from headrace.graph.schemas import MISSING
from headrace.unmodified.table import raw_forms


def raw_function(name: str, form: str) -> Callable[..., Any] | None:
    """The function called `name` for ``Sum(input,axis=reduction_indices,keep_dims)``; None without such an op.

    It adds one node to the default graph.  It returns what TensorFlow's does: the output, a list where the output is
    one, a named tuple of several outputs, the Operation where there is none.  Raises TypeError, ValueError.
    """
    op, _, listed = form.rstrip(")").partition("(")
    spec = OPS.get(op)
    if spec is None:
        return None
    meant = {}
    for each in filter(None, listed.split(",")):
        given, _, other = each.partition("=")
        meant[given] = other or given
    signature = _signature(spec, meant)
    inputs = [arg.name for arg in spec.inputs]

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            said = str(error).replace(
                "missing a required argument", "missing 1 required positional argument"
            )
            raise TypeError(f"{snake(op)}() {said}; it is {name}{signature}") from None
        label = bound.pop("name", None)
        by_name = {meant[given]: value for given, value in bound.items()}
        tensors = [by_name.pop(each) for each in inputs]
        attrs = {
            attr: value
            for attr, value in by_name.items()
            if value is not None or spec.attrs[attr].default is MISSING
        }
        return spec(*tensors, name=label, **attrs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Add a node of op {op}; see headrace.graph.registry."
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def finding(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a module that has all ops as functions of arguments by name."""
    here = vars(sys.modules[module])

    def find(name: str) -> Any:
        if name.startswith("_") or name not in OPS:
            raise missing(module, name)
        found = raw_function(name, raw_forms().get(name) or form_of(OPS[name]))
        assert found is not None
        here[name] = made = _by_name_only(found)
        return made

    def listing() -> list[str]:
        return sorted({*(name for name in OPS if name[0] != "_"), *here} - {"TYPE_CHECKING"})

    return find, listing


def _by_name_only(function: Callable[..., Any]) -> Callable[..., Any]:
    names = [*inspect.signature(function).parameters]

    @wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise TypeError(
                f"{function.__name__} only takes keyword args (possible keys: {names}). Please pass these args as "
                "kwargs instead."
            )
        return function(**kwargs)

    return named


def form_of(spec: OpSpec) -> str:
    """The form of an op: its inputs, then the attrs that inputs do not say, those without defaults first."""
    told = {
        each
        for arg in spec.inputs
        for each in (arg.type_attr, arg.number_attr, arg.type_list_attr)
        if each
    }
    rest = [attr for attr in spec.attrs.values() if attr.name not in told]
    rest.sort(key=lambda attr: attr.default is not MISSING)  # those that must be given come first
    names = [arg.name for arg in spec.inputs] + [attr.name for attr in rest]
    return f"{spec.name}({','.join(names)})"


def _as_given(default: Any) -> Any:
    """The default of an attr as programs write it: text, and numbers with no more digits than float32 has."""
    if isinstance(default, bytes):
        return default.decode("latin-1")
    return float(str(np.float32(default))) if isinstance(default, float) else default


def _signature(spec: OpSpec, meant: dict[str, str]) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = []
    for given, name in meant.items():
        attr = spec.attrs.get(name)
        default: Any = inspect.Parameter.empty
        if attr is not None and attr.default is not MISSING:
            default = _as_given(attr.default)
        parameters.append(inspect.Parameter(given, kind, default=default))
    parameters.append(inspect.Parameter("name", kind, default=None))
    return inspect.Signature(parameters)
