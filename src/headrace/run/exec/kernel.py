"""What a kernel with state sees of the runtime.

`Runtime` is a task's: its resources and its device names.  `StepState` is one run of one partition.
`KernelContext` joins both with the node; one is made per node and step.
Called by: run.exec.program (makes them), ops (kernels whose first parameter is `ctx`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from headrace.base.errors import OpError, not_found
from headrace.base.traits import NONE, Traits
from headrace.run.checkpoints.log import CheckpointLog
from headrace.run.exec.heap import keep_freed_memory
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.pending import Pending
from headrace.run.readers.files import ANYWHERE, Files
from headrace.run.scope import Scope
from headrace.run.state.mutexes import MutexLock
from headrace.run.state.resources import Resource, ResourceManager, private_name
from headrace.run.state.resources import shared_name as shared_name_of

R = TypeVar("R", bound=Resource)

Memos = dict[str, dict[str, Any]]
"""What nodes remember between the steps of a session, by node name."""


class Runtime:
    """A task's (or local session's) state: resources by container, its devices, files and threads."""

    def __init__(
        self,
        device: str,
        resources: ResourceManager | None = None,
        files: Files = ANYWHERE,
        workers: WorkerPool | None = None,
        checkpoints: CheckpointLog | None = None,
    ) -> None:
        """device: full name of the task's first CPU.  files: those that its graphs may use.  workers: threads that
        share large operations.  checkpoints: what was saved and restored.
        """
        self.device = device
        self.files = files
        self.resources = ResourceManager() if resources is None else resources
        self.workers = WorkerPool() if workers is None else workers
        self.checkpoints = CheckpointLog() if checkpoints is None else checkpoints
        keep_freed_memory()


class FunctionOfColumns(Protocol):
    """A function of the graph for many elements at once; see `plan.columns`.  long: whether that takes long."""

    long: bool

    def __call__(self, arguments: Sequence[Any], count: int) -> list[Any]:
        """The results for `count` elements, a column each."""


class CallableFunction(Protocol):
    """A function of the graph, as kernels call it; see `plan.functions`.

    inputs, outputs: (dtype, static shape) of each.  keeps: whether it remembers something between calls.
    waits: whether it may have to wait, or runs what is the user's.  lets_others_run: whether other threads have the
    interpreter for a good part of it.
    """

    name: str
    inputs: Sequence[tuple[Any, Any]]
    outputs: Sequence[tuple[Any, Any]]
    keeps: bool
    remembering: set[str]
    waits: bool
    lets_others_run: bool

    def anew(self) -> CallableFunction:
        """One that remembers nothing yet."""

    def by_columns(self, varying: int) -> FunctionOfColumns | None:
        """The same for many elements at once; see `plan.functions`."""

    def __call__(self, args: Sequence[Any], step: StepState) -> list[Any]:
        """Its results, the caller's own."""


class NodeInfo:
    """A node as the executor knows it: names for errors and traces, and what it remembers.

    `memo` belongs to the node in one compiled session: random generators, counters, caches.
    functions: what gives the function that an attr names; None where the graph has none.
    """

    __slots__ = (
        "_built_at",
        "_inputs",
        "functions",
        "inline",
        "attrs",
        "device",
        "memo",
        "name",
        "op",
        "traits",
    )

    def __init__(
        self,
        name: str,
        op: str,
        device: str,
        attrs: dict[str, Any],
        built_at: tuple[str, int] | str | None,
        memo: dict[str, Any],
        inputs: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
        inline: bool = False,
        traits: Traits = NONE,
    ) -> None:
        """built_at: file and line, as a pair or as text.  inputs: their names, or what gives them; only traces ask.

        inline: nothing else of its step could begin or end while it runs (`plan.waiting_order`).  traits: the op's.
        """
        self.name = name
        self.op = op
        self.device = device
        self.attrs = attrs
        self._built_at = built_at
        self.memo = memo
        self._inputs = inputs
        self.inline = inline
        self.traits = traits
        self.functions: Callable[[Any], CallableFunction] | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """As a NodeDef writes them."""
        inputs = self._inputs
        return inputs if isinstance(inputs, tuple) else inputs()

    @property
    def built_at(self) -> str | None:
        """``file:line`` of the user's code that made the node."""
        where = self._built_at
        return f"{where[0]}:{where[1]}" if isinstance(where, tuple) else where


