"""RunConfig under every TF_CONFIG: which task this is, and what its sessions see."""

from __future__ import annotations

import json
from typing import Any

import pytest

CLUSTER = {"chief": ["h:1"], "ps": ["h:2", "h:3"], "worker": ["h:4", "h:5"]}
OLDER = {"master": ["h:1"], "ps": ["h:2", "h:3"], "worker": ["h:4", "h:5"]}


def of(job: str | None = None, index: Any = None, cluster: Any = CLUSTER, **more: Any) -> str:
    task = {"type": job, "index": index}
    said = {"cluster": cluster, "task": {k: v for k, v in task.items() if v is not None}, **more}
    return json.dumps(said)


READ = """
import json
def described(text, **arguments):
    os.environ["TF_CONFIG"] = text
    try:
        config = tf.estimator.RunConfig(**arguments)
    finally:
        del os.environ["TF_CONFIG"]
    session = config.session_config
    return [
        config.cluster_spec.as_dict(), config.task_type, config.task_id, config.is_chief, config.num_ps_replicas,
        config.num_worker_replicas, config.master, config.evaluation_master, config.global_id_in_cluster,
        config.model_dir, config.service,
        None if session is None else [list(session.device_filters), session.allow_soft_placement,
            session.graph_options.rewrite_options.meta_optimizer_iterations]]
"""

SAID = [
    ("{}", ""),
    (of("chief", 0), ""),
    (of("worker", 1), ""),
    (of("ps", 1), ""),
    (of("evaluator", 0), ""),
    (of("evaluator", 1), ""),
    (of("chief", "0"), ""),
    (of("master", 0, OLDER), ""),
    (of("worker", 0, OLDER), ""),
    (of("ps", 0, OLDER), ""),
    (of("chief", 0, {"chief": ["h:1"]}), ""),
    (of("master", 0, {"master": ["h:1"]}), ""),
    (of("chief", 0, {"chief": ["h:1"], "evaluator": ["h:2"]}), ""),
    (of("foo", 0, {"foo": ["h:1"], "chief": ["h:2"]}), ""),
    (of("worker", 3, {"chief": {"0": "h:1"}, "worker": {"1": "h:2", "3": "h:3"}}), ""),
    (
        of("worker", 0, model_dir="/m", session_master="grpc://s", eval_session_master="grpc://e"),
        "",
    ),
    (of("chief", 0, service={"a": [1]}), ""),
    (json.dumps({"model_dir": "/m", "session_master": "grpc://s", "eval_session_master": "x"}), ""),
    (
        json.dumps({"service": 1}),
        "If \"service\" is set in TF_CONFIG, it must be a dict. Given <class 'int'>",
    ),
    (of("chief"), 'If "cluster" is set in TF_CONFIG, task index must be set.'),
    (of(None, 1), 'If "cluster" is set in TF_CONFIG, task type must be set.'),
    (
        of("worker", 2),
        "2 is not a valid task_id for task_type worker in the cluster_spec:\nClusterSpec({",
    ),
    (of("foo", 0), "foo is not a valid task_type in the cluster_spec:\nClusterSpec({"),
    (
        of("worker", 0, {"ps": ["h:1"], "worker": ["h:2"]}),
        'If "cluster" is set in TF_CONFIG, it must have one "chief" node.',
    ),
    (
        of("worker", 0, {"chief": ["h:1", "h:2"], "worker": ["h:3"]}),
        'The "cluster" in TF_CONFIG must have only one "chief" node.',
    ),
    (
        of("chief", 0, {"chief": ["h:1"], "master": ["h:2"]}),
        "If `master` node exists in `cluster`, job `chief` is not supported.",
    ),
    (
        of("evaluator", 0, OLDER),
        "If `master` node exists in `cluster`, task_type `evaluator` is not supported.",
    ),
    (of("chief", 0, {}), 'If "cluster" is not set in TF_CONFIG, task type must be WORKER.'),
    (json.dumps({"model_dir": ""}), "model_dir in TF_CONFIG should be non-empty."),
]


@pytest.mark.parametrize(("text", "phrase"), SAID)
def test_what_tf_config_says_of_a_task_is_read_alike(agree: Any, text: str, phrase: str) -> None:
    agree(READ + f"result = attempt(lambda: described(text), {phrase!r})", text=text)


