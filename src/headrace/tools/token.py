"""`headrace token`: what a browser or Prometheus shows where the cluster has a secret.

Called by: main, which imports this for every command.
"""

from __future__ import annotations

import argparse

from headrace.tools.commands import CommandError, ExitCode, Streams, command
from headrace.tools.settings import settle


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    name = "HEADRACE_SECRET_FILE"
    parser.add_argument(
        "--secret-file", dest=name, metavar="PATH", help=f"the cluster's secret [{name}]"
    )


@command("token", "print the token that metrics and the page ask for", _add_arguments)
def token(args: argparse.Namespace, streams: Streams) -> int:
    """The token is made of the secret, lets its holder look, and opens nothing else.  Exit code 1 without a secret."""
    from headrace.base import errors
    from headrace.serve.rpc.security import security

    settle(args)
    try:
        found = security().http_token
    except errors.OpError as error:
        raise CommandError(error.message) from error
    if not found:
        raise CommandError(
            "there is no secret: name its file by --secret-file or HEADRACE_SECRET_FILE"
        )
    streams.out.write(f"{found}\n")
    return ExitCode.OK
