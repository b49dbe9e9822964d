"""What the figures were measured on: hardware and versions, nothing that names the machine.

Source: Linux's /proc.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

from benchmarks.libraries import Library

VERSIONS = (
    "import importlib.metadata as m, json, platform\n"
    "found = {d.name.lower(): d.version for d in m.distributions()}\n"
    "print(json.dumps([platform.python_version(), found]))"
)


def hardware() -> str:
    """`2 cores of Some CPU, 23 GB, Linux 6.1`."""
    cores = len(os.sched_getaffinity(0))
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{cores} core{'s' * (cores != 1)} of {cpu_model()}, {memory_gb():.0f} GB of memory, "
        f"{platform.system()} {kernel}"
    )


def cpu_model(cpuinfo: str = "/proc/cpuinfo") -> str:
    """As the kernel names it, else the architecture."""
    for line in Path(cpuinfo).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def memory_gb() -> float:
    """What this machine has, in 2^30 bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def busy() -> str | None:
    """A warning if other programs keep this machine busy just now."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load < 0.25 * cores:
        return None
    return f"this machine is busy (load {load:.1f} on {cores} cores): do not trust these figures"


def versions(library: Library) -> str:
    """`headrace 0.1.0 on Python 3.11.7 with NumPy 2.4.6, grpcio 1.80.0, protobuf 7.0.1`.

    Raises LookupError if that Python does not have it.
    """
    command = [library.python(), "-I", "-c", VERSIONS]
    python, found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    found = {plain(name): version for name, version in found.items()}
    name = next((name for name in library.distributions if name in found), None)
    if name is None:
        raise LookupError(
            f"{library.name} is not installed in the Python that should have it: make bench"
        )
    rest = ", ".join(f"{shown} {found[shown.lower()]}" for shown in ("NumPy", "grpcio", "protobuf"))
    return f"{library.name} {found[name]} on Python {python} with {rest}"


def plain(name: str) -> str:
    """A distribution's name with its spellings made equal."""
    return name.lower().replace("_", "-")
