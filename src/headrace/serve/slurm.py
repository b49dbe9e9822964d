"""What Slurm says of a job step: which hosts, how many tasks on each, which of them this process is.

Host lists are written as ``n[01-03,7],login``: names by commas, with ranges in brackets, in several places if need be.
Called by: training.slurm_cluster_resolver, tools.launch.  Pure, but for `read`, which takes the environment.
Source: Slurm's manual of srun and scontrol (``scontrol show hostnames`` expands the same way)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

MOST_HOSTS = 100_000
"""More than any cluster has; a range beyond is a mistake that would fill the memory."""

_COUNT = re.compile(r"(\d+)(?:\(x(\d+)\))?", re.ASCII)
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_PIECE = re.compile(r"\[([^][]*)\]|([^][,]+)")


def expand_hostlist(text: str) -> list[str]:
    """The hosts of a list, in its order; those named twice stand there twice.

    Raises ValueError that quotes the part it cannot read.
    """
    if not text.strip():
        return []
    return [host for part in _parts(text) for host in _hosts(part.strip(), text)]


def _parts(text: str) -> list[str]:
    """Cut at the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if depth not in (0, 1):
            raise ValueError(f'Invalid hostlist format "{text}": its brackets do not match')
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise ValueError(f'Invalid hostlist format "{text}": a bracket is not closed')
    return parts


def _hosts(part: str, text: str) -> list[str]:
    if not part or any(letter.isspace() for letter in part):
        raise ValueError(f'Invalid hostlist format "{text}": {part!r} is no name of a host')
    choices = [
        [match[2]] if match[1] is None else _numbers(match[1], text)
        for match in _PIECE.finditer(part)
    ]
    count = 1
    for each in choices:
        count *= len(each)
        _check_count(count, text)
    return ["".join(pieces) for pieces in product(*choices)]


def _numbers(inside: str, text: str) -> list[str]:
    """Of what stands in brackets: ``01-03,7`` is 01, 02, 03 and 7."""
    found: list[str] = []
    for each in inside.split(","):
        match = _RANGE.fullmatch(each)
        if match is None:
            raise ValueError(
                f'Invalid hostlist format "{text}": {each!r} is neither a number nor a range of them'
            )
        first, last = match[1], match[2] or match[1]
        if int(first) > int(last):
            raise ValueError(
                f'Invalid hostlist format "{text}": the range {each} ends before it begins'
            )
        _check_count(int(last) - int(first) + 1 + len(found), text)
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found


def _check_count(count: int, text: str) -> None:
    if count > MOST_HOSTS:
        raise ValueError(
            f'Invalid hostlist format "{text:.200}": it has more than {MOST_HOSTS} hosts'
        )


def expand_counts(text: str) -> list[int]:
    """Tasks of each node: ``2(x3),1`` is 2, 2, 2 and 1.  Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        if match is None:
            raise ValueError(
                f'Invalid tasks-per-node list format "{text}": {part!r} is neither COUNT nor COUNT(xNODES)'
            )
        _check_count(len(found) + int(match[2] or 1), text)
        found += [int(match[1])] * int(match[2] or 1)
    return found


def variable(name: str, environ: Mapping[str, str]) -> str:
    """SLURM_NAME.  Raises RuntimeError if it is not set."""
    try:
        return environ[f"SLURM_{name}"]
    except KeyError:
        raise RuntimeError(
            f"SLURM_{name} not found in environment; it is set for processes that srun starts: "
            "is this one of a Slurm job step?"
        ) from None


@dataclass(frozen=True)
class Step:
    """A job step.  hosts, counts: of its nodes, in order.  rank: of this process.  node: where it runs, if known."""

    job_id: str
    rank: int
    hosts: list[str]
    counts: list[int]
    node: int | None = None

    def places(self) -> list[tuple[str, int]]:
        """Host and index on that host of every rank, as srun's block distribution gives them."""
        return [
            (host, index)
            for host, count in zip(self.hosts, self.counts, strict=True)
            for index in range(count)
        ]


def read(environ: Mapping[str, str] = os.environ) -> Step:
    """What SLURM_* say.  Raises RuntimeError (one is not set), ValueError (they cannot be read or disagree)."""
    hosts = expand_hostlist(variable("STEP_NODELIST", environ))
    counts = expand_counts(variable("STEP_TASKS_PER_NODE", environ))
    rank = int(variable("PROCID", environ))
    if len(hosts) != len(counts):
        raise ValueError(
            f"SLURM_STEP_NODELIST names {len(hosts)} hosts, and SLURM_STEP_TASKS_PER_NODE is for {len(counts)}"
        )
    if rank >= sum(counts):
        raise ValueError(f"SLURM_PROCID is {rank}, and the step has {sum(counts)} tasks")
    node = environ.get("SLURM_NODEID")
    job = environ.get("SLURM_JOB_ID", "0")
    step = Step(job, rank, hosts, counts, None if node is None else int(node))
    if step.node is not None and 0 <= step.node < len(hosts):
        here = [at for at, count in enumerate(counts) for _ in range(count)][rank]
        if here != step.node:
            raise ValueError(
                f"task {rank} should run on {hosts[here]} and runs on {hosts[step.node]}: tasks are not counted "
                "through node by node; start them with srun --distribution=block"
            )
    return step
