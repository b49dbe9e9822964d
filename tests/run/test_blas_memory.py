"""The buffers that OpenBLAS multiplies in are on large pages, whether it has used them before or not."""

from __future__ import annotations

import ctypes
import mmap
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.run.exec import blas, blas_memory

_THERE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
OFFERED = _THERE.exists() and "[never]" not in _THERE.read_text()
TELLS = hasattr(blas._library(), "blas_memory_alloc")
large_pages = pytest.mark.skipif(
    not (OFFERED and TELLS), reason="no large pages, or a BLAS that does not tell its memory"
)

MULTIPLIES = """
import ctypes, sys
import numpy as np
import headrace as tf
from headrace.run.exec import blas
x = np.random.default_rng(1).random((300, 300), np.float32)
if sys.argv[1] == "used":
    x @ x
a = tf.placeholder(tf.float32, [None, 300])
product = tf.matmul(a, a)
with tf.Session() as session:
    found = session.run(product, {a: x})
np.testing.assert_allclose(found, x @ x, 1e-5)
library = blas._library()
library.blas_memory_alloc.restype = ctypes.c_void_p
library.blas_memory_free.argtypes = [ctypes.c_void_p]
buffer = library.blas_memory_alloc(0)
library.blas_memory_free(buffer)
print(buffer)
print(open("/proc/self/smaps").read())
"""


def flags_at(address: int, smaps: str) -> set[str]:
    """The flags of the mapping that has an address."""
    inside = False
    for line in smaps.splitlines():
        found = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if found is not None:
            first, end = (int(part, 16) for part in found.groups())
            inside = first <= address < end
        elif inside and line.startswith("VmFlags:"):
            return set(line.split()[1:])
    raise AssertionError(f"nothing is mapped at {address:#x}")


@large_pages
@pytest.mark.parametrize("before", ["used", "unused"])
def test_the_first_large_product_puts_them_there(before: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", MULTIPLIES, before],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    address, _, smaps = child.stdout.partition("\n")
    assert "hg" in flags_at(int(address), smaps)


class Function:
    """A function of a library, as ctypes has it."""

    def __init__(self, does: Any) -> None:
        self.does, self.argtypes, self.restype = does, (), None

    def __call__(self, *args: Any) -> Any:
        return self.does(*args)


class Library:
    """Gives what `buffers` has, and notes what it gets back."""

    def __init__(self, *buffers: int | None) -> None:
        left = list(buffers)
        self.returned: list[int] = []
        self.blas_memory_alloc = Function(lambda _: left.pop(0) if left else None)
        self.blas_memory_free = Function(self.returned.append)


@large_pages
def test_what_is_not_given_is_not_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_memory, "processors", lambda: 4)
    room = mmap.mmap(-1, blas_memory._BUFFER + (2 << 20))
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    library = Library(address, None)
    assert blas_memory.use_large_pages(library) == 1
    assert library.returned == [address]
    nowhere = Library(1, 4096)  # no page begins at the first, and there is none at the second
    assert blas_memory.use_large_pages(nowhere) == 0
    assert nowhere.returned == [1, 4096]


def test_another_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert blas_memory.use_large_pages(object()) == 0
    monkeypatch.setattr(sys, "platform", "darwin")
    library = Library(4096)
    assert blas_memory.use_large_pages(library) == 0
    assert library.returned == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's pages")
def test_no_more_are_taken_than_every_build_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_memory, "processors", lambda: 1000)
    library = Library(*[8192 * number + 1 for number in range(1000)])
    assert blas_memory.use_large_pages(library) == 0
    assert len(library.returned) == blas_memory._MOST
