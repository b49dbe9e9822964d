"""XLA's devices, by way of JAX: arrays of jax.numpy, each kernel compiled for the shapes that it is given.

JAX is the user's: its settings are not changed, but for the number of stand-ins and where it has not been imported yet.
64-bit types and float32 products are asked for around each kernel.
Called by: run.devices.gpus.  Threads: any.
Source: https://docs.jax.dev (device_put, default_device, enable_x64, default_matmul_precision)
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.devices.device import NUMBERS, Device, Updating

_FLAG = "--xla_force_host_platform_device_count"

_NO_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory")

_log = logging.getLogger("headrace")


def in_use() -> bool:
    """Whether JAX has been asked for devices by this module."""
    return _devices.cache_info().currsize > 0


@cache
def _devices(stand_ins: int) -> Sequence[Any]:
    """JAX's devices that are GPUs here; none where JAX cannot be used."""
    was_imported = "jax" in sys.modules
    if stand_ins and not was_imported:
        flags = os.environ.get("XLA_FLAGS", "")
        if _FLAG not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}={stand_ins}".strip()
    try:
        import jax

        if stand_ins:
            found = jax.devices("cpu")
        else:
            found = [each for each in jax.devices() if each.platform in ("gpu", "cuda", "rocm")]
    except Exception as error:  # of whatever kind a broken installation raises
        _warn_of(type(error).__name__, str(error))
        return ()
    if stand_ins > len(found):
        _log.warning(
            "JAX was in use before HEADRACE_GPUS=%d was read, and has %d devices: set XLA_FLAGS=%s=%d before it is "
            "imported",
            stand_ins,
            len(found),
            _FLAG,
            stand_ins,
        )
    return tuple(found[:stand_ins] if stand_ins else found)


@cache
def compiles_here() -> bool:
    """Whether JAX compiles for this host's processors; if it cannot be used a warning has said so."""
    try:
        import jax
        import jax.numpy

        jax.devices("cpu")
    except Exception as error:  # as above
        _warn_of(type(error).__name__, str(error))
        return False
    return True


_warned = threading.Event()


def _warn_of(kind: str, text: str) -> None:
    """Say it in one line, once."""
    if not _warned.is_set():
        _warned.set()
        said = " ".join(text.split())
        _log.warning("JAX cannot be used, so there are CPUs only: %s: %.300s", kind, said)


Visible = tuple[int, ...] | None
"""Numbers of JAX's devices, in the order in which they are numbered here; None: all."""


def _seen(stand_ins: int, visible: Visible) -> Sequence[Any]:
    """Those that programs are to see.  Raises InvalidArgument."""
    found = _devices(stand_ins)
    if visible is None:
        return found
    for number in visible:
        if not 0 <= number < len(found):
            raise errors.invalid_argument(
                f"'visible_device_list' listed an invalid GPU id '{number}' but visible device count is {len(found)}"
            )
    return [found[number] for number in visible]


def count(stand_ins: int, visible: Visible) -> int:
    """How many GPUs there are, or stand-ins, of which there are so many."""
    return len(_seen(stand_ins, visible))


def gpu(stand_ins: int, visible: Visible, number: int) -> Device:
    """One of them."""
    return Gpu(_seen(stand_ins, visible)[number], stand_ins > 0)


