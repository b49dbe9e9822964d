"""Ctrl-C at any line of a change: it completes or never began, and KeyboardInterrupt comes all the same."""

from __future__ import annotations

import _thread
import asyncio
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace import ops, run
from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.run import interrupts, long_waits
from headrace.run.exec import dataflow, parked, polling, program, waiting, worker_pool
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.spec import QueueSpec
from headrace.run.readers.reader import Reader
from headrace.run.readers.record_yielder import RecordYielder
from headrace.run.scope import Scope
from headrace.run.state.resources import Resource
from headrace.run.uninterrupted import CHANGING, TAKING, changes, takes
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.grpc.grpcio import grpc
from headrace.serve.rpc.methods import GET_STATUS

WITHIN_S = 60.0
MOST_LINES = 2000


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a program that has no handler of its own."""
    monkeypatch.setattr(signal, "default_int_handler", interrupts.PYTHONS_OWN)
    before = signal.signal(signal.SIGINT, interrupts.PYTHONS_OWN)
    interrupts.install()
    yield
    signal.signal(signal.SIGINT, before)


Where = Callable[[FrameType], bool]


def of(*modules: ModuleType) -> Where:
    """Their lines."""
    files = {module.__file__ for module in modules}
    return lambda frame: frame.f_code.co_filename in files


def finalizes(frame: FrameType) -> bool:
    """Whether what is raised there is ignored by Python: in a __del__, or called by a finalizer."""
    caller = frame.f_back
    by_finalizer = caller is not None and caller.f_code.co_filename == weakref.__file__
    return frame.f_code.co_name == "__del__" or by_finalizer


def assert_left_as_it_was() -> None:
    """Nothing of a step that was interrupted is this thread's any more."""
    assert worker_pool.size() == 1
    assert polling.current() is None
    assert np.geterr()["over"] == "warn"
    assert np.geterr()["over"] == "warn"


class AtLine:
    """Ctrl-C when so many lines of those meant have begun.  `came`: whether there were as many."""

    def __init__(self, line: int, where: Where = interrupts.is_changing) -> None:
        self._left = line
        self._where = where
        self.came, self.where = False, ""

    @takes  # what is put off and comes at once is not to land in that frame, by way of this
    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not self._where(frame) or finalizes(frame):
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                self.came, self.where = True, f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                handle = signal.getsignal(signal.SIGINT)
                assert callable(handle)
                handle(signal.SIGINT, frame)  # as the system does, but with this function's caller
                sys.settrace(
                    None
                )  # what is put off comes to where this would run, else: also to where none is heard
                return None
        return self


def interrupted(
    call: Callable[[], object], line: int, where: Where = interrupts.is_changing
) -> bool:
    """Call it with a Ctrl-C at that line; False if it has fewer.  It is heard.

    The collector is off: what Python raises in its callbacks (hypothesis has one) is told to nobody.
    """
    at = AtLine(line, where)
    before = sys.gettrace()
    gc.disable()
    try:
        sys.settrace(at)
        try:
            call()
        finally:
            sys.settrace(before)
        if at.came:
            assert not threading.Event().wait(WITHIN_S)
            pytest.fail("nobody was interrupted")
    except KeyboardInterrupt:
        assert at.came
    finally:
        gc.enable()
    return at.came


def everywhere(
    call: Callable[[], object], check: Callable[[], object], where: Where = interrupts.is_changing
) -> None:
    """Interrupt `call` at each of its lines in turn; check() must hold after each."""
    for line in range(1, MOST_LINES):
        came = interrupted(call, line, where)
        check()
        if not came:
            assert line > 1
            return
    pytest.fail("it does not end")


@pytest.fixture
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_enqueue_and_dequeue(session: tf.Session) -> None:
    queue = tf.FIFOQueue(10_000, [tf.int32, tf.float64], [[], [2]])
    number = tf.placeholder(tf.int32, [])
    put = queue.enqueue([number, tf.cast(tf.stack([number, -number]), tf.float64)])
    size, take = queue.size(), queue.dequeue()
    counted, put_so_far, taken = [0], [0], [0]

    def put_one() -> None:
        session.run(put, {number: put_so_far[0]})

    def check_put() -> None:
        now = session.run(size)
        assert now in (counted[0], counted[0] + 1)
        counted[0], put_so_far[0] = now, now

    def check_taken() -> None:
        left = session.run(size)
        assert left in (counted[0], counted[0] - 1)
        counted[0] = left
        if left:
            one, pair = session.run(take)
            assert one == put_so_far[0] - left
            assert pair.tolist() == [one, -one]
            counted[0] -= 1
            taken[0] += 1

    everywhere(put_one, check_put)
    for _ in range(
        200
    ):  # more than an interrupt at each line of `take`, and the look after it, can take out
        put_one()
        check_put()
    everywhere(lambda: session.run(take), check_taken)
    assert taken[0]


