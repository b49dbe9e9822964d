"""Write the table of docs/devices.md: the ops that have a kernel for devices other than CPUs.

Run after adding an array kernel: ``.venv/bin/python scripts/devices.py``.  A test compares the page with the code.
"""

from __future__ import annotations

from pathlib import Path

import headrace  # noqa: F401 - registers the ops
from headrace.ops._portable.table import array_kernels

PAGE = Path(__file__).resolve().parent.parent / "docs" / "devices.md"
HEADING = "## Operations with a kernel for other devices\n\n"
HEAD = """\
| op | on | dtypes | inputs that stay with the host |
|---|---|---|---|
"""


def table() -> str:
    """The table, a row for each op."""
    rows = []
    for name, kernel in sorted(array_kernels().items()):
        kinds = "floating and complex" if kernel.reals else "numbers and bool"
        places = sorted(kernel.host)
        stays = ", ".join("the last" if place < 0 else f"input {place}" for place in places)
        where = "every device" if kernel.function is not None else "GPUs"
        rows.append(f"| `{name}` | {where} | {kinds} | {stays} |\n")
    return HEAD + "".join(rows)


def page(text: str) -> str:
    """The text of docs/devices.md with the table of now."""
    return text.partition(HEADING)[0] + HEADING + table()


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
