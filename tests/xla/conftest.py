"""GPUs, or two stand-ins of them: said once, before anything asks for a device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.run.devices import gpus
from headrace.run.exec.whole_loops import LoopProgram

if not gpus.count():
    os.environ[gpus.STAND_INS] = "2"


def pytest_report_header() -> str:
    """Which devices the tests run on."""
    from headrace.run.devices import table

    found = [table.of_name(f"/device:GPU:{number}").description for number in range(gpus.count())]
    return "devices: " + "; ".join(found or ["none: is JAX installed?"])


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each loop that may be a program ran as one."""
    original, found = LoopProgram.run, list[bool]()

    def counting(program: LoopProgram, values: Sequence[Any], scope: Any, there: Any) -> Any:
        ends = original(program, values, scope, there)
        found.append(ends is not None)
        return ends

    monkeypatch.setattr(LoopProgram, "run", counting)
    return found
