"""Who may ask over HTTP: hosts that a request may name, the token, and what every answer says to browsers.

A page of elsewhere that has its name resolved to this machine (DNS rebinding) names itself as the host: so a host must
be an address, which cannot be rebound, or a name that this server is known by.  Where there is a secret, a request
shows a token made of it, which opens nothing else.
Called by: serve.observe.metrics, tools.dashboard.  Threads: any.  Source: RFC 9110 (Host, 421), RFC 6750 (Bearer)
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

from headrace.serve.rpc.security import Security

COOKIE: Final = "headrace_token"
HOSTS: Final = "HEADRACE_HTTP_HOSTS"

_log = logging.getLogger("headrace.http")

Environ = dict[str, Any]
Application = Callable[..., Iterable[bytes]]

HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""Of every answer.  None allows another origin anything."""


class Guard:
    """A WSGI application around another one; see the module header."""

    def __init__(self, inner: Application, security: Security, bound_to: str) -> None:
        """bound_to: the host that the server listens on."""
        self._inner = inner
        self._token = security.http_token
        named = os.environ.get(HOSTS, "").split(",")
        own = socket.gethostname()
        self._hosts = {
            name.strip().lower().rstrip(".")
            for name in ("localhost", bound_to, own, *named)
            if name.strip()
        }

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """See PEP 3333."""

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            given = {name.lower() for name, _ in headers}
            extra = [(name, text) for name, text in HEADERS if name.lower() not in given]
            return start_response(status, [*headers, *extra], *more)

        host = environ.get("HTTP_HOST", "")
        if not self._knows(host):
            return _says(
                start,
                "421 Misdirected Request",
                f"this server is not known as {host!r}: ask it by an address, or name the host in {HOSTS}",
            )
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _says(
                start,
                "405 Method Not Allowed",
                "nothing can be changed here",
                [("Allow", "GET, HEAD")],
            )
        if environ.get("HTTP_SEC_FETCH_SITE", "none") == "cross-site" and not _is_navigation(
            environ
        ):
            return _says(start, "403 Forbidden", "another site's page asks for this")
        if self._token and not self._shows_token(environ):
            return self._asks_for_token(environ, start)
        try:
            return self._inner(environ, start)
        except Exception:  # of whatever is served: who asks learns no more than that
            _log.exception("an answer to %s failed", environ.get("PATH_INFO"))
            return _says(
                start, "500 Internal Server Error", "the server's log says what went wrong"
            )

    def _knows(self, host: str) -> bool:
        name = _without_port(host)
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name.lower().rstrip(".") in self._hosts
        return True

    def _shows_token(self, environ: Environ) -> bool:
        shown = [environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ").strip()]
        try:
            cookie = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None:
            shown.append(cookie.value)
        return any(self._is_token(each) for each in shown)

    def _is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), self._token.encode())

    def _asks_for_token(self, environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        """A token in the address becomes a cookie, and leaves the address bar."""
        shown = parse_qs(environ.get("QUERY_STRING", "")).get("token", [""])[0]
        if self._is_token(shown):
            secure = "; Secure" if environ.get("wsgi.url_scheme") == "https" else ""
            cookie = f"{COOKIE}={shown}; Path=/; HttpOnly; SameSite=Strict{secure}"
            place = environ.get("PATH_INFO", "/")
            if not place.startswith("/") or place.startswith("//"):
                place = "/"
            start("303 See Other", [("Location", place), ("Set-Cookie", cookie)])
            return []
        return _says(
            start,
            "401 Unauthorized",
            "a token is asked for: `headrace token` prints it where the cluster's secret is; show it as "
            "'Authorization: Bearer TOKEN', or open this page with ?token=TOKEN",
            [("WWW-Authenticate", "Bearer")],
        )


def _is_navigation(environ: Environ) -> bool:
    """Whether somebody follows a link to a page, which no other page gets to see."""
    return bool(
        environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
        and environ.get("HTTP_SEC_FETCH_DEST") == "document"
    )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _says(
    start: Callable[..., Any],
    status: str,
    text: str,
    headers: Iterable[tuple[str, str]] = (),
) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
    return [f"{text}\n".encode()]
