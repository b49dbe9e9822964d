"""How many threads NumPy's BLAS uses, where that can be told; and what is known of its kernels.

NumPy's wheels carry OpenBLAS, which starts threads of its own for one large product.  Where our threads share the work
(`run.exec.worker_pool`) each of them multiplies by itself, and OpenBLAS's threads would only stand in the way.  The
number belongs to the process, so it is lowered for as long as somebody asks for it and then given back.  With another
BLAS nothing happens.
Called by: run.exec.worker_pool, ops._kernels.product_parts.  Threads: any.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from headrace.run.exec.blas_memory import use_large_pages

_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads",
)
_CORES = ("scipy_openblas_get_corename64_", "scipy_openblas_get_corename", "openblas_get_corename")
_UNPACKED = (b"SkylakeX", b"Cooperlake", b"SapphireRapids")

Get = Callable[[], int]
Set = Callable[[int], object]


def _library() -> Any:
    """What NumPy's module and what that links to are asked for symbols by; None if it cannot be found."""
    import ctypes  # for the few programs that ask

    module = sys.modules.get("numpy._core._multiarray_umath")
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    try:
        return ctypes.PyDLL(path)  # calls are too short to let go of the interpreter's lock
    except OSError:
        return None


@functools.cache
def multiplies_as_they_lie() -> bool:
    """Whether it reads small matrices of float32 where they are, which its kernels for AVX-512 do; others pack them."""
    import ctypes

    library = _library()
    name = next((name for name in _CORES if hasattr(library, name)), None)
    if name is None:
        return False
    ask = getattr(library, name)
    ask.restype = ctypes.c_char_p
    return ask() in _UNPACKED


def _found() -> tuple[Get, Set] | None:
    """The functions of the OpenBLAS that NumPy has loaded."""
    library = _library()
    if library is None:
        return None
    for name in _NAMES:
        if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


class _Limit:
    """Who asks for how many threads at the moment; the lowest number holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked = False
        self._functions: tuple[Get, Set] | None = None
        self._before = 0  # what BLAS used when nobody asked, and uses
        self._now = 0
        self._asked: dict[threads, int] = {}
        self._alone = 0  # how many ask for one thread, by `hold`

    def functions(self) -> tuple[Get, Set] | None:
        if not self._looked:
            with self._lock:
                if not self._looked:
                    self._functions = _found()
                    if self._functions is not None:
                        use_large_pages(_library())
                    self._looked = True
        return self._functions

    def ask(self, who: threads, count: int) -> None:
        functions = self.functions()
        if functions is None:
            return
        with self._lock:
            self._remember(functions[0])
            self._asked[who] = count
            self._tell(functions[1])

    def give_back(self, who: threads) -> None:
        """Nothing for who has not asked: an interrupt may come before that."""
        if self._functions is None:
            return
        with self._lock:
            if self._asked.pop(who, None) is not None:
                self._tell(self._functions[1])

    def hold(self) -> None:
        """As `ask`, for one thread: as many steps do, each once, so it takes a third of the time."""
        functions = self._functions or self.functions()
        if functions is None:
            return
        with self._lock:
            if not self._alone:
                self._remember(functions[0])
                if self._now != 1:
                    functions[1](1)
                    self._now = 1
            self._alone += 1

    def let_go(self) -> None:
        """What `hold` asked for is over."""
        functions = self._functions
        if functions is None:
            return
        with self._lock:
            self._alone -= 1
            if not self._alone:
                self._tell(functions[1])

    def _remember(self, ask: Get) -> None:
        if not self._asked and not self._alone:
            self._before = self._now = ask()

    def _tell(self, change: Set) -> None:
        now = self._before
        if self._alone:
            now = 1
        elif self._asked:
            now = min(now, *self._asked.values())
        if now != self._now:
            change(now)
            self._now = now


_limit = _Limit()
hold, let_go = _limit.hold, _limit.let_go


class threads:
    """``with threads(1): …``: at most so many for each BLAS call, in the whole process.  To be entered once."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        _limit.ask(self, self._count)

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        _limit.give_back(self)


def current() -> int | None:
    """Threads that a BLAS call uses now; None where that is not known."""
    functions = _limit.functions()
    return None if functions is None else functions[0]()
