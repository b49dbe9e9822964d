"""GPUs, or two stand-ins of them: said once, before anything asks for a device."""

from __future__ import annotations

import os

from headrace.run.devices import gpus

if not gpus.count():
    os.environ[gpus.STAND_INS] = "2"


def pytest_report_header() -> str:
    """Which devices the tests run on."""
    from headrace.run.devices import table

    found = [table.of_name(f"/device:GPU:{number}").description for number in range(gpus.count())]
    return "devices: " + "; ".join(found or ["none: is JAX installed?"])
