"""Why a server does not answer, in words, found out by trying.

Called by: serve.routed.  Threads: any; each attempt to connect is bounded, but a resolver may take its time.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.grpc_client import GrpcPeer
from headrace.serve.security import Security
from headrace.serve.wire import GET_STATUS

SILENT = (
    "connections are accepted and nothing is answered: its process is stopped or frozen, or it is neither a "
    "headrace nor a TensorFlow server"
)
_CONNECT_WITHIN_S = 1.0
_HANDSHAKE_WITHIN_S = 60.0  # longer than a look lasts: who says nothing is told from who hangs up


def why(address: str, trusting: Security, scope: Scope) -> str:
    """Why nothing comes of asking the server at ``host:port``; "" if it answers.  Raises the scope's error."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        return f"the name {host!r} is not resolved: {getattr(error, 'strerror', None) or error}"
    said = ""
    for family, _, _, _, where in found:
        scope.check()
        try:
            with _connected(family, where, scope) as sock:
                said = _tls_problem(sock, host, trusting) if trusting.tls else ""
            return said or _asked(address, (family, where), trusting, scope)
        except ConnectionRefusedError:
            said = "connection refused: nothing listens there"
        except TimeoutError:
            said = "no answer: the host is down, or a firewall drops what is sent to it"
        except OSError as error:
            said = f"it cannot be reached: {error.strerror or error}"
    return said


def _connected(family: int, where: Any, scope: Scope) -> socket.socket:
    remaining = scope.remaining()
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(_CONNECT_WITHIN_S if remaining is None else min(_CONNECT_WITHIN_S, remaining))
    try:
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


def _tls_problem(sock: socket.socket, host: str, trusting: Security) -> str:
    """What is wrong with the other side's TLS, as this process sees it; "" if nothing is."""
    try:
        context = ssl.create_default_context(
            cadata=trusting.authorities.decode("ascii", "replace") if trusting.authorities else None
        )
        context.wrap_socket(sock, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return f"its TLS certificate is not believed: {error.verify_message}"
    except TimeoutError:
        return SILENT
    except (ssl.SSLError, OSError):
        return (
            "this process asks for TLS (HEADRACE_TLS_CA), and what listens there does not speak it"
        )
    return ""


def _speaks_tls(sock: socket.socket) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError):  # SSLError is one
        context.wrap_socket(sock).close()
        return True
    return False


def _asked(address: str, at: tuple[int, Any], trusting: Security, scope: Scope) -> str:
    """What comes of a question for its status."""
    peer = GrpcPeer(address, connect_within_s=_HANDSHAKE_WITHIN_S, trusting=trusting)
    try:
        peer.call(GET_STATUS, pb.GetStatusRequest(), scope).wait(scope)
        return ""
    except errors.UnauthenticatedError as error:
        return f"it refused our credentials: {error.message}"
    except errors.DeadlineExceededError:
        return SILENT
    except errors.UnavailableError as error:
        return _ended(at, trusting, scope, error)
    except errors.CancelledError:
        raise
    except errors.OpError as error:
        return f"it answers with an error: {error.message}"
    finally:
        peer.close()


def _ended(
    at: tuple[int, Any], trusting: Security, scope: Scope, error: errors.UnavailableError
) -> str:
    """What it means that a connection was made and ended without an answer."""
    if trusting.tls:
        return (
            "it refused our credentials: it ends connections after the TLS handshake; does it ask for a certificate "
            "(HEADRACE_TLS_CERT, HEADRACE_TLS_KEY) that its authorities vouch for?"
        )
    with contextlib.suppress(OSError), _connected(*at, scope) as sock:
        if _speaks_tls(sock):
            return (
                "it refused our credentials: it speaks TLS, and this process does not (HEADRACE_TLS_CA names the "
                "certificates to believe)"
            )
    return f"what listens there does not speak gRPC, or ends at once: {error.message}"
