"""A folder for PYTHONPATH: Python runs its `sitecustomize` when it starts; see `headrace.unmodified.finder`."""

from __future__ import annotations
