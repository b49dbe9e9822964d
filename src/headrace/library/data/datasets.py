"""`tf.data.Dataset`: what a graph reads its elements from, as a variant tensor and the structure of the elements.

Called by: programs.  Threads: building as graph.
Source: TF 1.15 python/data/ops/dataset_ops.py, for behaviour; nodes and their names compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import colocate_with, get_seed, name_scope
from headrace.graph.registry import get
from headrace.graph.tensor import Tensor
from headrace.library.data import nest
from headrace.library.data.options import Options
from headrace.library.data.specs import DatasetSpec
from headrace.library.data.structures import (
    DatasetLeaf,
    OfElements,
    TensorLeaf,
    element_of,
    flat_shapes,
    flat_types,
    from_specs,
    normalized,
    spec_of,
    tensors_of,
)
from headrace.library.data.with_functions import WithFunctions
from headrace.ops.data import (  # registered here: who asks for an op that is not imports all there are
    dataset_batches,
    dataset_files,
    dataset_functions,
    dataset_groups,
    dataset_ops,
    dataset_shared,
    dataset_sources,
    iterator_ops,
)

_REGISTERED: Final = (
    dataset_batches,
    dataset_files,
    dataset_functions,
    dataset_groups,
    dataset_ops,
    dataset_shared,
    dataset_sources,
    iterator_ops,
)

__all__ = [
    "Dataset",
    "get_legacy_output_classes",
    "get_legacy_output_shapes",
    "get_legacy_output_types",
]

_MOST: Final = 2**63 - 1


class Dataset(WithFunctions, OfElements):
    """Elements, one after the other; each is a structure of tensors of the same types."""

    def __init__(
        self,
        variant_tensor: Any,
        structure: Any,
        inputs: Sequence[Dataset] = (),
        options: Options | None = None,
    ) -> None:
        """structure: of leaves; see `library.data.structures`."""
        self._variant_tensor = variant_tensor
        self._structure = structure
        self._inputs = tuple(inputs)
        self._own_options = options

    # -- what it is ---------------------------------------------------------------------------

    def _as_variant_tensor(self) -> Tensor:
        made: Tensor = self._variant_tensor
        return made

    @property
    def _elements(self) -> dict[str, Any]:
        """The attrs of nodes that give or make such elements."""
        return {
            "output_types": flat_types(self._structure),
            "output_shapes": flat_shapes(self._structure),
        }

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__ if type(self) is not Dataset else 'DatasetV1Adapter'} "
            f"shapes: {self.output_shapes}, types: {self.output_types}>"
        )

    def __iter__(self) -> Any:
        raise RuntimeError(
            "__iter__() is only supported inside of tf.function or when eager execution is enabled: make an iterator "
            "with tf.data.make_initializable_iterator(dataset), and run its get_next()"
        )

    def __bool__(self) -> bool:
        return True

    def options(self) -> Options:
        """Those of this dataset and of what it is made of."""
        found = Options()
        for each in self._inputs:
            found = found.merge(each.options())
        return found if self._own_options is None else found.merge(self._own_options)

    # -- sources ------------------------------------------------------------------------------

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element: the tensors themselves."""
        element = normalized(tensors)
        structure = spec_of(element)
        shapes = flat_shapes(structure)
        made = get("TensorDataset")(tensors_of(structure, element), output_shapes=shapes)
        return Dataset(made, structure)

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """An element for each row of the tensors.  Raises ValueError (scalars, different lengths)."""
        return _slices(tensors, False)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """An element (indices, values, shape) for each row of a SparseTensor.  Raises TypeError."""
        from headrace.graph.sparse import SparseTensor

        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(
                f"Invalid `sparse_tensor`. `sparse_tensor` must be a `tf.SparseTensor`. Got {type(sparse_tensor)}."
            )
        parts = sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape
        rank = parts[0].shape.as_list()[1] if parts[0].shape.ndims is not None else None
        inner = None if rank is None else rank - 1
        structure = (
            TensorLeaf(dtypes.int64, [None, inner]),
            TensorLeaf(parts[1].dtype, [None]),
            TensorLeaf(dtypes.int64, [inner]),
        )
        return Dataset(get("SparseTensorSliceDataset")(*parts), structure)

    @staticmethod
    def from_generator(
        generator: Any, output_types: Any = None, output_shapes: Any = None, args: Any = None
    ) -> Dataset:
        """The elements that the generator which `generator()` makes gives, as `output_types` and shapes say.

        args: tensors that are passed to `generator` as arrays.  Raises TypeError.
        """
        from headrace.library.data.generators import from_generator

        return from_generator(generator, output_types, output_shapes, args)

    @staticmethod
    def range(*args: Any, **kwargs: Any) -> Dataset:
        """Numbers, as those of Python's range(*args), int64 unless `output_type` says otherwise."""
        dtype = dtypes.as_dtype(kwargs.pop("output_type", dtypes.int64))
        kwargs.pop("name", None)
        if kwargs:
            raise TypeError(f"range() got unexpected keyword arguments: {', '.join(kwargs)}")
        if not 1 <= len(args) <= 3:
            raise ValueError(
                f"Invalid `args`. The length of `args` should be between 1 and 3 but was {len(args)}."
            )
        first, last, by = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        ends = [
            _int64(each, name) for each, name in ((first, "start"), (last, "stop"), (by, "step"))
        ]
        structure = TensorLeaf(dtype, [])
        made = get("RangeDataset")(*ends, output_types=[dtype], output_shapes=[TensorShape([])])
        return Dataset(made, structure)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements that are the structure `datasets`, with an element of each there.  Raises TypeError."""
        flat = nest.flatten(datasets)
        for each in flat:
            if isinstance(each, list):
                raise TypeError(
                    f"Invalid input to `zip`. Got a list of `tf.data.Dataset` objects {each!r:.80}: "
                    "Python lists are not supported, use tuple instead."
                )
            if not isinstance(each, Dataset):
                raise TypeError(
                    "Invalid input to `zip`. Inputs are expected to be (nested) structures of `tf.data.Dataset` "
                    f"objects but encountered object of type {type(each)}."
                )
        structure = nest.pack_sequence_as(datasets, [each._structure for each in flat])
        made = get("ZipDataset")([each._variant_tensor for each in flat], **_attrs(structure))
        return Dataset(made, structure, flat)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: bool | None = None, seed: Any = None) -> Dataset:
        """The names of the files that match, in random order unless shuffle is False."""
        from headrace.library.data.file_lists import list_files

        return list_files(file_pattern, shuffle, seed)

    # -- counting -----------------------------------------------------------------------------

    def _like(self, op: str, *inputs: Any, structure: Any = None, **attrs: Any) -> Dataset:
        """A dataset made of this one by a node."""
        structure = self._structure if structure is None else structure
        made = get(op)(self._variant_tensor, *inputs, **_attrs(structure), **attrs)
        return Dataset(made, structure, [self])

    def take(self, count: Any) -> Dataset:
        """The first `count` elements; all of them if it is negative."""
        return self._like("TakeDataset", _int64(count, "count"))

    def skip(self, count: Any) -> Dataset:
        """What comes after the first `count` elements; nothing if it is negative."""
        return self._like("SkipDataset", _int64(count, "count"))

    def repeat(self, count: Any = None) -> Dataset:
        """The elements `count` times over; without end if that is None or negative."""
        return self._like("RepeatDataset", _int64(-1 if count is None else count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every num_shards-th element, from the one numbered `index` on."""
        return self._like("ShardDataset", _int64(num_shards, "num_shards"), _int64(index, "index"))

    def concatenate(self, dataset: Dataset) -> Dataset:
        """These elements, then those of another dataset.  Raises TypeError if they differ in more than shapes."""
        mine, theirs = self._structure, dataset._structure
        try:
            nest.assert_same_structure(mine, theirs)
            leaves = [
                one.widest(other)
                for one, other in zip(nest.flatten(mine), nest.flatten(theirs), strict=True)
            ]
        except (TypeError, ValueError):
            leaves = [None]
        if None in leaves:
            raise TypeError(f"Incompatible dataset elements:\n  {mine} vs.   {theirs}")
        structure = nest.pack_sequence_as(mine, leaves)
        made = self._like("ConcatenateDataset", dataset._variant_tensor, structure=structure)
        made._inputs = (self, dataset)
        return made

    def enumerate(self, start: Any = 0) -> Dataset:
        """Elements (number, element), from `start` on."""
        return Dataset.zip((replicated(Dataset.range(start, _MOST)), self))

    # -- joining and cutting ------------------------------------------------------------------

    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Dataset:
        """`batch_size` elements along a new first axis; the last may be smaller unless drop_remainder."""
        size = _int64(batch_size, "batch_size")
        drop = convert(drop_remainder, dtypes.bool, "drop_remainder")
        known = _batch_dimension(size, drop)
        structure = nest.map_structure(lambda leaf: leaf.batched(known), self._structure)
        return self._like("BatchDatasetV2", size, drop, structure=structure)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
    ) -> Dataset:
        """As `batch`, each component padded to its shape there; -1 or None: to that of the largest.

        Raises ValueError and TypeError where shapes or values do not fit the components.
        """
        from headrace.library.data.padding import padded_batch

        return padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder)

    def unbatch(self) -> Dataset:
        """The rows of each element, one by one.  Raises ValueError if a component has none, or fewer than another."""
        leaves = nest.flatten(self._structure)
        if any(leaf.shape.ndims == 0 for leaf in leaves):
            raise ValueError("Cannot unbatch an input with scalar components.")
        first = [shape.as_list()[0] for shape in flat_shapes(self._structure) if shape.ndims]
        counts = {count for count in first if count is not None}
        if len(counts) > 1:
            raise ValueError(
                "`unbatch()` is only supported for datasets of elements whose components have a matching leading "
                f"dimension, and these have {sorted(counts)} rows"
            )
        structure = nest.map_structure(lambda leaf: leaf.unbatched(), self._structure)
        return self._with_rows()._like("UnbatchDataset", structure=structure)

    def _with_rows(self) -> Dataset:
        """The same, where each tensor has a row for each row of what it stands for."""
        leaves = nest.flatten(self._structure)
        if all(isinstance(leaf, TensorLeaf) for leaf in leaves):
            return self

        def normalize(*element: Any) -> Any:
            values = nest.flatten(element if type(self._structure) is tuple else element[0])
            return tuple(leaf.rows(value) for leaf, value in zip(leaves, values, strict=True))

        return self.map(normalize)

    def window(
        self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False
    ) -> Dataset:
        """Datasets of `size` elements each, which are `stride` apart; one begins `shift` after the one before."""
        numbers = [
            _int64(each, name)
            for each, name in (
                (size, "size"),
                (size if shift is None else shift, "shift"),
                (stride, "stride"),
            )
        ]
        drop = convert(drop_remainder, dtypes.bool, "drop_remainder")
        structure = nest.map_structure(
            lambda leaf: DatasetLeaf(DatasetSpec(leaf.spec)), self._structure
        )
        return self._like("WindowDataset", *numbers, drop, structure=structure)

    # -- order and keeping --------------------------------------------------------------------

    def shuffle(
        self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None
    ) -> Dataset:
        """The elements in random order, each drawn among the next buffer_size; another order in each pass."""
        size = _int64(buffer_size, "buffer_size")
        first, second = seed_tensors(seed)
        again = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        return self._like("ShuffleDataset", size, first, second, reshuffle_each_iteration=again)

    def cache(self, filename: Any = "") -> Dataset:
        """The elements, kept after the first pass: in memory, or in files that begin with `filename`."""
        return self._like("CacheDataset", convert(filename, dtypes.string, "filename"))

    def prefetch(self, buffer_size: Any) -> Dataset:
        """The elements, up to buffer_size of them made ahead.  AUTOTUNE (-1): as many as fit into some memory."""
        size = -1 if buffer_size is None else buffer_size
        count = _int64(size, "buffer_size")
        tuned = self._known_autotune(count)
        with colocate_with(self._variant_tensor):
            return self._like("PrefetchDataset", count, legacy_autotune=tuned)

    def _known_autotune(self, count: Any) -> bool:
        return bool(constant_value(count) == -1)

    def with_options(self, options: Options) -> Dataset:
        """The same elements, with options; those given last count."""
        with colocate_with(self._variant_tensor):
            made = self._like("OptionsDataset", serialized_options=options.serialized())
        made._own_options = options
        return made

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Any:
        """transformation_func(self).  Raises TypeError if that is no dataset."""
        made = transformation_func(self)
        if not isinstance(made, Dataset):
            raise TypeError(
                f"`transformation_func` must return a `tf.data.Dataset` object. Got {type(made)}."
            )
        return made

    # -- iterators ----------------------------------------------------------------------------

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """An iterator, whose `initializer` is to be run before its elements are taken."""
        from headrace.library.data.iterators import Iterator

        with colocate_with(self._variant_tensor):
            handle = get("IteratorV2")(
                shared_name=shared_name or "", container="", **self._elements
            )
            initializer = get("MakeIterator")(self._iterated(), handle)
            return Iterator(handle, initializer, self._structure)

    def _iterated(self) -> Tensor:
        """What an iterator takes: the dataset, told to whom its stages are to say what they measure."""
        stats = self.options().experimental_stats
        if stats.aggregator is None:
            return self._as_variant_tensor()
        prefixes = [
            convert(each or "", dtypes.string) for each in (stats.prefix, stats.counter_prefix)
        ]
        told = self._like("SetStatsAggregatorDataset", stats.aggregator._resource, *prefixes)
        return told._as_variant_tensor()

    def make_one_shot_iterator(self) -> Any:
        """An iterator that begins by itself.  Raises ValueError: the dataset takes what a function cannot."""
        from headrace.library.data.one_shot import one_shot_iterator

        return one_shot_iterator(self)


