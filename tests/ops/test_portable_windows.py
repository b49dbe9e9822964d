"""Array kernels of convolutions, pooling and normalization, and of their gradients: they fit what they are given."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.toy_device import toy_devices
from tests.support.window_programs import PROGRAMS, outcome


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_device_gives_what_the_host_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with toy_devices(1) as (toy,):
        monkeypatch.setattr(toy, "is_final", lambda error: True)  # nothing is left to the host
        found = outcome(PROGRAMS[name], "/device:TOY:0")
        assert toy.counts["kernel"] > 0
    for ours, hosts in zip(found, outcome(PROGRAMS[name], "/cpu:0"), strict=True):
        np.testing.assert_allclose(ours, hosts, rtol=1e-4, atol=1e-4)
