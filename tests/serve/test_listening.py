"""A server listens on every address that its name stands for, or not at all."""

from __future__ import annotations

import socket

import pytest

import headrace as tf


@pytest.mark.parametrize("stranger", ["127.0.0.1", ""], ids=["loopback", "everywhere"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_port_that_a_stranger_has_is_not_shared(stranger: str, host: str) -> None:
    """gRPC by itself would take [::1] and leave 127.0.0.1, where clients look for it, to the stranger."""
    with socket.create_server((stranger, 0)) as listening:
        address = f"{host}:{listening.getsockname()[1]}"
        with pytest.raises(tf.errors.UnknownError, match="the port is taken"):
            tf.train.Server({"local": [address]})


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_system_chooses_for_port_0(host: str) -> None:
    with tf.train.Server({"local": [f"{host}:0"]}) as server:
        name, _, port = server.target.removeprefix("grpc://").rpartition(":")
        assert name == host
        socket.create_connection(("127.0.0.1", int(port))).close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_a_name_that_is_not_this_machines_is_refused(host: str) -> None:
    with pytest.raises(tf.errors.UnknownError, match="not this host's"):
        tf.train.Server({"local": [f"{host}:0"]})
