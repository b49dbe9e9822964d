"""Who may talk to this process: who knows a shared secret, who has a certificate, or everybody.

A `Security` that a server or session is given says so, or else the environment:
``HEADRACE_SECRET_FILE`` (or ``HEADRACE_SECRET``), ``HEADRACE_TLS_CERT`` and ``HEADRACE_TLS_KEY`` (PEM files),
``HEADRACE_TLS_CA`` (whose certificates are believed), ``HEADRACE_TLS_CLIENTS=1`` (clients need a
certificate too), ``HEADRACE_INSECURE=1``.  Servers and clients read the same settings.
The secret itself is never sent.  Over gRPC goes a token made of it, which is as good as the secret to
whoever can read the connection: use TLS there.  On the lane both sides prove that they know it, by
answers to numbers that the other chose.
Called by: programs, serve.server, the transports.  Source: HMAC is RFC 2104
"""

from __future__ import annotations

import ipaddress
import logging
import os
import stat
from collections.abc import Mapping

from headrace.base import errors

NONCE_BYTES = 16
_LEAST_SECRET_BYTES = 8
_log = logging.getLogger("headrace")
_warned_of: set[str] = set()


PemFile = str | os.PathLike[str] | bytes
"""The path of a PEM file, or what such a file holds."""


class Security:
    """What a process asks of its peers, and shows them; the environment's settings as an object.

    Servers take it for who may call them and for what they show other servers, sessions for what they show.
    """

    __slots__ = ("authorities", "certificate", "clients_too", "insecure", "key", "secret")

    def __init__(
        self,
        secret: str | bytes | None = None,
        *,
        secret_file: str | os.PathLike[str] | None = None,
        certificate: PemFile | None = None,
        key: PemFile | None = None,
        authorities: PemFile | None = None,
        clients_too: bool = False,
        insecure: bool = False,
    ) -> None:
        """secret: what all processes of the cluster share; white space around it does not count.

        certificate, key: of this process.  authorities: certificates that vouch for the other side.
        clients_too: a server wants certificates of clients.  insecure: a server may do without all
        of this, although others reach it.
        Raises InvalidArgument: a file that cannot be read, a secret too short, a certificate without
        a key, clients_too without authorities.
        """
        if secret and secret_file:
            raise errors.invalid_argument("give Security a secret or a secret_file, not both")
        if secret_file:
            secret = _content(secret_file, "secret_file", "HEADRACE_SECRET_FILE")
            _warn_if_others_read(secret_file)
        self.secret = _checked_secret(secret) if secret or secret_file else b""
        self.certificate = _content(certificate, "certificate", "HEADRACE_TLS_CERT")
        self.key = _content(key, "key", "HEADRACE_TLS_KEY")
        if key and not isinstance(key, bytes):
            _warn_if_others_read(key)
        self.authorities = _content(authorities, "authorities", "HEADRACE_TLS_CA")
        self.clients_too = clients_too
        self.insecure = insecure
        if (self.certificate is None) != (self.key is None):
            raise errors.invalid_argument(
                "a certificate and its private key go together: HEADRACE_TLS_CERT and HEADRACE_TLS_KEY, or "
                "Security(certificate=..., key=...)"
            )
        if clients_too and self.authorities is None:
            raise errors.invalid_argument(
                "certificates of clients are asked for, but not whose are believed: HEADRACE_TLS_CA beside "
                "HEADRACE_TLS_CLIENTS, or Security(clients_too=True, authorities=...)"
            )

    def __repr__(self) -> str:
        """Without what nobody should see."""
        has = [name for name in ("secret", "certificate", "authorities") if getattr(self, name)]
        has += [name for name in ("clients_too", "insecure") if getattr(self, name)]
        return f"<Security: {', '.join(has) or 'none'}>"

    @property
    def tls(self) -> bool:
        """Whether gRPC goes over TLS."""
        return self.certificate is not None or self.authorities is not None

    @property
    def token(self) -> str:
        """What a gRPC call shows; "" without a secret."""
        return self._proof(b"grpc").hex() if self.secret else ""

    @property
    def http_token(self) -> str:
        """What a request over HTTP shows, which opens nothing else; "" without a secret."""
        return self._proof(b"http").hex() if self.secret else ""

    @property
    def keeps_strangers_out(self) -> bool:
        """Whether a server may listen where other machines reach it; so it is too if nobody is to be kept out."""
        with_certificates = self.certificate is not None and self.clients_too
        return bool(self.secret) or with_certificates or self.insecure

    def may_call(self, token: str) -> bool:
        """Whether a caller that shows `token` is let in; takes as long for every wrong one."""
        import hmac  # with hashlib, which clients without a secret need not load

        return not self.secret or hmac.compare_digest(self.token.encode(), token.encode())

    def proof(self, side: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
        """What a side of a lane connection answers to the other's number."""
        return self._proof(b"lane " + side + server_nonce + client_nonce)

    def proves(self, side: bytes, server_nonce: bytes, client_nonce: bytes, shown: bytes) -> bool:
        """Whether `shown` is that answer."""
        import hmac

        return hmac.compare_digest(self.proof(side, server_nonce, client_nonce), shown)

    def _proof(self, text: bytes) -> bytes:
        import hmac

        return hmac.digest(self.secret, b"headrace 1 " + text, "sha256")

    def check_may_listen(self, ips: list[str], task: str) -> None:
        """Raise FailedPrecondition for an address that others reach, if nothing keeps strangers out."""
        if self.keeps_strangers_out:
            return
        outside = [ip for ip in ips if not is_loopback(ip)]
        if outside:
            raise errors.failed_precondition(
                f"{task} does not listen on {outside[0]}, which other machines can reach: whoever connects could run "
                "any graph here. Set HEADRACE_SECRET_FILE to a file with a secret that all processes of the cluster "
                "share, or use TLS with client certificates (HEADRACE_TLS_CERT, _KEY, _CA, HEADRACE_TLS_CLIENTS=1); "
                "HEADRACE_INSECURE=1 lets everybody in, as TensorFlow does. `headrace serve` has options for these, "
                "and tf.train.Server takes security=tf.train.Security(...)"
            )


def is_loopback(ip: str) -> bool:
    """Whether only this machine reaches the address."""
    return ipaddress.ip_address(ip.strip("[]")).is_loopback


def new_nonce() -> bytes:
    """A number that was never used."""
    return os.urandom(NONCE_BYTES)


def security(environ: Mapping[str, str] = os.environ) -> Security:
    """What the environment asks for now.  Raises InvalidArgument, as `Security` and for other flags than 0 and 1."""
    secret_file = environ.get("HEADRACE_SECRET_FILE")
    return Security(
        None if secret_file else environ.get("HEADRACE_SECRET"),
        secret_file=secret_file,
        certificate=environ.get("HEADRACE_TLS_CERT"),
        key=environ.get("HEADRACE_TLS_KEY"),
        authorities=environ.get("HEADRACE_TLS_CA"),
        clients_too=_flag(environ, "HEADRACE_TLS_CLIENTS"),
        insecure=_flag(environ, "HEADRACE_INSECURE"),
    )


def chosen(given: Security | None) -> Security:
    """`given`, or what the environment asks for.  Raises TypeError, InvalidArgument."""
    if given is None:
        return security()
    if not isinstance(given, Security):
        raise TypeError(f"security must be a tf.train.Security, not {type(given).__name__}")
    return given


def _checked_secret(secret: str | bytes | None) -> bytes:
    found = (secret.encode() if isinstance(secret, str) else secret or b"").strip()
    if len(found) < _LEAST_SECRET_BYTES:
        raise errors.invalid_argument(
            f"the shared secret has {len(found)} bytes; {_LEAST_SECRET_BYTES} is the least (such as the output of "
            "`openssl rand -hex 32`)"
        )
    return found


def _content(given: PemFile | None, argument: str, variable: str) -> bytes | None:
    if not given:
        return None
    if isinstance(given, bytes):
        return given
    try:
        with open(given, "rb") as file:
            return file.read()
    except OSError as error:
        raise errors.invalid_argument(
            f"{argument} ({variable}) {os.fspath(given)!r} cannot be read: {error.strerror}"
        ) from None


def _warn_if_others_read(path: str | os.PathLike[str]) -> None:
    """Say so once, if every user of the machine may read what nobody else should know."""
    name = os.fspath(path)
    if os.stat(name).st_mode & stat.S_IROTH and name not in _warned_of:
        _warned_of.add(name)
        _log.warning(
            "every user of this machine may read %s, which nobody but this cluster should know: chmod o-r %s",
            name,
            name,
        )


def _flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name, "").strip().lower()
    if text in ("", "0", "no", "false"):
        return False
    if text in ("1", "yes", "true"):
        return True
    raise errors.invalid_argument(f"{name}={text!r} is not understood: say 1 or 0")