def test_who_waits_for_what_an_interrupted_enqueue_brings_is_told() -> None:
    queue = FIFOQueue("q", QueueSpec.make([dtypes.int64], [()]))
    told: list[int] = []

    def wait() -> Pending[Any]:
        pending = queue.dequeue()
        pending.on_done(lambda done: told.append(int(done.result()[0])))
        return pending

    waiting = [wait()]

    def check() -> None:
        if not waiting[0].done:  # the enqueue never began
            queue.enqueue((np.int64(7),))
        assert told == [7]
        assert queue.size() == 0
        told.clear()
        waiting[0] = wait()

    everywhere(lambda: queue.enqueue((np.int64(7),)), check)


@pytest.mark.parametrize("resource", [False, True])
def test_updates_of_variables(session: tf.Session, resource: bool) -> None:
    variable = tf.Variable(np.zeros(3), use_resource=resource, name="v")
    add = variable.assign_add([1.0, 1.0, 1.0])
    session.run(variable.initializer)
    last = [0.0]

    def check() -> None:
        now = session.run(variable)
        assert now[0] in (last[0], last[0] + 1.0)
        assert (now == now[0]).all()
        last[0] = now[0]

    everywhere(lambda: session.run(add), check)
    assert last[0]


def test_the_slots_of_an_optimizer_change_with_the_variable(session: tf.Session) -> None:
    variable = tf.Variable(1.0)
    optimizer = tf.train.AdagradOptimizer(1.0, initial_accumulator_value=1.0)
    train = optimizer.minimize(2.0 * variable)
    slot = optimizer.get_slot(variable, "accumulator")
    session.run(tf.global_variables_initializer())
    expected = [(1.0, 1.0)]

    def check() -> None:
        value, accumulated = map(float, session.run([variable, slot]))
        before, was = expected[-1]
        if accumulated == was:
            assert value == before
        else:
            assert accumulated == was + 4.0
            assert value == pytest.approx(before - 2.0 / accumulated**0.5, rel=1e-6)
        expected.append((value, accumulated))

    everywhere(lambda: session.run(train), check)
    assert expected[-1][1] > 1.0


def test_what_was_put_off_is_heard_although_the_thread_was_about_to_wait(
    session: tf.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python does not wake a thread for a signal that came right before it began to wait."""
    variable = tf.Variable(0.0)
    session.run(variable.initializer)
    add = variable.assign_add(1.0)
    sent: list[int] = []

    def send(
        thread: int, number: int, kill: Callable[[int, int], None] = signal.pthread_kill
    ) -> None:
        sent.append(number)
        if len(sent) > 2:
            kill(thread, number)

    monkeypatch.setattr(signal, "pthread_kill", send)
    assert interrupted(lambda: session.run(add), 1)
    assert sent[:3] == [signal.SIGINT] * 3  # or more, if this thread was slow to hear


def in_a_callback_of_the_collector(press: Callable[[], object]) -> None:
    this = threading.current_thread()

    def collects(phase: str, info: dict[str, int]) -> None:
        if threading.current_thread() is this:
            gc.callbacks.remove(collects)
            press()

    gc.callbacks.append(collects)
    while collects in gc.callbacks:
        gc.collect()  # which does nothing while another thread collects


def in_a_finalizer(press: Callable[[], object]) -> None:
    class Ends:
        def __del__(self) -> None:
            press()

    Ends()


def in_the_callback_of_a_weak_reference(press: Callable[[], object]) -> None:
    class Ends:
        pass

    ends = Ends()
    seen = weakref.ref(ends, lambda _: press())
    del ends
    assert seen() is None


def in_a_finalizer_that_swallows_all(press: Callable[[], object]) -> None:
    class Ends:
        def __del__(self) -> None:
            with suppress(BaseException):  # as the __del__ of a gRPC channel does
                press()

    Ends()


UNHEARD = [in_a_callback_of_the_collector, in_a_finalizer, in_the_callback_of_a_weak_reference]
"""Where Python tells nobody but `sys.unraisablehook` of what is raised."""


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the program's own hook is told."""
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: told.append(args.exc_type))
    interrupts.install()
    return told


