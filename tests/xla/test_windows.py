"""Convolutions, pooling and normalization on GPUs: XLA's own convolutions are what the host's are."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.run.devices import table
from tests.support.window_programs import PROGRAMS, outcome


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gpu_gives_what_the_host_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = table.of_name("/device:GPU:0")
    monkeypatch.setattr(gpu, "is_final", lambda error: True)  # nothing is left to the host
    found = outcome(PROGRAMS[name], "/gpu:0")
    for ours, hosts in zip(found, outcome(PROGRAMS[name], "/cpu:0"), strict=True):
        np.testing.assert_allclose(ours, hosts, rtol=1e-4, atol=1e-4)
