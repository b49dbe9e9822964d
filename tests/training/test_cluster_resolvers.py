"""Cluster resolvers.  Their answers are compared with TensorFlow's in tests/oracle/test_cluster_resolvers.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

import headrace as tf
from headrace.distribute import cluster_resolver as resolvers

SPEC = tf.train.ClusterSpec({"ps": ["h:1"], "worker": ["h:2", "h:3"]})


def test_a_subclass_says_where_the_cluster_is() -> None:
    class Here(resolvers.ClusterResolver):
        def cluster_spec(self) -> tf.train.ClusterSpec:
            return SPEC

        def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
            return ""

    here = Here()
    assert (here.task_type, here.task_id, here.rpc_layer, here.environment) == (
        None,
        None,
        None,
        "",
    )
    here.task_type, here.task_id, here.rpc_layer = "worker", 1, "grpc"
    assert (here.task_type, here.task_id, here.rpc_layer) == ("worker", 1, "grpc")
    assert here.num_accelerators() == {"CPU": 1}
    assert here.num_accelerators()["GPU"] == 0
    with pytest.raises(TypeError, match="abstract"):
        resolvers.ClusterResolver()


def test_devices_are_counted_by_task() -> None:
    two = tf.ConfigProto(device_count={"CPU": 2})
    with tf.train.Server({"worker": ["127.0.0.1:0"]}, config=two) as server:
        cluster = tf.train.ClusterSpec({"worker": [server.target.removeprefix("grpc://")]})

        class There(resolvers.SimpleClusterResolver):
            num_accelerators = resolvers.ClusterResolver.num_accelerators

        there = There(cluster, master=server.target.removeprefix("grpc://"), rpc_layer="grpc")
        assert there.num_accelerators() == {"CPU": 2}
        assert there.num_accelerators("worker", 0) == {"CPU": 2}


def test_tf_config_is_read_each_time_that_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    resolver = resolvers.TFConfigClusterResolver()
    assert not resolver.cluster_spec()
    assert resolver.master() == ""
    config = {
        "cluster": SPEC.as_dict(),
        "task": {"type": "worker", "index": 1},
        "rpc_layer": "grpc",
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert resolver.cluster_spec() == SPEC
    assert resolver.master() == "grpc://h:3"
    assert resolver.master("ps", 0) == "grpc://h:1"
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(ValueError, match="TF_CONFIG is not JSON"):
        resolver.cluster_spec()


def test_the_only_task_needs_no_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session is a local one."""
    config = {"cluster": {"chief": ["h:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    resolver = resolvers.TFConfigClusterResolver()
    assert resolver.master() == ""
    assert (resolver.task_type, resolver.task_id) == ("chief", 0)
    assert resolver.num_accelerators() == {}  # of /job:chief, which is not served
    with tf.Session(resolver.master()) as session:
        assert session.run(tf.constant(1)) == 1


def test_a_union_keeps_an_index_of_zero_that_was_given() -> None:
    first = resolvers.SimpleClusterResolver(SPEC, task_type="worker", task_id=1)
    assert resolvers.UnionResolver(first, task_id=0).task_id == 0


def test_a_union_says_which_tasks_collide() -> None:
    one = resolvers.SimpleClusterResolver(tf.train.ClusterSpec({"ps": {1: "a:1"}}))
    other = resolvers.SimpleClusterResolver(tf.train.ClusterSpec({"ps": ["b:1", "b:2"]}))
    with pytest.raises(KeyError, match="task 1 of job 'ps': a:1 and b:2"):
        resolvers.UnionResolver(one, other).cluster_spec()


@pytest.mark.parametrize(
    ("make", "kind", "complaint"),
    [
        (lambda: resolvers.SimpleClusterResolver({"ps": ["h:1"]}), TypeError, "must be a tf.train.ClusterSpec"),
        (lambda: resolvers.SimpleClusterResolver(SPEC, master=3), TypeError, "'grpc://HOST:PORT', not 3"),
        (lambda: resolvers.UnionResolver(), ValueError, "at least one"),
        (lambda: resolvers.UnionResolver(SPEC), TypeError, "ClusterSpec.* is none"),
        (lambda: resolvers.UnionResolver(chief=1), ValueError, "not chief"),
    ],
)  # fmt: skip
def test_what_is_no_cluster_is_refused(make: Any, kind: type[Exception], complaint: str) -> None:
    with pytest.raises(kind, match=complaint):
        make()


MISSING = {
    "GCEClusterResolver": "TF_CONFIG",
    "TPUClusterResolver": "no TPUs",
}


@pytest.mark.parametrize("space", ["distribute", "contrib"])
@pytest.mark.parametrize("name", MISSING)
def test_a_resolver_that_is_not_there_says_what_to_use(space: str, name: str) -> None:
    namespace = getattr(tf, space).cluster_resolver
    assert not hasattr(namespace, name)
    assert getattr(namespace, name, None) is None
    assert name not in dir(namespace)
    with pytest.raises(tf.errors.UnimplementedError, match=MISSING[name]) as raised:
        getattr(namespace, name)
    assert isinstance(raised.value, AttributeError)
    assert f"tf.{space}.cluster_resolver.{name}" in str(raised.value)


def test_both_namespaces_have_the_same_classes() -> None:
    assert tf.contrib.cluster_resolver.UnionClusterResolver is resolvers.UnionResolver
    assert tf.contrib.cluster_resolver.TFConfigClusterResolver is resolvers.TFConfigClusterResolver
