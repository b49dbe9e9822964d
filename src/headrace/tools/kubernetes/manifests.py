"""What Kubernetes is told: a StatefulSet of parameter servers, an indexed Job of the others, or a JobSet of both.

Every pod runs `headrace launch --cluster … --jobs … --index N`, which is one task: it makes TF_CONFIG and passes
SIGTERM on.  Addresses are names of a headless service, which stay when a pod comes back elsewhere.
Called by: command.  Pure.
Source: Kubernetes' documentation of these kinds; successPolicy and the label pod-index are there since 1.31 and 1.28
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.tools.launch.roles import Counts
from headrace.tools.serve import format_cluster

Manifest = dict[str, Any]

MAIN = ("chief", "worker", "evaluator")
"""The jobs whose tasks are in one Job of Kubernetes, in the order of their indices."""

_PS, _MAIN = "ps", "main"
_SECRET_KEY = "secret"
_VOLUME = "checkpoints"
_JOB_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_SET_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"


@dataclass(frozen=True)
class Cluster:
    """What is asked for.

    claim: of a volume that is there; "": one is made, of that size and class.  secret_name: of a Secret that is there;
    "": one is made, with `secret`.  restarts: of each pod.  grace_s: between SIGTERM and SIGKILL.
    """

    name: str
    image: str
    program: Sequence[str]
    counts: Counts
    namespace: str = ""
    serve_ps: bool = False
    port: int = 2222
    resources: dict[str, str] = field(default_factory=dict)
    gpus: int = 0
    folder: str = "/checkpoints"
    claim: str = ""
    storage: str = "10Gi"
    storage_class: str = ""
    secret_name: str = ""
    secret: str = field(default="", repr=False)
    restarts: int = 3
    grace_s: int = 30
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def main(self) -> list[tuple[str, int]]:
        """The tasks that are no parameter servers, by index."""
        return [each for each in self.counts.tasks() if each[0] != _PS]

    def addresses(self, jobset: bool) -> dict[str, list[str]]:
        """HOST:PORT of all tasks but evaluators, by job."""
        ps = f"{self.name}-ps-0" if jobset else f"{self.name}-ps"
        main = f"{self.name}-main-0" if jobset else self.name
        hosts = {
            _PS: [f"{ps}-{index}" for index in range(self.counts.ps)],
            "chief": [],
            "worker": [],
        }
        for at, (job, _) in enumerate(self.main):
            if job in hosts:
                hosts[job].append(f"{main}-{at}")
        return {
            job: [f"{host}.{self.name}:{self.port}" for host in names]
            for job, names in hosts.items()
            if names
        }


def core(cluster: Cluster) -> list[Manifest]:
    """Of the kinds that every Kubernetes has."""
    found = _shared(cluster)
    found.append(
        _object(
            cluster,
            "v1",
            "Service",
            cluster.name,
            spec={
                "clusterIP": "None",
                "publishNotReadyAddresses": True,  # tasks look for each other before they serve
                "selector": _labels(cluster),
                "ports": [{"name": "grpc", "port": cluster.port}],
            },
        )
    )
    if cluster.counts.ps:
        name = f"{cluster.name}-ps"
        spec = {
            "serviceName": cluster.name,
            "replicas": cluster.counts.ps,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": _labels(cluster, _PS)},
            "template": _template(cluster, _PS, _SET_INDEX, "Always", jobset=False),
        }
        found.append(_object(cluster, "apps/v1", "StatefulSet", name, spec=spec))
    if cluster.main:
        spec = _job(cluster, _MAIN, len(cluster.main), jobset=False)
        found.append(_object(cluster, "batch/v1", "Job", cluster.name, spec=spec))
    return found


def jobset(cluster: Cluster) -> list[Manifest]:
    """A JobSet, which ends the parameter servers with the others."""
    groups = ((_PS, cluster.counts.ps), (_MAIN, len(cluster.main)))
    jobs = [
        {"name": group, "template": {"spec": _job(cluster, group, count, jobset=True)}}
        for group, count in groups
        if count
    ]
    spec: Manifest = {
        "network": {"enableDNSHostnames": True, "subdomain": cluster.name},
        "failurePolicy": {"maxRestarts": cluster.restarts},
        "replicatedJobs": jobs,
    }
    if cluster.main:
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": [_MAIN]}
    made = _object(cluster, "jobset.x-k8s.io/v1alpha2", "JobSet", cluster.name, spec=spec)
    return [*_shared(cluster), made]


def _shared(cluster: Cluster) -> list[Manifest]:
    """The secret and the volume, unless they are there."""
    found = []
    if not cluster.secret_name:
        secret = _object(cluster, "v1", "Secret", _secret_name(cluster))
        # Pods that are there know the old one: another one is refused.
        found.append({**secret, "immutable": True, "stringData": {_SECRET_KEY: cluster.secret}})
    if not cluster.claim:
        spec: Manifest = {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": cluster.storage}},
        }
        if cluster.storage_class:
            spec["storageClassName"] = cluster.storage_class
        found.append(_object(cluster, "v1", "PersistentVolumeClaim", _claim(cluster), spec=spec))
    return found


def _secret_name(cluster: Cluster) -> str:
    return cluster.secret_name or f"{cluster.name}-secret"


def _claim(cluster: Cluster) -> str:
    return cluster.claim or f"{cluster.name}-{_VOLUME}"


def _labels(cluster: Cluster, group: str = "") -> dict[str, str]:
    labels = {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/instance": cluster.name}
    return labels | ({"app.kubernetes.io/component": group} if group else {})


def _object(cluster: Cluster, version: str, kind: str, name: str, **more: Any) -> Manifest:
    metadata: Manifest = {"name": name, "labels": _labels(cluster)}
    if cluster.namespace:
        metadata["namespace"] = cluster.namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _job(cluster: Cluster, group: str, count: int, jobset: bool) -> Manifest:
    """The spec of an indexed Job.  A pod that fails is replaced by a new one of its index."""
    spec: Manifest = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimitPerIndex": cluster.restarts,
        "maxFailedIndexes": 0,
        "podFailurePolicy": {  # who is evicted has not failed
            "rules": [
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }
            ]
        },
        "template": _template(cluster, group, _JOB_INDEX, "Never", jobset),
    }
    if group == _MAIN and (cluster.counts.chief or cluster.counts.evaluator):
        last = 0 if cluster.counts.chief else cluster.counts.worker - 1
        deciding = f"0-{last}" if last > 0 else "0"
        spec["successPolicy"] = {"rules": [{"succeededIndexes": deciding}]}
    return spec


def _template(cluster: Cluster, group: str, index_at: str, restart: str, jobset: bool) -> Manifest:
    return {
        "metadata": {"labels": _labels(cluster, group)},
        "spec": {
            "subdomain": cluster.name,
            "enableServiceLinks": False,  # no variables HEADRACE_… of services that are named so
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": cluster.grace_s + 5,
            "containers": [_container(cluster, group, index_at, jobset)],
            "volumes": [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": _claim(cluster)}}],
        },
    }


def _container(cluster: Cluster, group: str, index_at: str, jobset: bool) -> Manifest:
    made: Manifest = {
        "name": "headrace",
        "image": cluster.image,
        "command": _command(cluster, group, jobset),
        "env": _environment(cluster, index_at),
        "ports": [{"name": "grpc", "containerPort": cluster.port}],
        "volumeMounts": [{"name": _VOLUME, "mountPath": cluster.folder}],
        "readinessProbe": _probe(cluster, periodSeconds=10, failureThreshold=3),
    }
    if group == _PS:
        made["startupProbe"] = _probe(cluster, "--live", periodSeconds=5, failureThreshold=60)
        # A ps has what was learnt since the last checkpoint: it is not restarted for being slow, nor while it drains.
        made["livenessProbe"] = _probe(cluster, "--live", periodSeconds=30, failureThreshold=4)
    resources: Manifest = {}
    if cluster.resources:
        resources["requests"] = dict(cluster.resources)
    if cluster.gpus and group == _MAIN:
        resources["limits"] = {"nvidia.com/gpu": str(cluster.gpus)}
    if resources:
        made["resources"] = resources
    return made


def _command(cluster: Cluster, group: str, jobset: bool) -> list[str]:
    jobs = _PS if group == _PS else ",".join(MAIN)
    options = [f"--cluster={format_cluster(cluster.addresses(jobset))}", f"--jobs={jobs}"]
    options += ["--index=$(POD_INDEX)", f"--grace={cluster.grace_s}"]
    if cluster.counts.evaluator:
        options.append("--evaluator")
    if cluster.serve_ps:
        options.append("--serve-ps")
    program = [word.replace("$", "$$") for word in cluster.program]  # which Kubernetes makes "$"
    return ["headrace", "launch", *options, "--", *program]


def _environment(cluster: Cluster, index_at: str) -> list[Manifest]:
    secret = {"name": _secret_name(cluster), "key": _SECRET_KEY}
    found: list[Manifest] = [
        {"name": "POD_INDEX", "valueFrom": {"fieldRef": {"fieldPath": index_at}}},
        {"name": "HEADRACE_BIND", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "HEADRACE_LANE_PORT", "value": str(cluster.port + 1)},
        {"name": "HEADRACE_FILE_ROOTS", "value": cluster.folder},
        {"name": "HEADRACE_SECRET", "valueFrom": {"secretKeyRef": secret}},
    ]
    return found + [{"name": name, "value": text} for name, text in cluster.variables.items()]


def _probe(cluster: Cluster, *options: str, **times: int) -> Manifest:
    """By `headrace health`, which takes a moment to begin and gives the server 5 s.

    After SIGTERM a server is not ready any more, and lives.
    """
    words = ["exec headrace health", f'"grpc://$HEADRACE_BIND:{cluster.port}"', *options]
    asked = " ".join(words)
    return {"exec": {"command": ["sh", "-c", asked]}, "timeoutSeconds": 10, **times}
