"""Estimators in one process: what they learn, where it stays, what they give and refuse."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.training.estimator.models import XS, E, estimator, line, receiver, rows


def values(found: Iterator[Any]) -> list[float]:
    """The predictions."""
    return [float(each["y"]) for each in found]


def test_a_line_is_learned_evaluated_and_predicted(tmp_path: Path) -> None:
    one = estimator(tmp_path)
    assert one.evaluate(rows(1))["global_step"] == 0
    assert one.train(rows(), steps=100) is one
    found = one.evaluate(rows(1))
    assert found["global_step"] == 100
    assert found["error"] < 0.05
    assert found["loss"] < 0.01
    assert values(one.predict(rows(1))) == pytest.approx([*(2 * XS)], abs=0.1)
    assert one.get_variable_names() == ["global_step", "slope"]
    assert one.get_variable_value("slope") == pytest.approx(2, abs=0.02)


def test_another_object_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    estimator(tmp_path).train(rows(), steps=3)
    estimator(tmp_path).train(rows(), steps=3)
    assert estimator(tmp_path).latest_checkpoint() == str(tmp_path / "model.ckpt-6")


def test_nothing_is_done_where_max_steps_is_reached(tmp_path: Path) -> None:
    one = estimator(tmp_path).train(rows(), max_steps=3)
    one.train(lambda: pytest.fail("the input is not asked for"), max_steps=3)
    assert one.train(rows(), max_steps=5).latest_checkpoint() == str(tmp_path / "model.ckpt-5")


def test_input_functions_give_datasets_pairs_or_features_alone(tmp_path: Path) -> None:
    given: list[Any] = []

    def input_fn(mode: str, params: Any, config: Any) -> Any:
        given.append((mode, params, config.model_dir, tf.constant(0).device))
        return {"x": tf.constant(XS)}, tf.constant(2 * XS)

    one = estimator(tmp_path)
    one.train(input_fn, steps=1)
    one.train(functools.partial(input_fn, params=3), steps=1)
    features = one.predict(lambda: {"x": tf.constant([1.0])})
    assert set(next(features)) == {"y"}
    features.close()
    assert [each[0] for each in given] == ["train", "train"]
    assert [each[1] for each in given] == [{"rate": 0.02}, 3]
    assert given[0][2:] == (str(tmp_path), "/device:CPU:0")


def test_model_functions_get_what_they_ask_for(tmp_path: Path) -> None:
    seen: list[Any] = []

    def model_fn(features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
        seen.append((mode, params, config.tf_random_seed, tf.get_default_graph().seed))
        params["rate"] = 0.0  # it is a copy
        return line(features, labels, mode, params)

    one = E.Estimator(model_fn, str(tmp_path), E.RunConfig(tf_random_seed=7), {"rate": 0.5})
    one.train(rows(), steps=1)
    one.evaluate(rows(1))
    list(one.predict(rows(1)))
    assert [each[0] for each in seen] == ["train", "eval", "infer"]
    assert all(each[1:] == ({"rate": 0.0}, 7, 7) for each in seen)
    assert one.params == {"rate": 0.5}
    graph_of_mine = tf.Graph()
    with graph_of_mine.as_default():
        spec = one.model_fn({"x": tf.constant(XS)}, tf.constant(XS), "eval", one.config)
    assert spec.loss.graph is graph_of_mine


def test_predictions_do_not_change_the_graph_of_who_asks(tmp_path: Path) -> None:
    one = estimator(tmp_path).train(rows(), steps=1)
    with tf.Graph().as_default() as mine:
        asked = one.predict(rows(1), yield_single_examples=False)
        first = next(asked)
        assert tf.get_default_graph() is mine
        assert tf.constant(1).graph is mine
        assert len(first["y"]) == 3
        assert [len(each["y"]) for each in asked] == [3]
    other = one.predict(rows())
    next(other)
    other.close()  # and with it the session


def test_an_error_of_a_step_ends_the_predictions(tmp_path: Path) -> None:
    def model_fn(features: Any) -> Any:
        y = tf.check_numerics(features["x"], "bad")
        return E.EstimatorSpec("infer", predictions={"y": y})

    one = E.Estimator(model_fn, str(tmp_path))
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
        list(one.predict(lambda: {"x": tf.constant([np.nan])}))


def test_a_loss_that_is_no_number_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(E.NanLossDuringTrainingError):
        estimator(tmp_path, {"rate": 1e30}).train(rows(), steps=20)


def test_an_input_without_rows_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    estimator(tmp_path).train(rows(0))
    assert "Training with estimator made no steps." in caplog.text


def test_metrics_of_several_numbers_and_summaries_are_events(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        spec = line(features, labels, mode)
        several = tf.metrics.mean_tensor(tf.constant([[1.0, 2.0], [3.0, 4.0]]))
        summary = tf.summary.merge([tf.summary.scalar("a", tf.constant(3.0))])
        more = {"several": several, "drawn": (summary, tf.no_op())}
        return spec._replace(eval_metric_ops=more)

    one = E.Estimator(model_fn, str(tmp_path))
    found = one.evaluate(rows(1), name="odd")
    assert found["several"].tolist() == [[1, 2], [3, 4]]
    tf.summary.FileWriterCache.clear()
    (events,) = (tmp_path / "eval_odd").iterdir()
    told = {
        value.tag: value
        for event in tf.train.summary_iterator(events)
        for value in event.summary.value
    }
    assert told["drawn/0"].simple_value == 3.0
    assert tf.make_ndarray(told["several"].tensor).tolist() == [[1, 2], [3, 4]]
    assert set(told) == {"loss", "several", "drawn/0"}


def test_a_local_init_op_of_the_model_runs_beside_that_of_the_metrics(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        own = tf.get_variable("own", [], trainable=False, initializer=tf.zeros_initializer())
        scaffold = tf.train.Scaffold(local_init_op=tf.assign(own, 5.0).op)
        spec = line(features, labels, mode)
        return spec._replace(scaffold=scaffold, eval_metric_ops={"own": tf.metrics.mean(own)})

    found = E.Estimator(model_fn, str(tmp_path)).evaluate(rows(1))
    assert found["own"] == 5.0


def test_a_model_begins_with_another_one_until_it_has_a_checkpoint(tmp_path: Path) -> None:
    first = estimator(tmp_path / "first").train(rows(), steps=50)
    exported = first.export_saved_model(str(tmp_path / "out"), receiver)
    for start in (
        str(tmp_path / "first"),
        first.latest_checkpoint(),
        exported,
        E.WarmStartSettings(str(tmp_path / "first")),
    ):
        one = E.Estimator(line, str(tmp_path / "second"), warm_start_from=start)
        assert values(one.predict(rows(1))) == pytest.approx(values(first.predict(rows(1))))
    one.train(rows(), steps=1)
    assert one.evaluate(rows(1))["global_step"] == 1
    assert one.get_variable_value("slope") == pytest.approx(2, abs=0.1)


REFUSED = [
    ({"model_fn": None}, ValueError, "model_fn must be provided to Estimator."),
    ({"model_fn": lambda x: x}, ValueError, "must include features argument"),
    ({"config": 3}, ValueError, "config must be an instance of `RunConfig`"),
    ({"warm_start_from": 3}, ValueError, "must be a string or a WarmStartSettings"),
]


@pytest.mark.parametrize(("arguments", "error", "phrase"), REFUSED)
def test_what_makes_no_estimator_is_refused(
    arguments: Any, error: type[Exception], phrase: str
) -> None:
    with pytest.raises(error, match=phrase):
        E.Estimator(**{"model_fn": line, **arguments})


def test_a_subclass_keeps_its_hands_off_the_members(tmp_path: Path) -> None:
    class Own(E.Estimator):  # type: ignore[misc, name-defined]
        def evaluate(self) -> None:
            """One too many."""

    with pytest.raises(ValueError, match=r"does override \['evaluate'\]"):
        Own(line, str(tmp_path))


def test_a_directory_may_be_a_path_or_be_found(tmp_path: Path) -> None:
    assert E.Estimator(line, tmp_path).model_dir == str(tmp_path)
    assert E.Estimator(line, config=E.RunConfig(str(tmp_path))).model_dir == str(tmp_path)
    with pytest.raises(ValueError, match="with different values"):
        E.Estimator(line, "/a", E.RunConfig("/b"))
    assert Path(E.Estimator(line).model_dir).is_dir()


STRATEGIES = ["train_distribute", "eval_distribute", "experimental_distribute"]


@pytest.mark.parametrize("argument", STRATEGIES)
def test_strategies_are_refused_with_what_takes_their_place(argument: str) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="train_and_evaluate"):
        E.RunConfig(**{argument: object()})
