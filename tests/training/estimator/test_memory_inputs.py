"""numpy_input_fn and pandas_input_fn: queues that are fed rows of this process."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

I = tf.estimator.inputs  # noqa: E741
X = {"b": np.arange(14, dtype=np.int32).reshape(7, 2), "a": np.arange(7.0)}
Y = np.arange(7) * 10


def batches(input_fn: Callable[[], Any], most: int = 100) -> list[Any]:
    """What it gives."""
    found: list[Any] = []
    with tf.Graph().as_default():
        given = input_fn()
        with tf.train.MonitoredSession() as session:
            while len(found) < most and not session.should_stop():
                found.append(session.run(given))
    return found


def labels(found: list[Any]) -> list[int]:
    return [int(label) for _, some in found for label in some]


def test_rows_come_in_order_and_the_last_batch_is_short() -> None:
    found = batches(I.numpy_input_fn(X, Y, batch_size=3, shuffle=False))
    assert [len(some) for _, some in found] == [3, 3, 1]
    assert labels(found) == [*Y]
    assert found[1][0]["a"].tolist() == [3, 4, 5]
    assert found[1][0]["b"].tolist() == [[6, 7], [8, 9], [10, 11]]


def test_epochs_follow_each_other_within_a_batch() -> None:
    found = batches(I.numpy_input_fn(X["a"], Y, batch_size=4, num_epochs=2, shuffle=False))
    assert found[1][0].tolist() == [4, 5, 6, 0]
    assert labels(found) == [*Y, *Y]


def test_without_epochs_there_is_no_end() -> None:
    found = batches(I.numpy_input_fn(X, {"y": Y}, 5, None, False, queue_capacity=6), 20)
    assert [some["y"].tolist() for _, some in found[6:8]] == [
        [20, 30, 40, 50, 60],
        [0, 10, 20, 30, 40],
    ]


def test_shuffled_rows_all_come_once_an_epoch() -> None:
    found = labels(batches(I.numpy_input_fn(X, Y, 2, 4, shuffle=True)))
    assert Counter(found) == dict.fromkeys(Y.tolist(), 4)
    assert found != [*Y] * 4


def test_each_of_several_threads_hands_out_all_rows(caplog: pytest.LogCaptureFixture) -> None:
    found = labels(batches(I.numpy_input_fn(X, Y, 4, 2, True, num_threads=3)))
    assert Counter(found) == dict.fromkeys(Y.tolist(), 6)
    assert "each of the 3 threads hands out all rows 2 times" in caplog.text


def test_it_may_be_called_again() -> None:
    input_fn = I.numpy_input_fn(X, Y, batch_size=3, shuffle=False)
    assert labels(batches(input_fn)) == labels(batches(input_fn)) == [*Y]


def test_strings_and_no_rows_are_rows_too() -> None:
    words = np.array(["a", "b", "c"])
    found = batches(I.numpy_input_fn({"w": words}, batch_size=2, shuffle=False))
    assert [each["w"].tolist() for each in found] == [[b"a", b"b"], [b"c"]]
    for epochs in (1, None):
        none = I.numpy_input_fn({"a": np.zeros([0, 2])}, num_epochs=epochs, shuffle=False)
        assert batches(none) == []


REFUSED = [
    ({"x": X}, ValueError, "shuffle must be provided and explicitly set as boolean"),
    ({"x": [1], "shuffle": False}, TypeError, "x must be a dict or array; got list"),
    ({"x": {}, "shuffle": False}, ValueError, "x cannot be an empty dict"),
    ({"x": X, "y": {}, "shuffle": False}, ValueError, "y cannot be empty dict, use None instead"),
    ({"x": X, "y": {"a": Y}, "shuffle": False}, ValueError, "duplicate keys are found in both"),
    (
        {"x": X, "y": Y[:3], "shuffle": False},
        ValueError,
        "Length of tensors in x and y is mismatched",
    ),
]


@pytest.mark.parametrize(("arguments", "error", "phrase"), REFUSED)
def test_what_makes_no_batches_is_refused(
    arguments: Any, error: type[Exception], phrase: str
) -> None:
    with tf.Graph().as_default(), pytest.raises(error, match=phrase):
        I.numpy_input_fn(**arguments)()


@pytest.mark.skipif(importlib.util.find_spec("pandas") is not None, reason="pandas is installed")
def test_tables_need_pandas() -> None:
    with pytest.raises(TypeError, match="without pandas installed: `pip install pandas`"):
        I.pandas_input_fn(X, shuffle=False)


class Table(dict[str, np.ndarray[Any, Any]]):
    """What is used of a DataFrame, or, with `value`, of a Series."""

    def __init__(self, columns: Any, index: Any, value: Any = None) -> None:
        super().__init__(columns)
        self.index = np.asarray(index)
        self._value = value
        if value is None:
            self.columns = list(columns)

    def copy(self) -> Table:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._value, dtype)


def test_columns_of_a_table_are_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    table = Table({"b": np.arange(3), "a": np.array(["x", "y", "z"], object)}, [7, 8, 9])
    series, both = Table({}, [7, 8, 9], [1, 2, 3]), Table({"a": np.arange(3)}, [7, 8, 9])
    (found,) = batches(I.pandas_input_fn(table, series, shuffle=False))
    assert found[0]["a"].tolist() == [b"x", b"y", b"z"]
    assert found[1].tolist() == [1, 2, 3]
    (found,) = batches(I.pandas_input_fn(table, both, shuffle=False))
    assert found[1]["a"].tolist() == [0, 1, 2]
    (found,) = batches(I.pandas_input_fn(table, None, shuffle=False))
    assert sorted(found) == ["a", "b"]
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match="Index for x and y are mismatched"),
    ):
        I.pandas_input_fn(table, Table({}, [7, 8], [1, 2]), shuffle=False)()
    with pytest.raises(ValueError, match="Cannot use name a for target column"):
        I.pandas_input_fn(table, series, shuffle=False, target_column="a")
