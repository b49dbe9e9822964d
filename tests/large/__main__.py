"""`make large`: checkpoints of more than 2 GB; ends with 1 if something does not hold."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.large.checkpoints import trials


def main() -> int:
    """Try both kinds; with HEADRACE_ORACLE_PYTHON also each way with TensorFlow."""
    parser = argparse.ArgumentParser(prog="make large", description=__doc__)
    parser.add_argument(
        "--mib", type=int, default=2200, help="size of a checkpoint, default %(default)s"
    )
    parser.add_argument("--many", type=int, default=9, help="tensors of the second one")
    options = parser.parse_args()
    oracle, failed = os.environ.get("HEADRACE_ORACLE_PYTHON"), 0
    for many in (1, options.many):
        folder = Path(tempfile.mkdtemp(prefix="headrace-large-"))
        began = time.monotonic()
        try:
            for what, held in trials(folder, options.mib << 20, many, oracle):
                print(f"{options.mib} MiB in {many}: {what}: {'yes' if held else 'NO'}", flush=True)
                failed += not held
        finally:
            shutil.rmtree(folder)
        print(f"{time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