def _attrs(structure: Any) -> dict[str, Any]:
    return {"output_types": flat_types(structure), "output_shapes": flat_shapes(structure)}


def _int64(value: Any, name: str) -> Tensor:
    return convert(value, dtypes.int64, name)


def _batch_dimension(size: Tensor, drop: Tensor) -> int | None:
    if not constant_value(drop):
        return None
    known = constant_value(size)
    return None if known is None else int(known)


def _slices(tensors: Any, is_files: bool) -> Dataset:
    element = normalized(tensors)
    whole = spec_of(element)
    structure = nest.map_structure(lambda leaf: leaf.unbatched(), whole)
    first = None
    for leaf in nest.flatten(whole):
        length = TensorShape(None) if leaf.shape.ndims is None else leaf.shape[:1]
        first = length if first is None else first.merge_with(length)
    flat = [
        leaf.rows(value)
        for leaf, value in zip(nest.flatten(whole), nest.flatten(element), strict=True)
    ]
    made = get("TensorSliceDataset")(flat, output_shapes=flat_shapes(structure), is_files=is_files)
    return Dataset(made, structure)


def replicated(numbers: Dataset) -> Dataset:
    """The same, with the node by which TensorFlow says that every part of a divided dataset needs all of it."""
    with name_scope("RewriteDataset") as scope:
        name = convert("replicate_on_split", name="rewrite_name")
    return numbers._like("RewriteDataset", name, name=scope)


