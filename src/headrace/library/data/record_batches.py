"""`make_csv_dataset` and `make_batched_features_dataset`: batches of files' records, shuffled and repeated.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/experimental/ops/readers.py, for behaviour; nodes compared with the oracle
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes, text
from headrace.library.data.csv_columns import (
    Opener,
    column_names_of,
    columns_chosen,
    defaults_of,
    repeated,
)
from headrace.library.data.csv_files import CsvDataset, required
from headrace.library.data.datasets import Dataset
from headrace.library.data.experimental import AUTOTUNE, ignore_errors
from headrace.library.data.options import Options
from headrace.library.data.parsed_examples import parse_example_dataset
from headrace.library.data.readers import TFRecordDataset
from headrace.library.data.transformations import (
    mapped_at_once,
    parallel_interleave,
)
from headrace.ops._kernels.file_globs import matches
from headrace.ops.io.readers import ReaderBase
from headrace.run.readers.files import ANYWHERE

__all__ = ["make_batched_features_dataset", "make_csv_dataset"]


def _files(file_pattern: Any) -> list[str]:
    """The names of the files that match, sorted.  Raises ValueError: there are none."""
    if isinstance(file_pattern, list) and not file_pattern:
        raise ValueError("Argument `file_pattern` should not be empty.")
    one = isinstance(file_pattern, (str, bytes, os.PathLike))
    globs = [
        os.fsencode(text.path_to_str(each)) for each in ([file_pattern] if one else file_pattern)
    ]
    found = sorted(os.fsdecode(name) for each in globs for name in matches([each], ANYWHERE))
    if not found:
        raise ValueError(f"No files match `file_pattern` {file_pattern}.")
    return found


def _of_each(files: Dataset, make: Callable[[Any], Dataset], many: Any, sloppy: bool) -> Dataset:
    """The records of the datasets that `make` gives of names, of `many` of them side by side."""
    if isinstance(many, int) and many == AUTOTUNE:
        options = Options()
        options.deterministic = not sloppy
        return files.interleave(make, num_parallel_calls=many).with_options(options)
    mixed: Dataset = parallel_interleave(make, many, sloppy=sloppy)(files)
    return mixed


def _mixed(
    dataset: Dataset, num_epochs: int | None, shuffle: Any, buffer_size: Any, seed: Any
) -> Dataset:
    if shuffle:
        dataset = dataset.shuffle(buffer_size, seed)
    return dataset if num_epochs == 1 else dataset.repeat(num_epochs)


def make_csv_dataset(
    file_pattern: Any,
    batch_size: Any,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    num_parallel_reads: Any = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Batches of CSV records: an OrderedDict of columns [batch_size], or a pair of that and the column label_name.

    file_pattern: a glob, or several; the files are read one after the other, or num_parallel_reads side by side.
    column_names: else what the first line of each file says.  column_defaults: as `CsvDataset` takes them, for the
    columns that are read; else the first num_rows_for_inference records (None: all) are looked at when this is called,
    and a missing number is 0.  select_columns: the names or numbers of the columns to be read.  num_epochs: None is
    without end, and then all batches are full.  encoding: of what is looked at.  The rest is as in `CsvDataset`,
    `shuffle`, `prefetch`, `ignore_errors` and `parallel_interleave`.

    Raises ValueError (no files; columns that are not there, twice there or not as many as defaults; no names; files
    that have none or others; records of other lengths; what cannot be looked at compressed), UnicodeDecodeError,
    csv.Error.
    """
    filenames = _files(file_pattern)
    dataset = Dataset.from_tensor_slices(filenames)
    if shuffle:
        dataset = dataset.shuffle(len(filenames), shuffle_seed)
    names, defaults, select = _columns(
        filenames,
        (column_names, column_defaults, select_columns, num_rows_for_inference),
        (field_delim, use_quote_delim, na_value, header),
        Opener(compression_type, encoding),
    )
    if label_name is not None and label_name not in names:
        raise ValueError(
            f"`label_name` provided must be one of the columns: {names}. Received: {label_name}."
        )
    drop_errors = ignore_errors

    def filename_to_dataset(filename: Any) -> Dataset:
        found: Dataset = CsvDataset(
            filename,
            defaults,
            compression_type,
            header=header,
            field_delim=field_delim,
            use_quote_delim=use_quote_delim,
            na_value=na_value,
            select_cols=select,
        )
        return _without_errors(found) if drop_errors else found

    def map_fn(*columns: Any) -> Any:
        features = OrderedDict(zip(names, columns, strict=False))
        if label_name is None:
            return features
        label = features.pop(label_name)
        return features, label

    many = 1 if num_parallel_reads is None else num_parallel_reads
    dataset = _of_each(dataset, filename_to_dataset, many, sloppy)
    dataset = _mixed(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None)
    return mapped_at_once(dataset, map_fn).prefetch(prefetch_buffer_size)


