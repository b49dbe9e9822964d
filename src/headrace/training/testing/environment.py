"""What tests ask of where they run: temporary files, devices, attributes to put back.

Called by: training.testing.test_case, programs.  Threads: any.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.devices import table

__all__ = [
    "StubOutForTesting",
    "benchmark_config",
    "get_temp_dir",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_gpu_available",
    "test_src_dir_path",
]


@cache
def get_temp_dir() -> str:
    """A directory of this process, which is removed when it ends; its name begins with $TEST_TMPDIR, if that is set."""
    found = tempfile.mkdtemp(prefix=os.environ.get("TEST_TMPDIR") or None)
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    return found


def test_src_dir_path(relative_path: str) -> str:
    """Where Bazel, which says so in $TEST_SRCDIR, has a file of TensorFlow's sources.

    Raises NotFoundError: not run by Bazel.
    """
    root = os.environ.get("TEST_SRCDIR")
    if root is None:
        raise errors.NotFoundError(
            None,
            None,
            f"there is no directory of test sources for {relative_path!r}: Bazel names one in $TEST_SRCDIR; without it "
            "use a path relative to __file__",
        )
    return os.path.join(root, "org_tensorflow/tensorflow", relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None
) -> bool:
    """Whether there is a GPU to compute on.  cuda_only, min_cuda_compute_capability: whatever there is will do."""
    return bool(gpu_device_name())


def gpu_device_name() -> str:
    """The name of the first GPU, "" without one."""
    found = table.names("", {})
    return next((name for name in found if "GPU" in name), "")


def is_built_with_cuda() -> bool:
    """Whether there is code for CUDA: no."""
    return False


def is_built_with_rocm() -> bool:
    """Whether there is code for ROCm: no."""
    return False


def is_built_with_gpu_support() -> bool:
    """Whether there is code for GPUs: no."""
    return False


def benchmark_config() -> pb.ConfigProto:
    """A configuration of sessions whose steps do all that a graph says."""
    config = pb.ConfigProto()
    config.graph_options.rewrite_options.dependency_optimization = pb.RewriterConfig.OFF
    return config


class StubOutForTesting:
    """Attributes that are something else while a test runs; also as a context, which puts them back."""

    def __init__(self) -> None:
        self._set: list[tuple[Any, str, Any]] = []
        self._smart: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, *exc: object) -> None:
        self.CleanUp()

    def CleanUp(self) -> None:
        """Put everything back."""
        self.SmartUnsetAll()
        self.UnsetAll()

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:
        """Set an attribute.  Raises AttributeError (there is none of this name)."""
        old = getattr(parent, child_name)
        kept = parent.__dict__.get(child_name) if isinstance(parent, type) else None
        self._set.append(
            (parent, child_name, kept if isinstance(kept, (staticmethod, classmethod)) else old)
        )
        setattr(parent, child_name, new_child)

    def UnsetAll(self) -> None:
        """Put back what `Set` set."""
        while self._set:
            setattr(*self._set.pop())

    def SmartSet(self, obj: Any, attr_name: str, new_attr: Any) -> None:
        """Set an attribute where it is defined: of a class, in the class that has it.  Raises AttributeError."""
        places = [obj, *obj.__mro__[1:]] if isinstance(obj, type) else [obj]
        for place in places:
            if attr_name in getattr(place, "__dict__", {}):
                self._smart.append((place, attr_name, place.__dict__[attr_name]))
                setattr(place, attr_name, new_attr)
                return
        self._smart.append((obj, attr_name, getattr(obj, attr_name)))
        setattr(obj, attr_name, new_attr)

    def SmartUnsetAll(self) -> None:
        """Put back what `SmartSet` set."""
        while self._smart:
            setattr(*self._smart.pop())
