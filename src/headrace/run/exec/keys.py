"""Rendezvous keys: the names under which values pass between devices.

``SRC_DEVICE;INCARNATION_HEX;DST_DEVICE;TENSOR_NAME;FRAME:ITER`` with the source's incarnation in
16 hex digits and 0:0 outside loops.  A frame's number is a hash of its name, and of the frame and
the iteration that it was entered from, so that tasks agree on it without being told.
Called by: ops.flow.sendrecv, plan.partition, run.exec.dataflow, serve.
Source: TensorFlow's rendezvous, and keys that TensorFlow 2.21 asks for; MurmurHash64A (Appleby)
"""

from __future__ import annotations

from functools import lru_cache

from headrace.base import errors

_MASK = 2**64 - 1


def key(source: str, incarnation: int, target: str, tensor: str) -> str:
    """The key outside loops."""
    return f"{source};{incarnation & (2**64 - 1):016x};{target};{tensor};0:0"


def in_frame(text: str, frame: int, iteration: int) -> str:
    """The key `text`, of outside loops, in an iteration of a frame."""
    return f"{text[:-3]}{frame}:{iteration}"


@lru_cache(maxsize=4096)
def child_frame(frame: int, iteration: int, name: str) -> int:
    """The number of the frame `name` that is entered from an iteration of `frame`; the outermost is 0."""
    return _combined(frame, _combined(iteration, _murmur(name.encode())))


def _combined(a: int, b: int) -> int:
    return a ^ ((b + 0x9E3779B97F4A7800 + (a << 10) + (a >> 4)) & _MASK)


def _murmur(data: bytes, seed: int = 0xDECAFCAFFE) -> int:
    """MurmurHash64A."""
    factor, shift = 0xC6A4A7935BD1E995, 47
    found = seed ^ (len(data) * factor & _MASK)
    whole = len(data) // 8 * 8
    for start in range(0, whole, 8):
        piece = int.from_bytes(data[start : start + 8], "little") * factor & _MASK
        piece = (piece ^ piece >> shift) * factor & _MASK
        found = (found ^ piece) * factor & _MASK
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * factor & _MASK
    found = (found ^ found >> shift) * factor & _MASK
    return found ^ found >> shift


def task_of(device: str) -> str:
    """``/job:J/replica:R/task:T`` of a full device name."""
    return device[: device.index("/device:")] if "/device:" in device else device


def source_task(text: str) -> str:
    """The task that a key's value comes from.  Raises InvalidArgument."""
    return _tasks(text[: text.rfind(";")])[0]


def target_task(text: str) -> str:
    """The task that a key's value goes to.  Raises InvalidArgument."""
    return _tasks(text[: text.rfind(";")])[1]


@lru_cache(maxsize=1024)
def _tasks(outside_loops: str) -> tuple[str, str]:
    """(source, target), given a key without frame and iteration: all iterations share it."""
    parts = outside_loops.split(";")
    if len(parts) != 4:
        raise errors.invalid_argument(f"{outside_loops!r} is not the beginning of a rendezvous key")
    return task_of(parts[0]), task_of(parts[2])


def source_device(text: str) -> str:
    """The source device of a key.  Raises InvalidArgument."""
    parts = text.split(";")
    if len(parts) != 5:
        raise errors.invalid_argument(f"{text!r} is not a rendezvous key")
    return parts[0]


def tensor_name(text: str) -> str:
    """The tensor name of a key.  Raises InvalidArgument."""
    parts = text.split(";")
    if len(parts) != 5:
        raise errors.invalid_argument(f"{text!r} is not a rendezvous key")
    return parts[3]
