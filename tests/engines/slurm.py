"""A Slurm of one node on the loopback: munged, slurmctld and slurmd, of Debian's slurm-wlm and munge; root's."""

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

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "srun", "scontrol")
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
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
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
NodeName=localhost NodeAddr=127.0.0.1 Port={node} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands speak to it."""
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    controller, node = own_ports(2)
    configuration = folder / "slurm.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, controller=controller, node=node))
    of_munge = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{option}={folder}/munge.{name}" for option, name in of_munge.items()]
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    with ExitStack() as stack:
        stack.callback(_end_steps, configuration)  # when the daemons have ended
        for command, ready in (
            # --force: the folder is beneath one that everybody writes to.
            (["munged", "--foreground", "--force", *options], "work threads"),
            (["slurmctld", "-D", "-f", str(configuration)], "Running as primary controller"),
            (["slurmd", "-D", "-f", str(configuration), "-N", "localhost"], "slurmd started"),
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
            if name.startswith("slurmstepd") and f"SLURM_CONF={configuration}".encode() in variables.split(b"\0"):
                found.append(int(each.name))
    return found
