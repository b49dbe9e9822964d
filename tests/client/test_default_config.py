"""tf.config and tf.debugging.set_log_device_placement: what sessions without a ConfigProto have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf
from headrace.client import default_config


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    default_config._chosen.clear()


def config_of_a_session() -> tf.ConfigProto | None:
    with tf.Graph().as_default(), tf.Session() as session:
        return session._config


def test_nothing_is_configured_until_something_is_set() -> None:
    assert config_of_a_session() is None
    assert not tf.config.get_soft_device_placement()
    assert not tf.debugging.get_log_device_placement()
    assert tf.config.optimizer.get_jit() == ""
    assert tf.config.threading.get_inter_op_parallelism_threads() == 0
    assert tf.config.threading.get_intra_op_parallelism_threads() == 0
    assert tf.config.optimizer.get_experimental_options() == {
        "disable_meta_optimizer": False,
        "disable_model_pruning": False,
    }


def test_what_is_set_is_what_later_sessions_have() -> None:
    tf.config.set_soft_device_placement(True)
    tf.debugging.set_log_device_placement(False)
    tf.config.threading.set_inter_op_parallelism_threads(3)
    tf.config.threading.set_intra_op_parallelism_threads(2)
    tf.config.optimizer.set_jit(True)
    tf.config.optimizer.set_experimental_options(
        {"constant_folding": False, "disable_meta_optimizer": True}
    )
    config = config_of_a_session()
    assert config is not None
    assert config.allow_soft_placement
    assert config.inter_op_parallelism_threads == 3
    assert config.intra_op_parallelism_threads == 2
    assert config.graph_options.optimizer_options.global_jit_level == tf.OptimizerOptions.ON_1
    rewrite = config.graph_options.rewrite_options
    assert rewrite.constant_folding == rewrite.OFF
    assert rewrite.disable_meta_optimizer
    assert tf.config.optimizer.get_jit() == "autoclustering"
    assert tf.config.optimizer.get_experimental_options() == {
        "constant_folding": False,
        "disable_meta_optimizer": True,
        "disable_model_pruning": False,
    }


def test_a_session_with_a_configuration_keeps_to_that() -> None:
    tf.config.threading.set_inter_op_parallelism_threads(3)
    with tf.Graph().as_default(), tf.Session(config=tf.ConfigProto()) as session:
        assert session._config == tf.ConfigProto()


def test_an_option_that_is_none_is_refused_before_any_is_set() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="no switch 'folding'"):
        tf.config.optimizer.set_experimental_options({"remapping": True, "folding": True})
    assert "remapping" not in tf.config.optimizer.get_experimental_options()
    with pytest.raises(ValueError, match="autoclustering"):
        tf.config.optimizer.set_jit("always")


@pytest.mark.parametrize("name", ["experimental_connect_to_cluster", "experimental_list_devices"])
def test_what_is_for_eager_programs_says_what_to_use(name: str) -> None:
    assert not hasattr(tf.config, name)
    with pytest.raises(tf.errors.UnimplementedError, match="session"):
        getattr(tf.config, name)
