"""Who may talk to this process, as its environment says: a shared secret, TLS, or everybody.

``HEADRACE_SECRET_FILE`` (or ``HEADRACE_SECRET``), ``HEADRACE_TLS_CERT`` and ``HEADRACE_TLS_KEY`` (PEM files),
``HEADRACE_TLS_CA`` (whose certificates are believed), ``HEADRACE_TLS_CLIENTS=1`` (clients need a
certificate too), ``HEADRACE_INSECURE=1``.  Servers and clients read the same settings.
The secret itself is never sent.  Over gRPC goes a token made of it, which is as good as the secret to
whoever can read the connection: use TLS there.  On the lane both sides prove that they know it, by
answers to numbers that the other chose.
Called by: serve.server, the shells.  Source: HMAC is RFC 2104
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.base import errors

NONCE_BYTES = 16
_LEAST_SECRET_BYTES = 8


@dataclass(frozen=True, slots=True)
class Security:
    """What a process asks of its peers, and shows them."""

    secret: bytes = field(default=b"", repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    authorities: bytes | None = None
    clients_too: bool = False
    insecure: bool = False

    @property
    def tls(self) -> bool:
        """Whether gRPC goes over TLS."""
        return self.certificate is not None or self.authorities is not None

    @property
    def token(self) -> str:
        """What a gRPC call shows; "" without a secret."""
        return self._proof(b"grpc").hex() if self.secret else ""

    def may_call(self, token: str) -> bool:
        """Whether a caller that shows `token` is let in; takes as long for every wrong one."""
        return not self.secret or hmac.compare_digest(self.token.encode(), token.encode())

    def proof(self, side: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
        """What a side of a lane connection answers to the other's number."""
        return self._proof(b"lane " + side + server_nonce + client_nonce)

    def proves(self, side: bytes, server_nonce: bytes, client_nonce: bytes, shown: bytes) -> bool:
        """Whether `shown` is that answer."""
        return hmac.compare_digest(self.proof(side, server_nonce, client_nonce), shown)

    def _proof(self, text: bytes) -> bytes:
        return hmac.digest(self.secret, b"headrace 1 " + text, "sha256")

    def check_may_listen(self, ips: list[str], task: str) -> None:
        """Raise FailedPrecondition for an address that others reach, if nothing keeps strangers out."""
        if self.secret or (self.certificate is not None and self.clients_too) or self.insecure:
            return
        outside = [ip for ip in ips if not is_loopback(ip)]
        if outside:
            raise errors.failed_precondition(
                f"{task} does not listen on {outside[0]}, which other machines can reach: whoever connects could run "
                "any graph here. Set HEADRACE_SECRET_FILE to a file with a secret that all processes of the cluster "
                "share, or use TLS with client certificates (HEADRACE_TLS_CERT, _KEY, _CA, HEADRACE_TLS_CLIENTS=1); "
                "HEADRACE_INSECURE=1 lets everybody in, as TensorFlow does"
            )


def is_loopback(ip: str) -> bool:
    """Whether only this machine reaches the address."""
    return ipaddress.ip_address(ip.strip("[]")).is_loopback


def new_nonce() -> bytes:
    """A number that was never used."""
    return secrets.token_bytes(NONCE_BYTES)


def security(environ: Mapping[str, str] = os.environ) -> Security:
    """What the environment asks for now.

    Raises InvalidArgument: a file that cannot be read, a secret too short, a certificate without a key.
    """
    certificate, key = _file(environ, "HEADRACE_TLS_CERT"), _file(environ, "HEADRACE_TLS_KEY")
    if (certificate is None) != (key is None):
        raise errors.invalid_argument(
            "HEADRACE_TLS_CERT and HEADRACE_TLS_KEY go together: a certificate and its private key"
        )
    authorities = _file(environ, "HEADRACE_TLS_CA")
    clients_too = _flag(environ, "HEADRACE_TLS_CLIENTS")
    if clients_too and authorities is None:
        raise errors.invalid_argument(
            "HEADRACE_TLS_CLIENTS asks for certificates of clients; HEADRACE_TLS_CA must say whose are believed"
        )
    return Security(
        _secret(environ), certificate, key, authorities, clients_too,
        _flag(environ, "HEADRACE_INSECURE"),
    )  # fmt: skip


def _secret(environ: Mapping[str, str]) -> bytes:
    found = _file(environ, "HEADRACE_SECRET_FILE")
    if found is None:
        found = environ.get("HEADRACE_SECRET", "").encode()
        if not found:
            return b""
    found = found.strip()
    if len(found) < _LEAST_SECRET_BYTES:
        raise errors.invalid_argument(
            f"the shared secret has {len(found)} bytes; {_LEAST_SECRET_BYTES} is the least (such as the output of "
            "`openssl rand -hex 32`)"
        )
    return found


def _file(environ: Mapping[str, str], name: str) -> bytes | None:
    path = environ.get(name, "")
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise errors.invalid_argument(f"{name}={path!r} cannot be read: {error.strerror}") from None


def _flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name, "").strip().lower()
    if text in ("", "0", "no", "false"):
        return False
    if text in ("1", "yes", "true"):
        return True
    raise errors.invalid_argument(f"{name}={text!r} is not understood: say 1 or 0")
