"""Session: feeds in, fetches out.

A session resolves what the caller names against its graph, keeps one compiled step per signature
(fed tensors, fetched tensors, operations), and hands values to the engine that runs it: this
process for ``Session()``, a cluster's master for ``Session("grpc://host:port")``.
Threads: any number may run one session at once.  A blocked `run` ends by Ctrl-C, `close`, or its
timeout, and leaves the session usable (but for `close`).
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.base.imports import collects_nothing
from headrace.client import feeds as feed_rules
from headrace.client import interpreter_exit
from headrace.client.default_config import checked
from headrace.client.engine import (
    BatchFunction,
    Engine,
    StepFunction,
)
from headrace.client.fetches import Fetches, cache_key
from headrace.client.prepared import OptionsCallable, PreparedStep, quickly
from headrace.client.results import presented
from headrace.client.usage_errors import CLOSED, EMPTY, miscounted, not_a
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor
from headrace.run import interrupts, long_waits, spans

if TYPE_CHECKING:
    from headrace.client.missing_members import MemberLimit
    from headrace.serve.observe.blocked import BlockedStep
    from headrace.serve.rpc.security import Security

_MOST_PLANS = 4096


class BaseSession:
    """What Session and InteractiveSession share."""

    def __init__(
        self,
        target: str = "",
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        *,
        security: Security | None = None,
    ) -> None:
        """target: '' for this process, or ``grpc://host:port`` of a server.

        security: what the server is shown and asked for; None: as the environment says.
        Raises TypeError on arguments of the wrong kind; errors of the cluster come from the first
        call that reaches it.
        """
        if graph is None:
            graph = scopes.get_default_graph()
        if not isinstance(graph, Graph):
            raise not_a("a tf.Graph", "graph", graph)
        if isinstance(target, bytes):
            target = target.decode()
        if not isinstance(target, str):
            raise not_a("a string", "target", target)
        config = checked(config)
        if security is not None:
            from headrace.serve.rpc.security import chosen

            chosen(security)
        self._graph = graph
        self._target = target
        self._config = config
        self._closed = False
        self._producers: list[Any] = []  # that were started in this session
        self._steps: dict[Any, PreparedStep] = {}
        self._quick: dict[
            Any, Callable[[], Any]
        ] = {}  # steps that fetch one thing and feed nothing
        self._made: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()
        """Steps that somebody has, by what they are made of: nests of other forms share them."""
        self._engine = _engine(target, graph, config, security)
        interrupts.install()
        # Once long waits have been spoken of.  When the interpreter ends, nothing can be imported.
        self._forget_reports: Callable[[BaseSession], None] | None = None
        self._member_limit_s: float | None = None
        self._member_limit: MemberLimit | None = None
        long_waits.watch_over(self._engine.scope, _teller(weakref.ref(self)))

    @property
    def graph(self) -> Graph:
        """Whose nodes it runs."""
        return self._graph

    @property
    def graph_def(self) -> pb.GraphDef:
        """The graph as a GraphDef proto."""
        proto: pb.GraphDef = self._graph.as_graph_def()
        return proto

    @property
    def sess_str(self) -> str:
        """The target."""
        return self._target

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: pb.RunOptions | None = None,
        run_metadata: pb.RunMetadata | None = None,
    ) -> Any:
        """Run one step; returns the nest `fetches` with values in place of tensors.

        Blocks until done.  Arrays are the caller's own and writable; scalars are NumPy scalars,
        strings are bytes, operations give None.  A fetch that is fed comes back as the array that was given, or made
        of what was given: a scalar is an array of no dimensions, a str stays one.
        options: timeout_in_ms, trace_level.  run_metadata: filled with step_stats when traced.
        Raises: RuntimeError (closed session, empty graph), TypeError and ValueError (feeds, fetches),
        and the tf.errors class of whatever fails in the step, with node, device and step.
        """
        if feed_dict is None and options is None and run_metadata is None:
            try:
                quick = None if fetches.__class__ is list else self._quick.get(fetches)
            except TypeError:
                quick = None
            if quick is not None:
                try:
                    return quick()
                except errors.OpError as error:
                    raise self._with_operation(error) from error.__cause__
        if self._closed:
            raise RuntimeError(CLOSED)
        if feed_dict:
            fed = feed_rules.resolve(self._graph, feed_dict)
            feeds, values = tuple(fed), list(fed.values())
        else:
            if feed_dict is not None and not isinstance(feed_dict, Mapping):
                raise TypeError(feed_rules.not_a_dict(feed_dict))
            feeds, values = (), []
        if options is not None and not isinstance(options, pb.RunOptions):
            raise TypeError(f"options must be a tf.RunOptions, not {type(options).__name__}")
        if run_metadata is not None and not isinstance(run_metadata, pb.RunMetadata):
            raise TypeError(
                f"run_metadata must be a tf.RunMetadata, not {type(run_metadata).__name__}"
            )
        known = self._prepared(fetches, feeds, options)
        try:
            return known.run(values, options, run_metadata)
        except errors.OpError as error:
            raise self._with_operation(error) from error.__cause__

    def _prepared(self, fetches: Any, feeds: tuple[Tensor, ...], options: Any) -> PreparedStep:
        try:
            key = (cache_key(fetches), feeds)
            known = self._steps.get(key)
        except TypeError:
            key, known = None, None
        if known is not None:
            return known
        if not len(self._graph):
            raise RuntimeError(EMPTY)
        resolved = Fetches(self._graph, fetches, self)
        try:
            known = self._prepare(feeds, resolved, options)
        except errors.OpError as error:
            raise self._with_operation(error) from error.__cause__
        if key is not None:
            if len(self._steps) >= _MOST_PLANS:
                self._quick.clear()
                self._steps.clear()
            self._steps[key] = known
            if resolved.single and not feeds and known.plain is not None:
                self._quick[fetches] = quickly(resolved, known.plain)
        return known

    def _prepare(self, feeds: Sequence[Tensor], resolved: Fetches, options: Any) -> PreparedStep:
        fed = {tensor: index for index, tensor in enumerate(feeds)}
        returned = [(at, fed[t]) for at, t in enumerate(resolved.tensors) if t in fed]
        computed = [t for t in resolved.tensors if t not in fed] if returned else resolved.tensors
        step = None
        if computed or resolved.targets or not returned:
            step = self._step(feeds, computed, resolved.targets, options)
        return PreparedStep(resolved.build, step, feed_rules.string_positions(feeds), returned)

    def _step(
        self,
        feeds: Sequence[Tensor],
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        options: pb.RunOptions | None,
    ) -> StepFunction:
        """Made by the engine, or the same of an unchanged graph."""
        key = self._graph.version, tuple(feeds), tuple(fetches), tuple(targets)
        known: StepFunction | None = self._made.get(key)
        if known is None:
            known = self._made[key] = self._engine.step(feeds, fetches, targets, options)
        return known

    def _with_operation(self, error: errors.OpError) -> errors.OpError:
        interpreter_exit.stay()
        if error.op is None and error.node is not None:
            op = self._graph._ops.get(error.node)
            if op is not None:
                error.with_context(op=op, node_def=op.node_def)
                if isinstance(error, errors.FailedPreconditionError):
                    self._name_initializer(error, op)
                elif isinstance(error, errors.DeadlineExceededError):
                    self._name_missing_members(error, op)
                error.built_at = op.built_at  # here, not where a server imported the graph
        return error.with_traceback(None)

    def _name_missing_members(self, error: errors.OpError, op: Operation) -> None:
        """Of a step that waited at a barrier, say for whom: the tasks are asked, for a few seconds at most."""
        from headrace.client.blocked import has_barriers, late_at_barrier

        if self._closed or not has_barriers(self._graph):
            return
        with contextlib.suppress(errors.OpError):
            late = late_at_barrier(self._engine.inspect(), self._graph, op)
            if late:
                error.message = f"{error.message}; {late}"
                error.args = (error.message, *error.args[1:])

    def _name_initializer(self, error: errors.OpError, op: Operation) -> None:
        """Of a local variable, such as a counter of epochs, say which one."""
        names = {v.op.name for v in self._graph.get_collection(GraphKeys.LOCAL_VARIABLES)}
        if any(tensor.op.name in names for tensor in op.inputs):
            usual, meant = "tf.global_variables_initializer()", "tf.local_variables_initializer()"
            error.message = error.message.replace(usual, meant)
            error.args = (error.message, *error.args[1:])

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A function of the values of `feed_list`, in order, that runs this signature.

        With `accept_options` it also takes options= and run_metadata=.  Raises as `run` does.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise not_a("a list or tuple", "feed_list", feed_list)
        self._check_not_cancelled()
        tensors = [feed_rules._tensor(self._graph, item) for item in feed_list or ()]
        resolved = Fetches(self._graph, fetches)
        known = self._prepare(tensors, resolved, None)

        def call(*values: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if self._closed:
                if feed_list is not None:  # it is a run with these feeds
                    self._check_usable()
                self._check_not_cancelled()
            if len(values) != len(tensors):
                raise miscounted(len(tensors), len(values))
            if (options is not None or run_metadata is not None) and not accept_options:
                raise TypeError("pass accept_options=True to make_callable to use options")
            arrays = [*map(feed_rules.to_array, tensors, values)]
            try:
                return known.run(arrays, options, run_metadata)
            except errors.OpError as error:
                raise self._with_operation(error) from error.__cause__

        if tensors or accept_options or not resolved.single or known.plain is None:
            return call
        quick = quickly(resolved, known.plain)

        def call_quickly() -> Any:
            if self._closed:
                self._check_not_cancelled()
            try:
                return quick()
            except errors.OpError as error:
                raise self._with_operation(error) from error.__cause__

        return call_quickly

    def _batch_dequeuer(self, operation: Operation) -> BatchFunction | None:
        """For a thread that does nothing but run `operation` again and again: see run.batch_dequeuer.

        None in a session of somebody's own, which may want to see every step.
        """
        kind = type(self)
        if kind.run is not BaseSession.run or kind.make_callable is not BaseSession.make_callable:
            return None
        self._check_not_cancelled()
        return self._engine.batch_dequeuer(operation)

    def _make_callable_from_options(
        self, callable_options: pb.CallableOptions
    ) -> Callable[..., Any]:
        """A function of the values of `callable_options.feed`, in order, that gives a list of
        those of its `fetch`; with run_metadata= it also fills that.

        Values must have the types of their tensors.  Raises InvalidArgument, NotFound, OutOfRange on
        names that the graph does not have; the function raises as `run` does.
        """
        if not isinstance(callable_options, pb.CallableOptions):
            raise TypeError(
                f"callable_options must be a CallableOptions proto, not {type(callable_options).__name__}"
            )
        self._check_not_cancelled()
        try:
            return OptionsCallable(self, *self._engine.callable(self._graph, callable_options))
        except errors.OpError as error:
            raise self._with_operation(error) from error.__cause__

    def _check_not_cancelled(self) -> None:
        """Raise Cancelled if the session is closed, as what was made of it earlier does."""
        if self._closed:
            raise errors.cancelled("Session has been closed; make a new tf.Session")

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Begin a step whose `feeds` and `fetches` come piece by piece; its handle, for `partial_run`.

        feeds: what will be fed: a list of tensors.  Operations among the fetches run as soon as they can.
        Raises as `run` does, and InvalidArgument if there is nothing to run or a tensor is both fed and
        fetched.
        """
        self._check_usable()
        resolved = Fetches(self._graph, fetches)
        tensors = feed_rules.tensors(self._graph, [] if feeds is None else feeds)
        try:
            return self._engine.begin_partial(tensors, resolved.tensors, resolved.targets)
        except errors.OpError as error:
            raise self._with_operation(error) from error.__cause__

    def partial_run(
        self, handle: str | None, fetches: Any, feed_dict: Mapping[Any, Any] | None = None
    ) -> Any:
        """Go on with a step that `partial_run_setup` began: feed some, and wait for some fetches.

        Each feed and fetch has its turn once; with the last of them the step ends.  Without a handle
        this is `run`.  Raises RuntimeError (operations among the fetches), InvalidArgument (what the
        step does not have to feed or fetch, a fetch that needs more feeds), and as `run` does; then
        the step is over.
        """
        if handle is None:
            return self.run(fetches, feed_dict)
        self._check_usable()
        if not isinstance(handle, str):
            raise TypeError(f"the handle of a partial run is a string, not {handle!r:.60}")
        if feed_dict is not None and not isinstance(feed_dict, Mapping):
            raise TypeError(feed_rules.not_a_dict(feed_dict))
        fed = feed_rules.resolve(self._graph, feed_dict or {})
        resolved = Fetches(self._graph, fetches)
        if resolved.targets:
            raise RuntimeError(
                "partial_run() requires empty `target_list`: it fetches tensors; give the operation "
                f"{resolved.targets[0].name!r} to partial_run_setup"
            )
        strings = feed_rules.string_positions(list(fed))
        steps_values = feed_rules.encoded(list(fed.values()), strings)
        values = {tensor.name: value for tensor, value in zip(fed, steps_values, strict=True)}
        names = [tensor.name for tensor in resolved.tensors if tensor not in fed]
        try:
            found = presented(self._engine.partial_step(handle, values, names))
            computed = iter(found)
            return resolved.build(
                [
                    feed_rules.as_fed(fed[t]) if t in fed else next(computed)
                    for t in resolved.tensors
                ]
            )
        except errors.OpError as error:
            raise self._with_operation(error) from error.__cause__

    def _check_usable(self) -> None:
        """Raise RuntimeError if the session is closed or its graph empty."""
        if self._closed:
            raise RuntimeError(CLOSED)
        if not len(self._graph):
            raise RuntimeError(EMPTY)

    def blocked_steps(self) -> list[BlockedStep]:
        """The nodes of this session's steps that wait now, on all its tasks, the longest wait first:
        what they wait for, in which state that is, and why, as far as it can be told.

        Raises Cancelled on a closed session, Unimplemented if the master is TensorFlow's and cannot say,
        Unavailable or DeadlineExceeded if it does not answer.
        """
        from headrace.client.blocked import explained, producers_of

        self._check_not_cancelled()
        producers = producers_of(self._graph, self._producers)
        return explained(self._engine.inspect(), self._graph, producers, self)

    def list_devices(self) -> list[Any]:
        """The devices steps of this session may use: name, device_type, memory_limit_bytes,
        incarnation.  Raises Cancelled on a closed session.
        """
        from headrace.client.devices import DeviceAttributes

        self._check_not_cancelled()
        return [DeviceAttributes.from_proto(proto) for proto in self._engine.list_devices()]

    def close(self) -> None:
        """Cancel what the session runs and free what it holds; it cannot be used any more."""
        if not self._closed:
            self._closed = True
            self._quick.clear()
            self._end_reports()
            self._engine.close()
            self._steps.clear()

    def as_default(self) -> Any:
        """Context manager: the default session of this thread inside; not closed on leaving."""
        return _default(self)

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if _is_finalizing():  # everything ends now, and nothing that this would need may be there
            return
        if getattr(self, "_engine", None) is not None and not self._closed:
            self._closed = True
            self._end_reports()
            self._engine.release()

    def _limit_missing_members(self, seconds: float) -> None:
        """End the session when a step has waited so long at a barrier for a task that does not answer."""
        self._member_limit_s = seconds

    def _tell_long_wait(self, waited_s: float) -> None:
        from headrace.serve.observe import reporter

        if self._member_limit is None and self._member_limit_s is not None:
            from headrace.client.missing_members import MemberLimit  # where something waits long

            self._member_limit = MemberLimit(self, self._member_limit_s)
        if self._member_limit is not None:
            self._member_limit.waits(waited_s)
        self._forget_reports = reporter.forget
        self._engine.waits_long(waited_s)
        handle = self._engine.handle
        where = f"at {self._target}" if self._target else "of this process"
        reporter.watch(
            self, f"session {handle} {where}" if handle else f"a session {where}", waited_s
        )

    def _end_reports(self) -> None:
        if self._forget_reports is not None:
            self._forget_reports(self)
        if self._member_limit is not None:
            self._member_limit.forget()


