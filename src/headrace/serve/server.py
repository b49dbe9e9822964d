"""Server: one task of a cluster, serving from this process.

Several servers may live in one process; clients of the same process reach them without a socket.
Threads: those of the pool, all daemons; `stop` ends them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.base.limits import check_settings as check_limits
from headrace.codec import protos as pb
from headrace.run import spans
from headrace.run.readers.files import Files, named_roots
from headrace.run.scope import Scope, wait_until_set
from headrace.serve.cluster import ClusterSpec, required
from headrace.serve.connect import local_servers
from headrace.serve.connect.liveness import frozen_after_s
from headrace.serve.connect.readiness import connect_timeout_s
from headrace.serve.connect.transports import transports
from headrace.serve.master.master import Master
from headrace.serve.observe.blocked import BlockedStep, of_tasks
from headrace.serve.rpc.methods import MASTER_METHODS, WORKER_METHODS
from headrace.serve.rpc.options import max_message_bytes
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security, chosen, is_loopback
from headrace.serve.rpc.tcp import addresses_of
from headrace.serve.rpc.transport import Listener, Serving
from headrace.serve.worker.worker import Worker

if TYPE_CHECKING:
    from headrace.serve.http.server import HttpServer

_SWITCH_INTERVAL_S = 0.0002  # so that a request does not wait for long while Python code runs
_LAST_WORDS_S = 0.5  # for calls that were told to end to say so to their callers
_REPLIES_S = 5.0  # of the grace, for replies of steps that have ended within it
_CLOSE_WITHIN_S = 2.0  # for other tasks to forget the sessions of this one


class Server:
    """A task: master and worker services on the address the cluster spec gives it."""

    def __init__(
        self,
        server_or_cluster_def: Any = None,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: pb.ConfigProto | None = None,
        start: bool = True,
        *,
        security: Security | None = None,
        file_roots: Iterable[str | os.PathLike[str]] | None = None,
    ) -> None:
        """server_or_cluster_def: ServerDef, ClusterDef, ClusterSpec or dict.  None: what TF_CONFIG says.

        job_name and task_index may be left out when the cluster has one job, or one task of it, and where
        TF_CONFIG says them beside its cluster.
        Port 0 lets the system choose.
        security: who may connect, and what other tasks are shown.  None: as the environment says.
        file_roots: directories beneath which graphs may use files, [] for none.  None: those of
        HEADRACE_FILE_ROOTS, else every file on a loopback address, elsewhere those beneath the
        working directory.
        Raises ValueError and InternalError (a cluster that does not
        name this task; TF_CONFIG that is missing or wrong), NotFoundError (a protocol that is not grpc),
        InvalidArgumentError (an address that is not HOST:PORT), UnknownError (the port is taken).
        """
        self._server_def = _server_def(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        if isinstance(file_roots, (str, bytes, os.PathLike)):
            raise TypeError(f"file_roots must be a list of directories, not {file_roots!r}")
        if security is not None:
            chosen(security)
        self._security = security
        self._file_roots = None if file_roots is None else list(file_roots)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._listeners: list[Listener] = []  # the main one last
        self._address = ""
        self._metrics: HttpServer | None = None
        self.master: Master
        self.worker: Worker
        self._pool: GrowingPool
        if start:
            self.start()

    def start(self) -> None:
        """Listen and serve.  Once; a stopped server stays stopped."""
        with self._lock:
            if self._stopped.is_set():
                raise errors.failed_precondition(
                    "the server was stopped; make a new tf.train.Server"
                )
            if not self._listeners:
                self._start()

    def _start(self) -> None:
        definition = self._server_def
        job, index = definition.job_name, definition.task_index
        addresses = ClusterSpec(definition.cluster).task_names()
        task = f"/job:{job}/replica:0/task:{index}"
        host, port = _host_and_port(addresses[task], task)
        trusting, most = chosen(self._security), max_message_bytes()
        # Said now if they cannot be understood.
        connect_timeout_s(), frozen_after_s()
        check_limits()
        bind = os.environ.get("HEADRACE_BIND", "").strip() or host
        try:
            ips = addresses_of(bind)
        except RuntimeError as error:
            raise _cannot_listen(task, bind, port) from error
        trusting.check_may_listen(ips, task)
        files = self._files(task, not all(map(is_loopback, ips)))
        self._pool = GrowingPool(f"headrace {job}:{index}")
        config = definition.default_session_config
        threads = config.intra_op_parallelism_threads
        make_worker, make_master = _kinds()
        self.worker = make_worker(task, addresses, self._pool, config, files, trusting, threads)
        self.master = make_master(self.worker, config)
        if sys.getswitchinterval() > _SWITCH_INTERVAL_S:
            sys.setswitchinterval(_SWITCH_INTERVAL_S)
        services = [(self.master, MASTER_METHODS), (self.worker, WORKER_METHODS)]
        serving = Serving(
            services,
            self._pool,
            self.worker.incarnation,
            trusting,
            self.worker.calls,
            bind,
            port,
            task,
            most,
        )
        self._address = self._listen(serving, host)
        local_servers.add(self._address, self)
        place = os.environ.get("HEADRACE_METRICS", "").strip()
        if place:
            self._serve_metrics(place, trusting)

    def _serve_metrics(self, place: str, trusting: Security) -> None:
        from headrace.serve.observe.metrics import serve_metrics  # which few servers need

        try:
            self._metrics = serve_metrics(self.worker, place, trusting)
        except BaseException:
            self._end(errors.unavailable("its metrics cannot be served"), None)
            raise

    def _files(self, task: str, others_reach_it: bool) -> Files:
        """What graphs may use here.  Raises InvalidArgument: a root that is no directory."""
        roots = named_roots() if self._file_roots is None else self._file_roots
        if roots is None and others_reach_it:
            roots = [os.getcwd()]
        return Files(roots, task)

    def _listen(self, serving: Serving, host: str) -> str:
        """Listen over all transports, and begin to serve; the address on that host.  Raises Unknown.

        Over those beside the main one first, which it tells of, and which can be closed again.
        """
        main, beside, _ = transports()
        bound: list[Listener] = []
        try:
            if beside is not None and (listener := beside.listen(serving)) is not None:
                bound.append(listener)
                self.worker.lane = listener.offer
            listener = main.listen(serving)
            if listener is None:
                raise errors.failed_precondition("the main transport is off")
            bound.append(listener)
        except BaseException as error:
            for each in bound:
                each.stop()
            self._pool.shutdown(wait=False)
            if isinstance(error, RuntimeError):
                raise _cannot_listen(serving.task, serving.host, serving.port) from error
            raise
        address = f"{host}:{listener.port}"
        for each in bound:
            each.start(address if serving.host == host else "")  # else another may be meant by it
        self._listeners = bound
        return address

    @property
    def target(self) -> str:
        """``grpc://host:port``, for `tf.Session`."""
        if not self._address:
            raise errors.failed_precondition("the server has not been started")
        return f"grpc://{self._address}"

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds this task's metrics, if HEADRACE_METRICS asks for them."""
        return None if self._metrics is None else f"{self._metrics.url}metrics"

    @property
    def server_def(self) -> pb.ServerDef:
        """Which cluster, and which of its tasks this is."""
        return self._server_def

    def blocked_steps(self) -> list[BlockedStep]:
        """The nodes of steps that wait on this task now, whosever sessions they are of; the longest wait first.

        Why a session's QueueRunners do not fill a queue only `Session.blocked_steps` of that session knows.
        """
        return of_tasks(self.worker.inspect(pb.InspectRequest(blocked_only=True), Scope()).task)

    def join(self) -> None:
        """Block until the server is stopped.  Ctrl-C ends the wait."""
        wait_until_set(self._stopped)

    def stop(self, grace: float | None = None) -> None:
        """Take no new steps; give those under way `grace` seconds, cancel the rest, free the port.

        Idempotent; returns when everything has ended.
        """
        with self._lock:
            if self._stopped.is_set():
                return
            if not self._listeners:
                self._stopped.set()
                return
            ended = errors.unavailable(f"the server at {self._address} was stopped")
            self._end(ended, grace)

    def _end(self, ended: errors.OpError, grace: float | None) -> None:
        """End everything; `ended` is what those get who still ask for something."""
        listeners, self._listeners = self._listeners, []
        local_servers.remove(self._address, self)
        draining = Scope(grace or 0.0)
        if grace:
            self.worker.stopping = ended.message
            with contextlib.suppress(errors.DeadlineExceededError):
                self.master.drain(ended, draining)
            with contextlib.suppress(errors.DeadlineExceededError):
                self.worker.drain(ended, draining)
        if self._metrics is not None:
            self._metrics.stop()
        self.master.close(ended, Scope(_CLOSE_WITHIN_S))
        self.worker.close(ended)
        self.worker.lane = None  # whoever asks is not sent there any more
        for each in listeners:
            each.stop(max(_LAST_WORDS_S, min(draining.remaining() or 0.0, _REPLIES_S)))
        self._pool.shutdown()
        self._stopped.set()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @staticmethod
    def create_local_server(config: pb.ConfigProto | None = None, start: bool = True) -> Server:
        """A cluster of one task, /job:localhost/task:0, in this process, on a port that the system chooses."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)


def _kinds() -> tuple[type[Worker], type[Master]]:
    """Those that make spans, if the program wants any."""
    if not spans.wanted():
        return Worker, Master
    from headrace.serve.master.traced import TracedMaster
    from headrace.serve.worker.traced import TracedWorker

    return TracedWorker, TracedMaster


def _server_def(
    given: Any,
    job_name: str | None,
    task_index: int | None,
    protocol: str | None,
    config: pb.ConfigProto | None,
) -> pb.ServerDef:
    found = pb.ServerDef()
    for name, value, kind in (
        ("job_name", job_name, str),
        ("task_index", task_index, int),
        ("protocol", protocol, str),
        ("config", config, pb.ConfigProto),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{name} must be a {kind.__name__}, not {value!r:.60} ({type(value).__name__})"
            )
    if isinstance(given, pb.ServerDef):
        found.CopyFrom(given)
    elif given is None:
        said = required("tf.train.Server() without a cluster")
        job_name, task_index = said.task(job_name, task_index)
        protocol = protocol or said.rpc_layer
        found.cluster.CopyFrom(said.cluster.as_cluster_def())
    else:
        try:
            found.cluster.CopyFrom(ClusterSpec(given).as_cluster_def())
        except TypeError as error:
            raise TypeError(
                "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or `tf.train.ClusterSpec`: "
                f"{error}"
            ) from None
    if job_name is not None:
        found.job_name = job_name
    if task_index is not None:
        found.task_index = task_index
    if protocol is not None:
        found.protocol = protocol
    if config is not None:
        found.default_session_config.CopyFrom(config)
    _complete(found, task_index is None and not isinstance(given, pb.ServerDef))
    return found


def _complete(found: pb.ServerDef, guess_task: bool) -> None:
    """Fill in what may be left out, and check that the cluster names this task."""
    jobs = {job.name: dict(job.tasks) for job in found.cluster.job}
    if not found.job_name:
        if len(jobs) != 1:
            raise ValueError(
                f"Must specify an explicit `job_name`: the cluster has the jobs {', '.join(sorted(jobs)) or '(none)'}"
            )
        found.job_name = next(iter(jobs))
    if found.job_name not in jobs:
        if guess_task:
            raise ValueError(
                f"No such job in cluster: {found.job_name!r}; it has {', '.join(sorted(jobs)) or 'none'}"
            )
        raise errors.internal(
            f'Job "{found.job_name}" was not defined in cluster, which has {", ".join(sorted(jobs)) or "no jobs"}'
        )
    tasks = jobs[found.job_name]
    if guess_task:
        if len(tasks) != 1:
            raise ValueError(
                f"Must specify an explicit `task_index`: job {found.job_name!r} has the tasks {sorted(tasks)}"
            )
        found.task_index = next(iter(tasks))
    if found.task_index not in tasks:
        raise errors.internal(
            f'Task {found.task_index} was not defined in job "{found.job_name}", which has {sorted(tasks)}'
        )
    if not found.protocol:
        found.protocol = "grpc"
    if found.protocol != "grpc":
        raise errors.not_found(
            f"No server factory registered for the given ServerDef: {found.protocol!r} is spoken by none; use 'grpc'"
        )


def _cannot_listen(task: str, host: str, port: int) -> errors.OpError:
    return errors.unknown(
        f"could not start a gRPC server for {task} on {host}:{port}: the port is taken or the address is "
        "not this host's; stop what listens there, or give the task another port (0: the system chooses)"
    )


def _host_and_port(address: str, task: str) -> tuple[str, int]:
    """Of ``host:port``.  Raises InvalidArgument."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise errors.invalid_argument(
            f'Could not parse port for local server from "{address}": the address of {task} is not HOST:PORT with a '
            "port from 0 to 65535"
        )
    return host, int(port)
