"""`tf.resource_loader`: data files beside a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.resource_loader import (
        get_data_files_path,
        get_path_to_datafile,
        get_root_dir_with_all_resources,
        load_resource,
        readahead_file_path,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.resource_loader": (
                "get_data_files_path get_path_to_datafile get_root_dir_with_all_resources load_resource "
                "readahead_file_path"
            ),
        },
    )

__all__ = [
    "get_data_files_path",
    "get_path_to_datafile",
    "get_root_dir_with_all_resources",
    "load_resource",
    "readahead_file_path",
]
