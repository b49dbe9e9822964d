"""The two libraries: how each is imported, which Python has it, and how its server is started.

Used in the measuring processes and in the one that compares them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import Any

ORACLE_VARIABLE = "HEADRACE_ORACLE_PYTHON"
ESTIMATOR_ORACLE_VARIABLE = "HEADRACE_ESTIMATOR_ORACLE_PYTHON"


@dataclass(frozen=True)
class Library:
    """One column of the table."""

    name: str
    distributions: tuple[str, ...]  # names on PyPI; the first that is installed is the one
    module: str
    server: tuple[str, ...]  # arguments of its Python; then --cluster SPEC --job JOB --task N

    @property
    def statement(self) -> str:
        """How a program imports it."""
        return f"import {self.module} as tf"

    def load(self) -> Any:
        """The module `tf`: graphs, sessions and ref variables, as in TensorFlow 1."""
        if importlib.util.find_spec("tf_keras"):  # has the recurrent cells of TensorFlow 1
            os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
        tf = importlib.import_module(self.module)
        if self is TENSORFLOW:
            tf.disable_v2_behavior()
            tf.disable_resource_variables()
        return tf

    def distribution(self) -> str:
        """The one of its distributions that this Python has.  Raises PackageNotFoundError."""
        for name in self.distributions[:-1]:
            try:
                return importlib.metadata.distribution(name).name
            except importlib.metadata.PackageNotFoundError:
                continue
        return importlib.metadata.distribution(self.distributions[-1]).name

    def python(self, estimator: bool = False) -> str:
        """Path of the Python that has it; of the last that had tf.estimator, if that is wanted.

        Raises LookupError if nobody has said where TensorFlow is.
        """
        if self is not TENSORFLOW:
            return sys.executable
        variable = ESTIMATOR_ORACLE_VARIABLE if estimator else ORACLE_VARIABLE
        path = os.environ.get(variable)
        if not path:
            raise LookupError(
                f"{variable} names no Python with TensorFlow: say `make bench`, which installs one, "
                "or leave TensorFlow out with --only headrace"
            )
        return path


HEADRACE = Library(
    name="headrace",
    distributions=("headrace",),
    module="headrace",
    server=("-m", "headrace.tools.main", "serve", "--watch-fd", "0"),
)
TENSORFLOW = Library(
    name="TensorFlow",
    distributions=("tensorflow-cpu", "tensorflow"),
    module="tensorflow.compat.v1",
    server=("-m", "benchmarks.tensorflow_server"),
)
LIBRARIES = {library.name: library for library in (HEADRACE, TENSORFLOW)}
