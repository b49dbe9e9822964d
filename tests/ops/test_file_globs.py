"""File globs mean what they mean to TensorFlow, which asks the C library, and take no exponential time."""

from __future__ import annotations

import ctypes
import os
import random
import time
from pathlib import Path

import pytest

import headrace as tf
from headrace.ops._kernels.file_globs import Glob, matches
from headrace.run.readers.files import ANYWHERE

FNM_PATHNAME = 1
_fnmatch = ctypes.CDLL(None).fnmatch

NAMES = [
    "a.txt", "b.txt", ".hidden", "a[b]c", "a-b", "sub/x.txt", "sub/.h", "sub/deep/y.txt", "star*", "q?",
    "back\\slash", "é.txt", "[x", "]", "!a", "^a", "sub2/x.txt", ".dot/x.txt", "a", "b", "c", "-",
]  # fmt: skip
CASES = {
    "a*": "./a ./a-b ./a.txt ./a[b]c",
    "?": "./- ./] ./a ./b ./c",
    "*.txt": "./a.txt ./b.txt ./é.txt",
    "*/*": "./.dot/x.txt ./sub/.h ./sub/deep ./sub/x.txt ./sub2/x.txt",
    "*/x.txt": "./.dot/x.txt ./sub/x.txt ./sub2/x.txt",
    "**/x.txt": "./.dot/x.txt ./sub/x.txt ./sub2/x.txt",
    "*x.txt": "",
    "sub?x.txt": "",
    "sub[/]x.txt": "",
    "sub/*": "sub/.h sub/deep sub/x.txt",
    "sub*/*.txt": "./sub/x.txt ./sub2/x.txt",
    "sub/../a*": "sub/../a sub/../a-b sub/../a.txt sub/../a[b]c",
    "./a.*": "./a.txt",
    "*/../a": "",
    "sub/": "sub/",
    "s*/": "./star* ./sub ./sub2",
    "sub//x.txt": "sub//x.txt",
    "sub//*": "",
    "s*//x.txt": "",
    ".*": "./.dot ./.hidden",
    "?hidden": "./.hidden",
    "[.]hidden": "./.hidden",
    "[ab]": "./a ./b",
    "[!a]": "./- ./] ./b ./c",
    "[^a]": "./- ./] ./b ./c",
    "[]]": "./]",
    "[!]]": "./- ./a ./b ./c",
    "[[]x": "./[x",
    "[x": "./[x",
    "\\[x": "./[x",
    "a\\[b\\]c": "./a[b]c",
    "star\\*": "./star*",
    "back\\\\slash": "./back\\slash",
    "*\\": "",
    "\\a": "./a",
    "a-b": "a-b",
    "[a\\-c]": "./- ./a ./c",
    "[a-]": "./- ./a",
    "[z-a]": "",
    "[a-b-c]": "./- ./a ./b ./c",
    "[[:alpha:]]": "./a ./b ./c",
    "[[:foo:]]": "",
    "?.txt": "./a.txt ./b.txt ./é.txt",
    "??.txt": "./é.txt",
    "{a,b}.txt": "",
    "": "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("globs")
    for name in NAMES:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return top


@pytest.mark.parametrize("pattern", CASES)
def test_a_glob_finds_what_tensorflow_finds(
    pattern: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with tf.Session() as session:
        found = session.run(tf.matching_files(pattern))
    assert [os.fsdecode(name) for name in found] == CASES[pattern].split()
    assert tf.gfile.Glob(pattern) == CASES[pattern].split()


def test_globs_agree_with_the_c_library() -> None:
    dice = random.Random(7)
    pieces = (
        "a b c - ! ^ ] [ [ * * ? \\ . [a-c] [!a] [] [!] [[:alpha:]] [:digit: [.a.] [=b=] -z".split()
    )
    compared = set()
    for _ in range(20_000):
        pattern = "".join(dice.choices(pieces, k=dice.randint(1, 6))).encode()
        name = "".join(dice.choices("abc-!^][*?.:", k=dice.randint(0, 5))).encode()
        found = _fnmatch(pattern, name, FNM_PATHNAME) == 0
        assert Glob(pattern).matches(name) == found, (pattern, name)
        compared.add(found)
    assert compared == {True, False}


@pytest.mark.parametrize("pattern", [b"*a" * 60 + b"*b", b"[*]*?" * 40, b"*" * 5000 + b"b"])
def test_stars_do_not_multiply(pattern: bytes) -> None:
    wanted = Glob(pattern)
    began = time.thread_time()
    assert not wanted.matches(b"a" * 255)
    assert time.thread_time() - began < 10.0  # else for ever


def test_names_that_are_no_utf8_match_byte_by_byte(tmp_path: Path) -> None:
    top = os.fsencode(tmp_path)
    for name in (b"bad\xff", b"\xc3"):
        with open(os.path.join(top, name), "w"):
            pass
    assert matches([top + b"/bad?"], ANYWHERE) == [top + b"/bad\xff"]
    assert matches([top + b"/[\xc3]"], ANYWHERE) == [top + b"/\xc3"]