def seed_tensors(seed: Any) -> tuple[Tensor, Tensor]:
    """The two seeds of a node, from the graph's and that of the call; zeros ask for seeds that nobody knows."""
    drawn = seed % (2**31 - 1) if isinstance(seed, Tensor) else None
    first, second = get_seed(seed if drawn is None else 0)
    made = _int64(0 if first is None else first, "seed")
    if second is None:
        return made, _int64(0, "seed2")
    with name_scope("seed2") as scope:
        other = _int64(second, "Const") if drawn is None else drawn
        both_zero = get("LogicalAnd")(
            get("Equal")(made, np.int64(0)), get("Equal")(other, np.int64(0))
        )
        instead = _int64(2**31 - 1, "Const")
        return made, get("SelectV2")(both_zero, instead, other, name=scope)


# -- functions of datasets and iterators ----------------------------------------------------------


def get_legacy_output_types(dataset_or_iterator: Any) -> Any:
    """The structure of an element, with a dtype for each leaf."""
    return dataset_or_iterator.output_types


def get_legacy_output_shapes(dataset_or_iterator: Any) -> Any:
    """The structure of an element, with a TensorShape for each leaf."""
    return dataset_or_iterator.output_shapes


def get_legacy_output_classes(dataset_or_iterator: Any) -> Any:
    """The structure of an element, with tf.Tensor or tf.SparseTensor for each leaf."""
    return dataset_or_iterator.output_classes


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Any:
    """An iterator over the dataset, whose `initializer` is to be run first."""
    return dataset.make_initializable_iterator(shared_name)


