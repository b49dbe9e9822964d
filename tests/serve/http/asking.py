"""Requests as browsers, scripts and Prometheus make them, for tests."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """What came."""

    status: int
    headers: http.client.HTTPMessage
    text: str


def ask(
    url: str,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """One request; redirects are not followed."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if tls is not None:
        connection = http.client.HTTPSConnection(host, port, timeout=60, context=tls)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, path, headers=dict(headers or {}))
        reply = connection.getresponse()
        return Answer(reply.status, reply.headers, reply.read().decode())
    finally:
        connection.close()
