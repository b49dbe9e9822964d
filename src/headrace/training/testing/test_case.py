"""`tf.test.TestCase`: absl's, with sessions, graphs and arrays.

A test starts with an empty default graph and the same seeds.  Arguments of assertions may be tensors, which are
evaluated in the test's session.
Called by: programs.  Threads: a test is run by one; `checkedThread` has its own.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from absl.testing import absltest

from headrace.base import errors
from headrace.base.device_spec import DeviceSpec
from headrace.client.session import Session
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.graph import Graph
from headrace.graph.ragged import Ragged, RaggedTensorValue
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.training.testing.array_assertions import ArrayAssertions
from headrace.training.testing.environment import get_temp_dir, gpu_device_name
from headrace.training.testing.proto_assertions import ProtoAssertions

__all__ = ["CheckedThread", "TestCase"]

SEED = 87654321


class CheckedThread:
    """A thread whose exception fails the test: `start`, then `join`, which the test has to call."""

    def __init__(
        self,
        testcase: TestCase,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._testcase = testcase
        self._call = partial(target, *(args or ()), **(kwargs or {}))
        self._thread = threading.Thread(target=self._run, name="checked thread", daemon=True)
        self._exception: BaseException | None = None
        self._is_joined = False

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self._exception = error

    def start(self) -> None:
        """Start it; the test fails if it is not joined."""
        self._thread.start()

    def join(self) -> None:
        """Wait for its end.  Raises the test's failure, with what was raised there."""
        self._is_joined = True
        self._thread.join()
        if self._exception is not None:
            raise self._testcase.failureException(
                f"Error in checkedThread: {self._exception}"
            ) from self._exception

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Raises the test's failure if it runs still, or nobody joined it."""
        if self._is_joined:
            return
        if self.is_alive():
            raise self._testcase.failureException("A checkedThread was not joined, and still runs")
        raise self._testcase.failureException("A checkedThread was not joined")


class CapturedWrites:
    """What was written to a stream; also when it is not captured any more."""

    def __init__(self, path: str) -> None:
        self._path = path

    def contents(self) -> str:
        """All of it so far."""
        with open(self._path, encoding="utf-8") as file:
            return file.read()


