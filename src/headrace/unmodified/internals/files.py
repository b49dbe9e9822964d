"""tensorflow.python.lib.io.file_io: whole files at once.

Called by: programs.  Blocks while the file is read or written.  Raises what tf.gfile.GFile raises.
"""

from __future__ import annotations

from headrace.training.gfile import GFile


def read_file_to_string(filename: str, binary_mode: bool = False) -> str | bytes:
    """What is in a file: text, or bytes where `binary_mode`."""
    with GFile(filename, "rb" if binary_mode else "r") as file:
        found: str | bytes = file.read()
    return found


def write_string_to_file(filename: str, file_content: str) -> None:
    """Make the file, or write it anew."""
    with GFile(filename, "w") as file:
        file.write(file_content)
