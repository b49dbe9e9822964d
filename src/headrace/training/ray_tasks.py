"""A cluster whose tasks are actors of Ray, one in each bundle of a placement group, restarted by Ray wherever it likes.

A task is called JOB-INDEX.LAUNCH.headrace, on a port of its own; where it is now a directory knows, an actor beside the
driver, which a name server in each task's process asks (serve.name_server, serve.rpc.names).  So whoever connects again
finds a task that has moved.
Called by: programs, by `headrace.ray`.  Threads: the driver's; an actor's main thread, and that of its name server.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import secrets
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.serve.name_server import NameServer
from headrace.serve.rpc.names import VARIABLE as NAME_SERVER
from headrace.serve.rpc.names import ZONE
from headrace.serve.server import Server

_JOBS = ("ps", "chief", "worker")
_FIRST_PORT, _LAST_PORT = 20_000, 32_000  # below those of outgoing connections
_DIRECTORY_WITHIN_S = 10.0
_NOTICE_S = 10.0  # between two words of what is waited for
_SETTLED = ("HEADRACE_SECRET", "HEADRACE_SECRET_FILE", "HEADRACE_TLS_CERT", "HEADRACE_INSECURE")
_BEGIN = Path(__file__).resolve().parents[1] / "tools/launch/begin.py"

Task = tuple[str, int]
Program = Callable[[], Any] | Sequence[str]

_log = logging.getLogger("headrace")


@dataclass(frozen=True)
class Plan:
    """What every task is told.  addresses: HOST:PORT by job.  program: None: it only serves."""

    addresses: Mapping[str, Sequence[str]]
    program: Program | None
    environment: Mapping[str, str] = field(repr=False)


class Directory:
    """Where tasks are, and why they ended; an actor."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}
        self._ends: dict[str, str] = {}

    def put(self, host: str, ip: str) -> None:
        """A task has begun there."""
        self._hosts[host] = ip

    def find(self, host: str) -> str | None:
        """Its address now; None for nobody's name."""
        return self._hosts.get(host)

    def note(self, task: str, why: str) -> None:
        """It ends with an error."""
        self._ends[task] = why

    def why(self, task: str) -> str:
        """With which error it ended last; "" if it said none."""
        return self._ends.get(task, "")


class TaskActor:
    """One task; an actor, which Ray starts again with the same arguments when its process or its node is gone."""

    def __init__(self, plan: Plan, job: str, index: int, directory: Any) -> None:
        self._plan, self._job, self._index, self._directory = plan, job, index, directory

    def run(self) -> Any:
        """What the program's function returns; None of a command.  A process whose program fails ends."""
        ray = _ray()
        host = self._plan.addresses[self._job][self._index].rpartition(":")[0]
        ip = ray.util.get_node_ip_address()
        ray.get(self._directory.put.remote(host, ip))

        def find(name: str) -> str | None:
            found = self._directory.find.remote(name)
            where: str | None = ray.get(found, timeout=_DIRECTORY_WITHIN_S)
            return where

        with NameServer(find) as names:
            os.environ.update(self._plan.environment)
            os.environ[NAME_SERVER] = "{}:{}".format(*names.address)
            os.environ["HEADRACE_BIND"] = ip
            task = {"type": self._job, "index": self._index}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": self._plan.addresses, "task": task})
            try:
                return self._program()
            except BaseException:  # whatever it is: another process tries again, if it may
                print(why := _last_error(), file=sys.stderr, flush=True)
                said = self._directory.note.remote(f"{self._job} {self._index}", why)
                with suppress(Exception):
                    ray.get(said, timeout=_DIRECTORY_WITHIN_S)
                os._exit(1)

    def _program(self) -> Any:
        program = self._plan.program
        if program is None:
            return Server().join()
        if callable(program):
            return program()
        cluster = ";".join(f"{job}={','.join(each)}" for job, each in self._plan.addresses.items())
        launch = [sys.executable, "-P", "-m", "headrace.tools.main", "launch"]
        which = ["--cluster", cluster, "--jobs", self._job, "--index", str(self._index)]
        begin = [sys.executable, "-I", "-S", str(_BEGIN), str(os.getpid())]  # it ends with us
        ended = subprocess.run([*begin, *launch, *which, "--", *program], check=False)
        if ended.returncode:
            raise RuntimeError(f"{program[0]!r} ended with exit code {ended.returncode}")
        return None