@pytest.mark.parametrize("somewhere", [*UNHEARD, in_a_finalizer_that_swallows_all])
def test_what_lands_where_python_tells_nobody_is_heard_by_the_step_that_waits(
    session: tf.Session, unraisable: list[Any], somewhere: Callable[[Callable[[], object]], None]
) -> None:
    take = tf.FIFOQueue(1, [tf.int32], [[]]).dequeue()
    limited = tf.RunOptions(timeout_in_ms=int(WITHIN_S * 1000))

    def wait() -> None:
        somewhere(lambda: signal.raise_signal(signal.SIGINT))
        session.run(take, options=limited)

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            wait()
    assert not unraisable


@pytest.mark.parametrize("somewhere", UNHEARD)
def test_what_a_program_raises_there_goes_where_it_went(
    unraisable: list[Any], somewhere: Callable[[Callable[[], object]], None]
) -> None:
    def raises(error: BaseException) -> Callable[[], object]:
        def raise_it() -> object:
            raise error

        return raise_it

    somewhere(raises(ValueError()))
    somewhere(raises(KeyboardInterrupt()))
    interrupts.install()  # as the next session does
    somewhere(raises(SystemExit()))
    assert unraisable == [ValueError, KeyboardInterrupt, SystemExit]


def test_a_finalizer_that_hangs_is_interrupted_and_so_is_the_program(
    session: tf.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "_FINALIZER_S", 0.05)
    ended: list[bool] = []

    class Hangs:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)
            try:
                ended.append(threading.Event().wait(WITHIN_S))
            except KeyboardInterrupt:
                ended.append(True)

    def end() -> None:
        Hangs()
        threading.Event().wait(WITHIN_S)

    with pytest.raises(KeyboardInterrupt):
        end()
    assert ended == [True]


def test_what_comes_while_another_is_being_put_off_is_put_off_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, noted = _thread.start_new_thread, []

    def at_once(function: Callable[..., object], args: tuple[Any, ...]) -> int:
        signal.raise_signal(signal.SIGINT)
        return start(function, args)

    @takes
    def take_note() -> None:
        signal.raise_signal(signal.SIGINT)
        noted.append(True)

    def use() -> None:
        take_note()
        threading.Event().wait(WITHIN_S)

    monkeypatch.setattr(_thread, "start_new_thread", at_once)
    with pytest.raises(KeyboardInterrupt):
        use()
    assert noted


def test_a_handler_of_the_programs_own_stays() -> None:
    heard = threading.Event()
    signal.signal(signal.SIGINT, lambda number, frame: heard.set())
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.constant(1))
    signal.raise_signal(signal.SIGINT)
    assert heard.wait(WITHIN_S)


def test_other_threads_install_nothing() -> None:
    signal.signal(signal.SIGINT, interrupts.PYTHONS_OWN)
    thread = threading.Thread(target=interrupts.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is interrupts.PYTHONS_OWN


def test_asyncio_hears_of_ctrl_c_as_ever_and_leaves_it_as_it_was() -> None:
    """It takes Ctrl-C upon itself only where nobody else has."""
    ours = signal.getsignal(signal.SIGINT)
    assert ours is not interrupts.PYTHONS_OWN
    cancelled = False

    async def interrupt() -> None:
        nonlocal cancelled
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), WITHIN_S)
        except asyncio.CancelledError:
            cancelled = True
            raise

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupt())
    assert cancelled
    assert signal.getsignal(signal.SIGINT) is ours


def alone(queue: Any) -> Any:
    return queue.dequeue()


def in_a_branch(queue: Any) -> Any:
    return tf.cond(tf.placeholder_with_default(True, []), queue.dequeue, lambda: 0)


def in_a_loop(queue: Any) -> Any:
    def take(i: Any) -> Any:
        with tf.control_dependencies([i]):
            return i + queue.dequeue()

    return tf.while_loop(lambda i: i < 1, take, [0])


def in_iterations_side_by_side(queue: Any) -> Any:
    def take(i: Any, total: Any) -> Any:
        return i + 1, total + queue.dequeue()

    return tf.while_loop(lambda i, _: i < 1, take, [0, 0])[1]


