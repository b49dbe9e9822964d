"""What the figures were measured on: hardware, versions, kernels of the arithmetic; nothing that names the machine.

Source: Linux's /proc, threadpoolctl.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.util import find_spec
from pathlib import Path

from benchmarks.libraries import TENSORFLOW, Library
from benchmarks.processes import environment

VERSIONS = (
    "import importlib.metadata as m, json, platform\n"
    "found = {d.name.lower(): d.version for d in m.distributions()}\n"
    "print(json.dumps([platform.python_version(), found]))"
)

# threadpoolctl is a file that needs nothing else, so the Python that has TensorFlow need not have it.
KERNELS = """
import importlib.util, json, sys
import numpy
spec = importlib.util.spec_from_file_location("threadpoolctl", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["threadpoolctl"] = module
spec.loader.exec_module(module)
blas = [i for i in module.threadpool_info() if i["user_api"] == "blas"]
core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
names = [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]
print(json.dumps([[[i["internal_api"], i["version"], i.get("architecture")] for i in blas], names]))
"""

# oneDNN says what it uses when it is used first.
ONEDNN = """
import numpy
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [256, 256])
tf.Session().run(tf.matmul(x, x), {x: numpy.ones((256, 256), numpy.float32)})
"""

WIDTHS = [("avx512f", "512 bits (AVX-512)"), ("avx2", "256 bits (AVX2)"), ("avx", "256 bits (AVX)")]


def hardware() -> str:
    """`2 cores of Some CPU with vectors of 256 bits (AVX2), 23 GB of memory, Linux 6.1`."""
    cores = len(os.sched_getaffinity(0))
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{cores} core{'s' * (cores != 1)} of {cpu_model()}{vectors()}, {memory_gb():.0f} GB of memory, "
        f"{platform.system()} {kernel}"
    )


def cpu_model(cpuinfo: str = "/proc/cpuinfo") -> str:
    """As the kernel names it, else the architecture."""
    for line in Path(cpuinfo).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def vectors(cpuinfo: str = "/proc/cpuinfo") -> str:
    """` with vectors of 256 bits (AVX2)`; nothing for other architectures."""
    for line in Path(cpuinfo).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags = set(value.split())
            return next((f" with vectors of {text}" for flag, text in WIDTHS if flag in flags), "")
    return ""


def kernels(library: Library) -> str:
    """`headrace computes with openblas 0.3.31 (SkylakeX), NumPy X86_V3 X86_V4`, as its processes do here.

    Raises LookupError if its Python is not known.
    """
    spec = find_spec("threadpoolctl")
    if spec is None or spec.origin is None:
        raise LookupError("threadpoolctl is not installed: say `make bench`, which installs it")
    blas, names = json.loads(_printed(library, KERNELS, spec.origin))
    found = [f"{name} {version} ({kernel})" for name, version, kernel in blas]
    found.append(f"NumPy {' '.join(names) or 'without dispatched features'}")
    if library is TENSORFLOW:
        lines = _printed(library, ONEDNN).splitlines()
        said = [line.partition("cpu,isa:")[2] for line in lines if "cpu,isa:" in line]
        found = [
            f"oneDNN ({said[0] if said else 'unknown'})",
            "Eigen",
            f"its client {', '.join(found)}",
        ]
    return f"{library.name} computes with {', '.join(found)}"


def _printed(library: Library, source: str, *arguments: str) -> str:
    command = [library.python(), "-c", source, *arguments]
    told = {**environment(), "ONEDNN_VERBOSE": "1"}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=told).stdout


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
