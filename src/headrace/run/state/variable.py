"""Variables: one mutable array, kept in a container, shared by everyone who names it.

Two kinds, as in TensorFlow.  A step passes a `Variable` itself along reference edges and takes `array` when a plain
consumer runs; what leaves the step or the device is a `snapshot`, made under the lock that updates hold, so that it is
never torn, or a `Lease`: the array itself, which no update touches until the lease is released.  A `ResourceVariable`
travels as a handle, and what is read of it is a value: later updates do not change it.  Large values are lent, not
copied.  As long as anyone still reads what was lent, the next update works on a copy; a training step has dropped
its weights by then, and updates them in place.

Every update asks for `writable()`: it is the array itself, or, if that is leased or lent, a copy that is the variable's
array from then on.  One that changes every element needs no such copy (`rewrite`).  What is leased for other processes
of this host again and again moves into a shared buffer (`run.state.shared_buffers`), where they use it without a copy;
as long as they do, it counts as leased.

Called by: ops (state kernels), run's executor (dereferencing, fetches, sends); the transports release leases.
Threads: any; `lock` is held for the time of one update or one copy.  Releasing takes no lock.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.run.devices.device import HOST, Device
from headrace.run.pending import Pending, WaitInfo, announce_all
from headrace.run.state.aligned import aligned, aligned_copy
from headrace.run.state.resources import Resource
from headrace.run.state.shared_buffers import BufferPool, SharedBuffer
from headrace.run.state.unread import Unread
from headrace.run.uninterrupted import changes

Array = np.ndarray[Any, Any]

_COPIED = 1024  # elements; what is smaller is copied sooner than lent
NUMBERS = frozenset("fiubc")  # kinds of dtypes whose scalars are values, not views
PYTHON_NUMBERS = frozenset("bBhHiIlLqQfd")  # dtypes that a memoryview reads and writes
_LEASED_BYTES = 1 << 14  # what is smaller is copied sooner than leased: measured, 2 us either way


Readers = set["weakref.ref[Lease]"]


@changes
class Lease:
    """The contents of a variable as they were when it was made, until `release`."""

    __slots__ = (
        "__weakref__",
        "_array",
        "_owner",
        "_readers",
        "_ticket",
        "dtype",
        "buffer",
        "nbytes",
    )

    def __init__(self, array: Array, readers: Readers, owner: State | None = None) -> None:
        """readers: of this array; a lease that was dropped without release leaves them by itself.

        owner: the variable whose array it is; its lock is held.
        """
        self.dtype = array.dtype
        self.nbytes = array.nbytes
        self._owner = owner
        buffer = owner.buffer if owner is not None and owner.lends else None
        self.attach(array, readers, buffer)

    def attach(self, array: Array, readers: Readers, buffer: SharedBuffer | None) -> None:
        """Be a reader of `array`, which lives in `buffer`."""
        view = array.view()
        view.flags.writeable = False
        self._array: Array | None = view
        self.buffer = buffer
        self._readers = readers
        self._ticket = weakref.ref(self, readers.discard)
        readers.add(self._ticket)

    @property
    def array(self) -> Array:
        """Read-only, and not to be looked into after `release`; RuntimeError then."""
        array = self._array
        if array is None:
            raise RuntimeError("the lease was released")
        return array

    def move(self) -> SharedBuffer | None:
        """Have the variable live in a shared buffer from now on, and what was leased be there.

        None if it has changed since, or there is no memory.
        """
        owner = self._owner
        if self.buffer is None and owner is not None:
            owner.move(self)
        return self.buffer

    def release(self) -> None:
        """Let updates have the array.  Any thread, any number of times."""
        self._readers.discard(self._ticket)
        self._array = None
        self._owner = None

    def detach(self) -> Array:
        """A copy that is the caller's own; releases."""
        copy = self.array.copy()
        self.release()
        return copy


@changes
def release(values: Iterable[Any]) -> None:
    """Release the leases among `values`."""
    for value in values:
        if isinstance(value, Lease):
            value.release()


@changes
class Locked:
    """Holds the locks of several variables, in an order that all keep to; the same variable may come twice."""

    __slots__ = ("_held",)

    def __init__(self, variables: Iterable[State]) -> None:
        self._held = sorted({*variables}, key=id)

    def __enter__(self) -> None:
        for variable in self._held:
            variable.lock.acquire()

    def __exit__(self, *exc: object) -> None:
        for variable in self._held:
            variable.lock.release()


