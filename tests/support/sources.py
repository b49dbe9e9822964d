"""Source code as trees, for tests of what it may say."""

from __future__ import annotations

import ast
import gc


def parse(text: str) -> ast.Module:
    """The tree of a file: nothing of it is garbage, and the collector need not look again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if collects:
            gc.enable()