ARGUMENTS = [
    ("model_dir=''", "model_dir should be non-empty."),
    ("tf_random_seed=1.5", "tf_random_seed must be integer."),
    ("save_summary_steps=-1", "save_summary_steps should be >= 0"),
    ("save_checkpoints_steps=-1", "save_checkpoints_steps should be >= 0"),
    ("save_checkpoints_secs=-1", "save_checkpoints_secs should be >= 0"),
    ("session_config=3", "session_config must be instance of ConfigProto"),
    ("keep_checkpoint_max=-1", "keep_checkpoint_max should be >= 0"),
    ("keep_checkpoint_every_n_hours=0", "keep_checkpoint_every_n_hours should be > 0"),
    ("log_step_count_steps=0", "log_step_count_steps should be > 0"),
    ("session_creation_timeout_secs=0", "session_creation_timeout_secs should be > 0"),
    ("device_fn=lambda node: 1", 'device_fn must be callable with exactly one argument "op".'),
    ("protocol='foo'", "protocol should be grpc or grpc+verbs"),
    (
        "save_checkpoints_steps=3, save_checkpoints_secs=4",
        "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.",
    ),
    (
        "experimental_max_worker_delay_secs=1.5",
        "experimental_max_worker_delay_secs must be an integer if set.",
    ),
    ("model_dir=__import__('pathlib').Path('/a')", ""),
    ("model_dir=b'/a'", ""),
    ("", ""),
    ("save_checkpoints_steps=3", ""),
    ("save_checkpoints_steps=None", ""),
    ("save_checkpoints_secs=None", ""),
    ("save_checkpoints_steps=None, save_checkpoints_secs=5", ""),
    ("model_dir='/a', tf_random_seed=0, keep_checkpoint_max=None, log_step_count_steps=None", ""),
    ("master='x'", "unexpected keyword argument 'master'"),
]
SHOWN = """
def shown(c):
    return [c.model_dir, c.tf_random_seed, c.save_summary_steps, c.save_checkpoints_steps, c.save_checkpoints_secs,
            c.keep_checkpoint_max, c.keep_checkpoint_every_n_hours, c.log_step_count_steps, c.protocol,
            c.session_creation_timeout_secs, c.checkpoint_save_graph_def, c.experimental_max_worker_delay_secs]
"""


@pytest.mark.parametrize(("arguments", "phrase"), ARGUMENTS)
def test_arguments_are_kept_and_refused_alike(agree: Any, arguments: str, phrase: str) -> None:
    agree(
        SHOWN + f"result = attempt(lambda: shown(tf.estimator.RunConfig({arguments})), {phrase!r})"
    )


REPLACED = [
    ("save_checkpoints_steps=3", ""),
    ("save_checkpoints_secs=3", ""),
    ("model_dir='/z', tf_random_seed=4, session_creation_timeout_secs=3", ""),
    ("save_checkpoints_steps=-1", "save_checkpoints_steps should be >= 0"),
    (
        "save_checkpoints_steps=3, save_checkpoints_secs=4",
        "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.",
    ),
    ("task_id=3", "Replacing task_id is not supported. Allowed properties are ['model_dir', "),
    ("foo=3", "Replacing foo is not supported. Allowed properties are ['model_dir', "),
]


@pytest.mark.parametrize(("arguments", "phrase"), REPLACED)
def test_a_config_that_differs_is_made_alike(agree: Any, arguments: str, phrase: str) -> None:
    agree(
        SHOWN
        + f"result = attempt(lambda: shown(tf.estimator.RunConfig().replace({arguments})), {phrase!r})"
    )


SPECS = [
    ("E.TrainSpec(3)", "`input_fn` must be callable, given: 3"),
    ("E.TrainSpec(len, max_steps=0)", "Must specify max_steps > 0, given: 0"),
    ("E.TrainSpec(len, hooks=[3])", "All hooks must be `SessionRunHook` instances, given: 3"),
    (
        "E.TrainSpec(len, saving_listeners=[3])",
        "All saving_listeners must be `CheckpointSaverListener` instances, given: 3",
    ),
    ("E.TrainSpec(len)[1:]", ""),
    ("E.EvalSpec(3)", "`input_fn` must be callable, given: 3"),
    ("E.EvalSpec(len, steps=0)", "Must specify steps > 0, given: 0"),
    ("E.EvalSpec(len, name=3)", "`name` must be string, given: 3"),
    ("E.EvalSpec(len, hooks=[3])", "All hooks must be `SessionRunHook` instances, given: 3"),
    (
        "E.EvalSpec(len, exporters=[3])",
        "`exporters` must be an Exporter, an iterable of Exporter, or `None`, found [3].",
    ),
    (
        "E.EvalSpec(len, exporters=3)",
        "`exporters` must be an Exporter, an iterable of Exporter, or `None`, found 3.",
    ),
    (
        "E.EvalSpec(len, exporters=[E.FinalExporter('a', len), E.FinalExporter('a', len)])",
        "`exporters` must have unique names. Such a name cannot be `None`. All exporter names: ['a', 'a']",
    ),
    (
        "E.EvalSpec(len, exporters=E.FinalExporter('', len))",
        "An Exporter cannot have a name that is `None` or empty. All exporter names: ['']",
    ),
    ("E.EvalSpec(len, start_delay_secs=-1)", "Must specify start_delay_secs >= 0, given: -1"),
    ("E.EvalSpec(len, throttle_secs=-1)", "Must specify throttle_secs >= 0, given: -1"),
    ("E.EvalSpec(len)[1:]", ""),
    (
        "E.LatestExporter('a', len, exports_to_keep=0)",
        "`exports_to_keep`, if provided, must be positive number",
    ),
    (
        "E.BestExporter(exports_to_keep=0)",
        "`exports_to_keep`, if provided, must be a positive number. Got 0",
    ),
    ("E.BestExporter(compare_fn=None)", "`compare_fn` must not be None."),
    ("E.BestExporter(compare_fn=lambda a, b: 1)", "must include best_eval_result argument."),
    ("E.BestExporter().name", ""),
]


@pytest.mark.parametrize(("made", "phrase"), SPECS)
def test_train_and_eval_specs_are_made_and_refused_alike(
    agree: Any, made: str, phrase: str
) -> None:
    agree(f"E = tf.estimator\nresult = attempt(lambda: {made}, {phrase!r})")
