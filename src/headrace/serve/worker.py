"""Worker: the service of one task.  Keeps its state, runs partitions, hands out what they send.

Takes and returns messages; knows no transport.  A step is known by its id from the first RunGraph
or RecvTensor that names it until CleanupGraph.
Called by: the shells, and masters of this process.  Threads: any; `run_graph` runs the partition in
the calling thread.  Ends by: `close`, which cancels every step and drops the state.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer
from headrace.graph.tensor import Tensor
from headrace.plan.compile import Compiled, compile_program
from headrace.plan.prune import needed
from headrace.run.kernel import Memos, Runtime, StepState
from headrace.run.keys import key, source_device, task_of, tensor_name
from headrace.run.pending import Pending
from headrace.run.rendezvous import Delivery
from headrace.run.scope import Scope
from headrace.run.trace import StatsCollector
from headrace.serve import messages as m
from headrace.serve.exchange import Exchange
from headrace.serve.peers import Peers, gives_pending

_ENDED_STEPS = 4096  # remembered, for those who come late


class _Registered:
    """A compiled partition: the program, and where its feeds and fetches go."""

    __slots__ = ("args", "kinds", "program", "returns", "session_handle")

    def __init__(
        self,
        program: Compiled,
        args: Mapping[str, int],
        kinds: Sequence[DType],
        returns: Mapping[str, int],
        session_handle: str,
    ) -> None:
        self.program = program
        self.args = args
        self.kinds = kinds
        self.returns = returns
        self.session_handle = session_handle


class Worker:
    """See the module header.  `task`: full name such as ``/job:ps/replica:0/task:0``."""

    def __init__(self, task: str, peers_of: Mapping[str, str], pool: Any) -> None:
        """peers_of: addresses (host:port) of all tasks of the cluster by name."""
        self.task = task
        self.device = f"{task}/device:CPU:0"
        self.incarnation = secrets.randbits(64) | 1
        self.runtime = Runtime(self.device)
        self.peers = Peers(peers_of, task, self, pool)
        self._lock = threading.Lock()
        self._graphs: dict[str, _Registered] = {}
        self._memos: dict[str, Memos] = {}
        self._steps: dict[int, Exchange] = {}
        self._sessions: set[str] = set()
        self._ended_steps: OrderedDict[int, errors.OpError | None] = OrderedDict()
        self._running: set[Scope] = set()
        self._idle = threading.Condition(self._lock)
        self._refusing: errors.OpError | None = None
        self._closed: errors.OpError | None = None

    # -- sessions and graphs ------------------------------------------------------------------

    def get_status(self, request: pb.GetStatusRequest, scope: Scope) -> pb.GetStatusResponse:
        """The devices of this task."""
        return pb.GetStatusResponse(device_attributes=[self.device_attributes()])

    def device_attributes(self) -> pb.DeviceAttributes:
        """This task's CPU."""
        return pb.DeviceAttributes(
            name=self.device,
            device_type="CPU",
            memory_limit=256 << 20,
            incarnation=self.incarnation,
        )

    def create_worker_session(
        self, request: pb.CreateWorkerSessionRequest, scope: Scope
    ) -> pb.CreateWorkerSessionResponse:
        """Remember a master's session.  Raises Unimplemented for isolated state."""
        if request.isolate_session_state:
            raise errors.unimplemented(
                "isolate_session_state is not supported yet: name a tf.container of your own instead"
            )
        with self._lock:
            self._sessions.add(request.session_handle)
        return pb.CreateWorkerSessionResponse()

    def delete_worker_session(
        self, request: pb.DeleteWorkerSessionRequest, scope: Scope
    ) -> pb.DeleteWorkerSessionResponse:
        """Forget a session and what its nodes remember."""
        with self._lock:
            self._sessions.discard(request.session_handle)
            self._memos.pop(request.session_handle, None)
        self.runtime.resources.delete_private(request.session_handle)
        return pb.DeleteWorkerSessionResponse()

    def register_graph(
        self, request: pb.RegisterGraphRequest, scope: Scope
    ) -> pb.RegisterGraphResponse:
        """Compile a partition.  Raises NotFound (unknown op), InvalidArgument, Unimplemented."""
        graph = Graph()
        graph.strict_shapes = False
        try:
            Importer(graph, origins=False).add(request.graph_def)
        except (ValueError, TypeError, KeyError) as error:
            raise errors.invalid_argument(
                f"the registered graph cannot be used: {error}"
            ) from error
        with self._lock:
            memos = self._memos.setdefault(request.session_handle, {})
        registered = self._compile(graph, memos, request)
        handle = f"{secrets.randbits(64):016x}"
        with self._lock:
            self._graphs[handle] = registered
        return pb.RegisterGraphResponse(graph_handle=handle)

    def _compile(self, graph: Graph, memos: Memos, request: pb.RegisterGraphRequest) -> _Registered:
        args: dict[str, int] = {}
        arg_tensors: list[Tensor] = []
        returns: dict[str, int] = {}
        return_tensors: list[Tensor] = []
        sends: list[Operation] = []
        others: list[Operation] = []
        for op in graph.get_operations():
            client = op.attrs.get("client_terminated", False)
            if client and op.type in ("_Recv", "_HostRecv"):
                args[_key(op)] = len(arg_tensors)
                arg_tensors.append(op.outputs[0])
            elif client and op.type in ("_Send", "_HostSend"):
                returns[_key(op)] = len(return_tensors)
                return_tensors.append(op.inputs[0])
            elif op.type in ("_Send", "_HostSend"):
                sends.append(op)
            else:
                others.append(op)
        pruned = needed(arg_tensors, return_tensors, [*sends, *others], exact=True)
        devices = {op: op.device or self.device for op in pruned.ops}
        program = compile_program(
            pruned,
            arg_tensors,
            return_tensors,
            devices=devices,
            memos=memos,
            dataflow=request.has_control_flow,
            fold=request.graph_options.optimizer_options.opt_level >= 0,
        )
        kinds = [tensor._dtype.base_dtype for tensor in arg_tensors]
        return _Registered(program, args, kinds, returns, request.session_handle)

    def deregister_graph(
        self, request: pb.DeregisterGraphRequest, scope: Scope
    ) -> pb.DeregisterGraphResponse:
        """Forget a partition.  Raises Aborted if it is not known."""
        with self._lock:
            if self._graphs.pop(request.graph_handle, None) is None:
                raise self._unknown_graph(request.graph_handle)
        return pb.DeregisterGraphResponse()

    def _unknown_graph(self, handle: str) -> errors.OpError:
        return errors.aborted(
            f"graph handle {handle!r} is not registered on {self.task}: the task has been restarted since, "
            "or the session was closed; make a new session"
        )

    # -- steps --------------------------------------------------------------------------------

    def run_graph(self, request: m.RunGraphRequest, scope: Scope) -> m.RunGraphReply:
        """Run a registered partition in this thread.  Raises what its nodes raise."""
        registered = self._graphs.get(request.graph_handle)
        if registered is None:
            raise self._unknown_graph(request.graph_handle)
        if request.is_partial:
            raise errors.unimplemented(
                "partial runs are not supported yet; run the whole step at once"
            )
        args = _arguments(registered, request.send)
        unknown = [name for name in request.recv_keys if name not in registered.returns]
        if unknown:
            raise errors.invalid_argument(f"the partition has no fetch with the key {unknown[0]!r}")
        scope.check()
        exchange = self._exchange(request.step_id)
        stats = StatsCollector() if request.record_timeline else None
        with Scope(parent=scope) as running:
            values = self._run(registered, args, request.step_id, exchange, running, stats)
        recv = [(name, values[registered.returns[name]]) for name in request.recv_keys]
        return m.RunGraphReply(recv, stats.proto() if stats is not None else None)

    def _run(
        self, registered: _Registered, args: list[Any], step_id: int, exchange: Exchange, running: Scope,
        stats: StatsCollector | None,
    ) -> list[Any]:  # fmt: skip
        with self._lock:
            self._check_open()
            self._running.add(running)
            exchange.partitions += 1
        unregister = exchange.scope.on_cancel(
            lambda: running.cancel(exchange.scope.error or _over(step_id))
        )
        try:
            step = StepState(
                self.runtime, running, step_id, exchange, stats, registered.session_handle
            )
            return registered.program.run(step, args)
        except errors.OpError as error:
            self._end_step(step_id, error)
            raise
        except BaseException:  # Ctrl-C in a client of this process
            self._end_step(step_id, errors.cancelled("the step was interrupted"))
            raise
        finally:
            unregister()
            with self._lock:
                self._running.discard(running)
                exchange.partitions -= 1
                if self._refusing is not None and not self._running:
                    self._idle.notify_all()

    def _exchange(self, step_id: int) -> Exchange:
        """The exchange of a step.  Raises the step's error if it has ended."""
        with self._lock:
            exchange = self._steps.get(step_id)
            if exchange is None:
                self._check_open()
                if step_id in self._ended_steps:
                    raise _again(self._ended_steps[step_id] or _over(step_id))
                if self._refusing is not None:
                    raise _again(self._refusing)
                exchange = self._steps[step_id] = Exchange(step_id, self.task, self.peers)
            return exchange

    def _check_open(self) -> None:
        if self._closed is not None:
            raise _again(self._closed)

    def _end_step(self, step_id: int, error: errors.OpError | None) -> None:
        """Forget a step; whoever waits in it, or asks for it later, gets `error`.

        None: it is over, and nobody should.
        """
        with self._lock:
            exchange = self._steps.pop(step_id, None)
            self._ended_steps.setdefault(step_id, error)
            if len(self._ended_steps) > _ENDED_STEPS:
                self._ended_steps.popitem(last=False)
        if exchange is not None:
            exchange.abort(error or _over(step_id))

    @gives_pending
    def recv_tensor(self, request: m.RecvTensorRequest, scope: Scope) -> Pending[m.RecvTensorReply]:
        """The value of a key that a partition here sends; waits for it.  Handed over once."""
        if task_of(source_device(request.rendezvous_key)) != self.task:
            raise errors.invalid_argument(
                f"{request.rendezvous_key!r} is not sent by this task, {self.task}"
            )
        exchange = self._exchange(request.step_id)
        taken = exchange.local.recv(request.rendezvous_key)

        gone = errors.cancelled("the receiver gave up")

        def withdraw(_: Pending[m.RecvTensorReply]) -> bool:
            taken.abandon(gone)
            if not exchange.partitions:  # nobody will come any more: the step has failed
                self._end_step(request.step_id, gone)
            return True

        replied: Pending[m.RecvTensorReply] = Pending(taken.wait_info, withdraw)

        def arrived(delivery: Pending[Delivery]) -> None:
            error = delivery.error
            if error is gone:
                return  # who gives up says so with an error of their own
            if error is not None:
                replied.reject(error)
            else:
                value, dead = delivery.result()
                replied.resolve(m.RecvTensorReply(value, dead))

        taken.on_done(arrived)
        return replied

    def cleanup_graph(
        self, request: pb.CleanupGraphRequest, scope: Scope
    ) -> pb.CleanupGraphResponse:
        """Forget a step; whoever still waits in it is aborted."""
        self._end_step(request.step_id, None)
        return pb.CleanupGraphResponse()

    def cleanup_all(self, request: pb.CleanupAllRequest, scope: Scope) -> pb.CleanupAllResponse:
        """Empty containers; the default one if none is named."""
        self.runtime.resources.cleanup(request.container)
        return pb.CleanupAllResponse()

    @property
    def closed(self) -> bool:
        """Whether the server has stopped."""
        return self._closed is not None

    def drain(self, error: errors.OpError, scope: Scope) -> None:
        """Take no more steps; wait for those under way, no longer than `scope`.

        Raises DeadlineExceeded.
        """
        with self._idle:
            self._refusing = error
            scope.wait_for(self._idle, lambda: not self._running, "the steps to end")

    def close(self, error: errors.OpError) -> None:
        """Cancel every step with `error`, refuse new ones, drop the state."""
        with self._lock:
            self._closed = error
            running, steps = list(self._running), list(self._steps.values())
            self._steps.clear()
        for scope in running:
            scope.cancel(error)
        for exchange in steps:
            exchange.abort(error)
        self.runtime.resources.close()
        self.peers.close()


def _over(step_id: int) -> errors.OpError:
    return errors.aborted(f"step {step_id} has ended")


def _again(error: errors.OpError) -> errors.OpError:
    """A copy, for one more thread to raise."""
    return errors.make(error.error_code, error.message)


def _arguments(registered: _Registered, sent: m.Named) -> list[Any]:
    """The values of a partition's feeds, in order.  Raises InvalidArgument."""
    args: list[Any] = [None] * len(registered.args)
    for name, value in sent:
        index = registered.args.get(name)
        if index is None:
            raise errors.invalid_argument(f"the partition has no feed with the key {name!r}")
        wanted = registered.kinds[index]
        if value.dtype != wanted.np:
            raise errors.invalid_argument(
                f"the value fed for {tensor_name(name)} is {value.dtype}, the tensor {wanted.name}; feed "
                f"{wanted.name}"
            )
        args[index] = value
    for name, index in registered.args.items():
        if args[index] is None:
            raise errors.invalid_argument(f"the partition needs a value for the feed {name!r}")
    return args


def _key(op: Operation) -> str:
    return key(
        op["send_device"].decode(), op["send_device_incarnation"], op["recv_device"].decode(),
        op["tensor_name"].decode(),
    )  # fmt: skip
