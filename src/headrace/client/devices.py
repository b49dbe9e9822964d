"""What `Session.list_devices` returns.

Called by: client.session.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.codec import protos as pb


@dataclass(frozen=True, slots=True)
class DeviceAttributes:
    """A device: full name, type, memory limit in bytes, and the number of its server's start."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int

    @classmethod
    def from_proto(cls, proto: pb.DeviceAttributes) -> DeviceAttributes:
        """Of the wire's DeviceAttributes."""
        return cls(proto.name, proto.device_type, proto.memory_limit, proto.incarnation)
