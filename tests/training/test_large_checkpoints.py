"""What `make large` does with checkpoints of more than 2 GB, with small ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.large.checkpoints import trials


@pytest.mark.parametrize("many", [1, 3])
def test_what_is_written_is_read_whatever_its_size(tmp_path: Path, many: int) -> None:
    assert dict(trials(tmp_path, 5_000_011, many, None)) == {"ours read what ours wrote": True}
