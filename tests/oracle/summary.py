"""What `make oracle` prints when all tests have run: lines that a test leaves and conftest.py writes (from all workers)."""

from __future__ import annotations

import pytest

SUMMARY = pytest.StashKey[list[str]]()
