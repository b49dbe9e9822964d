"""What tests of plans share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.run.exec.kernel import Runtime
from headrace.run.exec.worker_pool import WorkerPool
from tests.plan.programs import DEVICE


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A task with three threads."""
    made = Runtime(DEVICE, workers=WorkerPool(3))
    yield made
    made.workers.close()
