"""The command `headrace k8s`.

Called by: main, which imports this for every command: what the command needs it imports itself.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.tools.commands import ExitCode, Parser, Streams, UsageError, command

if TYPE_CHECKING:
    from headrace.tools.kubernetes.manifests import Cluster

_NAME = "headrace k8s"
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 40  # with what is added, names of pods stay within 63


def _parser() -> Parser:
    parser = Parser(
        prog=_NAME,
        usage=f"{_NAME} --image IMAGE [--ps N] [--workers N] [--chief] [OPTIONS] -- PROGRAM ARGUMENTS...",
        description="Print manifests for Kubernetes: kubectl apply -f - takes them.",
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and end")
    add("--image", help="what pods run; it has headrace on its PATH")
    for option, text in (("--ps", "parameter servers"), ("--workers", "workers")):
        add(option, type=int, default=0, metavar="N", help=f"number of {text}")
    add("--chief", action="store_true", help="a task of job chief, whose end is the end of all")
    add("--evaluator", action="store_true", help="an evaluator, which is no part of the cluster")
    add("--serve-ps", action="store_true", help="parameter servers run `headrace serve`")
    add("--name", default="headrace", help="of everything (default headrace)")
    add("--namespace", default="", help="for all of it (default: kubectl's)")
    add("--port", type=int, default=2222, metavar="N", help="of every pod (default 2222)")
    add("--gpu", type=int, default=0, metavar="N", help="GPUs of each pod that is no ps")
    add("--cpu", default="", metavar="N", help="cores of each pod, such as 4 or 500m")
    add("--memory", default="", metavar="SIZE", help="of each pod, such as 8Gi")
    add("--checkpoints", default="/checkpoints", metavar="DIR", help="where the volume is mounted")
    add("--claim", default="", metavar="NAME", help="a volume claim that is there already")
    add("--storage", default="10Gi", metavar="SIZE", help="of the volume that is claimed")
    add("--storage-class", default="", metavar="NAME", help="of that volume; pods share it")
    add("--secret-name", default="", metavar="NAME", help="a Secret with the key `secret`")
    add("--restarts", type=int, default=3, metavar="N", help="of each pod (default 3)")
    add("--grace", type=int, default=30, metavar="SECONDS", help="after SIGTERM (default 30)")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="for all programs")
    add("--jobset", action="store_true", help="a JobSet, which ends parameter servers, too")
    return parser


@command("k8s", "print manifests of a cluster for Kubernetes", None)
def k8s(arguments: argparse.Namespace, streams: Streams) -> int:
    """Exit codes: 0, or 2 for options that make no sense."""
    words = list(arguments.words)
    at = words.index("--") if "--" in words else len(words)
    parser = _parser()
    try:
        args = parser.parse_args(words[:at])
        if args.help:
            streams.out.write(parser.format_help())
            return ExitCode.OK
        cluster = _cluster(args, words[at + 1 :])
    except UsageError as error:
        streams.err.write(f"{parser.format_usage()}{_NAME}: {error}\n")
        return ExitCode.USAGE
    from headrace.tools.kubernetes import manifests
    from headrace.tools.kubernetes.yaml import documents

    made = manifests.jobset(cluster) if args.jobset else manifests.core(cluster)
    streams.out.write(documents(made))
    return ExitCode.OK


def _cluster(args: argparse.Namespace, program: Sequence[str]) -> Cluster:
    """What was asked for.  Raises UsageError."""
    import secrets

    from headrace.tools.kubernetes.manifests import Cluster
    from headrace.tools.launch.roles import Counts

    counts = Counts(args.ps, int(args.chief), args.workers, int(args.evaluator))
    counts.check()
    if not args.image:
        raise UsageError("--image is missing: what the pods run")
    only_ps = not (args.chief or args.workers or args.evaluator)
    if not program and not (only_ps and args.serve_ps):
        raise UsageError("there is no program to start; give it after --: -- python train.py")
    for option in ("name", "namespace", "claim", "secret_name"):
        _check_name(option, getattr(args, option))
    if not 0 < args.port < 65535:
        raise UsageError(
            f"--port {args.port} is not a port from 1 to 65534; the one after it is taken, too"
        )
    if min(args.gpu, args.restarts, args.grace) < 0:
        raise UsageError("--gpu, --restarts and --grace are not negative")
    if not args.checkpoints.startswith("/"):
        raise UsageError(f"--checkpoints {args.checkpoints!r} is no absolute path")
    variables = {}
    for each in args.env:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {each!r} is not NAME=VALUE")
        variables[name] = text
    requests = {"cpu": args.cpu, "memory": args.memory}
    return Cluster(
        name=args.name,
        image=args.image,
        program=program,
        counts=counts,
        namespace=args.namespace,
        serve_ps=args.serve_ps,
        port=args.port,
        resources={name: text for name, text in requests.items() if text},
        gpus=args.gpu,
        folder=args.checkpoints,
        claim=args.claim,
        storage=args.storage,
        storage_class=args.storage_class,
        secret_name=args.secret_name,
        secret="" if args.secret_name else secrets.token_hex(32),
        restarts=args.restarts,
        grace_s=args.grace,
        variables=variables,
    )


def _check_name(option: str, name: str) -> None:
    if name and (_LABEL.fullmatch(name) is None or len(name) > _LONGEST_NAME):
        raise UsageError(
            f"--{option.replace('_', '-')} {name!r} is no name for Kubernetes: a letter, then small letters, digits "
            f"and - with none at the end, {_LONGEST_NAME} characters at most"
        )
