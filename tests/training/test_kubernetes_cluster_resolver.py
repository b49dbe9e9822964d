"""The resolver for Kubernetes, with a client that stands for its API; tests/oracle compares it with TensorFlow's."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import headrace as tf

PODS = {
    "app=x": [("b", "10.0.0.2", "Running"), ("a", "10.0.0.1", "Running")],
    "app=y": [("c", "10.0.0.3", "Running"), ("d", "10.0.0.4", "Pending")],
}


class Client:
    """What the resolver uses of CoreV1Api."""

    def list_pod_for_all_namespaces(self, label_selector: str) -> SimpleNamespace:
        pods = [
            SimpleNamespace(
                metadata=SimpleNamespace(name=name), status=SimpleNamespace(phase=phase, host_ip=ip)
            )
            for name, ip, phase in PODS.get(label_selector, [])
        ]
        return SimpleNamespace(items=pods)


def resolver(**jobs: list[str]) -> tf.distribute.cluster_resolver.KubernetesClusterResolver:
    return tf.distribute.cluster_resolver.KubernetesClusterResolver(jobs, override_client=Client())


def test_pods_with_a_label_are_a_job() -> None:
    found = resolver(worker=["app=x"])
    assert found.cluster_spec().as_dict() == {"worker": ["10.0.0.1:8470", "10.0.0.2:8470"]}
    assert found.master() == ""
    assert found.master("worker", 1) == "grpc://10.0.0.2:8470"
    found.task_type, found.task_id = "worker", 0
    assert found.master() == "grpc://10.0.0.1:8470"


def test_a_pod_that_does_not_run_is_said() -> None:
    with pytest.raises(RuntimeError, match='Pod "d" is not running; phase: "Pending"'):
        resolver(ps=["app=x"], worker=["app=y"]).cluster_spec()


def test_selectors_that_are_no_list_are_refused() -> None:
    with pytest.raises(TypeError, match="must be a list"):
        resolver(worker="app=x")  # type: ignore[arg-type]


def test_without_its_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(ImportError, match=r"pip install 'headrace\[kubernetes\]'"):
        tf.distribute.cluster_resolver.KubernetesClusterResolver()


def test_how_the_api_is_found_depends_on_where_the_program_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    config = SimpleNamespace(
        load_incluster_config=lambda: asked.append("pod"),
        load_kube_config=lambda: asked.append("file"),
    )
    monkeypatch.setitem(sys.modules, "kubernetes", SimpleNamespace(__path__=[]))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "kubernetes.config", config)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "kubernetes.client", SimpleNamespace(CoreV1Api=Client))  # type: ignore[arg-type]
    names = tf.distribute.cluster_resolver
    for where in names.KubernetesExecutableLocation:
        names.KubernetesClusterResolver(executable_location=where)
    assert asked == ["pod", "file"]
    with pytest.raises(ValueError, match="The executable location provided is invalid"):
        names.KubernetesClusterResolver(executable_location="moon")  # type: ignore[arg-type]
