"""Event files that a test's estimators opened are closed with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def event_files_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """And nothing of a cluster is in the environment."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    yield
    tf.summary.FileWriterCache.clear()
