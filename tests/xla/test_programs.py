"""Images, sequences, rows, diagonals and integers on GPUs: nothing of them is left to the host."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.run.devices import table
from tests.support import device_programs, picture_and_sound_programs
from tests.support.window_programs import outcome

PROGRAMS = device_programs.PROGRAMS | picture_and_sound_programs.PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gpu_gives_what_the_host_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = table.of_name("/device:GPU:0")
    monkeypatch.setattr(gpu, "is_final", lambda error: True)
    program = PROGRAMS[name]
    found = outcome(program, "/gpu:0")
    for ours, hosts in zip(found, outcome(program, "/cpu:0"), strict=True):
        assert np.asarray(ours).dtype == np.asarray(hosts).dtype
        np.testing.assert_allclose(ours, hosts, rtol=2e-5, atol=2e-5)
