"""What lies beneath the roots can be used, and nothing else, whatever the path looks like."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.base import errors
from headrace.run.readers import files as module
from headrace.run.readers.files import ANYWHERE, Files, name_of, named_roots


class Tree:
    """root/ with a file and a folder in it; secret/ beside it, with a file and links that lead there."""

    def __init__(self, folder: Path) -> None:
        self.root, self.secret = folder / "root", folder / "secret"
        for place in (self.root, self.root / "inner", self.secret, folder / "root-2"):
            place.mkdir()
        (self.root / "inner" / "file").write_bytes(b"inside")
        (self.secret / "file").write_bytes(b"outside")
        (folder / "root-2" / "file").write_bytes(b"a name that begins alike")
        (self.root / "folder-link").symlink_to(self.secret)
        (self.root / "file-link").symlink_to("../secret/file")
        (self.root / "dangling").symlink_to(self.secret / "new")
        (self.root / "loop").symlink_to("loop")
        (self.root / "inner-link").symlink_to("inner")
        self.files = Files([self.root], "/job:ps/task:0")

    def path(self, name: str) -> bytes:
        return os.fsencode(self.root / name)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


INSIDE = [
    "inner/file",
    "./inner//file",
    "inner/../inner/file",
    "inner-link/file",
    "../root/inner/file",
]


@pytest.mark.parametrize("name", INSIDE)
def test_what_lies_beneath_a_root_can_be_used(tree: Tree, name: str) -> None:
    path = tree.path(name)
    assert tree.files.exists(path)
    assert not tree.files.is_directory(path)
    with tree.files.open(path, "rb") as file:
        assert file.read() == b"inside"
    with tree.files.open(path, "ab") as file:
        file.write(b", and more")
    assert (tree.root / "inner" / "file").read_bytes() == b"inside, and more"


OUTSIDE = {
    "another folder": "../secret/file",
    "what is not there": "../secret/nothing",
    "a root's name and more": "../root-2/file",
    "over folders": "inner/../../secret/file",
    "over nothing": "nothing/../../secret/file",
    "a linked folder": "folder-link/file",
    "what is not in a linked folder": "folder-link/nothing",
    "a linked file": "file-link",
    "a link to nothing": "dangling",
    "the parent": "..",
    "everything": "/",
    "this process": "/proc/self/root/etc/passwd",
}

USES: dict[str, Callable[[Files, bytes], object]] = {
    "read": lambda files, path: files.open(path, "rb"),
    "write": lambda files, path: files.open(path, "wb"),
    "append": lambda files, path: files.open(path, "ab"),
    "make": lambda files, path: files.open(path, "wb", make_directories=True),
    "list": lambda files, path: files.entries(path),
    "see": lambda files, path: files.exists(path),
    "look at": lambda files, path: files.is_directory(path),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", OUTSIDE)
def test_what_lies_elsewhere_is_refused_whether_or_not_it_exists(
    tree: Tree, name: str, use: str
) -> None:
    with pytest.raises(errors.PermissionDeniedError) as refused:
        USES[use](tree.files, tree.path(OUTSIDE[name]))
    for part in (str(tree.root), "/job:ps/task:0", OUTSIDE[name], "HEADRACE_FILE_ROOTS"):
        assert part in str(refused.value)
    assert (tree.secret / "file").read_bytes() == b"outside"
    assert os.listdir(tree.secret) == ["file"]


@pytest.mark.parametrize("use", USES)
def test_a_directory_that_becomes_a_link_meanwhile_is_not_followed(
    tree: Tree, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = os.path.realpath

    def resolved_too_early(path: bytes) -> bytes:
        found = resolve(path)
        (tree.root / "inner").rename(tree.root / "moved")
        (tree.root / "inner").symlink_to(tree.secret)
        return found

    monkeypatch.setattr(module.os.path, "realpath", resolved_too_early)
    path = tree.path("inner" if use == "list" else "inner/file")
    if use in ("see", "look at"):
        assert not USES[use](tree.files, path)
    else:
        with pytest.raises(OSError, match="Not a directory"):
            USES[use](tree.files, path)
    assert (tree.secret / "file").read_bytes() == b"outside"


@pytest.mark.parametrize("use", ["read", "write", "append", "make"])
def test_a_file_that_becomes_a_link_meanwhile_is_not_followed(
    tree: Tree, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = os.path.realpath

    def resolved_too_early(path: bytes) -> bytes:
        found = resolve(path)
        (tree.root / "inner" / "file").unlink()
        (tree.root / "inner" / "file").symlink_to(tree.secret / "file")
        return found

    monkeypatch.setattr(module.os.path, "realpath", resolved_too_early)
    with pytest.raises(OSError, match="symbolic link"):
        USES[use](tree.files, tree.path("inner/file"))
    assert (tree.secret / "file").read_bytes() == b"outside"


def test_a_loop_of_links_is_an_error_of_the_system(tree: Tree) -> None:
    with pytest.raises(OSError, match="symbolic link"):
        tree.files.open(tree.path("loop"), "rb")


def test_directories_are_made_beneath_a_root_only(tree: Tree) -> None:
    with tree.files.open(tree.path("a/b/c"), "wb", make_directories=True) as file:
        file.write(b"new")
    assert (tree.root / "a" / "b" / "c").read_bytes() == b"new"
    with pytest.raises(FileNotFoundError):
        tree.files.open(tree.path("x/y"), "wb")
    with pytest.raises(NotADirectoryError):
        tree.files.open(tree.path("a/b/c/d"), "wb", make_directories=True)
    with pytest.raises(IsADirectoryError):
        tree.files.open(tree.path("a"), "rb")


def test_a_root_itself_can_be_listed(tree: Tree) -> None:
    assert tree.files.is_directory(os.fsencode(tree.root))
    assert sorted(tree.files.entries(os.fsencode(tree.root))) == sorted(
        os.listdir(os.fsencode(tree.root))
    )
    assert tree.files.entries(tree.path("inner-link")) == [b"file"]
    with pytest.raises(NotADirectoryError):
        tree.files.entries(tree.path("inner/file"))


def test_a_root_may_be_reached_over_a_link(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "name").symlink_to(tree.root)
    files = Files([tmp_path / "name"])
    assert files.exists(tree.path("inner/file"))
    assert files.exists(os.fsencode(tmp_path / "name" / "inner" / "file"))


def test_relative_paths_are_those_of_the_process(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.root)
    assert tree.files.exists(b"inner/file")
    assert Files(["."]).exists(tree.path("inner/file"))
    with pytest.raises(errors.PermissionDeniedError):
        tree.files.exists(b"../secret")


def test_no_roots_allow_nothing_and_the_root_of_all_everything(tree: Tree) -> None:
    path = tree.path("inner/file")
    with pytest.raises(errors.PermissionDeniedError, match=r"\(none\)"):
        Files([]).open(path, "rb")
    for files in (ANYWHERE, Files(["/"]), Files([tree.secret, tree.root])):
        assert files.exists(path)
        with files.open(path, "rb") as file:
            assert file.read() == b"inside"


def test_a_root_that_is_no_directory_is_refused(tree: Tree) -> None:
    for root in (tree.root / "inner" / "file", tree.root / "nothing"):
        with pytest.raises(errors.InvalidArgumentError, match="no directory"):
            Files([root])


def test_an_open_file_has_a_name_that_stays_its_own(tree: Tree) -> None:
    with tree.files.open(tree.path("inner/file"), "rb") as file:
        (tree.root / "inner" / "file").unlink()
        assert Path(name_of(file)).read_bytes() == b"inside"


def test_a_name_with_a_nul_is_no_file(tree: Tree) -> None:
    for files in (tree.files, ANYWHERE):
        assert not files.exists(b"a\0b")
        with pytest.raises(ValueError, match="null"):
            files.open(b"a\0b", "rb")


def test_roots_are_named_by_the_environment() -> None:
    assert named_roots({}) is named_roots({"HEADRACE_FILE_ROOTS": ""}) is None
    assert named_roots({"HEADRACE_FILE_ROOTS": f"/a{os.pathsep}/b c"}) == ["/a", "/b c"]
