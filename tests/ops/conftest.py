"""What the tests of op families share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def check_gradient() -> Callable[..., Any]:
    """`check(function, inputs, known=True)` of tests/gradient_checker.py."""
    path = Path(__file__).resolve().parents[1] / "gradient_checker.py"
    spec = importlib.util.spec_from_file_location("gradient_checker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = module.check
    return found
