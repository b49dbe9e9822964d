"""What a master knows of a plan: its parts, and whom to ask for them.

Called by: serve.master_session, serve.partials, serve.callables.
"""

from __future__ import annotations

from dataclasses import dataclass

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool]
"""Names of feeds, fetches and targets, and whether every node runs as the user wrote it."""


@dataclass(slots=True)
class Part:
    """A registered partition: whom to ask, under which handle, and the keys of feeds and fetches
    by tensor name.
    """

    task: str
    graph_handle: str
    feeds: dict[str, str]
    fetches: dict[str, str]


@dataclass(slots=True)
class Plan:
    """created: whether its session was created on the tasks (it has something of its own there)."""

    parts: list[Part]
    created: bool = False


def tensor_name(name: str) -> str:
    """With its output number: ``x`` is ``x:0``."""
    return name if ":" in name else f"{name}:0"
