"""`slim.learning`: a training op, and the loop that runs it until it is enough.

Called by: programs.  Threads: the caller's runs the steps; those of the supervisor do the rest and have ended when
`train` returns.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.base import errors
from headrace.base.traits import NEVER_FAILS, STATEFUL
from headrace.codec import protos as pb
from headrace.graph.collections import GraphKeys
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.scopes import get_default_graph
from headrace.library.variables.variable_lists import (
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    tables_initializer,
)
from headrace.ops.array.constants import constant
from headrace.ops.flow.identities import group
from headrace.ops.io.summaries import merge_all
from headrace.ops.math.comparisons import equal, greater_equal
from headrace.ops.tables import make
from headrace.training import logging
from headrace.training.contrib import gradients
from headrace.training.contrib.gradients import (
    USE_GLOBAL_STEP,
    add_gradients_summaries,
    clip_gradient_norms,
    multiply_gradients,
)
from headrace.training.gfile import Open
from headrace.training.global_step import get_or_create_global_step
from headrace.training.optimizer import Optimizer
from headrace.training.saver.saver import Saver
from headrace.training.supervisor import Supervisor
from headrace.training.sync_replicas import SyncReplicasOptimizer
from headrace.training.timeline import Timeline

__all__ = [
    "add_gradients_summaries",
    "clip_gradient_norms",
    "create_train_op",
    "multiply_gradients",
    "train",
    "train_step",
]

_USE_DEFAULT: Final = 0
_SAME_STEPS: Final = 100
"""In a row that leave the global step as it is, before that is said."""
_BETWEEN_STARTS_S: Final = 1.0
"""Between two looks of a worker that starts late at the step of the others."""


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Iterable[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    clip_gradient_norm: Any = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Any:
    """As `tf.contrib.training.create_train_op`, with gradients multiplied and then clipped as is said.

    clip_gradient_norm: the largest length of each gradient; 0 clips none.  Raises ValueError, AssertionError.
    """

    def transformed(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        if gradient_multipliers:
            with name_scope("multiply_grads"):
                pairs = multiply_gradients(pairs, gradient_multipliers)
        if clip_gradient_norm > 0:
            with name_scope("clip_grads"):
                pairs = clip_gradient_norms(pairs, clip_gradient_norm)
        return pairs

    return gradients.create_train_op(
        total_loss,
        optimizer,
        global_step,
        update_ops,
        variables_to_train,
        transformed,
        summarize_gradients,
        gate_gradients,
        aggregation_method,
        colocate_gradients_with_ops,
        check_numerics,
    )


def train_step(
    sess: Any, train_op: Any, global_step: Any, train_step_kwargs: Mapping[str, Any]
) -> tuple[Any, bool]:
    """One step: its loss, and whether it is enough.

    train_step_kwargs: tensors ``should_stop``, ``should_log`` and ``should_trace``, with ``logdir`` for traces.
    """
    total_loss, _, enough = _one_step(sess, train_op, global_step, train_step_kwargs)
    return total_loss, enough


def _one_step(
    sess: Any, train_op: Any, global_step: Any, train_step_kwargs: Mapping[str, Any]
) -> tuple[Any, Any, bool]:
    """As `train_step`; with the global step."""
    began = time.monotonic()
    options = metadata = None
    if "should_trace" in train_step_kwargs:
        if "logdir" not in train_step_kwargs:
            raise ValueError(
                "logdir must be present in train_step_kwargs when should_trace is present"
            )
        if sess.run(train_step_kwargs["should_trace"]):
            options = pb.RunOptions(trace_level=pb.RunOptions.FULL_TRACE)
            metadata = pb.RunMetadata()
    total_loss, step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
    elapsed = time.monotonic() - began
    if metadata is not None:
        path = os.path.join(train_step_kwargs["logdir"], f"tf_trace-{step}.json")
        logging.info("Writing trace to %s", path)
        with Open(path, "w") as file:
            file.write(Timeline(metadata.step_stats).generate_chrome_trace_format())
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, total_loss, elapsed)
    if "should_stop" in train_step_kwargs:
        return total_loss, step, bool(sess.run(train_step_kwargs["should_stop"]))
    return total_loss, step, False


def train(
    train_op: Any,
    logdir: str | None,
    train_step_fn: Callable[..., tuple[Any, bool]] = train_step,
    train_step_kwargs: Any = _USE_DEFAULT,
    log_every_n_steps: int | None = 1,
    graph: Any = None,
    master: str = "",
    is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: int | None = None,
    init_op: Any = _USE_DEFAULT,
    init_feed_dict: Mapping[Any, Any] | None = None,
    local_init_op: Any = _USE_DEFAULT,
    init_fn: Callable[[Any], object] | None = None,
    ready_op: Any = _USE_DEFAULT,
    summary_op: Any = _USE_DEFAULT,
    save_summaries_secs: float = 600,
    summary_writer: Any = _USE_DEFAULT,
    startup_delay_steps: int = 0,
    saver: Any = None,
    save_interval_secs: float = 600,
    sync_optimizer: Any = None,
    session_config: pb.ConfigProto | None = None,
    session_wrapper: Callable[[Any], Any] | None = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:
    """Run training steps until the global step is number_of_steps, an input ends, or train_step_fn says so.

    The chief restores the latest checkpoint of logdir, or initializes variables and calls init_fn; it saves
    checkpoints and summaries there, at the end too.  A server that starts again is waited for.  sync_optimizer: the
    SyncReplicasOptimizer, or several.  Blocks.  Gives the loss of the last step.
    A global step that stays as it is while it is to become number_of_steps is told of in the log.
    Raises ValueError: what cannot be meant, as a train_op that changes nothing and waits for nothing, in a training
    that nobody else could end; what a step raises.
    """
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    plain = train_step_fn is train_step and train_step_kwargs == _USE_DEFAULT
    _check_logdir(logdir, summary_op, saver, trace_every_n_steps)
    _check_counts(sync_optimizer, startup_delay_steps, number_of_steps)
    graph = get_default_graph() if graph is None else graph
    with graph.as_default():
        global_step = get_or_create_global_step() if global_step is None else global_step
        saves: dict[str, Any] = {"saver": saver or Saver(), "save_model_secs": save_interval_secs}
        starts = _starting(init_op, ready_op, local_init_op)
        together = _synchronized(sync_optimizer, starts["local_init_op"], is_chief)
        if summary_op == _USE_DEFAULT:
            summary_op = merge_all()
        if train_step_kwargs == _USE_DEFAULT:
            every = log_every_n_steps, trace_every_n_steps
            train_step_kwargs = _step_kwargs(global_step, number_of_steps, *every, logdir)
        if plain and not (master or sync_optimizer or session_wrapper or init_fn):
            _check_may_end(graph, train_op)
    watched = _Watched(number_of_steps) if plain and number_of_steps else None
    starts |= together.starts | {"init_feed_dict": init_feed_dict, "init_fn": init_fn}
    summaries: dict[str, Any] = {
        "summary_writer": summary_writer,
        "save_summaries_secs": save_summaries_secs,
    }
    known: dict[str, Any] = {
        "graph": graph,
        "global_step": global_step,
        "logdir": logdir,
        "summary_op": summary_op,
    }
    return _run(
        Supervisor(is_chief=is_chief, **known, **starts, **saves, **summaries),
        lambda sess: (watched.step if watched else train_step_fn)(
            sess, train_op, global_step, train_step_kwargs
        ),
        _Sessions(master, session_config, session_wrapper),
        together,
        min(startup_delay_steps, number_of_steps or startup_delay_steps),
        ignore_live_threads,
    )


def _starting(init_op: Any, ready_op: Any, local_init_op: Any) -> dict[str, Any]:
    """The three, made where they were not given, as a Supervisor takes them."""
    with name_scope("init_ops"):
        if init_op == _USE_DEFAULT:
            init_op = global_variables_initializer()
        if ready_op == _USE_DEFAULT:
            ready_op = report_uninitialized_variables()
        if local_init_op == _USE_DEFAULT:
            local_init_op = group(local_variables_initializer(), tables_initializer())
    return {"init_op": init_op, "ready_op": ready_op, "local_init_op": local_init_op}


def _check_logdir(logdir: Any, summary_op: Any, saver: Any, trace_every_n_steps: Any) -> None:
    if logdir is None:
        if summary_op is not None and summary_op != _USE_DEFAULT:
            raise ValueError("Cannot provide summary_op because logdir=None")
        if saver is not None:
            raise ValueError("Cannot provide saver because logdir=None")
        if trace_every_n_steps is not None:
            raise ValueError("Cannot provide trace_every_n_steps because logdir=None")


def _check_counts(
    sync_optimizer: Any, startup_delay_steps: int, number_of_steps: int | None
) -> None:
    if sync_optimizer is not None and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")


def _check_may_end(graph: Any, train_op: Any) -> None:
    """Raise ValueError if no step changes anything, waits for anything or fails, and there are no queue runners."""
    if graph.get_collection(GraphKeys.QUEUE_RUNNERS):
        return
    seen = {getattr(train_op, "op", train_op)}
    left = list(seen)
    while left:
        op = left.pop()
        if not isinstance(op, Operation) or STATEFUL in op.traits or NEVER_FAILS not in op.traits:
            return
        before = {*op.control_inputs, *(tensor.op for tensor in op.inputs)} - seen
        seen |= before
        left += before
    raise ValueError(
        f"train_op {train_op.name!r} changes nothing: the global step would stay as it is, and the training "
        "would never end; make it by create_train_op, or give a train_step_fn that says when it is enough"
    )


class _Watched:
    """Steps that the training counts: it is said when the global step stays as it is."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._last: Any = None
        self._same = 0
        self._tell_at = _SAME_STEPS

    def step(self, *args: Any) -> tuple[Any, bool]:
        """As `train_step`."""
        loss, step, enough = _one_step(*args)
        self._same = self._same + 1 if step == self._last else 0
        self._last = step
        if self._same >= self._tell_at and not enough:
            self._tell_at *= 2
            logging.warning(
                "%d steps have left the global step at %d; the training ends at %d: does train_op increment it?",
                self._same,
                step,
                self._wanted,
            )
        return loss, enough


