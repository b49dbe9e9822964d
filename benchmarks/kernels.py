"""Which instructions the arithmetic of both sides may use: what the shell forces is dropped, `--isa` limits all alike.

NumPy, OpenBLAS and oneDNN choose their kernels when they are loaded, by the processor and by environment variables, so
every process of a benchmark gets its environment from `processes.environment`, which asks here.
Used by: processes, machine, __main__.

Sources: NumPy, "CPU build options"; OpenBLAS, "Runtime variables"; oneDNN, "CPU dispatcher control"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

FORCED = (
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES",
    "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_CPU_ISA_HINTS", "DNNL_CPU_ISA_HINTS",
)  # fmt: skip
"""Variables that choose kernels; some machines set them for programs of other kinds."""

ISA_VARIABLE = "HEADRACE_BENCH_ISA"
"""Says to the processes of a benchmark what `--isa` said."""


@dataclass(frozen=True)
class Limit:
    """A limit of the instructions.  variables: how the libraries are told; texts: for the table."""

    variables: Mapping[str, str]
    reaches: str
    leaves: str


# Names of NumPy before 2.4 and since; each version ignores the other's.
_WIDER_THAN_AVX2 = " ".join(
    ["X86_V4", "AVX512F", "AVX512CD"]
    + [f"AVX512_{name}" for name in ("SKX", "CLX", "CNL", "ICL", "SPR", "KNL", "KNM")]
)
LIMITS = {
    "avx2": Limit(
        variables={
            "NPY_DISABLE_CPU_FEATURES": _WIDER_THAN_AVX2,
            "OPENBLAS_CORETYPE": "Haswell",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
        },
        reaches="NumPy's own loops, OpenBLAS and oneDNN, on both sides",
        leaves=(
            "Eigen in TensorFlow, whose instructions were chosen when its wheel was compiled, "
            "and what chooses by itself, such as memcpy, zlib and crc32c"
        ),
    )
}


def forced() -> list[str]:
    """Which of those variables this program was started with."""
    return [name for name in FORCED if name in os.environ]


def limit() -> Limit | None:
    """What `--isa` has asked for."""
    return LIMITS.get(os.environ.get(ISA_VARIABLE, ""))


def adjusted(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for a process of a benchmark: nothing of it is forced but what `--isa` limits."""
    asked = limit()
    kept = {name: value for name, value in environment.items() if name not in FORCED}
    return {**kept, **(asked.variables if asked is not None else {})}


def about() -> list[str]:
    """What is to be said of it beside the figures."""
    found = []
    if names := forced():
        found.append(f"{', '.join(names)}: set here, not for these processes")
    asked = limit()
    if asked is not None:
        isa = os.environ[ISA_VARIABLE].upper()
        found.append(f"limited to {isa}: {asked.reaches}; not limited: {asked.leaves}")
    return found
