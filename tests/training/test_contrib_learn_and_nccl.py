"""tf.contrib.learn's documents and tf.contrib.nccl's sums."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf

preprocessing = tf.contrib.learn.preprocessing
nccl = tf.contrib.nccl
TEXTS = ["Hello WORLDIs hello it's 2 well-known", "hello there", ""]


def test_documents_become_ids_of_their_words(tmp_path: Path) -> None:
    assert next(preprocessing.tokenizer(TEXTS)) == [
        "Hello", "WORLD", "Is", "hello", "it's", "2", "well-known",
    ]  # fmt: skip
    words = preprocessing.VocabularyProcessor(4)
    found = np.array(list(words.fit_transform(TEXTS)))
    assert found.tolist() == [[1, 2, 3, 4], [4, 8, 0, 0], [0, 0, 0, 0]]
    assert found.dtype == np.int64
    assert next(words.transform(["there nobody"])).tolist() == [8, 0, 0, 0]
    assert list(words.reverse(found[1:2])) == ["hello there <UNK> <UNK>"]
    assert len(words.vocabulary_) == 9
    path = str(tmp_path / "words")
    words.save(path)
    again = preprocessing.VocabularyProcessor.restore(path)
    assert next(again.transform(TEXTS)).tolist() == [1, 2, 3, 4]
    assert again.max_document_length == 4


def test_rare_words_are_left_out_and_the_most_frequent_come_first() -> None:
    words = preprocessing.VocabularyProcessor(3, min_frequency=1)
    words.fit(["b a a c b a", "d"])
    assert next(words.transform(["a b d"])).tolist() == [1, 2, 0]
    counted = preprocessing.CategoricalVocabulary(support_reverse=False)
    for word in "aabbbc":
        counted.add(word)
    counted.trim(0, 3)
    assert [counted.get(word) for word in "abc"] == [1, 3, 2]
    with pytest.raises(ValueError, match="support_reverse"):
        counted.reverse(1)
    own = preprocessing.VocabularyProcessor(
        2,
        vocabulary=preprocessing.CategoricalVocabulary("?"),
        tokenizer_fn=lambda all_: (list(x) for x in all_),
    )
    assert [each.tolist() for each in own.fit_transform(["xyz", "zz"])] == [[1, 2], [3, 3]]
    assert pickle.loads(pickle.dumps(counted)).get("a") == 1


def test_documents_become_bytes() -> None:
    data = preprocessing.ByteProcessor(4)
    found = list(data.fit_transform(["é", "abcdef"]))
    assert [each.tolist() for each in found] == [[0xC3, 0xA9, 0, 0], [97, 98, 99, 100]]
    assert list(data.reverse(found)) == ["é", "abcd"]


@pytest.mark.parametrize(
    ("name", "wanted"), [("all_sum", 9), ("all_prod", 24), ("all_min", 2), ("all_max", 4)]
)
def test_a_reduction_is_on_the_device_of_each(name: str, wanted: int) -> None:
    with tf.Graph().as_default():
        given: list[Any] = []
        for at, value in enumerate((2.0, 3.0, 4.0)):
            with tf.device(f"/cpu:{at}"):
                given.append(tf.constant([value]))
        found = getattr(nccl, name)(given)
        assert [each.device for each in found] == [f"/device:CPU:{at}" for at in range(3)]
        slopes = tf.gradients(found, given)
        config = tf.ConfigProto(device_count={"CPU": 3})
        with tf.Session(config=config) as session:
            values = session.run(found)
            assert [value.tolist() for value in values] == [[wanted]] * 3
            if name == "all_sum":
                assert [slope.tolist() for slope in session.run(slopes)] == [[3.0]] * 3
                assert session.run(nccl.reduce_sum(given)).tolist() == [9]
                assert session.run(nccl.broadcast(given[0])).tolist() == [2]
        with pytest.raises(ValueError, match=">0 tensors"):
            getattr(nccl, name)([])
        with pytest.raises(ValueError, match="one dtype"):
            getattr(nccl, name)([1, 2.0])