class _Together(NamedTuple):
    """What workers that train in step do besides.  starts: of what a Supervisor takes."""

    starts: dict[str, Any]
    runners: list[Any]
    tokens: list[Any]


class _Sessions(NamedTuple):
    """How they are made.  wrap: what is called with each, and gives what steps get."""

    master: str
    config: pb.ConfigProto | None
    wrap: Callable[[Any], Any] | None


def _synchronized(optimizers: Any, local_init_op: Any, is_chief: bool) -> _Together:
    """optimizers: a SyncReplicasOptimizer, or several, or None.  Raises ValueError: something else."""
    if optimizers is None:
        return _Together({}, [], [])
    several = optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]
    if not several or not all(isinstance(each, SyncReplicasOptimizer) for each in several):
        raise ValueError(
            f"`sync_optimizer` must be a tf.train.SyncReplicasOptimizer, or a list of them, not {optimizers!r}"
        )
    with control_dependencies([] if local_init_op is None else [local_init_op]):
        started = group(
            *(each.chief_init_op if is_chief else each.local_step_init_op for each in several)
        )
    ready = several[0].ready_for_local_init_op
    return _Together(
        {"local_init_op": started, "ready_for_local_init_op": ready},
        [each.get_chief_queue_runner() for each in several] if is_chief else [],
        [each.get_init_tokens_op() for each in several] if is_chief else [],
    )


