"""Array kernels that go on from step to step: one program of XLA's where they are not part of another.

A loop of XLA's (`jax.lax`) that is called by itself would be compiled in each call.
Called by: ops._portable.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from headrace.ops._portable.table import device_of, is_jax, is_traced, tracing

Step = Callable[[Any, Any], tuple[Any, Any]]
"""(what is carried, a row of each array) -> (what is carried on, a row of each result)."""


@lru_cache(maxsize=256)
def _compiled(
    xp: Any, function: Callable[..., Any], said: tuple[tuple[str, Any], ...]
) -> Callable[..., Any]:
    import jax

    def traced(*arrays: Any) -> Any:
        with tracing():
            return function(xp, *arrays, **dict(said))

    program: Callable[..., Any] = jax.jit(traced)
    return program


def as_program(xp: Any, function: Callable[..., Any], *arrays: Any, **said: Any) -> Any:
    """What a function of (xp, arrays…) gives, which requires nothing.

    function: one of a module's own, for which programs are kept; said: its keyword arguments, which are hashable.
    """
    if is_jax(xp) and not is_traced():
        return _compiled(xp, function, tuple(sorted(said.items())))(*arrays)
    return function(xp, *arrays, **said)


def along(xp: Any, step: Step, carried: Any, rows: list[Any], reverse: bool = False) -> Any:
    """What is carried at the end, and the results [time, …]; rows: arrays [time, …]."""
    if is_jax(xp):
        from jax import lax

        return lax.scan(step, carried, rows, reverse=reverse)
    count = rows[0].shape[0]
    made: list[Any] = []
    for at in reversed(range(count)) if reverse else range(count):
        carried, row = step(carried, [each[at, ...] for each in rows])
        made.append(row)
    if reverse:
        made.reverse()
    return carried, [xp.stack(list(each), axis=0) for each in zip(*made, strict=True)]


def numbered(xp: Any, like: Any, count: int, rank: int = 1, axis: int = 0) -> Any:
    """int64 0, 1, …, so many of them, where `like` is: along one axis of an array of such a rank."""
    every = xp.arange(count, dtype=xp.int64, device=device_of(like))
    return xp.reshape(every, (*(1,) * axis, count, *(1,) * (rank - axis - 1)))
