"""Names as they are seen from inside a name scope, for what is exported from one or imported into one.

Called by: graph.context_protos, library.variables, training.  Threads: any.
"""

from __future__ import annotations


def prefixed(name: str, scope: str | None) -> str:
    """`name` inside `scope`."""
    return f"{scope.rstrip('/')}/{name}" if scope else name


def without_prefix(name: str, scope: str | None) -> str:
    """`name` as it is seen from inside `scope`."""
    prefix = f"{scope.rstrip('/')}/" if scope else ""
    return name.removeprefix(prefix)
