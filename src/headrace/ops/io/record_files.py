"""TFRecord files from Python, outside of any graph: write them, iterate over them.

Called by: programs; ops.io.readers takes the options.  Threads: functions any; a writer one at a time.
Source: TF 1.15 python/lib/io/tf_record.py, for behaviour
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, Final

from headrace.base import errors, text
from headrace.codec import records
from headrace.run.readers.files import ANYWHERE, file_error, pieces

__all__ = [
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordWriter",
    "tf_record_iterator",
]

_BUFFER_BYTES: Final = 1 << 18


class TFRecordCompressionType:
    """How a file of records is compressed."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """How a file of records is compressed, and zlib's parameters for writing it."""

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.ZLIB: records.ZLIB,
        TFRecordCompressionType.GZIP: records.GZIP,
        TFRecordCompressionType.NONE: records.NONE,
    }

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        """compression_type: "", "ZLIB", "GZIP", a TFRecordCompressionType, other options or None.

        The rest are zlib's; None leaves its default, and the buffers' sizes change nothing.
        Raises ValueError.
        """
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """ "", "ZLIB" or "GZIP", of options or of what can stand for them.  Raises ValueError."""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if not options:
            return records.NONE
        found = cls.compression_type_map.get(options, options)
        if found not in records.COMPRESSIONS:
            raise ValueError(
                f"Not a valid compression_type: \"{options}\"; it is '', 'ZLIB' or 'GZIP'"
            )
        return str(found)

    def _compressor(self) -> Any:
        """A new zlib stream; None if nothing is compressed.  Raises ValueError."""
        kind = self.get_compression_type_string(self)
        if kind == records.NONE:
            return None

        def chosen(value: int | None, default: int) -> int:
            return default if value is None else value

        usual = records.window_bits(kind)
        bits = chosen(self.window_bits, usual)
        if kind == records.GZIP and bits <= zlib.MAX_WBITS:
            bits += usual - zlib.MAX_WBITS
        return zlib.compressobj(
            chosen(self.compression_level, zlib.Z_DEFAULT_COMPRESSION),
            chosen(self.compression_method, zlib.DEFLATED),
            bits,
            chosen(self.mem_level, zlib.DEF_MEM_LEVEL),
            chosen(self.compression_strategy, zlib.Z_DEFAULT_STRATEGY),
        )


class TFRecordWriter:
    """Writes records to a file, which it makes or replaces; also a context manager."""

    def __init__(self, path: Any, options: Any = None) -> None:
        """options: TFRecordOptions, or what is one's compression_type.

        Raises ValueError, NotFoundError and other errors of files.
        """
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._path = text.as_str_any(text.path_to_str(path))
        self._compressor = options._compressor()
        self._flush_mode = zlib.Z_PARTIAL_FLUSH if not options.flush_mode else options.flush_mode
        self._file: BinaryIO | None = None
        try:
            self._file = ANYWHERE.open(os.fsencode(self._path), "wb", _BUFFER_BYTES)
        except (OSError, ValueError) as error:
            raise file_error(os.fsencode(self._path), error) from None

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, record: Any) -> None:
        """Append a record, bytes or a str to be written as UTF-8.

        Raises TypeError; FailedPreconditionError after `close`.
        """
        self._put(records.framed(text.as_bytes(record)))

    def _put(self, content: bytes) -> None:
        file = self._open_file()
        if self._compressor is not None:
            content = self._compressor.compress(content)
        try:
            file.write(content)
        except OSError as error:
            raise file_error(os.fsencode(self._path), error) from None

    def _open_file(self) -> BinaryIO:
        if self._file is None:
            raise errors.failed_precondition(f"the writer of {self._path} is closed")
        return self._file

    def flush(self) -> None:
        """Let what was written reach the file.  Raises FailedPreconditionError after `close`."""
        file = self._open_file()
        try:
            if self._compressor is not None:
                file.write(self._compressor.flush(self._flush_mode))
            file.flush()
        except OSError as error:
            raise file_error(os.fsencode(self._path), error) from None

    def close(self) -> None:
        """Finish the file; closing again does nothing."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            with file:
                if self._compressor is not None:
                    file.write(self._compressor.flush())
        except OSError as error:
            raise file_error(os.fsencode(self._path), error) from None


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a file, one after the other.

    Raises ValueError (options); while iterating, NotFoundError and other errors of files, and
    DataLossError, naming file and offset, for a corrupt or truncated record.
    """
    compression = TFRecordOptions.get_compression_type_string(options)
    return _iterate(text.as_str_any(text.path_to_str(path)), compression)


def _iterate(path: str, compression: str) -> Iterator[bytes]:
    try:
        with ANYWHERE.open(os.fsencode(path), "rb", _BUFFER_BYTES) as file:
            for _, record in records.records(pieces(file), path, compression):
                yield record
    except (OSError, ValueError) as error:
        raise file_error(os.fsencode(path), error) from None
