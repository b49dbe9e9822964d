"""Documents as ids of their words: tf.contrib.learn.preprocessing.

Called by: programs.  Threads: as plain objects.
Source: behaviour of TF 1.15 (contrib/learn/python/learn/preprocessing/{text,categorical_vocabulary}.py)
"""

from __future__ import annotations

import pickle
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from headrace.base.arguments import check_hashable
from headrace.training.gfile import GFile

__all__ = ["ByteProcessor", "CategoricalVocabulary", "VocabularyProcessor", "tokenizer"]

TOKENIZER_RE = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|['\w\-]+", re.UNICODE)


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each document; capitals within one begin another."""
    for text in iterator:
        yield TOKENIZER_RE.findall(text)


class CategoricalVocabulary:
    """Ids of categories, in the order in which they came; 0 is what is not known."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        """support_reverse: keep the categories by id, too."""
        check_hashable("CategoricalVocabulary", "unknown_token", unknown_token)
        self._unknown_token = unknown_token
        self._mapping: dict[Any, int] = {unknown_token: 0}
        self._support_reverse = support_reverse
        if support_reverse:
            self._reverse_mapping: list[Any] = [unknown_token]
        self._freq: dict[Any, int] = defaultdict(int)
        self._freeze = False

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """From now on what is new is not known."""
        self._freeze = freeze

    def get(self, category: Any) -> int:
        """Its id; a new one unless the vocabulary is frozen."""
        if category not in self._mapping:
            if self._freeze:
                return 0
            self._mapping[category] = len(self._mapping)
            if self._support_reverse:
                self._reverse_mapping.append(category)
        return self._mapping[category]

    def add(self, category: Any, count: int = 1) -> None:
        """Count it."""
        if self.get(category) > 0:
            self._freq[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keep what was counted more often than min_frequency, and less than max_frequency if that is above 0.

        Ids are given anew, the most frequent first.
        """
        by_name = sorted(self._freq.items(), key=lambda each: (isinstance(each[0], str), each[0]))
        counted = sorted(by_name, key=lambda each: each[1], reverse=True)
        kept = [
            (category, count)
            for category, count in counted
            if count > min_frequency and not 0 < max_frequency <= count
        ]
        names = [self._unknown_token, *(category for category, _ in kept)]
        self._mapping = {category: at for at, category in enumerate(names)}
        if self._support_reverse:
            self._reverse_mapping = names
        self._freq = defaultdict(int, kept)

    def reverse(self, class_id: int) -> Any:
        """The category of an id.  Raises ValueError without support_reverse, IndexError."""
        if not self._support_reverse:
            raise ValueError(
                "This vocabulary wasn't initialized with support_reverse to support reverse() function."
            )
        return self._reverse_mapping[class_id]


class VocabularyProcessor:
    """Documents as ids of words, [max_document_length] each, cut off or filled up with 0."""

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterable[Iterable[Any]]] | None = None,
    ) -> None:
        """min_frequency: words that do not come more often are not known.  tokenizer_fn: `tokenizer` by default."""
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learn the words, and no others after that."""
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Iterable[str], unused_y: Any = None) -> Iterator[Any]:
        """`fit`, then `transform`; documents are gone through twice."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[Any]:
        """Ids of each document, [max_document_length] int64."""
        for tokens in self._tokenizer(raw_documents):
            ids = np.zeros(self.max_document_length, np.int64)
            for at, token in zip(range(self.max_document_length), tokens, strict=False):
                ids[at] = self.vocabulary_.get(token)
            yield ids

    def reverse(self, documents: Iterable[Any]) -> Iterator[str]:
        """Words of each document's ids, with spaces between them."""
        for ids in documents:
            yield " ".join(self.vocabulary_.reverse(each) for each in ids)

    def save(self, filename: str) -> None:
        """Pickle it into a file."""
        with GFile(filename, "wb") as file:
            file.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """What `save` wrote.  As any pickle, the file can run code: use your own files alone."""
        with GFile(filename, "rb") as file:
            found: VocabularyProcessor = pickle.loads(file.read())
            return found


class ByteProcessor:
    """Documents as their bytes, [max_document_length] each, cut off or filled up with 0."""

    def __init__(self, max_document_length: int) -> None:
        self.max_document_length = max_document_length

    def fit(self, x: Any) -> ByteProcessor:
        """Nothing is learned."""
        return self

    def fit_transform(self, x: Iterable[Any]) -> Iterator[Any]:
        """As `transform`."""
        return self.transform(x)

    def transform(self, x: Iterable[Any]) -> Iterator[Any]:
        """Bytes of each document in UTF-8, uint8."""
        for document in x:
            text = document.encode() if isinstance(document, str) else bytes(document)
            found = np.zeros(self.max_document_length, np.uint8)
            part = text[: self.max_document_length]
            found[: len(part)] = np.frombuffer(part, np.uint8)
            yield found

    def reverse(self, x: Iterable[Any]) -> Iterator[str]:
        """Text of each document's bytes; what is no UTF-8 is left out."""
        for data in x:
            yield bytes(int(each) for each in data if each).decode(errors="ignore")
