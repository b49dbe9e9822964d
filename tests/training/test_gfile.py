"""Files by TensorFlow's names for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.training import gfile, gfile_functions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """a.txt, and y/2, y/z/1."""
    (tmp_path / "a.txt").write_bytes("ab\ncd\néf".encode())
    (tmp_path / "y/z").mkdir(parents=True)
    (tmp_path / "y/z/1").write_text("1")
    (tmp_path / "y/2").write_text("2")
    return tmp_path


def test_text_and_bytes_are_read(folder: Path) -> None:
    name = str(folder / "a.txt")
    with gfile.GFile(name) as file:
        assert (file.name, file.mode, file.size()) == (name, "r", 9)
        assert file.read(3) == "ab\n"
        assert file.tell() == 3
        assert file.readline() == "cd\n"
        file.seek(-1, 2)
        assert (file.read(), file.tell()) == ("f", 9)
        file.seek(0)
        assert file.readlines() == ["ab\n", "cd\n", "éf"]
    with gfile.Open(folder / "a.txt", "rb") as file:
        assert list(file) == [b"ab\n", b"cd\n", b"\xc3\xa9f"]
        assert file.read() == b""


def test_files_are_written_and_appended_to(folder: Path) -> None:
    name = folder / "new"
    with gfile.FastGFile(name, "w") as file:
        file.write("é")
        file.write(b"\n")
        file.flush()
        assert name.read_bytes() == b"\xc3\xa9\n"
    with gfile.GFile(name, "a") as file:
        file.write("more")
    with gfile.GFile(name, "r+") as file:
        file.seek(0)
        file.write("x")
    assert name.read_bytes() == b"x\xa9\nmore"
    with gfile.GFile(name, "w") as file:
        file.write("")
    assert name.read_bytes() == b""


@pytest.mark.parametrize("mode", ["w", "a", "wb", "w+", "a+"])
def test_closing_neither_makes_a_file_nor_empties_one(folder: Path, mode: str) -> None:
    gfile.GFile(folder / "new", mode).close()
    gfile.GFile(folder / "nowhere" / "new", mode).close()
    assert not (folder / "new").exists()
    (folder / "old").write_text("x")
    with gfile.GFile(folder / "old", mode) as file:
        file.flush()
    assert (folder / "old").read_text() == "x"


def test_directories_are_made_listed_and_walked(folder: Path) -> None:
    top = str(folder)
    gfile.MkDir(folder / "x")
    gfile.MkDir(folder / "x")
    gfile.MakeDirs(folder / "p/q")
    gfile.MakeDirs(folder / "p/q")
    assert gfile.ListDirectory(top) == ["a.txt", "p", "x", "y"]
    below_y = [(f"{top}/y", ["z"], ["2"]), (f"{top}/y/z", [], ["1"])]
    assert list(gfile.Walk(f"{top}/y")) == below_y
    assert list(gfile.Walk(f"{top}/y", in_order=False)) == below_y[::-1]
    assert list(gfile.Walk(f"{top}/none")) == []
    assert gfile.Glob(f"{top}/*") == [f"{top}/{name}" for name in ("a.txt", "p", "x", "y")]
    assert gfile.Glob([f"{top}/y/?", f"{top}/*.txt", f"{top}/none/*"]) == [
        f"{top}/y/2",
        f"{top}/y/z",
        f"{top}/a.txt",
    ]


def test_what_there_is_can_be_asked(folder: Path) -> None:
    assert gfile.Exists(folder / "a.txt")
    assert not gfile.Exists(folder / "none")
    assert gfile.IsDirectory(folder)
    assert not gfile.IsDirectory(folder / "a.txt")
    found = gfile.Stat(folder / "a.txt")
    assert (found.length, found.is_directory) == (9, False)
    assert found.mtime_nsec == os.stat(folder / "a.txt").st_mtime_ns
    assert gfile.Stat(folder).is_directory


def test_files_are_copied_moved_and_deleted(folder: Path) -> None:
    a, b, c = (folder / name for name in ("a.txt", "b", "c"))
    gfile.Copy(a, b)
    gfile.Rename(b, c)
    assert (b.exists(), c.read_bytes()) == (False, a.read_bytes())
    c.write_text("other")
    gfile.Copy(a, c, overwrite=True)
    assert c.read_bytes() == a.read_bytes()
    gfile.Rename(c, a, overwrite=True)
    gfile.Remove(a)
    gfile.DeleteRecursively(folder / "y")
    assert list(folder.iterdir()) == []


def test_a_link_is_deleted_and_what_it_leads_to_is_not(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "y")
    gfile.DeleteRecursively(folder / "link")
    assert (folder / "y/2").exists()
    assert not (folder / "link").exists()


ERRORS: list[tuple[Any, type[errors.OpError]]] = [
    (lambda d: gfile.GFile(d / "none").read(), errors.NotFoundError),
    (lambda d: gfile.GFile(d / "a.txt", "q"), errors.InvalidArgumentError),
    (lambda d: gfile.GFile(d / "a.txt").write("x"), errors.PermissionDeniedError),
    (lambda d: gfile.GFile(d / "new", "w").read(), errors.PermissionDeniedError),
    (lambda d: gfile.GFile(d / "none").size(), errors.NotFoundError),
    (lambda d: gfile.GFile(d).read(), errors.FailedPreconditionError),
    (lambda d: gfile.GFile("a\0b").read(), errors.InvalidArgumentError),
    (lambda d: gfile.GFile(d / "a.txt").seek(-1), errors.InvalidArgumentError),
    (lambda d: gfile.MkDir(d / "none/x"), errors.NotFoundError),
    (lambda d: gfile.MkDir(d / "a.txt"), errors.FailedPreconditionError),
    (lambda d: gfile.MakeDirs(d / "a.txt"), errors.FailedPreconditionError),
    (lambda d: gfile.ListDirectory(d / "none"), errors.NotFoundError),
    (lambda d: gfile.ListDirectory(d / "a.txt"), errors.NotFoundError),
    (lambda d: gfile.Stat(d / "none"), errors.NotFoundError),
    (lambda d: gfile.Copy(d / "a.txt", d / "y/2"), errors.AlreadyExistsError),
    (lambda d: gfile.Copy(d / "none", d / "b"), errors.NotFoundError),
    (lambda d: gfile.Rename(d / "a.txt", d / "y/2"), errors.AlreadyExistsError),
    (lambda d: gfile.Rename(d / "none", d / "b"), errors.NotFoundError),
    (lambda d: gfile.Remove(d / "none"), errors.NotFoundError),
    (lambda d: gfile.Remove(d / "y"), errors.FailedPreconditionError),
    (lambda d: gfile.DeleteRecursively(d / "none"), errors.NotFoundError),
]


@pytest.mark.parametrize(("action", "kind"), ERRORS)
def test_failures_are_typed(folder: Path, action: Any, kind: type[errors.OpError]) -> None:
    with pytest.raises(kind):
        action(folder)


def test_tf_io_gfile_takes_the_arguments_of_tensorflow_2(folder: Path) -> None:
    top = str(folder)
    gfile_functions.makedirs(path=f"{top}/p/q")
    gfile_functions.mkdir(path=f"{top}/r")
    gfile_functions.copy(src=f"{top}/a.txt", dst=f"{top}/b", overwrite=True)
    gfile_functions.rename(src=f"{top}/b", dst=f"{top}/c")
    assert gfile_functions.exists(path=f"{top}/c")
    assert gfile_functions.isdir(path=f"{top}/r")
    assert gfile_functions.stat(path=f"{top}/c").length == 9
    gfile_functions.remove(path=f"{top}/c")
    gfile_functions.rmtree(path=f"{top}/p")
    assert gfile_functions.listdir(path=top) == ["a.txt", "r", "y"]
    assert gfile_functions.glob(pattern=f"{top}/a*") == [f"{top}/a.txt"]
    assert [each[0] for each in gfile_functions.walk(top=top, topdown=False)][-1] == top
    seen: list[errors.OpError] = []
    assert list(gfile_functions.walk(f"{top}/none", onerror=seen.append)) == []
    assert [type(error) for error in seen] == [errors.NotFoundError]


def test_a_position_has_an_older_name(folder: Path) -> None:
    file = gfile.GFile(folder / "a.txt")
    file.seek(position=3)
    assert (file.read(2), file.seekable()) == ("cd", True)
    for given in ({}, {"offset": 1, "position": 1}):
        with pytest.raises(TypeError, match="by one name"):
            file.seek(**given)
    file.close()


def test_a_file_that_was_closed_is_not_emptied_by_another_close(folder: Path) -> None:
    with gfile.GFile(folder / "new", "w") as file:
        file.write("x")
        file.close()
    file.close()
    assert (folder / "new").read_text() == "x"


def test_lines_have_no_carriage_returns(folder: Path) -> None:
    (folder / "dos").write_bytes(b"a\rb\r\nc\r")
    assert gfile.GFile(folder / "dos").readlines() == ["ab\n", "c"]
    assert gfile.GFile(folder / "dos", "rb").readline() == b"ab\n"
    assert gfile.GFile(folder / "dos", "rb").read() == b"a\rb\r\nc\r"


def test_no_directory_is_made_for_a_bare_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    gfile.MakeDirs(os.path.dirname("a.txt"))
    gfile.MkDir("")
    gfile.Copy("a.txt", "a.txt", overwrite=True)
    assert sorted(each.name for each in folder.iterdir()) == ["a.txt", "y"]
    assert gfile.Stat("a.txt").length == 9


def test_names_may_begin_with_file(folder: Path) -> None:
    top = f"file://{folder}"
    with gfile.GFile(f"{top}/new", "w") as file:
        file.write("x")
        assert file.name == f"{top}/new"
    assert (folder / "new").read_text() == "x"
    assert gfile.Glob(f"{top}/y/?") == [f"{top}/y/2", f"{top}/y/z"]
    assert [each[0] for each in gfile.Walk(f"{top}/y")] == [f"{top}/y", f"{top}/y/z"]
    gfile.Copy(f"{top}/new", f"file://localhost{folder}/newer")
    assert gfile.ListDirectory(top) == ["a.txt", "new", "newer", "y"]
    with tf.python_io.TFRecordWriter(f"{top}/records") as writer:
        writer.write(b"one")
    assert list(tf.python_io.tf_record_iterator(f"{top}/records")) == [b"one"]
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.read_file(f"{top}/new")) == b"x"
        session.run(tf.get_variable("v", initializer=2.0).initializer)
        saver = tf.train.Saver()
        saver.save(session, f"{top}/made/model")
        assert (folder / "made/checkpoint").exists()
        saver.restore(session, tf.train.latest_checkpoint(f"{top}/made"))


@pytest.mark.parametrize("scheme", ["gs", "s3", "hdfs"])
def test_files_of_other_systems_are_refused_and_nothing_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.chdir(folder)
    path = f"{scheme}://bucket/model"
    refused = pytest.raises(
        errors.UnimplementedError, match=f"File system scheme '{scheme}' not implemented"
    )
    for action in (gfile.Exists, gfile.MakeDirs, gfile.Stat, gfile.Glob, gfile.ListDirectory):
        with refused:
            action(path)
    with refused:
        gfile.GFile(path, "w").write("x")
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("v", initializer=2.0).initializer)
        with refused:
            tf.train.Saver().save(session, path)
        with refused:
            session.run(tf.write_file(path, "x"))
        with refused:
            tf.summary.FileWriter(path).close()
        with refused:
            tf.saved_model.Builder(path)
    assert sorted(each.name for each in folder.iterdir()) == ["a.txt", "y"]


def test_a_missing_file_fails_when_it_is_read_and_not_before(folder: Path) -> None:
    file = gfile.GFile(folder / "late")
    (folder / "late").write_text("here")
    assert file.read() == "here"
    file.close()
