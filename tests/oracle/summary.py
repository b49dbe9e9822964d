"""What `make oracle` prints when all tests have run: lines that a test of any worker leaves and conftest.py writes."""

from __future__ import annotations

import pytest

SUMMARY = pytest.StashKey[list[str]]()
