"""A name server for where there is none that knows tasks which move: DNS over UDP, of addresses alone.

Called by: ray.task, tests.  Threads: one that answers; it calls `lookup`.
Source: RFC 1035
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

_HEADER = struct.Struct(">HHHHHH")
_KINDS = {1: 4, 28: 6}  # A and AAAA, by version of IP
_POINTER_TO_QUESTION = 0xC00C
_IN = 1
_ANSWER, _NO_SUCH_NAME, _NOT_UNDERSTOOD = 0x8580, 0x8583, 0x8581
_MOST_BYTES = 512


class NameServer:
    """Answers until the block is left.  `address` is where: IP and port."""

    def __init__(
        self, lookup: Callable[[str], str | None], at: tuple[str, int] = ("127.0.0.1", 0)
    ) -> None:
        """lookup(name): its IP address now, None if there is none; a name is in small letters, with no dot at the end.

        It may block, and then other questions wait.  at: IP and port, 0 for one that the system chooses.
        Raises OSError.
        """
        self._lookup = lookup
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind(at)
        except OSError:
            self._socket.close()
            raise
        host, port = self._socket.getsockname()
        self.address: tuple[str, int] = (host, port)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="headrace names", daemon=True)

    def __enter__(self) -> NameServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing = True
        with suppress(OSError):  # so that it wakes up; it is ended by its own question, too
            self._socket.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._closing:
            with suppress(OSError):
                question, client = self._socket.recvfrom(_MOST_BYTES)
                answer = b"" if self._closing else answered(question, self._lookup)
                if answer:
                    self._socket.sendto(answer, client)


def answered(question: bytes, lookup: Callable[[str], str | None]) -> bytes:
    """The message that answers one; b"" for what is none."""
    if len(question) < _HEADER.size:
        return b""
    number, flags, count, *_ = _HEADER.unpack_from(question)
    if flags & 0x8000:
        return b""  # an answer itself
    end = _end_of_name(question)
    if count != 1 or end is None:
        return _HEADER.pack(number, _NOT_UNDERSTOOD, 0, 0, 0, 0)
    name, at = end
    (kind,) = struct.unpack_from(">H", question, at)
    asked = question[_HEADER.size : at + 4]
    found = lookup(name)
    record = b""
    if found is not None:
        address = ipaddress.ip_address(found)
        if _KINDS.get(kind) == address.version:
            data = address.packed
            # 0 s to live: whoever connects again asks again.
            record = struct.pack(">HHHIH", _POINTER_TO_QUESTION, kind, _IN, 0, len(data)) + data
    told = _NO_SUCH_NAME if found is None else _ANSWER
    return _HEADER.pack(number, told, 1, bool(record), 0, 0) + asked + record


def _end_of_name(question: bytes) -> tuple[str, int] | None:
    """The name in a question, and where it ends; None if it is cut short, or not plain."""
    labels, at = [], _HEADER.size
    while at < len(question) and (length := question[at]):
        label = question[at + 1 : at + 1 + length]
        if length > 63 or len(label) < length or not label.isascii():
            return None
        labels.append(label.decode().lower())
        at += 1 + length
    return (".".join(labels), at + 1) if at + 5 <= len(question) else None
