"""A registered partition: compiled, with the places of its feeds and fetches.

Called by: serve.worker.worker.  Threads: any.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.traits import CONTROL_FLOW, RECEIVE, SEND
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.graph.graphdef import Importer, graph_def
from headrace.graph.tensor import Tensor
from headrace.plan.compile import Compiled, compile_program
from headrace.plan.partial import compile_partial
from headrace.plan.partition import shown
from headrace.plan.prune import Pruned
from headrace.plan.wanted import wanted
from headrace.run.exec.keys import key, task_of, tensor_name
from headrace.run.exec.trace import StatsCollector
from headrace.run.state import handles, variants
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.encoding import parse
from headrace.serve.rpc.status import ForgottenStepError
from headrace.serve.rpc.step_channel import StepChannels
from headrace.serve.worker.remote_rendezvous import Routes
from headrace.serve.worker.worker_session import Steps, WorkerSession


class RegisteredPartition:
    """See the module header.

    args and returns: position by rendezvous key of the feeds and fetches of `program`.  as_they_are: that is the order
    in which fetches were registered.  alone: it receives nothing,
    and sends nothing but to tasks that it pushes to.  linked_to: the task that asks for it, if values may pass over
    the connection on which it asks.  steps: as what its steps are booked.  forgotten: its handle is no more.
    """

    def __init__(self, request: pb.RegisterGraphRequest, session: WorkerSession) -> None:
        """Raises NotFound (unknown op), InvalidArgument, Unimplemented."""
        self.session = session
        self.steps = Steps(session, False)
        self._direct = Steps(session, True), Steps(session, True, counted=False)
        self.forgotten = False
        self._graph = _imported(request.graph_def)
        # TensorFlow's masters do not say whether what is received may be dead.
        self._dataflow = not request.headrace_all_alive and _communicates(self._graph)
        self._has_control_flow = request.has_control_flow
        self._lock = threading.Lock()
        self._partial: Compiled | None = None
        self.routes = Routes(
            frozenset(request.headrace_pushes_to), frozenset(request.headrace_pushed_by)
        )
        self.linked_to = request.headrace_linked_to
        self.args: dict[str, int] = {}
        self.returns: dict[str, int] = {}
        self._kinds: list[DType] = []
        self.program = self._compile(request)

    def _compile(self, request: pb.RegisterGraphRequest) -> Compiled:
        arg_tensors: list[Tensor] = []
        return_tensors: list[Tensor] = []
        sends: list[Operation] = []
        others: list[Operation] = []
        for op in self._graph.get_operations():
            client = op.attrs.get("client_terminated", False)
            if client and RECEIVE in op.traits:
                self.args[_key(op)] = len(arg_tensors)
                arg_tensors.append(op.outputs[0])
            elif client and SEND in op.traits:
                self.returns[_key(op)] = len(return_tensors)
                return_tensors.append(op.inputs[0])
            elif SEND in op.traits:
                sends.append(op)
            else:
                others.append(op)
        self._known_args = [self.args[key] for key in request.headrace_feed_keys]
        self._known_returns = [self.returns[key] for key in request.headrace_fetch_keys]
        self.as_they_are = self._known_returns == list(range(len(self.returns)))
        self.sends = bool(sends)
        receivers = {task_of(op["recv_device"].decode()) for op in sends}
        pushed_to = receivers & self.routes.pushes_to
        self.alone = pushed_to == receivers and not any(
            SEND in op.traits or RECEIVE in op.traits for op in others
        )
        for task in pushed_to:  # so that the first value need not go the long way
            self.session.peers.get(task).prepare(request.headrace_starts.get(task, 0))
        self._kinds = [tensor._dtype.base_dtype for tensor in arg_tensors]
        # The dtype of each feed, if there is nothing more to be seen to.
        plain = dtypes.resource not in self._kinds and dtypes.variant not in self._kinds
        self._fed = (
            [self._kinds[index].np for index in self._known_args]
            if plain and sorted(self._known_args) == list(range(len(self.args)))
            else None
        )
        self._places = sorted(range(len(self._known_args)), key=self._known_args.__getitem__)
        self._in_order = self._known_args == list(range(len(self.args)))
        # A master of TensorFlow's leaves calls of functions to the worker.
        found = wanted(arg_tensors, return_tensors, [*sends, *others], exact=True)
        devices = {op: op.device or self.session.runtime.device for op in found.pruned.ops}
        return compile_program(
            found.pruned,
            found.feeds,
            found.fetches,
            devices=devices,
            memos=self.session.memos,
            dataflow=self._dataflow,
            fold=request.graph_options.optimizer_options.opt_level >= 0,
        )

    def kind(self, direct: int) -> Steps:
        """As what a step is booked.  direct: see `RunPartRequest`."""
        return self._direct[direct != m.DIRECT] if direct else self.steps

    def partial(self) -> Compiled:
        """The program whose feeds and fetches pass through the rendezvous."""
        with self._lock:
            if self._partial is None:
                self._partial = compile_partial(
                    self._graph,
                    self.session.runtime.device,
                    self.session.memos,
                    self._dataflow or self._has_control_flow,  # a fetch may be dead
                )
            return self._partial

    def graph_defs(self) -> list[pb.GraphDef]:
        """The partition as it was registered, a graph per device."""
        ops = self._graph.get_operations()
        devices = {op: op.device or self.session.runtime.device for op in ops}
        if len(set(devices.values())) == 1:
            return [graph_def(self._graph)]
        pruned = Pruned(ops, {op: list(op.control_inputs) for op in ops})
        return shown(pruned, [], [], devices, 0)

    def arguments(self, sent: m.Named) -> list[Any]:
        """The values of all feeds, in order.  Raises InvalidArgument, NotFound (a handle of nothing here)."""
        self.check_feeds(sent)
        args: list[Any] = [None] * len(self.args)
        for name, value in sent:
            index = self.args[name]
            if self._kinds[index] is dtypes.resource:
                value = handles.arriving(value, self.session.runtime)
            elif self._kinds[index] is dtypes.variant:
                value = variants.arriving(value)
            args[index] = value
        for name, index in self.args.items():
            if args[index] is None:
                raise errors.invalid_argument(f"the partition needs a value for the feed {name!r}")
        return args

    def arguments_in_order(self, feeds: list[Any]) -> list[Any]:
        """As `arguments`, of values in the order that was registered."""
        fed = self._fed
        if fed is not None and len(feeds) == len(fed):
            for value, dtype in zip(feeds, fed):  # noqa: B905 - as many, and quicker
                if value.dtype != dtype:
                    break
            else:
                return feeds if self._in_order else [feeds[place] for place in self._places]
        if len(feeds) != len(self._known_args) or len(feeds) != len(self.args):
            raise errors.invalid_argument(
                f"the partition takes {len(self.args)} feeds; {len(feeds)} came"
            )
        keys = list(self.args)
        return self.arguments(
            [(keys[index], value) for index, value in zip(self._known_args, feeds, strict=True)]
        )

    def reply(
        self, request: m.RunGraphRequest, recv: m.Named, stats: StatsCollector | None
    ) -> m.RunGraphReply:
        """The reply with those fetches, and what the request asks for beside."""
        graphs = self.graph_defs() if request.record_partition_graphs else []
        return m.RunGraphReply(recv, stats.proto() if stats is not None else None, graphs)

    def fetches_in_order(self, values: list[Any]) -> list[Any]:
        """The values of the registered fetches."""
        if self.as_they_are:
            return values
        return [values[index] for index in self._known_returns]

    def check_feeds(self, sent: m.Named) -> None:
        """Raise InvalidArgument unless these are values for feeds."""
        for name, value in sent:
            index = self.args.get(name)
            if index is None:
                raise errors.invalid_argument(f"the partition has no feed with the key {name!r}")
            wanted = self._kinds[index]
            if value.dtype != wanted.np:
                raise errors.invalid_argument(
                    f"the value fed for {tensor_name(name)} is {value.dtype}, the tensor {wanted.name}; feed "
                    f"{wanted.name}"
                )

    def check_fetches(self, keys: Sequence[str]) -> None:
        """Raise InvalidArgument unless these are keys of fetches."""
        unknown = [name for name in keys if name not in self.returns]
        if unknown:
            raise errors.invalid_argument(f"the partition has no fetch with the key {unknown[0]!r}")


def checked(
    request: pb.RegisterGraphRequest, incarnation: int, task: str
) -> pb.RegisterGraphRequest:
    """With what all parts of its plan have in common.

    Raises InvalidArgument; Aborted if the master takes a task with that incarnation for another start of it.
    """
    starts = request.headrace_starts
    if starts and incarnation not in starts.values():
        raise errors.aborted(
            f"the partition is for another start of {task}, which has been restarted since"
        )
    if not request.headrace_common:
        return request
    whole: pb.RegisterGraphRequest = parse(pb.RegisterGraphRequest, request.headrace_common)
    whole.MergeFrom(request)
    return whole


def unknown(handle: str, task: str, direct: bool = False) -> errors.OpError:
    """The error for a handle under which a task has nothing.  direct: the client asks, who can say the step's names."""
    if direct:
        return ForgottenStepError.of(f"{task} does not know the step any more")
    return errors.aborted(
        f"graph handle {handle!r} is not registered on {task}: the task has been restarted since, "
        "or the session was closed; make a new session"
    )


def _imported(proto: pb.GraphDef) -> Graph:
    graph = Graph()
    graph.strict_shapes = False
    try:
        Importer(graph, origins=False).add(proto)
    except (ValueError, TypeError, KeyError) as error:
        raise errors.invalid_argument(f"the registered graph cannot be used: {error}") from error
    return graph


def _communicates(graph: Graph) -> bool:
    """Whether values that may be dead arrive, or leave for other devices: all but feeds and fetches."""
    branches = any(CONTROL_FLOW in op.traits for op in graph.get_operations())
    return any(
        (RECEIVE in op.traits or (branches and SEND in op.traits))
        and not op.attrs.get("client_terminated", False)
        for op in graph.get_operations()
    )


def _key(op: Operation) -> str:
    return key(
        op["send_device"].decode(),
        op["send_device_incarnation"],
        op["recv_device"].decode(),
        op["tensor_name"].decode(),
    )


class Asked(NamedTuple):
    """What a partition is asked to run with.

    kind: as what the step is booked.  args: emptied when it runs.  lends: whether values may leave as leases.
    """

    registered: RegisteredPartition
    kind: Steps
    args: list[Any]
    step_id: int
    lends: bool | int = False
    channels: StepChannels | None = None
