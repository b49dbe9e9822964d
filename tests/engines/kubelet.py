"""What a kubelet does with the manifests of `headrace k8s`: variables, names of pods, probes, SIGTERM, new addresses.

Run by test_kubernetes.py within network and mount namespaces, in which addresses of the loopback stand for those of
pods, and /etc/resolv.conf names 127.0.0.1 and DOMAIN.  Prints what happens.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any

from headrace.serve.name_server import NameServer
from headrace.tools.kubernetes.manifests import Cluster, core
from headrace.tools.launch.roles import Counts

DOMAIN = "default.svc.cluster.test"
WITHIN_S = 60.0

PROGRAM = """
import sys
import headrace as tf
said = tf.distribute.cluster_resolver.TFConfigClusterResolver()
folder, job = sys.argv[1], said.task_type
with tf.train.Server() as server:
    with tf.device("/job:ps/task:0"):
        more = tf.train.get_or_create_global_step().assign_add(1)
    with tf.train.MonitoredTrainingSession(
        server.target, job == "chief", checkpoint_dir=folder if job == "chief" else None,
        save_checkpoint_steps=10, save_checkpoint_secs=None,
    ) as session:
        if job == "worker":
            print("joins", session.run(more) > 0, flush=True)
            while True:
                session.run(more)
        while (step := session.run(more)) < 100:
            pass
        print("trains", step < 1000, flush=True)
        for _ in range(2):
            open(folder + "/go").read()
            print("goes on", session.run(more) > 90, flush=True)
        open(folder + "/go").read()
"""


class Pod:
    """One pod of a manifest's template; its container is a process."""

    addresses: dict[str, str]
    _numbers = count(2)

    def __init__(self, template: Any, hostname: str, index: int, secrets: dict[str, str]) -> None:
        spec = template["spec"]
        (self._container,) = spec["containers"]
        self._index, self._secrets = index, secrets
        self.grace_s = spec["terminationGracePeriodSeconds"]
        self.address = f"127.0.0.{next(self._numbers)}"
        self.addresses[f"{hostname}.{spec['subdomain']}.{DOMAIN}"] = self.address
        self.environment = os.environ | self._variables()
        command = [self._expanded(word) for word in self._container["command"]]
        self.process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def _variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self._container["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                path = source["fieldRef"]["fieldPath"]
                text = self.address if path == "status.podIP" else str(self._index)
            elif "secretKeyRef" in source:
                text = self._secrets[source["secretKeyRef"]["name"]]
            else:
                text = each["value"]
            found[each["name"]] = text
        return found

    def _expanded(self, word: str) -> str:
        """$(NAME) of the container's variables; $$ is $."""
        return re.sub(
            r"\$\$|\$\(([^)]*)\)",
            lambda m: "$" if m[0] == "$$" else self.environment.get(m[1], m[0]),
            word,
        )

    def said(self, what: str) -> str:
        """The line of its output with this in it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if what in line:
                return line.strip()
        raise AssertionError(f"{what!r} was not said; exit code {self.process.wait()}")

    def is_ready(self) -> bool:
        """What its readiness probe says."""
        command = self._container["readinessProbe"]["exec"]["command"]
        ended = subprocess.run(command, env=self.environment, capture_output=True, check=False)
        return ended.returncode == 0

    def _processes(self) -> list[int]:
        """Those of its container: its own, and all beneath it."""
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                number, _, rest = stat.read_text().partition(" (")
                parents[int(number)] = int(rest.rpartition(")")[2].split()[1])
        found = [self.process.pid]
        for above in found:
            found += [each for each, parent in parents.items() if parent == above]
        return found

    def fall_silent(self) -> None:
        """As on a node that hangs: nothing answers, and nobody knows whether it has ended."""
        for each in self._processes():
            os.kill(each, signal.SIGSTOP)

    def come_back(self) -> None:
        """The node goes on."""
        for each in self._processes():
            os.kill(each, signal.SIGCONT)

    def end(self) -> None:
        """Whatever state it is in."""
        for each in self._processes():
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def delete(self) -> int:
        """SIGTERM; the exit code.  Raises TimeoutExpired after the grace."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(self.grace_s)


def happens(folder: Path, stack: ExitStack) -> Iterator[object]:
    """A ps is deleted and comes back elsewhere, as one does whose node is drained, and so does a worker.  Then the node
    of the ps falls silent, and Kubernetes, which cannot ask it, starts the pod elsewhere; the old one comes back late.
    """
    os.mkfifo(folder / "go")
    program = [sys.executable, "-c", PROGRAM, str(folder)]
    cluster = Cluster(
        "demo", "image", program, Counts(ps=1, chief=1, worker=1), serve_ps=True, folder=str(folder), secret="s" * 64,
        variables={"HEADRACE_FROZEN_AFTER_S": "4"},
    )  # fmt: skip
    made = {each["kind"]: each for each in core(cluster)}
    secrets = {made["Secret"]["metadata"]["name"]: made["Secret"]["stringData"]["secret"]}

    def pod(kind: str, index: int) -> Pod:
        name, spec = made[kind]["metadata"]["name"], made[kind]["spec"]
        started = Pod(spec["template"], f"{name}-{index}", index, secrets)
        stack.callback(started.process.communicate)
        stack.callback(started.end)
        return started

    chief, ps = pod("Job", 0), pod("StatefulSet", 0)
    yield chief.said("trains")
    worker = pod("Job", 1)
    yield worker.said("joins")
    yield f"the ps is ready: {ps.is_ready()}"
    yield f"the worker ends with {worker.delete()}, the ps with {ps.delete()}"
    yield f"the ps is ready: {ps.is_ready()}"
    ps, worker = pod("StatefulSet", 0), pod("Job", 1)
    ps.said("serving")
    (folder / "go").write_text("go on")
    yield chief.said("goes on")
    yield worker.said("joins")
    ps.fall_silent()
    silent, ps = ps, pod("StatefulSet", 0)
    ps.said("serving")
    (folder / "go").write_text("go on")
    yield chief.said("goes on")
    silent.come_back()
    yield f"the one that was silent ends with {silent.delete()}"
    (folder / "go").write_text("end")
    yield f"the chief ends with {chief.process.wait(WITHIN_S)}"
    yield f"the worker ends with {worker.delete()}, the ps with {ps.delete()}"


def main() -> None:
    Pod.addresses = {}
    with NameServer(Pod.addresses.get, ("127.0.0.1", 53)), ExitStack() as stack:
        for each in happens(Path(sys.argv[1]), stack):
            print(each, flush=True)


if __name__ == "__main__":
    main()
