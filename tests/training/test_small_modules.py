"""Data files beside a program, files by their newer names, the horizon of graphs, what has no build."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as tf


def test_data_files_are_found_beside_the_caller() -> None:
    here = Path(__file__)
    loader = tf.resource_loader
    assert loader.get_data_files_path() == str(here.parent)
    assert loader.get_root_dir_with_all_resources() == str(here.parent)
    assert loader.get_path_to_datafile("a/b.txt") == str(here.parent / "a/b.txt")
    assert loader.load_resource(here.name) == here.read_bytes()
    assert loader.readahead_file_path("x") == "x"
    with pytest.raises(tf.errors.NotFoundError):
        loader.load_resource("no such file")


def test_files_have_their_newer_names(tmp_path: Path) -> None:
    files = tf.io.gfile
    folder = tmp_path / "a" / "b"
    files.makedirs(str(folder))
    with files.GFile(str(folder / "x"), "w") as file:
        file.write("text")
    files.copy(str(folder / "x"), str(folder / "y"))
    files.rename(str(folder / "y"), str(folder / "z"))
    assert sorted(files.listdir(str(folder))) == ["x", "z"]
    assert files.exists(str(folder / "z"))
    assert files.isdir(str(folder))
    assert files.stat(str(folder / "x")).length == 4
    assert files.glob(str(folder / "*")) == [str(folder / "x"), str(folder / "z")]
    below = [
        (Path(top).name, sorted(names))
        for top, _, names in files.walk(str(tmp_path / "a"), topdown=False)
    ]
    assert below == [("b", ["x", "z"]), ("a", [])]
    files.remove(str(folder / "x"))
    files.rmtree(str(tmp_path / "a"))
    assert not files.exists(str(folder))


def test_the_horizon_can_be_moved_for_a_while() -> None:
    assert tf.compat.forward_compatible(2019, 7, 1)
    assert not tf.compat.forward_compatible(2099, 1, 1)
    with tf.compat.forward_compatibility_horizon(2018, 1, 1):
        assert not tf.compat.forward_compatible(2019, 7, 1)
    assert tf.compat.forward_compatible(2019, 7, 1)


@pytest.mark.parametrize("name", ["get_compile_flags", "get_include", "get_lib", "get_link_flags"])
def test_there_is_nothing_to_compile_against(name: str) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="py_func"):
        getattr(tf.sysconfig, name)()
    assert tf.sysconfig.CXX11_ABI_FLAG == 0


@pytest.mark.parametrize("name", ["load_op_library", "load_library", "load_file_system_library"])
def test_libraries_of_kernels_are_errors_that_say_why(name: str) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match=r"py_func|file system"):
        getattr(tf, name)
    assert not hasattr(tf, name)
