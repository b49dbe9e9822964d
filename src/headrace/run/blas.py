"""How many threads NumPy's BLAS uses, where that can be told.

NumPy's wheels carry OpenBLAS, which starts threads of its own for one large product.  Where our threads share the work
(`run.team`) each of them multiplies by itself, and OpenBLAS's threads would only stand in the way.  The number belongs
to the process, so it is lowered for as long as somebody asks for it and then given back.  With another BLAS nothing
happens.
Called by: run.team.  Threads: any.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType

_NAMES = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads",
)

Get = Callable[[], int]
Set = Callable[[int], object]


def _found() -> tuple[Get, Set] | None:
    """The functions of the OpenBLAS that NumPy has loaded: a symbol is looked for in what its module links to, too."""
    import ctypes  # for the few programs that ask

    module = sys.modules.get("numpy._core._multiarray_umath")
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    for name in _NAMES:
        if hasattr(library, name.format("set")) and hasattr(library, name.format("get")):
            return getattr(library, name.format("get")), getattr(library, name.format("set"))
    return None


class _Limit:
    """How many threads are asked for at the moment; the lowest number holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked = False
        self._functions: tuple[Get, Set] | None = None
        self._before = 0
        self._asked: list[int] = []

    def functions(self) -> tuple[Get, Set] | None:
        with self._lock:
            if not self._looked:
                self._functions, self._looked = _found(), True
            return self._functions

    def change(self, asked: int, ended: bool) -> None:
        """Somebody begins or ends to ask for so many threads.  Telling OpenBLAS takes 10 µs, so only of a change."""
        functions = self.functions()
        if functions is None:
            return
        with self._lock:
            if not self._asked:
                self._before = functions[0]()
            held = min(self._before, *self._asked, self._before)
            if ended:
                self._asked.remove(asked)
            else:
                self._asked.append(asked)
            now = min(self._before, *self._asked, self._before)
            if now != held:
                functions[1](now)


_limit = _Limit()


class threads:
    """``with threads(1): …``: at most so many for each BLAS call, in the whole process."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __enter__(self) -> None:
        _limit.change(self._count, ended=False)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _limit.change(self._count, ended=True)


def current() -> int | None:
    """Threads that a BLAS call uses now; None where that is not known."""
    functions = _limit.functions()
    return None if functions is None else functions[0]()
