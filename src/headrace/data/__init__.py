"""`tf.data`: datasets, and iterators over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.base.missing import explaining as _explaining

if TYPE_CHECKING:
    from headrace.data import experimental
    from headrace.library.data.datasets import (
        Dataset,
        make_initializable_iterator,
        make_one_shot_iterator,
    )
    from headrace.library.data.datasets import (
        get_legacy_output_classes as get_output_classes,
    )
    from headrace.library.data.datasets import (
        get_legacy_output_shapes as get_output_shapes,
    )
    from headrace.library.data.datasets import (
        get_legacy_output_types as get_output_types,
    )
    from headrace.library.data.iterators import Iterator
    from headrace.library.data.options import Options
    from headrace.library.data.readers import (
        FixedLengthRecordDataset,
        TextLineDataset,
        TFRecordDataset,
    )
    from headrace.library.data.specs import DatasetSpec
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.data.datasets": (
                "Dataset get_output_classes=get_legacy_output_classes get_output_shapes=get_legacy_output_shapes "
                "get_output_types=get_legacy_output_types make_initializable_iterator make_one_shot_iterator"
            ),
            "headrace.library.data.iterators": "Iterator",
            "headrace.library.data.options": "Options",
            "headrace.library.data.specs": "DatasetSpec",
            "headrace.library.data.readers": "FixedLengthRecordDataset TextLineDataset TFRecordDataset",
        },
        _explaining(__name__),
    )

__all__ = [
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "experimental",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]
