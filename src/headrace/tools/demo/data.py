"""Where the digits are, and the test set as arrays.

The files: CSV with a header line, 64 pixel columns (0 to 16, empty meaning 0), then the label.

Called by: run (find), evaluate (read_digits).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.tools.commands import CommandError

PIXELS = 64
TRAIN, TEST = "digits-train-*.csv", "digits-test-*.csv"


@dataclass(frozen=True)
class Digits:
    """The shards of both sets, in name order."""

    train: list[Path]
    test: list[Path]


def candidates(checkout: Path | None = None) -> list[Path]:
    """Directories to look in: below the working directory, then in the checkout."""
    if checkout is None:
        checkout = Path(__file__).resolve().parents[4]  # src/headrace/tools/demo/data.py
    return [Path("examples/data").resolve(), Path.cwd(), checkout / "examples" / "data"]


def find(directory: Path | None = None) -> Digits:
    """The shards in `directory`, or in the first candidate that has both sets.

    Raises CommandError, saying where it looked and what to do.
    """
    places = [directory] if directory is not None else candidates()
    for place in places:
        digits = Digits(sorted(place.glob(TRAIN)), sorted(place.glob(TEST)))
        if digits.train and digits.test:
            return digits
    looked = "".join(f"\n  {place}" for place in dict.fromkeys(places))
    raise CommandError(
        f"no {TRAIN} and {TEST} in{looked}\n"
        "Run it in a checkout of headrace, or give the directory: "
        "headrace demo --data CHECKOUT/examples/data"
    )


def count_rows(files: Sequence[Path]) -> int:
    """Rows in all files together, without headers and blank lines."""
    rows = 0
    for path in files:
        with path.open(newline="") as file:
            rows += sum(1 for line in file if line.strip()) - 1
    return rows


def read_digits(files: Sequence[Path]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
    """pixels [n, 64] in 0..16, labels [n].  Raises CommandError naming file and line."""
    rows: list[list[float]] = []
    for path in files:
        with path.open(newline="") as file:
            reader = csv.reader(file)
            next(reader, None)
            for cells in filter(None, reader):
                if len(cells) != PIXELS + 1:
                    raise CommandError(
                        f"{path}:{reader.line_num} has {len(cells)} cells, not {PIXELS + 1}"
                    )
                rows.append([float(cell or 0) for cell in cells])
    table = np.array(rows, dtype=np.float32).reshape(-1, PIXELS + 1)
    return table[:, :PIXELS], table[:, PIXELS].astype(np.int32)
