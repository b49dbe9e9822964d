"""Cluster resolvers that TensorFlow has and headrace does not, and what to use.

Called by: the namespaces that TensorFlow has them in.
"""

from __future__ import annotations

_WITH_TF_CONFIG = (
    "put the addresses into TF_CONFIG for every task and use TFConfigClusterResolver, or into a tf.train.ClusterSpec "
    "and use SimpleClusterResolver"
)
UNSUPPORTED = {
    **dict.fromkeys(
        ("GCEClusterResolver", "GceClusterResolver"),
        f"it asks Google Compute Engine for an instance group; {_WITH_TF_CONFIG}",
    ),
    "KubernetesClusterResolver": f"it asks Kubernetes for pods; {_WITH_TF_CONFIG}",
    "SlurmClusterResolver": f"it reads SLURM_* of a job step; {_WITH_TF_CONFIG}",
    "TPUClusterResolver": (
        "there are no TPUs here; tf.train.ClusterSpec and SimpleClusterResolver describe a cluster of CPUs"
    ),
}
"""Resolvers of TensorFlow's that are not here, and what to use."""
