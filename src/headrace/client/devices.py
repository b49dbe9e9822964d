"""What `Session.list_devices` returns.

Called by: client.session.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.codec import protos as pb


@dataclass(frozen=True, slots=True, repr=False)
class DeviceAttributes:
    """A device: full name, type, memory limit in bytes, and the number of its server's start."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int

    @classmethod
    def from_proto(cls, proto: pb.DeviceAttributes) -> DeviceAttributes:
        """Of the wire's DeviceAttributes."""
        signed = proto.incarnation - 2**64 if proto.incarnation >= 2**63 else proto.incarnation
        return cls(proto.name, proto.device_type, proto.memory_limit, signed)

    def __repr__(self) -> str:
        return (
            f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes}, "
            f"{self.incarnation})"
        )
