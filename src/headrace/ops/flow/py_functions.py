"""py_func: a Python function as a node, in the process that made it.

The node holds a token that no other process has; the function lives as long as the graph that it was made in.
It may wait for whatever it likes, another function of the same step too: unless nothing else of the step could begin
or end meanwhile, it is called in a thread of its own (`run.exec.callback_threads`).
Called by: programs.  Threads: any.
Source: TF 1.15 behaviour (python/ops/script_ops.py, lib/core/py_func.cc), whose tokens two processes may share
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.traits import CALLS_USER, MAY_WAIT, STATEFUL
from headrace.graph import scopes
from headrace.graph.build import apply_op
from headrace.graph.graph import Graph
from headrace.graph.registry import op
from headrace.run.exec.kernel import KernelContext
from headrace.run.exec.outcome import stopped

__all__ = ["numpy_function", "py_func"]


class _Registered:
    """A function, which weak references can be to."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call


_BY_TOKEN: WeakValueDictionary[str, _Registered] = WeakValueDictionary()
_OF_GRAPH: WeakKeyDictionary[Graph, list[_Registered]] = WeakKeyDictionary()
_NUMBERS = itertools.count()
_PROCESS = os.urandom(16).hex()

_RAISED: tuple[tuple[type[Exception], Callable[..., errors.OpError]], ...] = (
    (NotImplementedError, errors.unimplemented),
    (MemoryError, errors.resource_exhausted),
    (StopIteration, errors.out_of_range),
    (TypeError, errors.invalid_argument),
    (ValueError, errors.invalid_argument),
)


def _given(value: Any) -> Any:
    """An input as the function gets it: its own array, or a number or bytes."""
    array = np.asarray(value)
    return array[()] if array.ndim == 0 else array.copy()


def _returned(value: Any, wanted: DType, number: int, function: str) -> Any:
    """An array of the dtype that was promised.  Raises InvalidArgument, Internal (for what is no value of tensors)."""
    array = np.asarray(value)
    if array.dtype.kind == "O":
        for each in array.flat:
            if not isinstance(each, (str, bytes, bytearray, np.bytes_)):
                raise errors.internal(
                    f"Unsupported object type {type(each).__name__}: {number}-th value returned by {function} "
                    "holds one, "
                    f"and Tout says {wanted.name}"
                )
    if array.dtype.kind in "SUO" and wanted.base_dtype == dtypes.string:
        found = np.empty(array.shape, object)
        for at, each in np.ndenumerate(array):
            found[at] = each.encode() if isinstance(each, str) else bytes(each)
        return found
    if array.dtype != wanted.np:
        kind = dtypes.string if array.dtype.kind in "SUO" else dtypes.from_numpy(array.dtype)
        raise errors.invalid_argument(
            f"{number}-th value returned by {function} is {dtypes.spelled(kind)}, but expects "
            f"{dtypes.spelled(wanted)}: "
            f"that is what Tout says ({array.dtype} is not {wanted.name})"
        )
    return array.copy()


def _name_of(token: bytes) -> str:
    """What messages call a function: its token without what tells its process from others."""
    return "_".join(token.decode().split("_")[:2])


def _called(ctx: KernelContext, *input: Any, token: bytes, Tout: Sequence[DType]) -> Any:
    """What `_results` says, now or, where the function is called in a thread of its own, later."""
    step = ctx.step
    if step.scope.error is not None:  # nobody waits for the result any more
        raise stopped(step.scope.error, ctx.node) from step.scope.error

    def call() -> list[Any]:
        return _results(input, token, Tout)

    alone = step.apart or (step.rendezvous is None and step.scope.deadline is None)
    if ctx.node.inline and alone:
        return scopes.called_apart(call)
    return step.runtime.workers.callbacks.call(call, ctx.node.name)


def _results(given: Sequence[Any], token: bytes, Tout: Sequence[DType]) -> list[Any]:
    """What the function of `token` returns for `given`: an array of each dtype of Tout.

    Raises InvalidArgument in another process, and for what was not promised; what the function raises becomes
    InvalidArgument (TypeError, ValueError), OutOfRange (StopIteration), ResourceExhausted, Unimplemented or Unknown.
    """
    found = _BY_TOKEN.get(token.decode())
    if found is None:
        raise errors.invalid_argument(
            "the function of this py_func is not in this process, or its graph is gone: it can be called only in the "
            "process that made it, so place the node on a task there, or feed its results or enqueue them"
        )
    try:
        result = found.call(*map(_given, given))
    except (Exception, SystemExit) as error:
        for kind, make in _RAISED:
            if isinstance(error, kind):
                raise make(f"{type(error).__name__}: {error}") from error
        raise errors.unknown(f"{type(error).__name__}: {error}") from error
    values = list(result) if isinstance(result, (list, tuple)) else [result]
    if result is None:
        values = []
    name = _name_of(token)
    if len(values) != len(Tout):
        raise errors.invalid_argument(
            f"{name} returns {len(values)} values, but expects to see {len(Tout)} values: so many has Tout"
        )
    pairs = enumerate(zip(values, Tout, strict=True))
    return [_returned(value, kind, at, name) for at, (value, kind) in pairs]


_ARGUMENTS: dict[str, Any] = {
    "inputs": "input: Tin",
    "outputs": "output: Tout",
    "attrs": "token: string; Tin: list(type) >= 0; Tout: list(type) >= 0",
    "differentiable": False,
}
py_func_op = op("PyFunc", traits={CALLS_USER, STATEFUL, MAY_WAIT}, **_ARGUMENTS)(_called)
py_func_stateless_op = op("PyFuncStateless", traits={CALLS_USER, MAY_WAIT}, **_ARGUMENTS)(_called)


def py_func(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """A node that calls `func` with the values of `inp`, as arrays, numbers and bytes, in each step that needs it.

    Tout: the dtype of what it returns, or a list of them; a tensor or a list of tensors accordingly, the Operation for
    an empty list.  stateful=False: equal nodes may run once.  It runs in this process only: in local sessions, and on
    servers that this process has.  No gradient.  Raises ValueError if func is not callable.

    The functions of one step run side by side, each in a thread of its own, as far as they do not need each other's
    results; so they may wait for each other.  No graph or session of the caller's is the default in them.  A step that
    is cancelled or reaches its time limit ends at once; the function, which nothing can stop, goes on until it ends by
    itself.  In a local session and without a time limit the only function of a step is called in the step's own thread:
    Ctrl-C interrupts it, and `Session.close` in another thread waits for it.
    """
    if not callable(func):
        raise ValueError(f"Expected func to be callable, and it is {func!r:.80}")
    several = isinstance(Tout, (list, tuple))
    kinds = [dtypes.as_dtype(kind) for kind in (Tout if several else [Tout])]
    token = f"pyfunc_{next(_NUMBERS)}_{_PROCESS}"
    registered = _Registered(func)
    _BY_TOKEN[token] = registered
    spec = py_func_op if stateful else py_func_stateless_op
    node = apply_op(spec, (list(inp),), {"token": token, "Tout": kinds}, name or spec.name)
    _OF_GRAPH.setdefault(node.graph, []).append(registered)  # which its inputs may be of
    if not kinds:
        return node
    return list(node.outputs) if several else node.outputs[0]


def numpy_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None
) -> Any:
    """`py_func` of a function that may do something."""
    return py_func(func, inp, Tout, True, name)
