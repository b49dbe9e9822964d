"""Data files beside a program, as `tf.resource_loader` finds them.

Called by: programs.  Threads: any; `load_resource` waits for the disk.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from headrace.base import text
from headrace.training.gfile import GFile

__all__ = [
    "get_data_files_path",
    "get_path_to_datafile",
    "get_root_dir_with_all_resources",
    "load_resource",
    "readahead_file_path",
]


def _folder_of_caller() -> str:
    """Where the file of whoever called this module's function is."""
    return os.path.dirname(sys._getframe(2).f_code.co_filename)


def get_data_files_path() -> str:
    """The directory of the file that calls this."""
    return _folder_of_caller()


def get_root_dir_with_all_resources() -> str:
    """The directory of the file that calls this: no build tool puts data elsewhere."""
    return _folder_of_caller()


def get_path_to_datafile(path: Any) -> str:
    """`path` from the directory of the file that calls this."""
    return os.path.join(_folder_of_caller(), text.path_to_str(path))


def load_resource(path: Any) -> bytes:
    """The content of the file at `path`, from the directory of the file that calls this.  Raises NotFoundError."""
    with GFile(os.path.join(_folder_of_caller(), text.path_to_str(path)), "rb") as file:
        content: bytes = file.read()
    return content


def readahead_file_path(path: Any, readahead: str = "128M") -> Any:
    """`path`: files are read as they are asked for."""
    return path
