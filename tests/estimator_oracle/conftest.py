"""The second oracle: TensorFlow 2.15, the last with tf.estimator, found by HEADRACE_ESTIMATOR_ORACLE_PYTHON.

Without it, what `make estimator` installs into .oracle-2.15 is taken; where there is none, the tests are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.estimator_oracle.runner import Both, Peer

INSTALLED = Path(__file__).parents[2] / ".oracle-2.15" / "bin" / "python"
PYTHON = os.environ.get("HEADRACE_ESTIMATOR_ORACLE_PYTHON") or str(INSTALLED)


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`both(program, **inputs)` gives both results, `both.agree(…)` compares them: see runner.py."""
    if not Path(PYTHON).exists():
        pytest.skip(f"no TensorFlow 2.15 at {PYTHON}; `make estimator` installs it")
    peer = Peer(PYTHON)
    yield Both(peer, str(tmp_path_factory.mktemp("both")))
    peer.close()


@pytest.fixture
def agree(both: Any) -> Any:
    """`agree(program, **inputs)`: both sides leave the same in `result`, which is returned."""
    return both.agree
