"""`tf.contrib.cluster_resolver`: the resolvers under the names that they had before 1.14."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.cluster_resolvers import (
        ClusterResolver,
        SimpleClusterResolver,
        TFConfigClusterResolver,
        UnionClusterResolver,
    )
    from headrace.training.kubernetes_cluster_resolver import KubernetesClusterResolver
    from headrace.training.slurm_cluster_resolver import SlurmClusterResolver
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.cluster_resolvers": (
                "ClusterResolver SimpleClusterResolver TFConfigClusterResolver UnionClusterResolver"
            ),
            "headrace.training.kubernetes_cluster_resolver": "KubernetesClusterResolver",
            "headrace.training.slurm_cluster_resolver": "SlurmClusterResolver",
        },
    )

__all__ = [
    "ClusterResolver",
    "KubernetesClusterResolver",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "UnionClusterResolver",
]
