"""A cluster resolver for Kubernetes: jobs made of pods that carry labels, asked of its API each time.

`kubernetes`, its client, is imported when a resolver is made.  Where pods have names, as `headrace k8s` gives them,
TF_CONFIG does without: names stay when pods come back elsewhere, and addresses do not.
Called by: programs.  Threads: any, as long as nobody sets a property meanwhile.
Source: TF 1.15 and 2.21 python/distribute/cluster_resolver/kubernetes_cluster_resolver.py, for behaviour; compared with
the oracle
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.serve.cluster import ClusterSpec
from headrace.training.cluster_resolvers import ClusterResolver

__all__ = ["KubernetesClusterResolver", "KubernetesExecutableLocation"]


class KubernetesExecutableLocation(enum.Enum):
    """Where the program runs, which says how it gets to Kubernetes' API."""

    WITHIN_CLUSTER = 0
    OFF_CLUSTER = 1


_WITHIN = KubernetesExecutableLocation.WITHIN_CLUSTER


class KubernetesClusterResolver(ClusterResolver):
    """Jobs made of the pods that label selectors find, each at the IP of its node, as TensorFlow's has it.

    So pods need hostPort or hostNetwork.  Of a job pods are in the order of their names.
    """

    def __init__(
        self,
        job_to_label_mapping: Mapping[str, Sequence[str]] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str | None = "grpc",
        override_client: Any = None,
        executable_location: KubernetesExecutableLocation = _WITHIN,
    ) -> None:
        """job_to_label_mapping: label selectors by job, by default those of one Job "tensorflow" for "worker".

        override_client: a client that is asked instead of one that is made here.
        executable_location: in a pod its service account is used, elsewhere the file of kubectl.
        Raises ImportError without the package kubernetes, ValueError for another location, TypeError for selectors that
        are no list, and what the client raises.
        """
        self._mapping = {"worker": ["job-name=tensorflow"]}
        if job_to_label_mapping:
            self._mapping = {job: list(found) for job, found in job_to_label_mapping.items()}
            for job, found in job_to_label_mapping.items():
                if isinstance(found, str):
                    raise TypeError(
                        f"job {job!r} has the label selector {found!r}, which must be a list of them: [{found!r}]"
                    )
        self._port = tf_server_port
        self._rpc_layer = rpc_layer
        self._client = override_client
        if override_client is None:
            config = _kubernetes("config")
            if executable_location is _WITHIN:
                config.load_incluster_config()
            elif executable_location is KubernetesExecutableLocation.OFF_CLUSTER:
                config.load_kube_config()
            else:
                raise ValueError(
                    "The executable location provided is invalid: it is a KubernetesExecutableLocation, not "
                    f"{executable_location!r:.80}"
                )
            self._client = _kubernetes("client").CoreV1Api()

    def cluster_spec(self) -> ClusterSpec:
        """The cluster as its pods are now.

        Raises RuntimeError for a pod that does not run, and what the client raises.
        """
        return ClusterSpec(
            {
                job: [address for selector in selectors for address in self._addresses(selector)]
                for job, selectors in self._mapping.items()
            }
        )

    def _addresses(self, selector: str) -> list[str]:
        found = self._client.list_pod_for_all_namespaces(label_selector=selector).items
        for pod in found:
            if pod.status.phase != "Running":
                raise RuntimeError(
                    f'Pod "{pod.metadata.name}" is not running; phase: "{pod.status.phase}": all pods with the label '
                    f"{selector} have to be, so wait for them (kubectl wait --for=condition=Ready), or ask again"
                )
        pods = sorted(found, key=lambda pod: str(pod.metadata.name))
        return [f"{pod.status.host_ip}:{self._port}" for pod in pods]

    def master(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> str:
        """The address of a task, by default the one that `task_type` and `task_id` were set to; '' without.

        Raises ValueError if there is no such task, and what `cluster_spec` does.
        """
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        if job is None or index is None:
            return ""
        address = self.cluster_spec().task_address(job, index)
        layer = rpc_layer or self._rpc_layer
        return f"{layer}://{address}" if layer else address


def _kubernetes(module: str) -> Any:
    try:
        return importlib.import_module(f"kubernetes.{module}")
    except ImportError as error:
        raise ImportError(
            "The Kubernetes Python client must be installed before using the Kubernetes Cluster Resolver: "
            "pip install 'headrace[kubernetes]', or kubernetes alone"
        ) from error
