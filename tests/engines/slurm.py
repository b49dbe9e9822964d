"""A Slurm of several nodes on the loopback: munged, slurmctld and a slurmd for each node; root's.

They are of Debian's slurm-wlm and munge.  Nodes have names and addresses of their own, which whatever they run finds in
an /etc/hosts of theirs.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.ports import own_ports

PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "sbatch",
    "scancel",
    "srun",
    "scontrol",
    "squeue",
    "unshare",
)
WITHIN_S = 60.0

CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=1
"""
PARTITION = "PartitionName=all Nodes=ALL Default=YES State=UP\n"
WITHIN_HOSTS = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
NODE = (
    "NodeName={name} NodeHostname=localhost NodeAddr={address} Port={port} CPUs=2 State=UNKNOWN\n"
)

NODES = {f"node{n}": f"127.0.0.{n + 1}" for n in (1, 2, 3)}
"""Their addresses.  Each has room for two tasks."""


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands speak to it."""
    folder.chmod(0o755)
    for name in ("state", *(f"spool.{node}" for node in NODES)):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    controller, *ports = own_ports(1 + len(NODES))
    configuration = folder / "slurm.conf"
    nodes = [
        NODE.format(name=name, address=address, port=port)
        for (name, address), port in zip(NODES.items(), ports, strict=True)
    ]
    configuration.write_text(
        CONFIGURATION.format(folder=folder, controller=controller) + "".join(nodes) + PARTITION
    )
    hosts = folder / "hosts"
    names = "".join(f"{address} {name}\n" for name, address in NODES.items())
    hosts.write_text(Path("/etc/hosts").read_text() + names)
    beside = ["unshare", "-m", "sh", "-c", WITHIN_HOSTS, "sh", str(hosts)]
    of_node = [*beside, "slurmd", "-D", "-f", str(configuration), "-N"]
    of_munge = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{option}={folder}/munge.{name}" for option, name in of_munge.items()]
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    with ExitStack() as stack:
        stack.callback(_end_steps, configuration)  # when the daemons have ended
        for command, ready in (
            # --force: the folder is beneath one that everybody writes to.
            (["munged", "--foreground", "--force", *options], "work threads"),
            (["slurmctld", "-D", "-f", str(configuration)], "Running as primary controller"),
            *(([*of_node, node], "slurmd started") for node in NODES),
        ):
            _start(command, ready, environment, stack)
        cancel = ["scancel", "--full", "--user", "root"]  # what a test that failed has left
        stack.callback(subprocess.run, cancel, env=environment, check=False, timeout=WITHIN_S)
        yield environment


def _start(command: list[str], ready: str, environment: dict[str, str], stack: ExitStack) -> None:
    """A daemon that stays in the foreground, once it says that it is ready."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    stack.callback(process.communicate, timeout=WITHIN_S)
    stack.callback(process.terminate)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if ready in line:
            return
    raise RuntimeError(f"{command[0]} is not ready: {''.join(said)}")


def _end_steps(configuration: Path) -> None:
    """What starts and watches steps outlives slurmd, and now and then the step, too: end those of that Slurm."""
    for process in of_steps(configuration):
        with suppress(ProcessLookupError):
            ended = os.pidfd_open(process)
            try:
                signal.pidfd_send_signal(ended, signal.SIGKILL)
                select.select([ended], [], [], WITHIN_S)
            finally:
                os.close(ended)


def of_steps(configuration: Path) -> list[int]:
    """The processes of slurmstepd that the slurmd of a configuration has started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            name, variables = (each / "comm").read_text(), (each / "environ").read_bytes()
            if name.startswith(
                "slurmstepd"
            ) and f"SLURM_CONF={configuration}".encode() in variables.split(b"\0"):
                found.append(int(each.name))
    return found
