"""Memory that arrays have given back is not asked of the system again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_STEPS = """
import resource
import numpy as np
import headrace as tf

x = tf.placeholder(tf.float32, [1 << 21])
y = x
for n in range(8):
    y = tf.cumsum(y, exclusive=bool(n % 2))
total = y[0]
fed = np.zeros(1 << 21, np.float32)
with tf.Session() as session:
    for _ in range(3):
        session.run(total, {x: fed})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        session.run(total, {x: fed})
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="that is how glibc keeps memory")
def test_steps_whose_arrays_have_8_mb_find_their_pages_again() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _STEPS], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(said.stdout) < 200  # of 2,048 an array