class Gpu(Device):
    """A GPU, or what stands in for one."""

    type = "GPU"
    dtypes = NUMBERS | {"bfloat16"}

    def __init__(self, device: Any, stands_in: bool) -> None:
        super().__init__()
        import jax
        import jax.numpy

        self._jax, self._device, self._stands_in = jax, device, stands_in
        self._process = os.getpid()
        self.xp = jax.numpy
        kind = getattr(device, "device_kind", device.platform)
        self.description = f"device: {device.id}, name: {kind}"
        if stands_in:
            self.description = (
                f"stand-in for a GPU: device {device.id} of XLA on this host's processors"
            )
        with_limit = (device.memory_stats() or {}) if not stands_in else {}
        self.memory_bytes = int(with_limit.get("bytes_limit", self.memory_bytes))

    def _put(self, value: Any) -> Any:
        """See `Device`."""
        given = (
            np.array(value) if self._stands_in else np.asarray(value)
        )  # whose memory it would share
        with self._here():
            return self._guarded(self._jax.device_put, given, self._device)

    def _get(self, value: Any) -> Any:
        """See `Device`."""
        return self._guarded(np.array if self._stands_in else _got, value)

    def is_final(self, error: Exception) -> bool:
        """See `Device`."""
        return isinstance(error, errors.OpError)

    def bound(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """See `Device`."""

        def run(*inputs: Any) -> Any:
            with self._here():
                return self._guarded(kernel, *inputs)

        return run

    compiles = True

    def compiled(self, function: Callable[..., Any]) -> Callable[[Sequence[Any]], list[Any] | None]:
        """See `Device`."""
        program = self._jax.jit(lambda *given: function(self.xp, *given))

        def run(values: Sequence[Any]) -> list[Any] | None:
            with self._here():
                found, holds = self._guarded(program, *values)
            if holds is not None and not bool(holds):
                return None
            return list(found)

        return run

    def updating(self, function: Callable[..., Any]) -> Updating:
        """See `Device`."""

        def traced(replaced: Sequence[Any], others: Sequence[Any]) -> Any:
            return function(self.xp, replaced, others)

        program = self._jax.jit(traced, donate_argnums=0 if self._may_be_written_over() else ())

        def run(replaced: Sequence[Any], others: Sequence[Any]) -> Any:
            with self._here():
                return self._guarded(program, list(replaced), list(others))

        return run

    def _may_be_written_over(self) -> bool:
        """Whether XLA may write over arrays that are replaced: older ones warn that they cannot on processors."""
        return not self._stands_in or self._jax.__version_info__ >= (0, 5)

    def copied(self, value: Any) -> Any:
        """See `Device`."""
        with self._here():
            return self._guarded(self.xp.copy, value)

    def has_lost(self, value: Any) -> bool:
        """See `Device`."""
        return bool(value.is_deleted())

    def bytes_held(self) -> int | None:
        """See `Device`."""
        if not self._stands_in:
            said = (self._device.memory_stats() or {}).get("bytes_in_use")
            if said is not None:
                return int(said)
        arrays = [each for each in self._jax.live_arrays() if self._device in each.devices()]
        return sum([int(each.nbytes) for each in arrays if _is_there(each)])

    def _here(self) -> AbstractContextManager[Any]:
        if os.getpid() != self._process:
            raise errors.failed_precondition(
                "this process was forked from one that had used JAX, whose devices do not survive that: start it anew, "
                "as multiprocessing's context 'spawn' does"
            )
        stack = ExitStack()
        stack.enter_context(_with_64_bits())
        stack.enter_context(self._jax.default_device(self._device))
        stack.enter_context(self._jax.default_matmul_precision("float32"))
        return stack

    def _guarded(self, function: Callable[..., Any], *given: Any) -> Any:
        """What it gives.  Raises ResourceExhausted where the device has no memory for it.

        GPUs ask for memory before they compute, and so do those who stand in for them: else it would be whoever looks
        at the result that fails.
        """
        try:
            found = function(*given)
            return self._jax.block_until_ready(found) if self._stands_in else found
        except Exception as error:
            if any(phrase in str(error) for phrase in _NO_MEMORY):
                raise errors.resource_exhausted(
                    f"OOM: {self.description} has no memory for this: {str(error).splitlines()[0]}"
                ) from error
            raise


def _is_there(value: Any) -> bool:
    """Whether it has been made, and is not what there was no memory for."""
    try:
        return bool(value.block_until_ready().size)
    except Exception:  # whatever that has failed with, or that it is deleted
        return False


def _got(value: Any) -> Any:
    """A copy of an array of a device.  NumPy would have JAX make one, which that keeps, and make another of it."""
    import jax

    try:
        host = jax.devices("cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves it out
        return np.array(value)
    if not value.size or host in value.devices():
        return np.array(value)
    with _with_64_bits():
        copy = jax.block_until_ready(jax.device_put(value, host))
    memory = (ctypes.c_char * copy.nbytes).from_address(copy.unsafe_buffer_pointer())
    memory.owner = copy  # which nobody else has, and who has the result keeps
    return np.ndarray(copy.shape, copy.dtype, memory)


def _with_64_bits() -> AbstractContextManager[Any]:
    import jax

    if hasattr(jax, "enable_x64"):  # since 0.8
        found: AbstractContextManager[Any] = jax.enable_x64(True)
        return found
    experimental: Any = import_module("jax.experimental")
    older: AbstractContextManager[Any] = experimental.enable_x64()
    return older


# -- programs of this host's processors --------------------------------------------------------------------------------


def compiled(function: Callable[..., Any]) -> Callable[[Sequence[Any]], list[Any] | None]:
    """A function of (jax.numpy, arrays…), compiled for the processors.

    function: gives (results, whether they hold; None: they do).  What comes back is a function of NumPy's arrays that
    gives read-only ones; None where they do not hold.
    """
    import jax
    import jax.numpy

    device = jax.devices("cpu")[0]
    program = jax.jit(lambda *given: function(jax.numpy, *given))

    def run(values: Sequence[Any]) -> list[Any] | None:
        with _with_64_bits(), jax.default_device(device):
            found, holds = program(*values)
        if holds is not None and not bool(holds):
            return None
        return [np.asarray(each) for each in found]

    return run


def updating(function: Callable[..., Any]) -> Updating:
    """As `compiled`, see `Device.updating`: of NumPy's arrays, none of which is written over."""
    import jax
    import jax.numpy

    device = jax.devices("cpu")[0]
    program = jax.jit(lambda replaced, others: function(jax.numpy, replaced, others))

    def run(replaced: Sequence[Any], others: Sequence[Any]) -> Any:
        with _with_64_bits(), jax.default_device(device):
            after, found, holds = program(list(replaced), list(others))
        return [*map(np.asarray, after)], [*map(np.asarray, found)], holds

    return run
