"""The resolver for Kubernetes against TensorFlow's, with one client: the same answers, the same classes of errors."""

from __future__ import annotations

from typing import Any

import pytest

CLIENT = """
from types import SimpleNamespace as S
PODS = {"app=x": [("b", "10.0.0.2", "Running"), ("a", "10.0.0.1", "Running")], "app=y": [("d", "10.0.0.4", "Pending")]}
class Client:
    def list_pod_for_all_namespaces(self, label_selector):
        return S(items=[
            S(metadata=S(name=n), status=S(phase=p, host_ip=ip)) for n, ip, p in PODS.get(label_selector, [])
        ])
def said(function):
    try:
        return repr(function())
    except Exception as error:
        return type(error).__name__
R = tf.distribute.cluster_resolver.KubernetesClusterResolver
def told(r):
    found = [said(lambda: r.cluster_spec().as_dict()), said(r.master), said(lambda: r.master("worker", 1)),
             said(lambda: r.master("worker", 0, "x")), said(lambda: r.master("worker", 9)),
             said(lambda: (r.task_type, r.task_id, r.rpc_layer, r.environment))]
    r.task_type, r.task_id = "worker", 0
    return found + [said(r.master), said(lambda: (r.task_type, r.task_id))]
"""
MADE = [
    'R({"worker": ["app=x"]}, override_client=Client())',
    'R({"ps": ["app=x"], "worker": ["app=x", "app=x"]}, 1, None, Client())',
    'R({"worker": ["app=y"]}, override_client=Client())',
    'R({"worker": ["nobody"]}, override_client=Client())',
    "R(override_client=Client())",
]


@pytest.mark.parametrize("made", MADE)
def test_it_answers_as_tensorflow_does(oracle: Any, made: str) -> None:
    import headrace as tf

    source = f"{CLIENT}\nresult = told({made})"
    names: dict[str, Any] = {"tf": tf}
    exec(source, names)
    assert names["result"] == oracle.run(source)
