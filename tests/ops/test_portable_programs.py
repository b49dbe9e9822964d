"""Array kernels of images, sequences, rows, diagonals and integers, and of their gradients, in programs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import picture_and_sound_programs
from tests.support.device_programs import MORE, PROGRAMS
from tests.support.toy_device import toy_devices
from tests.support.window_programs import outcome

ALL = PROGRAMS | MORE | picture_and_sound_programs.PROGRAMS


@pytest.mark.parametrize("name", ALL)
def test_a_device_gives_what_the_host_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with toy_devices(1) as (toy,):
        monkeypatch.setattr(toy, "is_final", lambda error: True)  # nothing is left to the host
        program = ALL[name]
        found = outcome(program, "/device:TOY:0")
        assert toy.counts["kernel"] > 0
    for ours, hosts in zip(found, outcome(program, "/cpu:0"), strict=True):
        assert np.asarray(ours).dtype == np.asarray(hosts).dtype
        np.testing.assert_allclose(ours, hosts, rtol=1e-5, atol=1e-5)
