"""Rendezvous keys: the names under which values pass between devices.

``SRC_DEVICE;INCARNATION_HEX;DST_DEVICE;TENSOR_NAME;FRAME:ITER`` with the source's incarnation in
16 hex digits and 0:0 outside loops.
Called by: ops.sendrecv, plan.partition, serve.  Source: TensorFlow's rendezvous.
"""

from __future__ import annotations

from headrace.base import errors


def key(source: str, incarnation: int, target: str, tensor: str) -> str:
    """The key outside loops."""
    return f"{source};{incarnation & (2**64 - 1):016x};{target};{tensor};0:0"


def task_of(device: str) -> str:
    """``/job:J/replica:R/task:T`` of a full device name."""
    return device[: device.index("/device:")] if "/device:" in device else device


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
