"""Two hosts with a cable between them: network namespaces of their own, or two addresses of the loopback.

Namespaces need no rights where the system lets everybody make user namespaces.  They end with the processes that hold
them, which end with this one.  Addresses in them are of 192.0.2.0/24, which no network has (RFC 5737).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

WITHIN_S = 60.0
NAMESPACES, LOOPBACK = "network namespaces", "loopback"
_HOLD = ("sh", "-c", "echo held; exec cat")  # until its input ends


def kind() -> str:
    """NAMESPACES where this machine lets them be made, else LOOPBACK."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        return LOOPBACK
    tried = subprocess.run(
        ["unshare", "-rn", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1"],
        capture_output=True,
        timeout=WITHIN_S,
        check=False,
    )
    return LOOPBACK if tried.returncode else NAMESPACES


@dataclass(frozen=True)
class Host:
    """`address`: HOST:PORT that a server there may have.  within: what makes a command run there."""

    address: str
    within: tuple[str, ...] = ()


@contextmanager
def two_hosts(kind: str) -> Iterator[tuple[Host, Host]]:
    """Two hosts of a kind."""
    with ExitStack() as stack:
        yield _in_namespaces(stack) if kind == NAMESPACES else _on_loopback(stack)


def _on_loopback(stack: ExitStack) -> tuple[Host, Host]:
    def host(ip: str) -> Host:
        """With a port that a socket keeps from others without listening."""
        placeholder = stack.enter_context(socket.socket())
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        placeholder.bind((ip, 0))
        return Host(f"{ip}:{placeholder.getsockname()[1]}")

    return host("127.0.0.2"), host("127.0.0.3")


def _in_namespaces(stack: ExitStack) -> tuple[Host, Host]:
    def held(*command: str) -> str:
        """The pid of a process that holds the namespaces that `command` makes."""
        process = subprocess.Popen(
            [*command, *_HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.callback(process.communicate, timeout=WITHIN_S)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return str(process.pid)

    def entering(pid: str, *which: str) -> tuple[str, ...]:
        return ("nsenter", "-t", pid, "-U", *which, "--preserve-credentials")

    one = held("unshare", "-rn")
    two = held(*entering(one), "unshare", "-n")
    subprocess.run(
        [*entering(one, "-n"), "ip", "link", "add", "eth0", "type", "veth",
         "peer", "name", "eth0", "netns", two],
        check=True, timeout=WITHIN_S,
    )  # fmt: skip
    hosts = []
    for ip, pid in (("192.0.2.1", one), ("192.0.2.2", two)):
        within = entering(pid, "-n")
        for command in (
            "link set lo up",
            f"addr add {ip}/24 dev eth0",
            "link set eth0 up",
        ):
            subprocess.run([*within, "ip", *command.split()], check=True, timeout=WITHIN_S)
        hosts.append(Host(f"{ip}:2222", within))
    return hosts[0], hosts[1]
