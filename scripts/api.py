"""Write docs/api.md: every public name, by namespace, as `__all__` of the namespaces has them.

Run after adding a public name: ``.venv/bin/python scripts/api.py``.  A test compares the page with the code.
"""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "api.md"
ELSEWHERE = (
    "base client codec contrib graph library ops plan python run serve tools training unmodified"
).split()
"""Folders that are no namespaces."""
HEAD = """\
# The public API

`import headrace as tf`. The names below are those of TensorFlow 1.15 and do what they do there; a name that is not
listed is not supported yet. Methods and attributes of the objects belong to them. This page is written by
`scripts/api.py`; what each name means stands in its docstring (`help(tf.matmul)`).
"""


def namespaces() -> list[str]:
    """`headrace` and the public modules beneath it, by name."""
    folder = ROOT / "src" / "headrace"
    found = {"headrace"}
    for path in folder.rglob("*.py"):
        inside = path.relative_to(folder).with_suffix("").parts
        is_public = path.name == "__init__.py" or path.name[0] != "_"
        if is_public and inside[0] not in ELSEWHERE:
            found.add(".".join(("headrace", *inside)).removesuffix(".__init__"))
    return sorted(found)


def section(name: str) -> str:
    """A heading, what the namespace is for, and its names but for modules."""
    module = importlib.import_module(name)
    short = name.replace("headrace", "tf", 1)
    purpose = (module.__doc__ or "").partition(": ")[2].split("\n")[0].rstrip(".")
    names = [each for each in module.__all__ if not isinstance(getattr(module, each), ModuleType)]
    listed = ", ".join(f"`{each}`" for each in sorted(names, key=lambda n: (n.lower(), n)))
    body = textwrap.fill(listed, 118, break_long_words=False, break_on_hyphens=False)
    title = f"## {short}" + (f": {purpose[0].lower()}{purpose[1:]}" if name != "headrace" else "")
    return f"{title}\n\n{body}\n"


def page() -> str:
    """The text of docs/api.md."""
    return "\n".join([HEAD, *map(section, namespaces())])


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