def _columns(
    filenames: list[str], given: Any, layout: Any, opened: Opener
) -> tuple[list[str], list[Any], list[int] | None]:
    """The names and defaults of the columns to be read, and their numbers if they are not all.

    given, layout: arguments of `make_csv_dataset`.  Raises ValueError.
    """
    names, defaults, chosen, most = given
    delim, quotes, na_value, header = layout
    if names is None or defaults is None:
        opened.check()
    if names is None:
        if not header:
            raise ValueError("Expected `column_names` or `header` arguments. Neither is provided.")
        names = column_names_of(filenames, delim, quotes, opened)
    twice = repeated(names)
    if twice:
        raise ValueError(
            f"Either `column_names` argument or CSV header row contains duplicate column names: {twice}."
        )
    select = None if chosen is None else columns_chosen(chosen, names)
    if defaults is not None:
        found = [required(each) for each in defaults]
    else:
        rows = opened.rows(filenames, len(names), delim, quotes, header)
        wanted = range(len(names)) if select is None else select
        found = defaults_of(rows, wanted, na_value, most)
    if select is not None:
        if len(found) != len(select):
            raise ValueError(
                "If specified, `column_defaults` and `select_columns` must have the same length: `column_defaults` has "
                f"length {len(found)}, `select_columns` has length {len(select)}."
            )
        names = [names[at] for at in select]
    return list(names), found, select


def _without_errors(dataset: Dataset) -> Dataset:
    return ignore_errors()(dataset)


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: Any,
    features: Any,
    reader: Any = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    reader_num_threads: Any = None,
    parser_num_threads: Any = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Batches of Examples, parsed: a dict of `features`' tensors, or a pair of that and the feature label_key.

    file_pattern: a glob, or several.  reader: makes a dataset of a file's name and reader_args, TFRecordDataset unless
    it is given; its elements are serialized Examples, or pairs of a key and one.  num_epochs: None is without end, and
    then all batches are full.  reader_num_threads: files that are read side by side.  parser_num_threads: batches that
    are parsed at a time; 2 unless it is given.  The rest is as in `shuffle`, `prefetch` and `parallel_interleave`.

    Raises TypeError (a reader that is none of datasets), ValueError (a label_key that is no feature).
    """
    files = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    make = TFRecordDataset if reader is None else reader
    if isinstance(make, type) and issubclass(make, ReaderBase):
        raise TypeError(
            "The `reader` argument must return a `Dataset` object. `tf.ReaderBase` subclasses are not supported. For "
            f"example, pass `tf.data.TFRecordDataset` instead of `tf.TFRecordReader`. It was {make.__name__}"
        )
    many = 1 if reader_num_threads is None else reader_num_threads
    dataset = _of_each(
        files, lambda filename: make(filename, *(reader_args or ())), many, sloppy_ordering
    )
    if dataset.output_types == (dtypes.string, dtypes.string):
        dataset = mapped_at_once(dataset, lambda _, value: value)
    dataset = _mixed(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    threads = 2 if parser_num_threads is None else parser_num_threads
    dataset = parse_example_dataset(features, threads)(dataset)
    if label_key:
        if label_key not in features:
            raise ValueError(
                f"The `label_key` provided ({label_key}) must be one of the `features` keys: {features.keys()}."
            )
        dataset = dataset.map(lambda x: (x, x.pop(label_key)))
    return dataset.prefetch(prefetch_buffer_size)