def _step_kwargs(
    global_step: Any,
    number_of_steps: int | None,
    log_every_n_steps: int | None,
    trace_every_n_steps: int | None,
    logdir: str | None,
) -> dict[str, Any]:
    """What `train_step` is to know."""
    with name_scope("train_step"):
        found: dict[str, Any] = {}
        if number_of_steps:
            found["should_stop"] = greater_equal(global_step, number_of_steps)
        else:
            found["should_stop"] = constant(False)
        if log_every_n_steps and log_every_n_steps > 0:
            found["should_log"] = equal(make.FloorMod(global_step, log_every_n_steps), 0)
        if trace_every_n_steps is not None:
            found["should_trace"] = equal(make.FloorMod(global_step, trace_every_n_steps), 0)
            found["logdir"] = logdir
        return found


def _run(
    supervisor: Supervisor,
    step: Callable[[Any], tuple[Any, bool]],
    sessions: _Sessions,
    together: _Together,
    delay_steps: int,
    ignore_live_threads: bool,
) -> Any:
    """Sessions, one after the other where a server has started again, until the training has ended."""
    while True:
        try:
            with supervisor.managed_session(
                sessions.master, start_standard_services=False, config=sessions.config
            ) as sess:
                logging.info("Starting Session.")
                if sessions.wrap is not None:
                    logging.info("Wrapping session with wrapper function: %s", sessions.wrap)
                    sess = sessions.wrap(sess)
                if supervisor.is_chief:
                    if supervisor.save_path:
                        supervisor.start_standard_services(sess)
                elif delay_steps > 0:
                    _wait_for_step(supervisor, sess, delay_steps)
                threads = supervisor.start_queue_runners(sess)
                logging.info("Starting Queues.")
                threads += supervisor.start_queue_runners(sess, together.runners)
                for each in together.tokens:
                    sess.run(each)
                return _steps(supervisor, step, sess, threads, ignore_live_threads)
        except errors.AbortedError as error:
            # The session is gone: a server has started again.
            logging.info("Retrying training: %s", error)


def _steps(
    supervisor: Supervisor,
    step: Callable[[Any], tuple[Any, bool]],
    sess: Any,
    threads: list[Any],
    ignore_live_threads: bool,
) -> Any:
    loss = None
    try:
        while not supervisor.should_stop():
            loss, enough = step(sess)
            if enough:
                logging.info("Stopping Training.")
                supervisor.request_stop()
                break
    except errors.OutOfRangeError as error:
        logging.info("Caught OutOfRangeError. Stopping Training. %s", error)
    if supervisor.is_chief and supervisor.save_path:
        logging.info("Finished training! Saving model to disk.")
        supervisor.saver.save(sess, supervisor.save_path, global_step=supervisor.global_step)
    supervisor.stop(threads, close_summary_writer=False, ignore_live_threads=ignore_live_threads)
    return loss


def _wait_for_step(supervisor: Supervisor, sess: Any, wanted: int) -> None:
    """Until the other workers have done that many steps, or the training is to stop."""
    while sess.run(supervisor.global_step) < wanted:
        if supervisor.coord.wait_for_stop(_BETWEEN_STARTS_S):
            return
