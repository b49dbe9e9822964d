"""Which tasks a launch starts, where they listen, and what each of them runs: decided before anything is started.

Called by: command.  Pure; `Task.environment` and `Task.command` are what a process is started with.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.serve.slurm import Step
from headrace.tools.commands import UsageError
from headrace.tools.serve import format_cluster

EVALUATOR = "evaluator"
JOBS = ("ps", "chief", "worker", EVALUATOR)
"""In the order in which ports and ranks are dealt."""

TEMPLATES = ("job", "task", "cluster", "ps_hosts", "worker_hosts", "chief_hosts")
_TEMPLATE = re.compile(r"\{(\{)?(" + "|".join(TEMPLATES) + r")\}(?(1)\})")
_DEFAULT_PORT = 2222
_SLURM_PORTS = 20_000  # below 32768, from where systems take ports for outgoing connections
_SLURM_STEP = 48


@dataclass(frozen=True)
class Counts:
    """How many tasks of each job a cluster has."""

    ps: int = 0
    chief: int = 0
    worker: int = 0
    evaluator: int = 0

    def tasks(self) -> list[tuple[str, int]]:
        """(job, index) of all of them, in the order of `JOBS`."""
        return [(job, index) for job in JOBS for index in range(getattr(self, job))]

    def check(self) -> None:
        """Raise UsageError for what cannot be started."""
        for job in JOBS:
            if getattr(self, job) < 0:
                raise UsageError(f"{getattr(self, job)} tasks of job {job!r} are less than none")
        if not self.tasks():
            raise UsageError("there is no task to start; say e.g. --ps 1 --workers 2")


@dataclass(frozen=True)
class Place:
    """One of several launches of a cluster.  address: where it listens.

    deciding: names of those of its tasks that decide.
    waits: it has other tasks, too, which go on until all is over.
    """

    address: str
    deciding: tuple[str, ...]
    waits: bool


@dataclass(frozen=True)
class Layout:
    """The cluster, and which of its tasks are started here.

    addresses: HOST:PORT by (job, index), of all tasks but evaluators.
    places: of all launches, where there are several.  own: which of them this one is.
    """

    addresses: Mapping[tuple[str, int], str]
    here: Sequence[tuple[str, int]]
    places: Sequence[Place] = ()
    own: int = 0

    @property
    def cluster(self) -> dict[str, list[str]]:
        """As TF_CONFIG has it."""
        found: dict[str, list[str]] = {}
        for (job, _), address in self.addresses.items():
            found.setdefault(job, []).append(address)
        return found


@dataclass(frozen=True)
class Programs:
    """What tasks run.  ps: of parameter servers; None: as the others.  serve_ps: they run `headrace serve`."""

    program: Sequence[str]
    ps: Sequence[str] | None = None
    serve_ps: bool = False


@dataclass(frozen=True)
class Task:
    """One process to be.  decides: all is over when all of these have ended well."""

    job: str
    index: int
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    decides: bool = False

    @property
    def name(self) -> str:
        """Such as ``worker 1``."""
        return _name((self.job, self.index))


def _name(task: tuple[str, int]) -> str:
    return f"{task[0]} {task[1]}"


def _deciding(jobs: Iterable[str]) -> str:
    """The job whose end is the end of all."""
    return "chief" if "chief" in jobs else "worker"


def tasks(layout: Layout, programs: Programs) -> list[Task]:
    """What is started here."""
    cluster = layout.cluster
    deciding = _deciding(cluster)
    made = []
    for job, index in layout.here:
        config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
        command = _command(job, programs)
        values = {
            "job": job,
            "task": str(index),
            "cluster": format_cluster(cluster),
            **{f"{each}_hosts": ",".join(cluster.get(each, [])) for each in JOBS[:3]},
        }
        filled = tuple(fill(word, values) for word in command)
        made.append(Task(job, index, filled, {"TF_CONFIG": config}, job == deciding))
    return made


def _command(job: str, programs: Programs) -> Sequence[str]:
    if job == "ps" and programs.serve_ps:
        return [sys.executable, "-P", "-m", "headrace.tools.main", "serve"]
    if job == "ps" and programs.ps is not None:
        return programs.ps
    return programs.program


def fill(word: str, values: Mapping[str, str]) -> str:
    """`word` with ``{job}`` and its kin filled in; ``{{job}}`` is ``{job}``, other braces stay."""
    return _TEMPLATE.sub(lambda m: f"{{{m[2]}}}" if m[1] else values[m[2]], word)


# -- where tasks are --------------------------------------------------------------------------------


def on_this_machine(counts: Counts, ports: Iterable[int]) -> Layout:
    """All tasks on the loopback, on these ports."""
    counts.check()
    free = iter(ports)
    listening = [task for task in counts.tasks() if task[0] != EVALUATOR]
    return Layout({task: f"127.0.0.1:{next(free)}" for task in listening}, counts.tasks())


@dataclass(frozen=True)
class Host:
    """A line of a file of hosts.  tasks: None where the line says none."""

    name: str
    port: int
    tasks: Counts | None = None


_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+)(?::(\d+))?")
_WORDS = {"ps": "ps", "chief": "chief", "workers": "worker", "evaluator": "evaluator"}


def parse_hosts(text: str, port: int = _DEFAULT_PORT) -> list[Host]:
    """A host a line: ``HOST[:PORT] [ps=N] [chief] [workers=N] [evaluator]``; # begins a comment.

    Raises UsageError that names the line.
    """
    hosts: list[Host] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            hosts.append(_host(words, port, f"line {number} of the hosts"))
    if not hosts:
        raise UsageError("the file of hosts names none; a line is e.g. 'node1:2222 ps=1 workers=2'")
    said = [host.tasks is not None for host in hosts]
    if any(said) and not all(said):
        raise UsageError(
            f"some of the hosts say their tasks, and {hosts[said.index(False)].name} does not; let all or none say them"
        )
    return hosts


def _host(words: list[str], port: int, where: str) -> Host:
    match = _HOST.fullmatch(words[0])
    if match is None or not 0 < int(match[2] or port) < 65536:
        raise UsageError(f"{where}: {words[0]!r} is not HOST or HOST:PORT")
    counts: dict[str, int] = {}
    for word in words[1:]:
        name, _, count = word.partition("=")
        job = _WORDS.get(name)
        if job is None or job in counts or not (count or "1").isdecimal():
            raise UsageError(
                f"{where}: {word!r} is none of ps=N, chief, workers=N and evaluator, or stands there twice"
            )
        counts[job] = int(count or "1")
    return Host(match[1], int(match[2] or port), Counts(**counts) if counts else None)


def on_hosts(hosts: Sequence[Host], index: int, counts: Counts) -> Layout:
    """The cluster of all the hosts, and the tasks of the one with this index.

    `counts` are dealt round where the hosts do not say their tasks.  Raises UsageError.
    """
    if not 0 <= index < len(hosts):
        raise UsageError(f"--host-index {index}: there are hosts 0 to {len(hosts) - 1}")
    by_lines = hosts[0].tasks is not None
    if by_lines and counts.tasks():
        raise UsageError(
            "the file of hosts says how many tasks there are; leave out --ps, --workers, --chief and --evaluator"
        )
    placed: list[tuple[tuple[str, int], int]] = []
    for job in JOBS:
        if by_lines:
            at = [n for n, host in enumerate(hosts) for _ in range(getattr(host.tasks, job))]
        else:
            at = [n % len(hosts) for n in range(getattr(counts, job))]
        placed += [((job, number), host) for number, host in enumerate(at)]
    if not placed:
        counts.check()
    ports = {n: host.port for n, host in enumerate(hosts)}
    used: dict[str, tuple[str, int]] = {}
    addresses: dict[tuple[str, int], str] = {}
    for task, host in placed:
        if task[0] == EVALUATOR:
            continue
        address = f"{hosts[host].name}:{ports[host]}"
        if address in used:
            raise UsageError(
                f"{used[address]} and {task} would both listen on {address}; give the hosts' lines ports further apart"
            )
        ports[host] += 1
        addresses[task] = address
        used[address] = task
    here = [[task for task, host in placed if host == n] for n in range(len(hosts))]
    listening = [f"{host.name}:{ports[n]}" for n, host in enumerate(hosts)]
    for n, address in enumerate(listening):
        if address in used or address in listening[:n]:
            raise UsageError(
                f"the launch of host {n} listens on the port after those of its tasks, {address}, which is "
                "somebody else's; give the hosts' lines ports further apart"
            )
    return Layout(addresses, here[index], _places(listening, here), index)


def _places(listening: Sequence[str], tasks: Sequence[Sequence[tuple[str, int]]]) -> list[Place]:
    """Of launches that listen there and have these tasks; none for a launch that is the only one."""
    if len(listening) < 2:
        return []
    job = _deciding({job for each in tasks for job, _ in each})
    return [
        Place(
            address,
            tuple(_name(task) for task in own if task[0] == job),
            any(task[0] != job for task in own),
        )
        for address, own in zip(listening, tasks, strict=True)
    ]


def in_cluster(
    cluster: Mapping[str, Sequence[str]], jobs: Sequence[str], index: int, evaluators: int
) -> Layout:
    """The one task of a cluster that is known that has this index among those of `jobs`, one job after the other.

    Raises UsageError.
    """
    addresses = {
        (job, n): address for job, found in cluster.items() for n, address in enumerate(found)
    }
    for job in (*cluster, *jobs):
        if job not in JOBS or (job == EVALUATOR and job in cluster):
            raise UsageError(f"{job!r} is none of {', '.join(JOBS[:-1])}, or evaluator in --jobs")
    counts = {**{job: len(found) for job, found in cluster.items()}, EVALUATOR: evaluators}
    tasks = [(job, n) for job in jobs for n in range(counts.get(job, 0))]
    if not 0 <= index < len(tasks):
        raise UsageError(f"--index {index}: the jobs {', '.join(jobs)} have {len(tasks)} tasks")
    return Layout(addresses, [tasks[index]])


def in_slurm_step(step: Step, counts: Counts, port: int | None) -> Layout:
    """One task for each rank of a step, in the order of `JOBS`; by default a ps, and workers for the rest.

    Without `port`, a host's tasks listen on ports made of the job's number.  Raises UsageError.
    """
    places = step.places()
    if not counts.tasks():
        counts = Counts(ps=min(1, len(places) - 1), worker=max(len(places) - 1, 1))
    wanted = counts.tasks()
    if len(wanted) != len(places):
        raise UsageError(
            f"the step has {len(places)} tasks (srun --ntasks), and {len(wanted)} are asked for: "
            + ", ".join(f"{job} {index}" for job, index in wanted)
        )
    if port is None:
        number = int("".join(filter(str.isdecimal, step.job_id)) or 0)
        port = _SLURM_PORTS + number % 256 * _SLURM_STEP
    addresses = {
        task: f"{host}:{port + at}"
        for task, (host, at) in zip(wanted, places, strict=True)
        if task[0] != EVALUATOR
    }
    on_host = Counter(host for host, _ in places)
    listening = [f"{host}:{port + on_host[host] + at}" for host, at in places]
    own = [[task] for task in wanted]
    return Layout(addresses, own[step.rank], _places(listening, own), step.rank)
