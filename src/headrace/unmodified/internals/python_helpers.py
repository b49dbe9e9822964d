"""tensorflow.python.util: exports, decorators, inspection and other helpers that are about Python alone.

Called by: programs and libraries.  Threads: any.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class tf_export:
    """Decorator that changes nothing: under which public names something would be exported."""

    def __init__(self, *args: str, **kwargs: Any) -> None:
        self.names = args

    def __call__(self, thing: T) -> T:
        return thing

    def export_constant(self, module_name: str, name: str) -> None:
        """Nothing: there is no API that is generated from exports."""


keras_export = estimator_export = tf_export


def kwarg_only(function: F) -> F:
    """The function, which refuses arguments by place."""

    @functools.wraps(function)
    def strict(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise TypeError(
                f"{function.__name__} only takes keyword args; got {len(args)} by place"
            )
        return function(**kwargs)

    return strict  # type: ignore[return-value]


keyword_args_only = kwarg_only


class TFDecorator:
    """A wrapper that knows what it wraps."""

    def __init__(
        self,
        decorator_name: str,
        target: Callable[..., Any],
        decorator_doc: str = "",
        decorator_argspec: Any = None,
    ) -> None:
        self.decorator_name = decorator_name
        self.decorated_target = target
        self.decorator_doc = decorator_doc
        self.decorator_argspec = decorator_argspec
        functools.update_wrapper(self, target)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.decorated_target(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else functools.partial(self, instance)


def make_decorator(
    target: Callable[..., Any],
    decorator_func: F,
    decorator_name: str | None = None,
    decorator_doc: str = "",
    decorator_argspec: Any = None,
) -> F:
    """`decorator_func`, which looks like `target` to those who inspect it."""
    functools.update_wrapper(decorator_func, target)
    name = decorator_name or inspect.stack()[1].function
    decorator_func._tf_decorator = TFDecorator(  # type: ignore[attr-defined]
        name, target, decorator_doc, decorator_argspec
    )
    return decorator_func


def unwrap(maybe_tf_decorator: Any) -> tuple[list[TFDecorator], Any]:
    """(the decorators around a function, outermost first; the function)."""
    found: list[TFDecorator] = []
    target = maybe_tf_decorator
    while True:
        decorator = (
            target if isinstance(target, TFDecorator) else getattr(target, "_tf_decorator", None)
        )
        if decorator is None:
            return found, target
        found.append(decorator)
        target = decorator.decorated_target


def getargspec(target: Any) -> inspect.FullArgSpec:
    """The parameters of a function; further fields than those of old Pythons come last."""
    return inspect.getfullargspec(unwrap(target)[1])


getfullargspec = getargspec


def fn_args(fn: Any) -> tuple[str, ...]:
    """Names of the parameters that may be given by name, without `self` of bound methods."""
    if isinstance(fn, functools.partial):
        bound = fn_args(fn.func)[len(fn.args) :]
        return tuple(name for name in bound if name not in (fn.keywords or {}))
    if not inspect.isfunction(fn) and not inspect.ismethod(fn) and callable(fn):
        fn = fn.__call__
    names = inspect.getfullargspec(unwrap(fn)[1]).args
    return tuple(names[1:] if inspect.ismethod(fn) else names)


def has_kwargs(fn: Any) -> bool:
    """Whether a function takes any keyword."""
    if not inspect.isfunction(fn) and not inspect.ismethod(fn) and callable(fn):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__call__
    return inspect.getfullargspec(fn).varkw is not None


def get_func_name(func: Any) -> str:
    """What a function is called, whatever it is wrapped in."""
    _, target = unwrap(func)
    if isinstance(target, functools.partial):
        return get_func_name(target.func)
    return str(getattr(target, "__qualname__", None) or type(target).__name__)


def get_func_code(func: Any) -> Any:
    """The code object of a function, or None."""
    return getattr(unwrap(func)[1], "__code__", None)


class LazyLoader(ModuleType):
    """A module that is imported when its first attribute is asked for, into `parent_module_globals`."""

    def __init__(self, local_name: str, parent_module_globals: dict[str, Any], name: str) -> None:
        super().__init__(name)
        self._local_name = local_name
        self._parent_module_globals = parent_module_globals

    def __getattr__(self, item: str) -> Any:
        if item.startswith("__"):
            raise AttributeError(item)
        module = importlib.import_module(self.__name__)
        self._parent_module_globals[self._local_name] = module
        return getattr(module, item)


def make_all(module_name: str, doc_string_modules: Sequence[ModuleType] | None = None) -> list[str]:
    """The public names of a module."""
    return sorted(name for name in vars(sys.modules[module_name]) if not name.startswith("_"))


def remove_undocumented(
    module_name: str,
    allowed_exception_list: Sequence[str] | None = None,
    doc_string_modules: Sequence[ModuleType] | None = None,
) -> None:
    """Nothing: names that nobody documented do no harm."""


def unchanged(thing: T, *args: Any, **kwargs: Any) -> T:
    """`thing`: for decorators that only TensorFlow's own modules have a use for."""
    return thing


def decorator_unchanged(*args: Any, **kwargs: Any) -> Any:
    """As `unchanged`; also where the decorator has arguments."""
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    return unchanged
