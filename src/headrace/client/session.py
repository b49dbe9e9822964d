"""Session: feeds in, fetches out.

A session resolves what the caller names against its graph, keeps one compiled step per signature
(fed tensors, fetched tensors, operations), and hands values to the engine that runs it: this
process for ``Session()``, a cluster's master for ``Session("grpc://host:port")``.
Threads: any number may run one session at once.  A blocked `run` ends by Ctrl-C, `close`, or its
timeout, and leaves the session usable (but for `close`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.client import feeds as feed_rules
from headrace.client.engine import Engine, StepFunction
from headrace.client.fetches import Fetches, cache_key
from headrace.client.local import LocalEngine
from headrace.client.present import presented
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor

_MOST_PLANS = 4096


class BaseSession:
    """What Session and InteractiveSession share."""

    def __init__(
        self, target: str = "", graph: Graph | None = None, config: pb.ConfigProto | None = None
    ) -> None:
        """target: '' for this process, or ``grpc://host:port`` of a server.

        Raises TypeError on arguments of the wrong kind; errors of the cluster come from the first
        call that reaches it.
        """
        if graph is None:
            graph = scopes.get_default_graph()
        if not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, not {type(graph).__name__}")
        if isinstance(target, bytes):
            target = target.decode()
        if not isinstance(target, str):
            raise TypeError(f"target must be a string, not {type(target).__name__}")
        if config is not None and not isinstance(config, pb.ConfigProto):
            raise TypeError(f"config must be a tf.ConfigProto, not {type(config).__name__}")
        self._graph = graph
        self._target = target
        self._config = config
        self._closed = False
        self._steps: dict[Any, tuple[Callable[[list[Any]], Any], StepFunction]] = {}
        self._engine = _engine(target, graph, config)

    @property
    def graph(self) -> Graph:
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
        strings are bytes, operations give None.
        options: timeout_in_ms, trace_level.  run_metadata: filled with step_stats when traced.
        Raises: RuntimeError (closed session, empty graph), TypeError and ValueError (feeds, fetches),
        and the tf.errors class of whatever fails in the step, with node, device and step.
        """
        if self._closed:
            raise RuntimeError("the session is closed; make a new tf.Session")
        if feed_dict:
            fed = feed_rules.resolve(self._graph, feed_dict)
            feeds, values = tuple(fed), list(fed.values())
        else:
            if feed_dict is not None and not isinstance(feed_dict, Mapping):
                raise TypeError(f"feed_dict must be a dict, not a {type(feed_dict).__name__}")
            feeds, values = (), []
        build, step = self._prepared(fetches, feeds)
        if options is not None and not isinstance(options, pb.RunOptions):
            raise TypeError(f"options must be a tf.RunOptions, not {type(options).__name__}")
        if run_metadata is not None and not isinstance(run_metadata, pb.RunMetadata):
            raise TypeError(
                f"run_metadata must be a tf.RunMetadata, not {type(run_metadata).__name__}"
            )
        try:
            return build(presented(step(values, options, run_metadata)))
        except errors.OpError as error:
            raise self._with_operation(error) from error.__cause__

    def _prepared(
        self, fetches: Any, feeds: tuple[Tensor, ...]
    ) -> tuple[Callable[[list[Any]], Any], StepFunction]:
        try:
            key = (cache_key(fetches), feeds)
            known = self._steps.get(key)
        except TypeError:
            key, known = None, None
        if known is not None:
            return known
        if not len(self._graph):
            raise RuntimeError("the session's graph is empty: add operations to it before run()")
        resolved = Fetches(self._graph, fetches)
        try:
            step = self._step(feeds, resolved.tensors, resolved.targets)
        except errors.OpError as error:
            raise self._with_operation(error) from error.__cause__
        if key is not None:
            if len(self._steps) >= _MOST_PLANS:
                self._steps.clear()
            self._steps[key] = (resolved.build, step)
        return resolved.build, step

    def _step(
        self, feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation]
    ) -> StepFunction:
        """A step in which fetches that are fed come straight from the feeds."""
        fed = {tensor: index for index, tensor in enumerate(feeds)}
        if not any(tensor in fed for tensor in fetches):
            return self._engine.step(feeds, fetches, targets)
        inner = self._engine.step(feeds, [t for t in fetches if t not in fed], targets)

        def run(values: Sequence[Any], options: Any, metadata: Any) -> list[Any]:
            computed = iter(inner(values, options, metadata))
            return [values[fed[t]].copy() if t in fed else next(computed) for t in fetches]

        return run

    def _with_operation(self, error: errors.OpError) -> errors.OpError:
        if error.op is None and error.node is not None:
            op = self._graph._ops.get(error.node)
            if op is not None:
                error.with_context(op=op, node_def=op.node_def)
                error.built_at = op.built_at  # here, not where a server imported the graph
        return error.with_traceback(None)

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A function of the values of `feed_list`, in order, that runs this signature.

        With `accept_options` it also takes options= and run_metadata=.  Raises as `run` does.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("feed_list must be a list of tensors")
        tensors = [feed_rules._tensor(self._graph, item) for item in feed_list or ()]
        resolved = Fetches(self._graph, fetches)
        step = self._step(tensors, resolved.tensors, resolved.targets)

        def call(*values: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if self._closed:
                raise RuntimeError("the session is closed; make a new tf.Session")
            if len(values) != len(tensors):
                raise ValueError(
                    f"the callable takes {len(tensors)} values, one a feed, not {len(values)}"
                )
            if (options is not None or run_metadata is not None) and not accept_options:
                raise TypeError("pass accept_options=True to make_callable to use options")
            arrays = [feed_rules.to_array(t, v) for t, v in zip(tensors, values, strict=True)]
            try:
                return resolved.build(presented(step(arrays, options, run_metadata)))
            except errors.OpError as error:
                raise self._with_operation(error) from error.__cause__

        return call

    def list_devices(self) -> list[Any]:
        """The devices steps of this session may use: name, device_type, memory_limit_bytes,
        incarnation.
        """
        from headrace.client.devices import DeviceAttributes

        return [DeviceAttributes.from_proto(proto) for proto in self._engine.list_devices()]

    def close(self) -> None:
        """Cancel what the session runs and free what it holds; it cannot be used any more."""
        if not self._closed:
            self._closed = True
            self._engine.close()
            self._steps.clear()

    def as_default(self) -> Any:
        """Context manager: the default session of this thread inside; not closed on leaving."""
        return _default(self)

    def __del__(self) -> None:
        if getattr(self, "_engine", None) is not None and not self._closed:
            self._closed = True
            self._engine.release()


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
        self, target: str = "", graph: Graph | None = None, config: pb.ConfigProto | None = None
    ) -> None:
        super().__init__(target, graph, config)
        self._entered: list[Any] = []

    def __enter__(self) -> Session:
        if self._closed:
            raise RuntimeError("the session is closed; make a new tf.Session")
        graph_default = self._graph.as_default()
        graph_default.__enter__()
        scopes.push_session(self)
        self._entered.append(graph_default)
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        scopes.pop_session(self)
        self._entered.pop().__exit__(kind, value, trace)
        if not self._entered:
            self.close()

    @staticmethod
    def reset(
        target: str, containers: Sequence[str] | None = None, config: pb.ConfigProto | None = None
    ) -> None:
        """Empty containers (the default one if none is named) on every task of a cluster, and close
        all sessions of the master at `target`.

        Raises Unimplemented for local sessions, which share nothing; connection errors.
        """
        if not target:
            raise errors.unimplemented(
                "a local session shares no containers: close it and make a new one, or pass a grpc:// target"
            )
        from headrace.client.remote import reset

        reset(target, list(containers or ()), config)


class InteractiveSession(BaseSession):
    """A session that is the default as soon as it is made, until it is closed."""

    def __init__(
        self, target: str = "", graph: Graph | None = None, config: pb.ConfigProto | None = None
    ) -> None:
        super().__init__(target, graph, config)
        self._explicit_graph = graph.as_default() if graph is not None else None
        if self._explicit_graph is not None:
            self._explicit_graph.__enter__()
        scopes.push_session(self)

    def close(self) -> None:
        """Close and stop being the default."""
        if not self._closed:
            scopes.pop_session(self)
            if self._explicit_graph is not None:
                self._explicit_graph.__exit__(None, None, None)
        super().close()


def _engine(target: str, graph: Graph, config: pb.ConfigProto | None) -> Engine:
    if not target or target == "local":
        return LocalEngine(config)
    from headrace.client.remote import RemoteEngine

    return RemoteEngine(target, graph, config)
