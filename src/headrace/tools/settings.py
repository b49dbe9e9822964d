"""Options of commands that stand for settings of the environment, which servers and sessions read.

Called by: commands that serve (all of them), commands that talk to a cluster (what they show it).
"""

from __future__ import annotations

import argparse
import os

_CREDENTIALS = (
    (
        "--secret-file",
        "HEADRACE_SECRET_FILE",
        "PATH",
        "secret that every process of the cluster shares",
    ),
    ("--tls-cert", "HEADRACE_TLS_CERT", "PATH", "TLS certificate of this process (PEM)"),
    ("--tls-key", "HEADRACE_TLS_KEY", "PATH", "its private key (PEM)"),
    ("--tls-ca", "HEADRACE_TLS_CA", "PATH", "whose certificates are believed (PEM)"),
)
_SERVING = (
    (
        "--file-roots",
        "HEADRACE_FILE_ROOTS",
        "DIR[:DIR]",
        "directories beneath which graphs may use files",
    ),
    ("--bind", "HEADRACE_BIND", "HOST", "address to listen on, if not the one in the cluster"),
    (
        "--session-idle",
        "HEADRACE_SESSION_IDLE_S",
        "SECONDS",
        "end TensorFlow clients' sessions that are idle so long",
    ),
    (
        "--metrics",
        "HEADRACE_METRICS",
        "[ADDRESS:]PORT",
        "where Prometheus finds metrics (needs headrace[metrics]; loopback unless an address is given)",
    ),
    ("--lane", "HEADRACE_LANE", "KIND", "on, unix, tcp or off: sockets beside gRPC (default on)"),
    ("--lane-port", "HEADRACE_LANE_PORT", "PORT", "TCP port of the lane (default: any)"),
)
_SWITCHES = (
    ("--tls-clients", "HEADRACE_TLS_CLIENTS", "clients need a certificate too"),
    (
        "--insecure",
        "HEADRACE_INSECURE",
        "let everybody in who reaches the port, as TensorFlow does",
    ),
)


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Options for what the cluster's servers are shown and asked for."""
    for option, name, metavar, text in _CREDENTIALS:
        parser.add_argument(option, dest=name, metavar=metavar, help=f"{text} [{name}]")


def add_settings(parser: argparse.ArgumentParser) -> None:
    """All options of a server."""
    add_credentials(parser)
    for option, name, metavar, text in _SERVING:
        parser.add_argument(option, dest=name, metavar=metavar, help=f"{text} [{name}]")
    for option, name, text in _SWITCHES:
        parser.add_argument(
            option, dest=name, action="store_const", const="1", help=f"{text} [{name}=1]"
        )


def settle(args: argparse.Namespace) -> None:
    """Write the options that were given into the environment of this process."""
    for name, value in vars(args).items():
        if name.startswith("HEADRACE_") and value is not None:
            os.environ[name] = value
