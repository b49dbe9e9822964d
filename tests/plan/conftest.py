"""What tests of plans share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headrace.plan import check
from headrace.plan.rules.group import Group, Plain
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


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Rules of the groups whose nodes have run one by one."""
    rules: list[str] = []
    plain = Group.plain

    def noting(group: Group) -> Plain:
        run = plain(group)

        def noted(step: Any, values: Sequence[Any]) -> Sequence[Any]:
            rules.append(group.instr.what)
            return run(step, values)

        return noted

    monkeypatch.setattr(Group, "plain", noting)
    return rules
