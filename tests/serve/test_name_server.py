"""The name server: what it answers, and that nothing that it is asked stops it."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.serve.name_server import NameServer, answered

WITHIN_S = 60.0
NAMES = {"ps-0.demo": "192.0.2.1", "six.demo": "2001:db8::1"}


def question(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return (
        struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
    )


@pytest.mark.parametrize(
    ("name", "kind", "data"),
    [
        ("ps-0.demo", 1, socket.inet_aton("192.0.2.1")),
        ("PS-0.Demo", 1, socket.inet_aton("192.0.2.1")),
        ("six.demo", 28, socket.inet_pton(socket.AF_INET6, "2001:db8::1")),
    ],
)
def test_a_name_has_its_address(name: str, kind: int, data: bytes) -> None:
    found = answered(question(name, kind), NAMES.get)
    number, flags, questions, answers, *_ = struct.unpack_from(">HHHHHH", found)
    assert (number, flags & 0x800F, questions, answers) == (7, 0x8000, 1, 1)
    assert found[12:].startswith(question(name, kind)[12:])
    assert found.endswith(struct.pack(">HHIH", kind, 1, 0, len(data)) + data)


@pytest.mark.parametrize(("name", "kind", "code"), [("ps-0.demo", 28, 0), ("nobody", 1, 3)])
def test_what_a_name_has_not_is_said(name: str, kind: int, code: int) -> None:
    found = answered(question(name, kind), NAMES.get)
    _, flags, _, answers, *_ = struct.unpack_from(">HHHHHH", found)
    assert (flags & 0xF, answers) == (code, 0)


@given(st.binary(max_size=40))
def test_any_bytes_are_answered_or_not(asked: bytes) -> None:
    assert answered(asked, NAMES.get)[:2] in (b"", asked[:2])


@given(st.integers(0, 27), st.integers(0, 255))
def test_a_question_with_a_wrong_byte_is_answered_or_not(at: int, byte: int) -> None:
    asked = bytearray(question("ps-0.demo"))
    asked[at % len(asked)] = byte
    assert answered(bytes(asked), NAMES.get)[:2] in (b"", bytes(asked[:2]))


def test_it_answers_whoever_asks() -> None:
    with (
        NameServer(NAMES.get) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        client.settimeout(WITHIN_S)
        for asked in (b"nothing", question("ps-0.demo")):
            client.sendto(asked, server.address)
        assert client.recv(512).endswith(socket.inet_aton("192.0.2.1"))