class TestCase(ArrayAssertions, ProtoAssertions, absltest.TestCase):
    """A test with sessions.  See the module."""

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._threads: list[CheckedThread] = []
        self._tempdir: str | None = None
        self._cached: Session | None = None
        self._cached_for: tuple[Any, ...] = ()

    def setUp(self) -> None:
        """An empty default graph, and seeds."""
        super().setUp()
        self._close_cached_session()
        random.seed(SEED)
        np.random.seed(SEED)
        scopes.leave_all()  # what a test before did not leave
        scopes.reset_default_graph()
        scopes.get_default_graph().seed = SEED
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")

    def tearDown(self) -> None:
        """Close the session; threads must have been joined."""
        for thread in self._threads:
            thread.check_termination()
        self._close_cached_session()
        super().tearDown()

    # -- sessions ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def session(
        self,
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """A new session, which is the default one inside, and closed after it.

        use_gpu: False pins what is built inside to the CPU.  force_gpu: to the GPU; the test is skipped without one.
        """
        device = self._device(use_gpu, force_gpu)
        with (
            Session(graph=graph, config=_with_soft_placement(config)) as session,
            _pinned(session, device),
        ):
            yield session

    @contextlib.contextmanager
    def cached_session(
        self,
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """The test's session, which is the default one inside, and stays open until the test ends.

        Raises ValueError: it was made for another graph, config or choice of GPUs.
        """
        given = (graph, config, force_gpu)
        if self._cached is not None and any(
            a is not b and a != b for a, b in zip(given, self._cached_for, strict=True)
        ):
            raise ValueError(
                "the session of this test was made with another graph, config or force_gpu; `self.session()` makes a "
                "new one"
            )
        device = self._device(use_gpu, force_gpu)
        with self._in_cached_session(given) as session, _pinned(session, device):
            yield session

    @contextlib.contextmanager
    def test_session(
        self,
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        use_gpu: bool = True,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """Deprecated: `session` if a graph is given, the test's own session if none is."""
        if graph is not None:
            with self.session(graph, config, use_gpu, force_gpu) as session:
                yield session
        else:
            device = self._device(use_gpu, force_gpu)
            given = (graph, config, force_gpu)
            with self._in_cached_session(given) as session, _pinned(session, device):
                yield session

    def evaluate(self, tensors: Any) -> Any:
        """What the default session, or the test's own, computes."""
        session = scopes.get_default_session()
        if session is not None:
            return session.run(tensors)
        with self._in_cached_session((None, None, False)) as session:
            return session.run(tensors)

    @contextlib.contextmanager
    def _in_cached_session(self, given: tuple[Any, ...]) -> Iterator[Session]:
        if self._cached is None:
            self._cached = Session(graph=given[0], config=_with_soft_placement(given[1]))
            self._cached_for = given
        session = self._cached
        with session.graph.as_default(), session.as_default():
            yield session

    def _close_cached_session(self) -> None:
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    def _device(self, use_gpu: bool, force_gpu: bool) -> str | None:
        """What nodes are pinned to, None for nothing."""
        if force_gpu:
            found = gpu_device_name()
            if not found:
                self.skipTest("force_gpu: there are no GPUs to compute on")
            return found
        return None if use_gpu else "/device:CPU:0"

    # -- threads, files, streams ------------------------------------------------------------------

    def checkedThread(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> CheckedThread:
        """A thread that has to be started and joined, and whose exception fails the test."""
        thread = CheckedThread(self, target, args, kwargs)
        self._threads.append(thread)
        return thread

    def get_temp_dir(self) -> str:
        """A directory of this test, which is removed after it."""
        if self._tempdir is None:
            self._tempdir = tempfile.mkdtemp(dir=get_temp_dir())
            self.addCleanup(shutil.rmtree, self._tempdir, ignore_errors=True)
        return self._tempdir

    @contextlib.contextmanager
    def captureWritesToStream(self, stream: Any) -> Iterator[CapturedWrites]:
        """What is written to a stream that has a file descriptor, also by code that is not Python."""
        number = stream.fileno()
        stream.flush()
        kept = os.dup(number)
        file, path = tempfile.mkstemp(dir=self.get_temp_dir())
        os.dup2(file, number)
        os.close(file)
        try:
            yield CapturedWrites(path)
        finally:
            stream.flush()
            os.dup2(kept, number)
            os.close(kept)

    # -- errors, devices --------------------------------------------------------------------------

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(  # type: ignore[override]  # absl's needs a `with` too
        self, exception_type: Any, expected_err_re_or_predicate: Any
    ) -> Iterator[None]:
        """An exception of this type is raised, whose text the pattern is found in, or the function is true of.

        Fails for another exception as well.
        """
        if callable(expected_err_re_or_predicate):
            fits = expected_err_re_or_predicate
        else:

            def fits(error: BaseException) -> bool:
                return re.search(expected_err_re_or_predicate, _text(error)) is not None

        try:
            yield
        except Exception as error:
            if not isinstance(error, exception_type):
                raise self.failureException(
                    f"Exception of type {type(error)}: {error}: is no {exception_type}"
                ) from error
            if not fits(error):
                raise self.failureException(
                    f"Exception of type {type(error)}: {error}: does not fit {expected_err_re_or_predicate!r}"
                ) from error
        else:
            self.fail(f"{getattr(exception_type, '__name__', exception_type)} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """A `tf.errors.OpError` is raised; see `assertRaisesWithPredicateMatch`."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(
        self, exception_type: Any = errors.InvalidArgumentError
    ) -> Any:
        """An exception of this type is raised, which says that shapes do not fit together."""
        return self.assertRaisesWithPredicateMatch(
            exception_type,
            "Incompatible shapes|Dimensions must be equal|required broadcastable shapes",
        )

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Two names of devices mean the same one."""
        first, second = (_canonical(each) for each in (device1, device2))
        self.assertEqual(first, second, f"Devices {first} and {second} are not equal. {msg or ''}")

    # -- what the assertions about arrays ask for -------------------------------------------------

    def _value(self, given: Any) -> Any:
        """What a tensor, a variable, or a structure of them is in the test's session; else what is given."""
        if isinstance(given, (Tensor, SparseTensor)) or hasattr(given, "read_value"):
            return self.evaluate(given)
        if isinstance(given, Ragged) and not isinstance(given, RaggedTensorValue):
            return self.evaluate(given)
        if isinstance(given, Mapping):
            return {key: self._value(value) for key, value in given.items()}
        if isinstance(given, (list, tuple)) and not isinstance(given, SparseTensorValue):
            values = [self._value(value) for value in given]
            return type(given)(*values) if hasattr(given, "_fields") else type(given)(values)
        return given


def _older_names() -> None:
    """Names of assertions that the Pythons of TensorFlow 1.x had, and Python has not any more."""
    for old, name in (
        ("assert_", "assertTrue"),
        ("assertAlmostEquals", "assertAlmostEqual"),
        ("assertEquals", "assertEqual"),
        ("assertItemsEqual", "assertCountEqual"),
        ("assertNotAlmostEquals", "assertNotAlmostEqual"),
        ("assertNotEquals", "assertNotEqual"),
        ("assertNotRegexpMatches", "assertNotRegex"),
        ("assertRaisesRegexp", "assertRaisesRegex"),
        ("assertRegexpMatches", "assertRegex"),
    ):
        setattr(TestCase, old, getattr(TestCase, name))


_older_names()
TestCase.__test__ = False  # type: ignore[attr-defined]  # pytest: classes that programs derive from it are


@contextlib.contextmanager
def _pinned(session: Session, device: str | None) -> Iterator[None]:
    """Inside, what is built in the session's graph is pinned to the device."""
    if device is None:
        yield
    else:
        with session.graph.device(device):
            yield


def _with_soft_placement(config: pb.ConfigProto | None) -> pb.ConfigProto:
    """A copy that lets operations which want a GPU run here."""
    found = pb.ConfigProto()
    if config is not None:
        found.CopyFrom(config)
    found.allow_soft_placement = True
    return found


def _text(error: BaseException) -> str:
    """What is said, and the names of the operations that it happened in."""
    if not isinstance(error, errors.OpError):
        return str(error)
    names: list[str] = []
    node: Any = error.op
    while node is not None:
        names.append(f"\nCaused by: {node.name}")
        node = getattr(node, "_original_op", None)
    return error.message + "".join(names)


def _canonical(device: Any) -> str:
    if device is None or device == "":
        return ""
    text = device.to_string() if hasattr(device, "to_string") else str(device)
    return str(DeviceSpec.from_string(text).to_string())