@changes
def lease_all(values: Iterable[Any]) -> list[Any]:
    """`values` with a lease for each variable among them, all of one moment.  Raises FailedPrecondition."""
    listed = list(values)
    with Locked(value for value in listed if isinstance(value, State)):
        return [
            Lease(value.require(), value._readers, value) if isinstance(value, State) else value
            for value in listed
        ]


_nobody: Final[Callable[[], Array | None]] = weakref.ref(np.empty(0))
"""Of an array that is gone: no function of Python's, which would touch memory wherever a scalar is changed."""


@changes
class State(Resource):
    """`array` is None until the first assignment; afterwards an array of `dtype` that it owns.

    device: where it lives.
    """

    device: Device = HOST

    def __init__(self, name: str, dtype: dtypes.DType, shape: Shape, container: str = "") -> None:
        """`shape` is what the node declares; a value of another shape is refused on assignment."""
        super().__init__(name, container)
        self.dtype = dtype
        self.shape = shape
        self.array: Array | None = None
        self.lock = threading.Lock()
        self._readers: Readers = set()  # of `array`
        self._lent: Callable[[], Array | None] = _nobody
        self.lends = True
        self.number: memoryview | None = None  # see `as_number`
        self.buffer: SharedBuffer | None = None  # of `array`
        self._buffers: BufferPool | None = None  # once it has had any
        self._awaited: list[Pending[np.bool_]] = []  # by those who wait for the first assignment
        self.updates = 0  # that it has had; changes under the lock

    def require(self) -> Array:
        """The array itself, not a copy.  Raises FailedPrecondition naming the variable."""
        array = self.array
        if array is None:
            raise self.uninitialized()
        return array

    def held(self) -> Any:
        """The array, wherever it is: its shape and dtype may be looked at.  None before the first assignment."""
        return self.array

    def here(self) -> Array | None:
        """The array that is in the host's memory now, if there is one."""
        return self.array

    def require_value(self) -> None:
        """Raises FailedPrecondition naming the variable before the first assignment."""
        if self.array is None:
            raise self.uninitialized()

    def uninitialized(self) -> errors.OpError:
        """The error for a use before the first assignment."""
        place = "" if self.container == "localhost" else f" in container {self.container!r}"
        return errors.failed_precondition(
            f"{self._unset()}{place}: run its initializer "
            "(such as tf.global_variables_initializer()) first, in a session that shares it"
        )

    def _unset(self) -> str:
        return f"Attempting to use uninitialized value {self.name}"

    def initialized(self) -> Pending[np.bool_]:
        """Done as soon as it has a value; at once if it has one."""
        with self.lock:
            if self.held() is not None:
                return Pending.done_with(np.True_)
            info = WaitInfo("the first assignment", f"variable {self.name!r}")
            pending: Pending[np.bool_] = Pending(info, self._no_longer_awaited)
            self._awaited.append(pending)
        return pending

    def _no_longer_awaited(self, pending: Pending[np.bool_]) -> bool:
        with self.lock:
            if pending not in self._awaited:
                return False
            self._awaited.remove(pending)
        return True

    def lease(self) -> Lease:
        """The value now, not copied.  Raises FailedPrecondition."""
        with self.lock:
            return Lease(self.require(), self._readers, self)

    def lend(self) -> Array | np.generic | Lease:
        """The value now, for whoever releases it: a lease, or a copy where that costs less.

        Raises FailedPrecondition.
        """
        array = self.array
        if array is not None and not array.ndim:
            return (
                array.copy()
            )  # one read: it cannot be torn; to send, an array costs less than a scalar
        with self.lock:
            array = self.require()
            if array.nbytes < _LEASED_BYTES:
                return array.copy()
            return Lease(array, self._readers, self)

    def read(self) -> Array:
        """The value now, which no update changes; possibly read-only.  Raises FailedPrecondition."""
        with self.lock:
            array = self.require()
            if not array.ndim and array.dtype.kind in NUMBERS:
                return array[()]
            if array.size <= _COPIED or not self.lends or array.dtype.hasobject:
                return array.copy()
            lent = self._lent()
            if lent is None:
                # NumPy's own types have a buffer; those of ml_dtypes are lent as their bits.
                bits = array.view(f"u{array.itemsize}") if array.dtype.kind == "V" else array
                lent = np.asarray(bits.data)  # every view of it keeps it alive, not `array`
                lent.flags.writeable = False
                self._lent = weakref.ref(lent)
        return lent.view(array.dtype) if array.dtype.kind == "V" else lent

    def snapshot(self) -> Array:
        """A copy that later updates do not touch.  Raises FailedPrecondition."""
        with self.lock:
            return self.require().copy()

    def fetched(self) -> Any:
        """As `snapshot`; a number is a NumPy scalar.  Raises FailedPrecondition."""
        array = self.array
        if array is not None and not array.ndim and array.dtype.kind in NUMBERS:
            return array[()]  # one read: it cannot be torn
        return self.snapshot()

    def writable(self, sparse: bool = False) -> Array:
        """The array, to be changed in place; `lock` is held.  Raises FailedPrecondition.

        A copy of what was there, if somebody still reads that.  sparse: the change is to a few elements of it.
        """
        if sparse:  # a copy of all for a change of a few rows would be repeated for each
            self.lends = False
        array = self.require()
        if self.is_read():
            array = self._replace_by_copy(array)
        self.updates += 1
        return array

    def as_number(self) -> memoryview | None:
        """A scalar to be changed in place, as `writable` gives it: `[()]` reads and takes a Python number.

        Sums of two of those are what NumPy's scalars give, rounded alike, and touch a fifth of the memory.  None: of
        its dtype there are none.  Who changes it adds to `updates`.  `lock` is held.  Raises FailedPrecondition.
        """
        if self.number is None or self.is_read():
            array = self.require()
            if self.is_read():
                array = self._replace_by_copy(array)
            if not array.ndim and array.dtype.char in PYTHON_NUMBERS:
                self.number = array.data
        return self.number

    def is_read(self) -> bool:
        """Whether somebody counts on the array as it is; `lock` is held."""
        if self._readers or self._lent() is not None:
            return True
        # Looked at last: who releases a lease has noted before that its buffer is lent.
        buffer = self.buffer
        return buffer is not None and buffer.is_lent

    def rewrite(self, change: Callable[[Array, Array], object]) -> None:
        """Update every element: `change(before, after)` fills `after`, the array itself if nobody reads it.

        Otherwise another one, which is the variable's when it is full: a copy first would be a pass more.
        `lock` is held.  Raises FailedPrecondition, and what `change` does.
        """
        before = self.require()
        self.updates += 1
        if not self.is_read():
            change(before, before)
            return
        after, buffer = self._another(before.shape)
        if after is None:
            after = aligned(before.shape, before.dtype)
        change(before, after)
        self._replace(after, buffer)

    def _another(self, shape: tuple[int, ...]) -> tuple[Array | None, SharedBuffer | None]:
        """An array with arbitrary contents in a shared buffer, if the variable has had one.  `lock` is held."""
        if self._buffers is not None:
            buffer = self._buffers.free(math.prod(shape) * self.dtype.np.itemsize)
            if buffer is not None:
                return buffer.array(self.dtype.np, shape), buffer
        return None, None

    def _replace_by_copy(self, value: Any) -> Array:
        """Have a copy of `value` instead.  `lock` is held."""
        array, buffer = self._another(np.shape(value))
        if array is None:
            array = aligned_copy(value, self.dtype.np)
        else:
            array[...] = value
        self._replace(array, buffer)
        return array

    def move(self, lease: Lease) -> None:
        """Move into a shared buffer, and `lease` too; not if what is leased is not the array any more, or there is no
        memory.
        """
        with self.lock:
            array = self.array
            if array is None or self.buffer is not None or not self.lends:
                return
            if not _same_memory(array, lease.array):
                return
            buffers = self._buffers or BufferPool()
            buffer = buffers.free(array.nbytes)
            if buffer is None:
                return
            self._buffers = buffers
            moved = buffer.array(array.dtype, array.shape)
            np.copyto(moved, array)
            self._replace(moved, buffer)
            lease.attach(moved, self._readers, buffer)

    def _replace(self, array: Array | None, buffer: SharedBuffer | None = None) -> None:
        """Have another array; whoever reads the old one keeps that.  `lock` is held."""
        self.array = array
        self._let_go(buffer)
        if array is None:
            self._buffers = None

    def _let_go(self, buffer: SharedBuffer | None = None) -> None:
        """Nobody reads the array: it is another one, in `buffer`.  `lock` is held."""
        self.number = None
        self.buffer = buffer
        self._lent = _nobody
        if self._readers:
            self._readers = set()

    def assign(self, value: Any, validate_shape: bool = True) -> None:
        """Copy `value` in.  Raises InvalidArgument when the shape is not the variable's.

        With `validate_shape` false any shape is accepted, as TensorFlow's Assign does.
        """
        with self.lock:
            self._put(value, validate_shape)
            self.updates += 1
            awaited = self._settled()
        if awaited:
            announce_all(awaited)

    def adopt(self, array: Array, validate_shape: bool = True) -> None:
        """As `assign`, of an array that is the caller's alone: the variable has it from now on, if it has none yet.

        array: of its dtype, contiguous and writable.
        """
        with self.lock:
            if self.array is None and self._buffers is None:
                if validate_shape:
                    self.check_shape(array.shape)
                self._replace(array)
            else:
                self._put(array, validate_shape)
            self.updates += 1
            awaited = self._settled()
        if awaited:
            announce_all(awaited)

    def assign_unread(self, value: Any, validate_shape: bool = True) -> None:
        """As `assign`; a value that is `Unread` is read into the array itself, which may wait for the disk.

        Raises what reading does, too.
        """
        if not isinstance(value, Unread):
            self.assign(value, validate_shape)
            return
        with self.lock:
            array = self.array
            if array is None or array.shape != value.shape:
                if validate_shape:
                    self.check_shape(value.shape)
                array = None
            if array is not None and not self.is_read():
                value.read_into(array)
            else:
                array, buffer = self._another(value.shape)
                if array is None:
                    array = aligned(value.shape, self.dtype.np)
                value.read_into(array)
                self._replace(array, buffer)
            self.updates += 1
            awaited = self._settled()
        if awaited:
            announce_all(awaited)

    def _settled(self) -> Sequence[Pending[np.bool_]]:
        """Those who waited for the first assignment; `lock` is held."""
        awaited = self._awaited
        if awaited:
            self._awaited = []
            for pending in awaited:
                pending.settle(np.True_)
        return awaited

    def _put(self, value: Any, validate_shape: bool) -> None:
        shape = np.shape(value)
        array = self.array
        if array is None or array.shape != shape:
            if validate_shape:
                self.check_shape(shape)
        elif not self.is_read():
            array[...] = value
            return
        self._replace_by_copy(value)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raises InvalidArgument if a value of such a shape cannot be assigned while shapes are validated."""
        # An unset variable takes what its node declares; a set one keeps its shape.
        held = self.held()
        wanted: Shape = self.shape if held is None else tuple(held.shape)
        if not shape_rules.compatible(wanted, shape):
            raise errors.invalid_argument(
                f"{self._misassigned(shape_rules.text(wanted), shape_rules.text(shape))}: the first is the shape of "
                f"variable {self.name}, the second that of the value; use validate_shape=False to let the shape change"
            )

    def _misassigned(self, wanted: str, given: str) -> str:
        return f"Assign requires shapes of both tensors to match. lhs shape= {wanted} rhs shape= {given}"

    def unlike_update(
        self, what: str, wanted: tuple[int, ...], given: tuple[int, ...]
    ) -> errors.OpError:
        """The error for `what` by a value whose shape is not the variable's."""
        return errors.invalid_argument(
            f"Parameters and update must be the same size: {what} needs a value of the variable's shape, and "
            f"{self.name} has shape {shape_rules.text(wanted)}, the value {shape_rules.text(given)}"
        )

    def reset(self) -> None:
        """Back to uninitialized."""
        with self.lock:
            self._replace(None)


def _same_memory(one: Array, other: Array) -> bool:
    place = one.__array_interface__["data"][0]
    return bool(place == other.__array_interface__["data"][0] and one.shape == other.shape)


@changes
class Variable(State):
    """What reference edges carry."""

    shown_as = "Variable"


@changes
class ResourceVariable(State):
    """What a handle stands for."""

    type_name = "N10tensorflow3VarE"
    shown_as = "ResourceVariable"

    def _unset(self) -> str:
        return f"Could not find variable {self.name}. Attempting to use uninitialized value {self.name}"

    def _misassigned(self, wanted: str, given: str) -> str:
        return f"Trying to assign to variable with tensor with wrong shape. Expected {wanted} got {given}"

    def unlike_update(
        self, what: str, wanted: tuple[int, ...], given: tuple[int, ...]
    ) -> errors.OpError:
        """The error for `what` by a value whose shape is not the variable's."""
        return errors.invalid_argument(
            f"Cannot update variable with shape {shape_rules.text(wanted)} using a Tensor with shape "
            f"{shape_rules.text(given)}, shapes must be equal: {what} of {self.name}"
        )
