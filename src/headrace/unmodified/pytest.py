"""A plugin: ``python -m pytest -p headrace.unmodified.pytest`` tests programs that import tensorflow.

Installed when pytest imports it, which is before any conftest.py.
Called by: pytest.
"""

from __future__ import annotations

from headrace.unmodified.finder import install_as_tensorflow

install_as_tensorflow()
