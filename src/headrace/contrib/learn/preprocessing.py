"""`tf.contrib.learn.preprocessing`: documents as ids of their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.documents import (
        ByteProcessor,
        CategoricalVocabulary,
        VocabularyProcessor,
        tokenizer,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.documents": (
                "ByteProcessor CategoricalVocabulary VocabularyProcessor tokenizer"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = ["ByteProcessor", "CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]
