"""Device names: parse, print, merge.  Pure text, no knowledge of which devices exist.

A full name is ``/job:J/replica:R/task:T/device:TYPE:INDEX``; a specification leaves any part out.
Accepted spellings include ``/cpu:0``, ``/gpu:*``, ``/device:CPU:0``, ``cpu`` and ``CPU:0``.
Called by: graph (device scopes), plan (placement), serve (device lists).  Threads: any (immutable).
Source: the device name syntax of TensorFlow 1.15.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

_PART = re.compile(
    r"(?:job:(?P<job>[^/]+)|replica:(?P<replica>\d+|\*)|task:(?P<task>\d+|\*)"
    r"|device:(?P<dtype>[A-Za-z_][^/:]*|\*)(?::(?P<dindex>\d+|\*))?"
    r"|(?P<short>[cC][pP][uU]|[gG][pP][uU])(?::(?P<sindex>\d+|\*))?)\Z"
)


def _number(text: str | None) -> int | None:
    return None if text is None or text == "*" else int(text)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A possibly partial device name; unset parts are None."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    def __post_init__(self) -> None:
        if self.device_type is not None and self.device_type.lower() in ("cpu", "gpu"):
            object.__setattr__(self, "device_type", self.device_type.upper())

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse any spelling.  Raises ValueError naming the part that is not understood."""
        return _parse(spec)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Same as `from_string`; 1.x programs call it on an instance."""
        return _parse(spec)

    def replace(self, **parts: str | int | None) -> DeviceSpec:
        """A copy with the given parts set."""
        return replace(self, **parts)  # type: ignore[arg-type]

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """A copy in which every part that `dev` sets overrides this one's."""
        return DeviceSpec(
            dev.job if dev.job is not None else self.job,
            dev.replica if dev.replica is not None else self.replica,
            dev.task if dev.task is not None else self.task,
            dev.device_type if dev.device_type is not None else self.device_type,
            dev.device_index if dev.device_index is not None else self.device_index,
        )

    def to_string(self) -> str:
        """The canonical text, such as ``/job:ps/task:0/device:CPU:0``; '' when nothing is set."""
        text = "" if self.job is None else f"/job:{self.job}"
        if self.replica is not None:
            text += f"/replica:{self.replica}"
        if self.task is not None:
            text += f"/task:{self.task}"
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            text += f"/device:{self.device_type}:{index}"
        return text

    def matches(self, full: DeviceSpec) -> bool:
        """True when every part this spec sets is equal in `full`."""
        return (
            (self.job is None or self.job == full.job)
            and (self.replica is None or self.replica == full.replica)
            and (self.task is None or self.task == full.task)
            and self.device_type in (None, "*", full.device_type)
            and (self.device_index is None or self.device_index == full.device_index)
        )

    def __str__(self) -> str:
        return self.to_string()


@lru_cache(maxsize=4096)
def _parse(spec: str) -> DeviceSpec:
    job: str | None = None
    replica = task = index = None
    kind: str | None = None
    for part in spec.split("/"):
        if not part:
            continue
        found = _PART.match(part)
        if found is None or (found["dtype"] == "*" and found["dindex"] is None):
            raise ValueError(
                f"Unknown attribute '{part.partition(':')[0]}' is encountered while parsing the device spec: {spec!r}. "
                f"The part {part!r} is not understood; write it like '/job:worker/replica:0/task:1/device:CPU:0' "
                "(any part may be left out)"
            )
        if found["job"] is not None:
            job = found["job"]
        elif found["replica"] is not None:
            replica = _number(found["replica"])
        elif found["task"] is not None:
            task = _number(found["task"])
        else:
            if kind is not None:
                raise ValueError(
                    f"Multiple device types are not allowed while parsing the device spec: {spec}: "
                    f"{kind!r} and {found['dtype'] or found['short']!r}"
                )
            kind = found["dtype"] or found["short"]
            index = _number(found["dindex"] or found["sindex"])
    return DeviceSpec(job, replica, task, kind, index)


def text(device: Any) -> str:
    """What `device`, a name or something that has a `to_string`, is written as.

    Raises AttributeError, TypeError for bytes.
    """
    to_string = getattr(device, "to_string", None)
    if to_string is not None:
        return str(to_string())
    if not isinstance(device, str):
        raise (TypeError if isinstance(device, bytes) else AttributeError)(
            f"{type(device).__name__!r} object has no attribute 'to_string': {device!r:.80} is no device; "
            "give a name, a tf.DeviceSpec, or a function of an operation that answers with one"
        )
    return device


def canonical(spec: str) -> str:
    """`spec` in canonical spelling; '' stays ''."""
    return _parse(spec).to_string() if spec else ""


@lru_cache(maxsize=4096)
def merge(outer: str, inner: str) -> str:
    """What a node gets whose scopes say `outer` and, nested inside, `inner` (which wins)."""
    if not inner:
        return outer
    if not outer:
        return canonical(inner)
    return _parse(outer).make_merged_spec(_parse(inner)).to_string()
