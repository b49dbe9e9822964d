"""`tf.DeviceSpec`: a device name whose parts programs set, merge and print.

The parts may be changed, as 1.x programs do; `base.device.DeviceSpec` is the immutable one inside.
Called by: users.  Threads: as any object that changes.
Source: TF 1.15 python/framework/device_spec.py (behaviour, checked against the oracle)
"""

from __future__ import annotations

from typing import Any

from headrace.base import device

_PARTS = ("job", "replica", "task", "device_type", "device_index")


class DeviceSpec:
    """A possibly partial device name; parts that are not set are None."""

    job: str | None
    replica: int | None
    task: int | None
    device_type: str | None
    device_index: int | None

    __slots__ = ("_spec",)

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        self._spec = device.DeviceSpec(job, replica, task, device_type, device_index)

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse any spelling.  Raises ValueError naming the part that is not understood."""
        return cls().parse_from_string(spec)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Become what `spec` says; returns this object.  Raises as `from_string`."""
        self._spec = device.DeviceSpec.from_string(spec)
        return self

    def merge_from(self, dev: Any) -> None:
        """Take over every part that `dev` sets."""
        self._spec = self._spec.make_merged_spec(dev)

    def make_merged_spec(self, dev: Any) -> DeviceSpec:
        """A copy in which every part that `dev` sets overrides this one's."""
        made = self.replace()
        made.merge_from(dev)
        return made

    def replace(self, **parts: str | int | None) -> DeviceSpec:
        """A copy with the given parts set."""
        given: dict[str, Any] = {name: getattr(self, name) for name in _PARTS} | parts
        return DeviceSpec(**given)

    def to_string(self) -> str:
        """The canonical text, such as ``/job:ps/task:0/device:CPU:0``; '' when nothing is set."""
        return self._spec.to_string()

    def __getattr__(self, name: str) -> Any:
        if name in _PARTS:
            return getattr(self._spec, name)
        raise AttributeError(f"a DeviceSpec has no {name!r}; it has {', '.join(_PARTS)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PARTS:
            self._spec = self._spec.replace(**{name: value})
        else:
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        text = getattr(other, "to_string", None)
        return NotImplemented if text is None else bool(self.to_string() == text())

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"DeviceSpec({self.to_string()!r})"
