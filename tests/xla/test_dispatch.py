"""Programs of the host's processors are dispatched synchronously, where nobody else has decided that."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import jax
import numpy as np
from headrace.run.devices import xla

setting, seen = "jax_cpu_enable_async_dispatch", []
update = type(jax.config).update
type(jax.config).update = lambda config, *given: (seen.append(given), update(config, *given))
if sys.argv[1] == "by us":
    del sys.modules["jax"]
program = xla.compiled(lambda xp, x: ([x + 1], None))
assert program([np.float32(1)]) == [2]
print([value for name, value in seen if name == setting], jax.config.values[setting])
"""


@pytest.mark.parametrize(
    ("imported", "environment", "said"),
    [
        ("by us", {}, "[False, True] True"),
        ("by the program", {}, "[] True"),
        ("by us", {"JAX_CPU_ENABLE_ASYNC_DISPATCH": "1"}, "[] True"),
    ],
    ids=["ours", "the program's", "the user's"],
)
def test_whose_setting_holds(imported: str, environment: dict[str, str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, imported],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout.strip() == said, done.stderr
