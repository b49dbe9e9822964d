"""A client in a process of its own: `python -m benchmarks.neighbours.client STORE ADDRESS WORK`.

Writes `ready` when it is connected and its work has given what it must.  Each line of its stdin is a number of calls to
make; it answers with JSON: the seconds of processor that they took, and the last result.  Ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.neighbours.stores import LARGE_BYTES, STORES, Client


def _put_and_get(client: Client) -> int:
    client.put()
    return client.get()


def _put(client: Client) -> int:
    client.put()
    return 7


def _large(client: Client) -> int:
    return int(client.large()[-1])


WORK: dict[str, Callable[[Client], int]] = {
    "read": lambda client: client.read(),
    "add": lambda client: client.add(),
    "put and get": _put_and_get,
    "put": _put,
    "get": lambda client: client.get(),
    "1 MB": _large,
}


def main(store: str, address: str, work: str) -> None:
    """As the module says."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    client, step = STORES[store].client(address), WORK[work]
    if work == "1 MB":
        array = np.arange(LARGE_BYTES // 4, dtype=np.float32)
        client.store(array)
        if not np.array_equal(client.large(), array):
            raise AssertionError(f"{store} gives another array than was stored")
    answer.write("ready\n")
    answer.flush()
    for line in sys.stdin:
        begin, result = time.process_time(), 0
        for _ in range(int(line)):
            result = step(client)
        answer.write(json.dumps([time.process_time() - begin, result]) + "\n")
        answer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