def make_one_shot_iterator(dataset: Dataset) -> Any:
    """An iterator over the dataset that begins by itself."""
    return dataset.make_one_shot_iterator()


def get_structure(dataset_or_iterator: Any) -> Any:
    """The structure of an element, with a specification for each leaf.  Raises TypeError."""
    try:
        return dataset_or_iterator.element_spec
    except AttributeError:
        raise TypeError(
            "`dataset_or_iterator` must be a `tf.data.Dataset` or tf.data.Iterator object, but got "
            f"{type(dataset_or_iterator)}."
        ) from None


def to_variant(dataset: Dataset) -> Tensor:
    """The dataset as a tensor, variant []."""
    return dataset._as_variant_tensor()


def from_variant(variant: Any, structure: Any) -> Dataset:
    """The dataset that a variant [] is.  structure: of its elements, with a specification for each leaf.

    Raises TypeError for what is no structure of specifications.
    """
    return Dataset(convert(variant, dtypes.variant), from_specs(structure))


def get_single_element(dataset: Dataset) -> Any:
    """The only element of the dataset; a step fails if there are none or more.  Raises TypeError."""
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"Invalid `dataset`. Expected a `tf.data.Dataset` object but got {type(dataset)}."
        )
    made = get("DatasetToSingleElement")(dataset._variant_tensor, **dataset._elements)
    return element_of(dataset._structure, made)


def cardinality(dataset: Dataset) -> Tensor:
    """How many elements the dataset has, INFINITE_CARDINALITY (-1) or UNKNOWN_CARDINALITY (-2); int64 []."""
    made: Tensor = get("DatasetCardinality")(dataset._variant_tensor)
    return made
