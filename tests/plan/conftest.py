"""What tests of plans share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.plan import check
from headrace.run.exec.kernel import Runtime
from headrace.run.exec.worker_pool import WorkerPool
from tests.plan.programs import DEVICE


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes, kernels and groups are looked at, as with HEADRACE_CHECK=1."""
    monkeypatch.setattr(check, "enabled", True)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A task with three threads."""
    made = Runtime(DEVICE, workers=WorkerPool(3))
    yield made
    made.workers.close()
