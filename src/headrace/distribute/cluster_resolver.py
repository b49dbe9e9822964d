"""`tf.distribute.cluster_resolver`: where a program learns its cluster from, and which task of it it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.cluster_resolvers import (
        ClusterResolver,
        SimpleClusterResolver,
        TFConfigClusterResolver,
    )
    from headrace.training.cluster_resolvers import UnionClusterResolver as UnionResolver
    from headrace.training.kubernetes_cluster_resolver import (
        KubernetesClusterResolver,
        KubernetesExecutableLocation,
    )
    from headrace.training.slurm_cluster_resolver import SlurmClusterResolver
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.cluster_resolvers": (
                "ClusterResolver SimpleClusterResolver TFConfigClusterResolver "
                "UnionResolver=UnionClusterResolver"
            ),
            "headrace.training.kubernetes_cluster_resolver": (
                "KubernetesClusterResolver KubernetesExecutableLocation"
            ),
            "headrace.training.slurm_cluster_resolver": "SlurmClusterResolver",
        },
    )

__all__ = [
    "ClusterResolver",
    "KubernetesClusterResolver",
    "KubernetesExecutableLocation",
    "SimpleClusterResolver",
    "SlurmClusterResolver",
    "TFConfigClusterResolver",
    "UnionResolver",
]
