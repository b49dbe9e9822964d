"""The tables of array kernels and of state kernels, by op.

Called by: ops._portable (fills it), plan.devices (reads it).  Threads: filled under a lock, then read.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from importlib import import_module
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_FILES: Final = (
    "elementwise",
    "reductions",
    "shapes",
    "products",
    "activations",
    "convolutions",
    "pooling",
    "normalization",
    "identities",
    "scattering",
    "rearranging",
    "segments",
    "quantization",
    "diagonals",
    "images",
    "image_parts",
    "fractional",
    "ctc",
    "sound",
    "recurrent",
    "drawing",
    "counting",
    "sparse",
    "parts",
    "of_jax",
    "state",
    "rows_of_state",
    "optimizers",
)


class ArrayKernel:
    """A function of (xp, inputs…), whose keyword-only parameters are attrs; None if JAX alone has it.

    host: places of inputs that stay in the host's memory, such as shapes and axes; -1 is the last one.  halves: so do
    as many inputs as stand behind them.  reals: it is
    for floating point numbers alone; others are computed on the host.  alone: it is no part of the programs that XLA
    makes of steps for processors, where NumPy's is quicker.  attrs: those that it takes, where its parameters do not
    say so.  with_jax: what stands in for it where `xp` is jax.numpy.  passes: it computes nothing, so that references,
    and what is with the host anyway, are the host's to pass on.
    """

    def __init__(
        self,
        function: Callable[..., Any] | None,
        host: Iterable[int],
        reals: bool,
        alone: bool,
        attrs: Sequence[str],
        passes: bool = False,
        halves: bool = False,
    ) -> None:
        self.function = function
        self.halves = halves
        self.host = frozenset(host)
        self.reals = reals
        self.alone = alone or passes
        self.passes = passes
        self._attrs = tuple(attrs)
        self.with_jax: Callable[..., Any] | None = None

    @cached_property
    def attrs(self) -> tuple[str, ...]:
        """Names of the attrs that it takes."""
        function = self.function or self.with_jax
        assert function is not None
        return self._attrs or _keywords(function)

    def function_for(self, xp: Any) -> Callable[..., Any] | None:
        """That of (xp, inputs…) for such a namespace; None if it has none."""
        return self.with_jax if self.with_jax is not None and is_jax(xp) else self.function

    def on_host(self, place: int, count: int) -> bool:
        """Whether the input at a place, of so many, stays with the host."""
        if self.halves:
            return 2 * place < count
        return place in self.host or place - count in self.host

    def stays(self, place: int) -> bool:
        """Whether the output at a place is with the host."""
        return False


READ: Final = "read"
ASSIGN: Final = "assign"
UPDATE: Final = "update"


class StateKernel:
    """What an op does with variables that live on a device; its first inputs are those, by reference or handle.

    does: READ, a function of (xp, the variable's value, other inputs…) that gives what is read; ASSIGN, one of (xp,
    value) that gives what the variable becomes; UPDATE, one of (xp, values…, other inputs…) that gives their next
    values.  Keyword-only parameters are attrs.  variables: how many there are.  host: see `ArrayKernel`; such a kernel
    is compiled only where those inputs are known.
    """

    reals = False

    def __init__(
        self, function: Callable[..., Any], does: str, variables: int, host: Iterable[int] = ()
    ) -> None:
        self.function, self.does, self.variables = function, does, variables
        self.host = frozenset(host)

    def on_host(self, place: int, count: int) -> bool:
        """See `ArrayKernel`: variables are passed as they are."""
        return place < self.variables or place in self.host

    def stays(self, place: int) -> bool:
        """See `ArrayKernel`: a reference is passed on."""
        return self.does != READ

    @cached_property
    def attrs(self) -> tuple[str, ...]:
        """Names of the attrs that it takes."""
        return _keywords(self.function)


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple([each.name for each in parameters if each.kind is each.KEYWORD_ONLY])


_kernels: dict[str, ArrayKernel] = {}
_of_state: dict[str, StateKernel] = {}
_required: ContextVar[list[Any] | None] = ContextVar("_required", default=None)


def check(fits: bool) -> None:
    """Raise ValueError unless what a kernel is given fits together; the host says what does not."""
    if not fits:
        raise ValueError("what does not fit is the host's to say")


def device_of(x: Any) -> Any:
    """Where to make what goes with an array; None while a kernel is traced: where it is compiled for."""
    return x.device if _required.get() is None else None


def require(xp: Any, condition: Any, otherwise: str) -> None:
    """Raise IndexError unless all elements hold; while a kernel is traced they are kept for who traces."""
    traced = _required.get()
    if traced is not None:
        traced.append(xp.all(condition))
    elif not bool(xp.all(condition)):
        raise IndexError(otherwise)


@contextmanager
def tracing() -> Iterator[list[Any]]:
    """What kernels require meanwhile, in this thread."""
    found: list[Any] = []
    token = _required.set(found)
    try:
        yield found
    finally:
        _required.reset(token)


def is_traced() -> bool:
    """Whether what this thread does is traced, to be compiled."""
    return _required.get() is not None


def is_jax(xp: Any) -> bool:
    """Whether a namespace is jax.numpy, whose arrays have more than the standard asks for."""
    return getattr(xp, "__name__", "") == "jax.numpy"


_lock = threading.Lock()
_loaded = False


def arrays(
    *names: str,
    host: Iterable[int] = (),
    reals: bool = False,
    alike: bool = False,
    alone: bool = False,
    attrs: Sequence[str] = (),
    passes: bool = False,
    halves: bool = False,
) -> Callable[[F], F]:
    """Decorator: the array kernel of ops; see `ArrayKernel`.  alike: of inputs of one shape alone."""

    def decorate(function: F) -> F:
        kernel = _of_alike(function) if alike else function
        for name in names:
            assert name not in _kernels, f"op {name} has two array kernels"
            _kernels[name] = ArrayKernel(kernel, host, reals, alone, attrs, passes, halves)
        return function

    return decorate


def with_jax(*names: str) -> Callable[[F], F]:
    """Decorator: what stands in for the array kernels of ops where JAX has something better."""

    def decorate(function: F) -> F:
        for name in names:
            _kernels[name].with_jax = function
        return function

    return decorate


def of_jax(*names: str, host: Iterable[int] = (), reals: bool = True) -> Callable[[F], F]:
    """Decorator: as `arrays`, of ops for which the array API standard has nothing, and JAX has."""

    def decorate(function: F) -> F:
        for name in names:
            assert name not in _kernels, f"op {name} has two array kernels"
            _kernels[name] = ArrayKernel(None, host, reals, True, ())
        return with_jax(*names)(function)

    return decorate


def _of_alike(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def kernel(xp: Any, *inputs: Any, **attrs: Any) -> Any:
        check(len({each.shape for each in inputs}) == 1)
        return function(xp, *inputs, **attrs)

    return kernel


def of_state(
    *names: str, does: str, variables: int = 1, host: Iterable[int] = ()
) -> Callable[[F], F]:
    """Decorator: the state kernel of ops; see `StateKernel`."""

    def decorate(function: F) -> F:
        for name in names:
            assert name not in _of_state, f"op {name} has two state kernels"
            _of_state[name] = StateKernel(function, does, variables, host)
        return function

    return decorate


def array_kernels() -> dict[str, ArrayKernel]:
    """All of them, by op."""
    _load()
    return _kernels


def state_kernels() -> dict[str, StateKernel]:
    """All of them, by op."""
    _load()
    return _of_state


def _load() -> None:
    global _loaded
    if not _loaded:
        with _lock:
            for name in _FILES:
                import_module(f"headrace.ops._portable.{name}")
            _loaded = True
