"""`headrace health`: whether a task serves, for probes and scripts.

Called by: main, which imports this for every command: what the command needs it imports itself.
"""

from __future__ import annotations

import argparse

from headrace.tools.commands import CommandError, ExitCode, Streams, UsageError, command
from headrace.tools.settings import add_credentials, settle

_WITHIN_S = 5.0
_TO_SAY_WHY_S = 1.0  # beyond the deadline, to find out what is wrong


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help="a server, grpc://HOST:PORT")
    parser.add_argument(
        "--deadline",
        type=float,
        default=_WITHIN_S,
        metavar="SECONDS",
        help=f"for it to answer (default {_WITHIN_S:g})",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="a server that ends its steps after SIGTERM will do, too: it lives",
    )
    add_credentials(parser)


@command("health", "say whether a server answers: exit status 0 if it does", _add_arguments)
def health(args: argparse.Namespace, streams: Streams) -> int:
    """Exit codes: 0 if it answers, as TensorFlow's servers do too; 1, with the reason, if it does not in time, or if it
    takes no new steps any more.
    """
    from headrace.tools.inspection.snapshot import address_of

    settle(args)
    if not args.deadline > 0:
        raise UsageError(f"--deadline {args.deadline:g} is not above 0")
    address = address_of(args.target)
    task, stopping = _task_at(address, args.deadline)
    if not stopping:
        streams.out.write(f"serving: {task} at grpc://{address}\n")
        return ExitCode.OK
    streams.out.write(
        f"stopping: {task} at grpc://{address}: it ends the steps under way and takes no others\n"
    )
    return ExitCode.OK if args.live else ExitCode.FAILED


def _task_at(address: str, within_s: float) -> tuple[str, str]:
    """The task that answers there, and why it takes no new steps, if it does not.

    Raises CommandError that says why none answers.
    """
    from headrace.base import errors
    from headrace.codec import protos as pb
    from headrace.run.exec.keys import task_of
    from headrace.run.scope import Scope
    from headrace.serve.connect.transports import transports
    from headrace.serve.rpc.methods import GET_STATUS
    from headrace.serve.rpc.security import security
    from headrace.serve.rpc.transport import Destination

    main, trusting = transports()[0], security()
    to = Destination(address, "the server", trusting, connect_within_s=within_s)
    channel = main.connect(to)
    try:
        with Scope(within_s) as scope:
            status = channel.call(GET_STATUS, pb.GetStatusRequest(), scope).wait(scope)
    except errors.DeadlineExceededError:
        raise CommandError(f"grpc://{address} has not answered for {within_s:g} s") from None
    except errors.OpError as error:
        try:
            with Scope(_TO_SAY_WHY_S) as asking:
                why = main.why_silent(address, trusting, asking)
        except errors.OpError as reason:
            why = reason.message
        raise CommandError(f"grpc://{address} does not serve: {why or error.message}") from error
    finally:
        channel.close()
    devices = status.device_attributes
    return task_of(devices[0].name) if devices else "a server", status.headrace_stopping
