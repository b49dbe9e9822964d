"""Write examples/data/*.csv from scikit-learn's digits.csv.gz: shuffled, split, with some zeros left out.

Called by hand, once; the output is committed.  Usage: python scripts/digits.py PATH/TO/digits.csv.gz
"""

from __future__ import annotations

import csv
import gzip
import random
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "examples/data"
HEADER = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)] + ["label"]
SEED = 1998
TRAIN_ROWS = 1437
SHARDS = 4
MISSING = 0.01  # of the zero pixels of the training rows


def main() -> None:
    """Overwrite the shards; the same input gives the same bytes."""
    with gzip.open(sys.argv[1], "rt", newline="") as file:
        rows = list(csv.reader(file))
    chance = random.Random(SEED)
    chance.shuffle(rows)
    train, test = rows[:TRAIN_ROWS], rows[TRAIN_ROWS:]
    train = [with_gaps(row, chance) for row in train]
    for shard in range(SHARDS):
        write(f"digits-train-{shard}.csv", train[shard::SHARDS])
    write("digits-test-0.csv", test)


def with_gaps(row: list[str], chance: random.Random) -> list[str]:
    """The row with a few of its zero pixels empty; the label is never missing."""
    pixels = ["" if cell == "0" and chance.random() < MISSING else cell for cell in row[:-1]]
    return [*pixels, row[-1]]


def write(name: str, rows: list[list[str]]) -> None:
    """One CSV file with a header line and Unix line ends."""
    with open(OUT / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