@pytest.mark.parametrize(
    ("executors", "taking"),
    [
        ([program], alone),
        ([program, parked], in_a_branch),
        ([program, parked], in_a_loop),
        ([dataflow], in_iterations_side_by_side),
    ],
    ids=["flat", "branch", "loop", "dataflow"],
)
def test_a_step_that_is_interrupted_as_it_begins_to_wait_takes_nothing(
    executors: list[ModuleType], taking: Callable[[Any], Any]
) -> None:
    """At any line of the executor, whose notes say what waits."""
    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(1, [tf.int32], [[]])
        take, put, size = taking(queue), queue.enqueue(7), queue.size()
        limited = tf.RunOptions(timeout_in_ms=20)  # a line of those after the wait costs as much
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(
                take, options=limited
            )  # what that needs is imported, which Ctrl-C would cut off
        heard = 0
        for line in range(1, MOST_LINES):
            at = AtLine(line, of(*executors, waiting, worker_pool, polling))
            before = sys.gettrace()
            try:
                sys.settrace(at)
                try:
                    session.run(take, options=limited)
                except tf.errors.DeadlineExceededError:
                    pass
                finally:
                    sys.settrace(before)
                if at.came:  # and was put off, or had nothing left to land in
                    threading.Event().wait(WITHIN_S)
                    pytest.fail(f"nobody was interrupted at line {line}: {at.where}")
            except KeyboardInterrupt:
                heard += 1
            assert_left_as_it_was()
            session.run(put)
            assert not long_waits.waiting
            assert session.run(size) == 1, f"interrupted at line {line}: {at.where}"
            assert session.run(take) == 7
            if not at.came:
                break
        assert heard > 10


def test_a_call_over_grpc_that_begins() -> None:
    """grpcio holds locks then that it would never release."""
    with (
        tf.train.Server.create_local_server() as server,
        closing(GrpcPeer(server.target.removeprefix("grpc://"))) as peer,
    ):

        def ask() -> None:
            peer.call_now(GET_STATUS, pb.GetStatusRequest(), Scope(WITHIN_S))

        ask()
        everywhere(ask, ask, of(grpc._channel))


# -- who says so --------------------------------------------------------------------------------------


def test_a_class_says_so_for_all_that_it_defines() -> None:
    @changes
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def later(self) -> Callable[[], CodeType]:
            def frame_in_it() -> CodeType:
                return sys._getframe().f_code

            return frame_in_it

        @property
        def value(self) -> CodeType:
            return sys._getframe().f_code

        @classmethod
        def make(cls) -> CodeType:
            return sys._getframe().f_code

        @contextmanager
        def block(self) -> Iterator[CodeType]:
            yield sys._getframe().f_code

    counter = Counter()
    with counter.block() as code:
        assert code in CHANGING
    for code in (counter.later()(), counter.value, Counter.make(), Counter.__init__.__code__):
        assert code in CHANGING


def kinds_of(base: type) -> Iterator[type]:
    """Its subclasses, at any depth."""
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_of(kind)


READ_FILES = (Reader, RecordYielder)  # which may take long
KINDS = [kind for kind in dict.fromkeys(kinds_of(Resource)) if not issubclass(kind, READ_FILES)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_resource_says_so(kind: type) -> None:
    """Not only its base class: what it adds changes something, too."""
    own = [value.__code__ for value in vars(kind).values() if isinstance(value, FunctionType)]
    assert all(code in CHANGING for code in own)


def test_what_takes_note_of_waits_says_so() -> None:
    assert program.Execution.run.__code__ in TAKING
    assert dataflow.Execution._started.__code__ in TAKING


UPDATES: dict[str, Callable[[tf.Variable], Any]] = {
    "assign": lambda v: v.assign(v + 1.0),
    "assign_add": lambda v: v.assign_add(tf.ones([2, 3])),
    "scatter_add": lambda v: tf.scatter_add(v, [0, 1], tf.ones([2, 3])),
    "scatter_update": lambda v: tf.scatter_update(v, [0, 1], v + 1.0),
    "scatter_nd_add": lambda v: tf.scatter_nd_add(v, [[0], [1]], tf.ones([2, 3])),
    "a part": lambda v: v[:, :].assign(v + 1.0),
}


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("update", UPDATES)
def test_no_update_of_a_variable_is_left_half_made(
    session: tf.Session, update: str, resource: bool
) -> None:
    """At any line of any op or of variables, whoever says what."""
    variable = tf.get_variable(
        "v", [2, 3], initializer=tf.zeros_initializer(), use_resource=resource
    )
    changed = UPDATES[update](variable)
    session.run(variable.initializer)
    session.run(changed)
    last = [1.0]
    folders = tuple(os.path.dirname(module.__file__ or "") for module in (ops, run))

    def check() -> None:
        assert_left_as_it_was()
        now = session.run(variable)
        assert (now == now[0, 0]).all()
        assert now[0, 0] in (last[0], last[0] + 1.0)
        last[0] = now[0, 0]

    everywhere(
        lambda: session.run(changed), check,
        lambda frame: frame.f_code.co_filename.startswith(folders),
    )  # fmt: skip
    assert last[0] > 1.0
