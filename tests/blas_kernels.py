"""The kernels that OpenBLAS has for this processor, and whether NumPy's own products survive them.

Some wheels of NumPy bring an OpenBLAS that, told to use another processor's kernel, reads outside of its arrays (NumPy
2.5.5 with Haswell's and Prescott's): with these nothing of ours can be tested.
Run as a program it prints the one that `make test-kernels` takes.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

KERNELS = {
    "Prescott": {"pni"}, "Nehalem": {"sse4_2"}, "Sandybridge": {"avx"},
    "Haswell": {"avx2", "fma"}, "SkylakeX": {"avx512f", "avx512vl", "avx512dq", "avx512bw"},
}  # fmt: skip
"""What OpenBLAS has them for, and what they need of the processor.  Those of Zen are Haswell's."""

_ANOTHER = ("Haswell", "Sandybridge", "Nehalem", "Prescott")
_PRODUCTS = """
import numpy as np
for kind in (np.float32, np.float64):
    for rows, inner, columns in ((1, 300, 200), (50, 784, 300), (300, 784, 50), (700, 30, 700), (33, 77, 201)):
        for flip in (False, True):
            x = np.ones((inner, rows) if flip else (rows, inner), kind)
            (x.T if flip else x) @ np.ones((inner, columns), kind)
"""


@functools.cache
def processor() -> frozenset[str]:
    """What it can do, as Linux names that; elsewhere nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


@functools.cache
def why_not(kernel: str) -> str:
    """Why a kernel cannot be tested here; empty if it can."""
    if not KERNELS[kernel] <= processor():
        return f"this processor has no {', '.join(sorted(KERNELS[kernel]))}"
    command = [sys.executable, "-c", _PRODUCTS]
    ran = subprocess.run(command, env={**os.environ, "OPENBLAS_CORETYPE": kernel}, check=False)
    return f"NumPy's own products end with {ran.returncode} there" if ran.returncode else ""


if __name__ == "__main__":
    print(next((kernel for kernel in _ANOTHER if not why_not(kernel)), ""))