class RendezvousLike(Protocol):
    """Where a step's values pass between devices: a Rendezvous, or one that reaches other tasks."""

    def send(self, key: str, value: Any, dead: bool = False) -> None:
        """Leave a value."""

    def recv(self, key: str) -> Pending[tuple[Any, bool]]:
        """(value, dead), now or later."""

    def abort(self, error: OpError) -> bool:
        """End it for everyone."""


class Channels(Protocol):
    """Connections of a step that nobody but its own thread reads, while it waits.

    holds: what the step sends now may wait for what it sends next, or for `flush`.
    """

    holds: bool

    def get(self, done: SimpleQueue[int], timeout_s: float | None) -> int:
        """As done.get(timeout=timeout_s), with `wake` called after every put."""

    def wake(self) -> None:
        """Something has been put into the queue of `get`.  Any thread."""

    def flush(self) -> None:
        """Send what is held."""


BARE: Final = 2


class StepState:
    """One step on one task.

    `owner`: whose private resources it uses, such as a session's handle; see resources.private_name.
    `lends`: whoever gets the results only reads them, and releases the leases among them; if it is `BARE`, they get the
    variables themselves among them, and see to the rest.
    `apart`: it runs in a callback thread, so that users' functions may be called in it.
    """

    __slots__ = (
        "apart",
        "channels",
        "held",
        "lends",
        "owner",
        "rendezvous",
        "runtime",
        "scope",
        "stats",
        "step_id",
    )

    def __init__(
        self,
        runtime: Runtime,
        scope: Scope,
        step_id: int = 0,
        rendezvous: RendezvousLike | None = None,
        stats: Any = None,
        owner: str = "",
        lends: bool | int = False,
        channels: Channels | None = None,
        apart: bool = False,
    ) -> None:
        self.apart = apart
        self.runtime = runtime
        self.scope = scope
        self.step_id = step_id
        self.rendezvous = rendezvous
        self.stats = stats
        self.owner = owner
        self.lends = lends
        self.channels = channels
        self.held: list[MutexLock] | None = None

    def holds(self, lock: MutexLock) -> None:
        """It has this lock, until it consumes it or fails.  Any thread."""
        if self.held is None:
            self.held = []
        self.held.append(lock)

    def failed(self) -> None:
        """It ends with an error: what it holds is for others."""
        for lock in self.held or ():
            lock.release()


class KernelContext:
    """What a stateful kernel may ask for.

    frame: number and iteration of the loop that the node runs in; None outside loops.
    """

    __slots__ = ("frame", "node", "step")

    def __init__(
        self, node: NodeInfo, step: StepState, frame: tuple[int, int] | None = None
    ) -> None:
        self.node = node
        self.step = step
        self.frame = frame

    @property
    def runtime(self) -> Runtime:
        """Of the task."""
        return self.step.runtime

    @property
    def scope(self) -> Scope:
        """Deadline and cancellation of the step."""
        return self.step.scope

    @property
    def memo(self) -> dict[str, Any]:
        """What this node remembers from one step of its session to the next."""
        return self.node.memo

    def function(self, reference: Any) -> CallableFunction:
        """The function of the graph that an attr names.  Raises NotFound, and what planning it raises."""
        if self.node.functions is None:
            raise not_found(
                f"Function {reference.name} is not defined: the graph of node {self.node.name!r} has no functions",
                node=self.node.name,
            )
        return self.node.functions(reference)

    def resource(
        self,
        kind: type[R],
        factory: Callable[[], R],
        container: bytes = b"",
        shared_name: bytes = b"",
    ) -> R:
        """The resource of this node: under `shared_name`, else under the node's name.

        Looked up once; again after anything was deleted from the task's containers.
        """
        manager = self.step.runtime.resources
        memo = self.node.memo
        cached = memo.get("resource")
        if cached is not None and cached[0] is manager and cached[1] == manager.generation:
            known: R = cached[2]
            return known
        generation = manager.generation
        found = manager.lookup_or_create(
            container.decode(), shared_name.decode() or self.node.name, kind, factory
        )
        memo["resource"] = (manager, generation, found)
        return found

    def private_resource(
        self,
        kind: type[R],
        factory: Callable[[], R],
        container: bytes = b"",
        shared_name: bytes = b"",
    ) -> R:
        """As `resource`, but without a `shared_name` it belongs to this node of this session alone."""
        name = shared_name_of(shared_name.decode()) or private_name(self.step.owner, self.node.name)
        return self.resource(kind, factory, container, name.encode())
