"""`tf.test`: tests of programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from unittest import mock

    from headrace.training.testing.benchmark import Benchmark, main
    from headrace.training.testing.clusters import create_local_cluster
    from headrace.training.testing.environment import (
        StubOutForTesting,
        benchmark_config,
        get_temp_dir,
        gpu_device_name,
        is_built_with_cuda,
        is_built_with_gpu_support,
        is_built_with_rocm,
        is_gpu_available,
        test_src_dir_path,
    )
    from headrace.training.testing.gradient_checks import compute_gradient, compute_gradient_error
    from headrace.training.testing.graph_defs import assert_equal_graph_def
    from headrace.training.testing.test_case import TestCase
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "unittest": "mock",
            "headrace.training.testing.benchmark": "Benchmark main",
            "headrace.training.testing.clusters": "create_local_cluster",
            "headrace.training.testing.environment": (
                "StubOutForTesting benchmark_config get_temp_dir gpu_device_name "
                "is_built_with_cuda is_built_with_gpu_support is_built_with_rocm is_gpu_available test_src_dir_path"
            ),
            "headrace.training.testing.gradient_checks": "compute_gradient compute_gradient_error",
            "headrace.training.testing.graph_defs": "assert_equal_graph_def",
            "headrace.training.testing.test_case": "TestCase",
        },
    )

__all__ = [
    "Benchmark",
    "StubOutForTesting",
    "TestCase",
    "assert_equal_graph_def",
    "benchmark_config",
    "compute_gradient",
    "compute_gradient_error",
    "create_local_cluster",
    "get_temp_dir",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_gpu_available",
    "main",
    "mock",
    "test_src_dir_path",
]
