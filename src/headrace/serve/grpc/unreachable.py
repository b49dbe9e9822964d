"""Why a server does not answer, in words, found out by trying.

What time may mend is said; that the two sides do not believe each other is raised, so that nobody waits for it.
Called by: serve.grpc.transport.  Threads: any; each attempt to connect is bounded, but a resolver may take its time.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.rpc.methods import GET_STATUS
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.tcp import connected, resolved

SILENT = (
    "connections are accepted and nothing is answered: its process is stopped or frozen, or it is neither a "
    "headrace nor a TensorFlow server"
)
_NO_TLS = "WRONG_VERSION_NUMBER"  # what OpenSSL says of bytes that are none
_HANDSHAKE_WITHIN_S = 60.0  # longer than a probe lasts: who says nothing is told from who hangs up


def why(address: str, trusting: Security, scope: Scope) -> str:
    """Why nothing comes of asking the server at ``host:port``; "" if it answers.

    Raises Unauthenticated if one side does not take the other's credentials, and the scope's error.
    """
    try:
        found = resolved(address)
    except (OSError, ValueError) as error:
        host = address.rpartition(":")[0].strip("[]")
        return f"the name {host!r} is not resolved: {getattr(error, 'strerror', None) or error}"
    said = ""
    for at in found:
        scope.check()
        try:
            return _tried(address, at, trusting, scope)
        except ConnectionRefusedError:
            said = "connection refused: nothing listens there"
        except TimeoutError:
            said = "no answer: the host is down, or a firewall drops what is sent to it"
        except OSError as error:
            said = f"it cannot be reached: {error.strerror or error}"
    return said


def _tried(address: str, at: tuple[int, Any], trusting: Security, scope: Scope) -> str:
    """What comes of a connection and a question.  Raises OSError, and what `why` raises."""
    # A server that takes no certificate of ours ends the connection without a word, as one does that ends itself.
    for _ in range(2):
        connected(*at, scope).close()
        said, ended = _asked(address, trusting, scope)
        if not ended:
            return said
        with connected(*at, scope) as sock:
            said = _tls_problem(sock, address, trusting) if trusting.tls else _wants_tls(sock, said)
        if said:
            return said
    raise errors.unauthenticated(
        "it refused our credentials: it ends connections after the TLS handshake; does it ask for a certificate "
        "(HEADRACE_TLS_CERT, HEADRACE_TLS_KEY) that its authorities vouch for and that is valid now?"
    )


def _tls_problem(sock: socket.socket, address: str, trusting: Security) -> str:
    """What is wrong with the other side's TLS, as this process sees it; "" if nothing is.

    Raises Unauthenticated: its certificate is not believed, or it has none.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        context = ssl.create_default_context(
            cadata=trusting.authorities.decode("ascii", "replace") if trusting.authorities else None
        )
        context.wrap_socket(sock, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        raise errors.unauthenticated(
            f"its TLS certificate is not believed (HEADRACE_TLS_CA): {error.verify_message}"
        ) from error
    except TimeoutError:
        return SILENT
    except OSError as error:  # SSLError is one
        if getattr(error, "reason", "") == _NO_TLS:
            raise errors.unauthenticated(
                "this process asks for TLS (HEADRACE_TLS_CA), and what listens there does not speak it"
            ) from error
        return f"a TLS connection does not come about: {error.strerror or error}"
    return ""


def _wants_tls(sock: socket.socket, otherwise: str) -> str:
    """`otherwise`; raises Unauthenticated if the other side speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(sock).close()
    except OSError:  # SSLError is one
        return otherwise
    raise errors.unauthenticated(
        "it refused our credentials: it speaks TLS, and this process does not (HEADRACE_TLS_CA names the certificates "
        "to believe)"
    )


def _asked(address: str, trusting: Security, scope: Scope) -> tuple[str, bool]:
    """(what comes of a question for its status, whether the connection just ended).  Raises as `why`."""
    peer = GrpcPeer(address, connect_within_s=_HANDSHAKE_WITHIN_S, trusting=trusting)
    try:
        peer.call(GET_STATUS, pb.GetStatusRequest(), scope).wait(scope)
        return "", False
    except errors.UnauthenticatedError as error:
        raise errors.unauthenticated(f"it refused our credentials: {error.message}") from error
    except errors.DeadlineExceededError:
        return SILENT, False
    except errors.UnavailableError as error:
        return f"what listens there does not speak gRPC, or ends at once: {error.message}", True
    except errors.CancelledError:
        raise
    except errors.OpError as error:
        return f"it answers with an error: {error.message}", False
    finally:
        peer.close()