def launch(
    program: Program,
    ps: int = 0,
    workers: int = 0,
    chief: bool = False,
    resources: Mapping[str, float] | None = None,
    ps_resources: Mapping[str, float] | None = None,
    restarts: int = 3,
    serve_ps: bool = False,
    strategy: str = "SPREAD",
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
) -> dict[str, Any]:
    """Run a cluster of a program in Ray, and wait for its end: of the chief, or without one of all workers.

    program: a function without arguments, which each task calls with TF_CONFIG set, or the words of a command, in which
    `headrace launch` fills templates in.  serve_ps: parameter servers only serve.
    resources: what Ray reserves for each task, by default {"CPU": 1}; "GPU" and the cluster's own are possible, too.
    ps_resources: for each ps, by default the same.  strategy: of the placement group.
    restarts: of each task, when it fails or its node is gone.  Its state comes from checkpoints, on a disk that all
    nodes see.  environment: variables for all tasks.  Without one that says how servers know each other
    (docs/security.md), they share a secret of this launch.
    port: the first of one for each task; by default it is chosen by chance.
    Returns what the function returned, by task ("chief 0"), of those that decide.  Everything is ended then.
    Raises ImportError without the package ray, ValueError (no task, an unknown strategy), RuntimeError (a task failed
    for good, or its node was lost too often), and what Ray raises.  Connects with Ray as `ray.init()` does unless that
    was done.
    """
    ray = _ray()
    counts = {"ps": ps, "chief": int(chief), "worker": workers}
    if min(counts.values()) < 0 or not chief + workers:
        raise ValueError(
            f"a launch in Ray needs a chief or a worker, whose end is its end: ps={ps}, workers={workers}"
        )
    if not ray.is_initialized():
        ray.init()
    addresses = _addresses(counts, port)
    shared = {"HEADRACE_SECRET": secrets.token_hex(32)}
    given = dict(environment or {})
    if any(name in given for name in _SETTLED):
        shared = {}
    reserved = dict(resources or {"CPU": 1})
    with ExitStack() as stack:
        directory = _directory(ray, stack)
        tasks = [(job, index) for job in _JOBS for index in range(counts[job])]
        needs = [dict(ps_resources or reserved) if job == "ps" else reserved for job, _ in tasks]
        group = ray.util.placement_group(needs, strategy=strategy)
        stack.callback(ray.util.remove_placement_group, group)
        _reserved(ray, group, needs)
        running: dict[Any, Task] = {}
        for bundle, ((job, index), need) in enumerate(zip(tasks, needs, strict=True)):
            plan = Plan(
                addresses, None if serve_ps and job == "ps" else program, {**shared, **given}
            )
            where = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=bundle
            )
            actor = (
                ray.remote(TaskActor)
                .options(
                    **_as_options(need),
                    max_restarts=restarts,
                    max_task_retries=-1,  # while a node is being lost each call that fails counts
                    scheduling_strategy=where,
                )
                .remote(plan, job, index, directory)
            )
            stack.callback(ray.kill, actor)
            running[actor.run.remote()] = (job, index)
        return _ended(ray, running, "chief" if chief else "worker", directory)


def _reserved(ray: Any, group: Any, needs: Sequence[Mapping[str, float]]) -> None:
    """Return when Ray has reserved what the tasks need; meanwhile say what is waited for, which may never come."""
    ready, waited_s = group.ready(), 0.0
    while not ray.wait([ready], timeout=_NOTICE_S)[0]:
        waited_s += _NOTICE_S
        _log.warning(
            "still waiting, for %.0f s, for Ray to reserve %s, a bundle for each task; free in its cluster are %s",
            waited_s,
            [dict(each) for each in needs],
            ray.available_resources(),
        )
    ray.get(ready)


def _ended(ray: Any, running: dict[Any, Task], deciding: str, directory: Any) -> dict[str, Any]:
    """The results of those that decide.  Raises RuntimeError of whoever fails before."""
    results: dict[str, Any] = {}
    while any(job == deciding for job, _ in running.values()):
        (done,), _ = ray.wait(list(running), num_returns=1)
        job, index = running.pop(done)
        name = f"{job} {index}"
        try:
            result = ray.get(done)
        except ray.exceptions.RayError as error:
            why = ray.get(directory.why.remote(name)) or str(error)
            raise RuntimeError(f"{name} has failed for good: {why}") from error
        if job == deciding:
            results[name] = result
    return results


def _addresses(counts: Mapping[str, int], port: int | None) -> dict[str, list[str]]:
    total = sum(counts.values())
    if port is None:
        port = _FIRST_PORT + secrets.randbelow(max(_LAST_PORT - _FIRST_PORT - total, 1))
    launch = secrets.token_hex(4)
    found: dict[str, list[str]] = {}
    for job in _JOBS:
        for index in range(counts[job]):
            found.setdefault(job, []).append(f"{job}-{index}.{launch}{ZONE}:{port}")
            port += 1
    return found


def _directory(ray: Any, stack: ExitStack) -> Any:
    """On the driver's node: it is lost with the driver, and not before."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    made = ray.remote(Directory).options(num_cpus=0, scheduling_strategy=here).remote()
    stack.callback(ray.kill, made)
    return made


def _as_options(need: Mapping[str, float]) -> dict[str, Any]:
    """Resources as an actor asks for them."""
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    own = {name: count for name, count in need.items() if name not in named}
    found: dict[str, Any] = {option: need[name] for name, option in named.items() if name in need}
    return found | ({"resources": own} if own else {})


def _last_error() -> str:
    return traceback.format_exc().strip()


def _ray() -> Any:
    try:
        ray = importlib.import_module("ray")
        importlib.import_module("ray.util.scheduling_strategies")
    except ImportError as error:
        raise ImportError(
            "headrace.ray needs Ray: pip install 'headrace[ray]', or ray alone"
        ) from error
    return ray