def _teller(session: weakref.ref[BaseSession]) -> Callable[[float], None]:
    """Tells a session, while it is there, that something in it waits long."""

    def told(waited_s: float) -> None:
        there = session()
        if there is not None and not there._closed:
            there._tell_long_wait(waited_s)

    return told


class _default:
    def __init__(self, session: BaseSession) -> None:
        self._session = session

    def __enter__(self) -> BaseSession:
        scopes.push_session(self._session)
        return self._session

    def __exit__(self, *exc: object) -> None:
        scopes.pop_session(self._session)


class Session(BaseSession):
    """Runs operations of a graph.  As a context manager it and its graph are the defaults inside,
    and it is closed on leaving.
    """

    def __init__(
        self,
        target: str = "",
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        *,
        security: Security | None = None,
    ) -> None:
        super().__init__(target, graph, config, security=security)
        self._entered: Any = None

    def __enter__(self) -> Session:
        if self._entered is not None:
            raise RuntimeError(
                "Session context managers are not re-entrant: a session is entered once, because leaving closes it; "
                "with session.as_default() enters it as often as you like"
            )
        self._entered = self._graph.as_default()
        self._entered.__enter__()
        scopes.push_session(self)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            scopes.pop_session(self)
        finally:
            entered, self._entered = self._entered, None
            entered.__exit__(kind, value, trace)
            self.close()

    @staticmethod
    def reset(
        target: str | bytes | None,
        containers: Sequence[str] | None = None,
        config: pb.ConfigProto | None = None,
        *,
        security: Security | None = None,
    ) -> None:
        """Empty containers (the default one if none is named) on every task; close the sessions of the master there.

        Without a target it closes all local sessions of this process, whose containers are their own.
        Raises TypeError, NotFound (a target that is none), connection errors.
        """
        if target is not None and not isinstance(target, (str, bytes)):
            raise TypeError(
                f"Expected binary or unicode string, got {target!r:.60}: that is no target"
            )
        named = list(containers or ())
        target = target.decode() if isinstance(target, bytes) else target
        if not target or target == "local":
            from headrace.client.local import reset as reset_local

            reset_local()
            return
        from headrace.client.reset import reset

        reset(target, named, config, security)


