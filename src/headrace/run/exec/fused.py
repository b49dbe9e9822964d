"""Fused kernels: a function of arrays, compiled by XLA for each of a few shapes, beside the steps that run.

Called by: plan.fusion (makes them), run.exec.tuning.  Threads: any; one compiles, and ends when there is nothing left.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from headrace.run.devices.device import HOST, Device

MOST_FORMS: Final = 8
"""Shapes that a kernel is compiled for; one that meets more keeps changing, and is not compiled any more."""


_MOST_S_AT_EXIT: Final = 60.0
_MOMENT_S: Final = 1e-3

Like = tuple[tuple[int, ...], Any]
"""The shape and dtype of an array."""


class Untraced(Exception):
    """A node of a group cannot be part of a program, at least not for such shapes."""

    def __init__(self, op: Any) -> None:
        super().__init__(op.name)
        self.op = op


class FusedKernel:
    """function: (array namespace, arrays…) -> (results, whether they hold; None: they do).  given: which it takes.
    device: where the arrays are.  told: which values it takes as `told`, a list of numbers of the host's: for others it
    is compiled anew.

    fell_back: how often it was not ready, or what it requires did not hold.  failed: it cannot be compiled; refused:
    the node for which that is so, if it is one's fault.
    on_hopeless: called when it keeps meeting other shapes.
    """

    stands_alone = False
    """Whether it pays even if others of its step keep meeting other shapes, and run node by node."""

    def __init__(
        self,
        function: Callable[..., Any],
        given: Sequence[int],
        device: Device = HOST,
        told: Sequence[int] = (),
    ) -> None:
        self._function, self._given, self._device = function, tuple(given), device
        self._told = tuple(told)
        self._forms: dict[Any, Callable[..., Any] | None] = {}
        self.fell_back = 0
        self._compiling: set[Any] = set()  # what for
        self.failed = False
        self.refused: Any = None
        self.on_hopeless: Callable[[], object] = lambda: None

    def __call__(self, values: Sequence[Any]) -> list[Any] | None:
        """Its results, which nobody may change; None: it is to be done node by node."""
        found = None if self._forked() else self._run(values)
        if found is None:
            self.fell_back += 1
        return found

    def _forked(self) -> bool:
        """Whether what is compiled is another process's, for good."""
        if compiler.forked:
            self.on_hopeless()
        return compiler.forked

    def _run(self, values: Sequence[Any]) -> list[Any] | None:
        told = [values[place] for place in self._told]
        if len(self._given) != len(values):
            values = [values[place] for place in self._given]
        form = self._ready(tuple([value.shape for value in values]), values, told)
        return None if form is None else form(values)

    def _ready(
        self, shapes: Any, values: Sequence[Any], told: Sequence[Any]
    ) -> Callable[..., Any] | None:
        """What is compiled for such shapes and numbers; None if it is not yet, or never will be."""
        like = (shapes, *[each.tobytes() for each in told]) if told else shapes
        return self._form_for(
            like, lambda: [(tuple(value.shape), value.dtype) for value in values], told
        )

    def _form_for(
        self, like: Any, likes: Callable[[], Any], told: Sequence[Any] = ()
    ) -> Callable[..., Any] | None:
        """As `_ready`.  like: what tells forms apart; likes: what is given, without the values."""
        form = self._forms.get(like)
        if form is None:
            if self.hopeless:
                self.on_hopeless()
            elif like not in self._forms:
                self._forms[like] = None
                self._compiling.add(like)
                given = likes()
                compiler.submit(lambda: self._compile(like, given, told))
        return form

    @property
    def pending(self) -> bool:
        """Whether it is being compiled for shapes that it has met."""
        return bool(self._compiling)

    @property
    def hopeless(self) -> bool:
        """Whether it keeps meeting other shapes."""
        return len(self._forms) >= MOST_FORMS

    def _compile(self, like: Any, likes: Any, told: Sequence[Any]) -> None:
        try:
            form = self._made(likes, told)
        except Exception as error:  # of tracing, or of XLA's: the nodes run one by one
            import logging  # which few processes need for this

            cause = error.__cause__ if isinstance(error, Untraced) else error
            logging.getLogger("headrace").info(
                "a group of nodes is not compiled: %s: %s%s",
                type(cause).__name__,
                cause,
                f" (of {error})" if cause is not error else "",
            )
            if isinstance(error, Untraced):
                self.refused = error.op
            self.failed = not any(each is not None for each in self._forms.values())
        else:
            self._forms[like] = form
        finally:
            self._compiling.discard(like)

    def _function_for(self, told: Sequence[Any]) -> Callable[..., Any]:
        return partial(self._function, told=told) if told else self._function

    def _made(self, likes: Sequence[Like], told: Sequence[Any]) -> Callable[..., Any]:
        """It compiled, which it is when it runs for the first time."""
        from headrace.run.devices import xla  # where there is JAX

        compiled = xla.compiled if self._device is HOST else self._device.compiled
        form = compiled(self._function_for(told))
        form(self._like(likes))
        return form

    def _like(self, likes: Sequence[Like]) -> list[Any]:
        """Arrays of such shapes and dtypes, where it computes."""
        return [self._device.put(np.ones(shape, dtype)) for shape, dtype in likes]


class _Compiler:
    """One thread, while there is something to compile.

    forked: this process was forked from one that had used JAX, which does not survive that: what is compiled is of no
    use, and nothing more is.
    """

    forked = False

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], object]] = deque()
        self._running = False
        self._ends = False
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        self._idle = threading.Condition(self._lock)

    def submit(self, work: Callable[[], object]) -> None:
        """Have it done soon."""
        with self._lock:
            if self._ends:
                return
            self._waiting.append(work)
            if self._running:
                return
            self._running, self._process = True, os.getpid()
            thread = threading.Thread(target=self._run, name="headrace xla", daemon=True)
            self._thread = thread
        thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Until nothing is left.  Whether that is so."""
        with self._lock:
            return self._idle.wait_for(lambda: not self._running, timeout_s)

    def end(self) -> None:
        """The process ends: what is being compiled is waited for, since XLA aborts where its thread just vanishes."""
        if os.getpid() != self._process:  # forked meanwhile: the thread is the parent's
            return
        with self._lock:
            self._ends = True
            self._waiting.clear()
            idle = self._idle.wait_for(lambda: not self._running, _MOST_S_AT_EXIT)
            thread = self._thread
        if idle and thread is not None:
            _see_off(thread, _MOST_S_AT_EXIT)

    def begin_anew(self) -> None:
        """In a process that was just forked, which has neither the thread nor whoever has locked something."""
        self._begin()
        self.forked = self._ends = "jax" in sys.modules

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    self._idle.notify_all()
                    return
                work = self._waiting.popleft()
            work()


def _see_off(thread: threading.Thread, timeout_s: float) -> None:
    """Until a thread is gone, with what libraries do at the end of one, for which JAX's takes the interpreter's lock:
    while the process ends it would be killed there, and the process with it.
    """
    ends = time.monotonic() + timeout_s
    thread.join(timeout_s)
    while _is_there(thread) and time.monotonic() < ends:
        time.sleep(_MOMENT_S)


def _is_there(thread: threading.Thread) -> bool:
    """Whether the system has a thread still; where it does not say, it has not."""
    if thread.native_id is None:
        return False
    try:
        os.kill(thread.native_id, 0)
    except OSError:
        return False
    return True


compiler: Final = _Compiler()
atexit.register(compiler.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=compiler.begin_anew)