class InteractiveSession(BaseSession):
    """A session that is the default as soon as it is made, until it is closed."""

    def __init__(
        self,
        target: str = "",
        graph: Graph | None = None,
        config: pb.ConfigProto | None = None,
        *,
        security: Security | None = None,
    ) -> None:
        super().__init__(target, graph, config, security=security)
        self._explicit_graph = graph.as_default() if graph is not None else None
        if self._explicit_graph is not None:
            self._explicit_graph.__enter__()
        scopes.push_session(self)

    def close(self) -> None:
        """Close and stop being the default."""
        if not self._closed:
            scopes.pop_session(self, nested=False)
            if self._explicit_graph is not None:
                self._explicit_graph.__exit__(None, None, None)
        super().close()


def _engine(
    target: str, graph: Graph, config: pb.ConfigProto | None, security: Security | None
) -> Engine:
    engine: Engine
    if not target or target == "local":
        with collects_nothing():
            from headrace.client.local import LocalEngine  # with all that compiles a step

        engine = LocalEngine(graph, config)
    else:
        with collects_nothing():
            from headrace.client.remote import RemoteEngine

        engine = RemoteEngine(target, graph, config, security)
    if spans.wanted():
        from headrace.client.traced import TracedEngine

        traced: Any = TracedEngine(engine, target)
        engine = traced
    return engine
