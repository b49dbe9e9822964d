"""`tf.train`: clusters and servers, optimizers, input pipelines, coordination."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.codec.protos import (
        BytesList,
        CheckpointState,
        ClusterDef,
        Example,
        Feature,
        FeatureList,
        FeatureLists,
        Features,
        FloatList,
        Int64List,
        JobDef,
        SaverDef,
        SequenceExample,
        ServerDef,
    )
    from headrace.serve.cluster import ClusterSpec
    from headrace.serve.rpc.security import Security
    from headrace.serve.server import Server
    from headrace.training import queue_runner
    from headrace.training.adadelta import AdadeltaOptimizer
    from headrace.training.adagrad import AdagradOptimizer
    from headrace.training.adagrad_da import AdagradDAOptimizer
    from headrace.training.adam import AdamOptimizer
    from headrace.training.batching import (
        batch,
        batch_join,
        maybe_batch,
        maybe_batch_join,
        maybe_shuffle_batch,
        maybe_shuffle_batch_join,
        shuffle_batch,
        shuffle_batch_join,
    )
    from headrace.training.coordinator import Coordinator, LooperThread
    from headrace.training.device_setter import replica_device_setter
    from headrace.training.event_reader import summary_iterator
    from headrace.training.ftrl import FtrlOptimizer
    from headrace.training.global_step import (
        assert_global_step,
        create_global_step,
        get_global_step,
        get_or_create_global_step,
        global_step,
    )
    from headrace.training.gradient_descent import GradientDescentOptimizer
    from headrace.training.graph_files import write_graph
    from headrace.training.hooks.checkpoints import CheckpointSaverHook, CheckpointSaverListener
    from headrace.training.hooks.ending import (
        FinalOpsHook,
        GlobalStepWaiterHook,
        NanLossDuringTrainingError,
        NanTensorHook,
        StopAtStepHook,
    )
    from headrace.training.hooks.feeding import FeedFnHook
    from headrace.training.hooks.protocol import (
        SessionRunArgs,
        SessionRunContext,
        SessionRunHook,
        SessionRunValues,
    )
    from headrace.training.hooks.reporting import (
        LoggingTensorHook,
        ProfilerHook,
        StepCounterHook,
        SummarySaverHook,
    )
    from headrace.training.hooks.steps import SecondOrStepTimer
    from headrace.training.input import (
        input_producer,
        limit_epochs,
        match_filenames_once,
        range_input_producer,
        slice_input_producer,
        string_input_producer,
    )
    from headrace.training.learning_rate import (
        cosine_decay,
        cosine_decay_restarts,
        exponential_decay,
        inverse_time_decay,
        linear_cosine_decay,
        natural_exp_decay,
        noisy_linear_cosine_decay,
        piecewise_constant,
        piecewise_constant_decay,
        polynomial_decay,
    )
    from headrace.training.meta_graph import export_meta_graph
    from headrace.training.momentum import MomentumOptimizer
    from headrace.training.monitored_session import MonitoredSession, SingularMonitoredSession
    from headrace.training.monitored_training import MonitoredTrainingSession
    from headrace.training.moving_averages import ExponentialMovingAverage
    from headrace.training.objects.checkpoint import Checkpoint
    from headrace.training.objects.manager import CheckpointManager
    from headrace.training.optimizer import Optimizer
    from headrace.training.proximal_adagrad import ProximalAdagradOptimizer
    from headrace.training.proximal_gradient_descent import ProximalGradientDescentOptimizer
    from headrace.training.quantize_training import do_quantize_training_on_graphdef
    from headrace.training.queue_runner import QueueRunner, add_queue_runner, start_queue_runners
    from headrace.training.rmsprop import RMSPropOptimizer
    from headrace.training.saver.checkpoint_management import (
        checkpoint_exists,
        generate_checkpoint_state_proto,
        get_checkpoint_mtimes,
        get_checkpoint_state,
        latest_checkpoint,
        remove_checkpoint,
        update_checkpoint_state,
    )
    from headrace.training.saver.checkpoint_readers import (
        NewCheckpointReader,
        checkpoints_iterator,
        list_variables,
        load_checkpoint,
        load_variable,
    )
    from headrace.training.saver.imported import import_meta_graph
    from headrace.training.saver.saver import Saver
    from headrace.training.saver.warm_starting import VocabInfo, init_from_checkpoint, warm_start
    from headrace.training.scaffold import Scaffold
    from headrace.training.session_creators import (
        ChiefSessionCreator,
        SessionCreator,
        WorkerSessionCreator,
    )
    from headrace.training.session_manager import SessionManager
    from headrace.training.supervisor import Supervisor, basic_train_loop
    from headrace.training.sync_replicas import SyncReplicasOptimizer
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.codec.protos": (
                "BytesList CheckpointState ClusterDef Example Feature FeatureList FeatureLists Features FloatList "
                "Int64List JobDef SaverDef SequenceExample ServerDef"
            ),
            "headrace.serve.cluster": "ClusterSpec",
            "headrace.serve.rpc.security": "Security",
            "headrace.serve.server": "Server",
            "headrace.training.adadelta": "AdadeltaOptimizer",
            "headrace.training.adagrad": "AdagradOptimizer",
            "headrace.training.adagrad_da": "AdagradDAOptimizer",
            "headrace.training.adam": "AdamOptimizer",
            "headrace.training.batching": (
                "batch batch_join maybe_batch maybe_batch_join maybe_shuffle_batch maybe_shuffle_batch_join "
                "shuffle_batch shuffle_batch_join"
            ),
            "headrace.training.coordinator": "Coordinator LooperThread",
            "headrace.training.device_setter": "replica_device_setter",
            "headrace.training.event_reader": "summary_iterator",
            "headrace.training.ftrl": "FtrlOptimizer",
            "headrace.training.global_step": (
                "assert_global_step create_global_step get_global_step get_or_create_global_step "
                "global_step"
            ),
            "headrace.training.gradient_descent": "GradientDescentOptimizer",
            "headrace.training.graph_files": "write_graph",
            "headrace.training.input": (
                "input_producer limit_epochs match_filenames_once range_input_producer slice_input_producer "
                "string_input_producer"
            ),
            "headrace.training.learning_rate": (
                "cosine_decay cosine_decay_restarts exponential_decay inverse_time_decay "
                "linear_cosine_decay natural_exp_decay noisy_linear_cosine_decay piecewise_constant "
                "piecewise_constant_decay polynomial_decay"
            ),
            "headrace.training.momentum": "MomentumOptimizer",
            "headrace.training.moving_averages": "ExponentialMovingAverage",
            "headrace.training.objects.checkpoint": "Checkpoint",
            "headrace.training.objects.manager": "CheckpointManager",
            "headrace.training.optimizer": "Optimizer",
            "headrace.training.proximal_adagrad": "ProximalAdagradOptimizer",
            "headrace.training.proximal_gradient_descent": "ProximalGradientDescentOptimizer",
            "headrace.training": "queue_runner",
            "headrace.training.quantize_training": "do_quantize_training_on_graphdef",
            "headrace.training.queue_runner": "QueueRunner add_queue_runner start_queue_runners",
            "headrace.training.rmsprop": "RMSPropOptimizer",
            "headrace.training.saver.checkpoint_management": (
                "checkpoint_exists generate_checkpoint_state_proto get_checkpoint_mtimes get_checkpoint_state "
                "latest_checkpoint remove_checkpoint update_checkpoint_state"
            ),
            "headrace.training.saver.checkpoint_readers": (
                "NewCheckpointReader checkpoints_iterator list_variables load_checkpoint load_variable"
            ),
            "headrace.training.meta_graph": "export_meta_graph",
            "headrace.training.saver.imported": "import_meta_graph",
            "headrace.training.saver.saver": "Saver",
            "headrace.training.saver.warm_starting": "VocabInfo init_from_checkpoint warm_start",
            "headrace.training.sync_replicas": "SyncReplicasOptimizer",
            "headrace.training.hooks.checkpoints": "CheckpointSaverHook CheckpointSaverListener",
            "headrace.training.hooks.ending": (
                "FinalOpsHook GlobalStepWaiterHook NanLossDuringTrainingError "
                "NanTensorHook StopAtStepHook"
            ),
            "headrace.training.hooks.feeding": "FeedFnHook",
            "headrace.training.hooks.protocol": "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues",
            "headrace.training.hooks.reporting": "LoggingTensorHook ProfilerHook StepCounterHook SummarySaverHook",
            "headrace.training.hooks.steps": "SecondOrStepTimer",
            "headrace.training.monitored_session": "MonitoredSession SingularMonitoredSession",
            "headrace.training.monitored_training": "MonitoredTrainingSession",
            "headrace.training.scaffold": "Scaffold",
            "headrace.training.session_creators": "ChiefSessionCreator SessionCreator WorkerSessionCreator",
            "headrace.training.session_manager": "SessionManager",
            "headrace.training.supervisor": "Supervisor basic_train_loop",
        },
    )

__all__ = [
    "AdadeltaOptimizer",
    "AdagradDAOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "BytesList",
    "Checkpoint",
    "CheckpointManager",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "CheckpointState",
    "ChiefSessionCreator",
    "ClusterDef",
    "ClusterSpec",
    "Coordinator",
    "Example",
    "ExponentialMovingAverage",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FeedFnHook",
    "FinalOpsHook",
    "FloatList",
    "FtrlOptimizer",
    "GlobalStepWaiterHook",
    "GradientDescentOptimizer",
    "Int64List",
    "JobDef",
    "LoggingTensorHook",
    "LooperThread",
    "MomentumOptimizer",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NewCheckpointReader",
    "Optimizer",
    "ProfilerHook",
    "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer",
    "QueueRunner",
    "RMSPropOptimizer",
    "Saver",
    "SaverDef",
    "Scaffold",
    "SecondOrStepTimer",
    "Security",
    "SequenceExample",
    "Server",
    "ServerDef",
    "SessionCreator",
    "SessionManager",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "SingularMonitoredSession",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "Supervisor",
    "SyncReplicasOptimizer",
    "VocabInfo",
    "WorkerSessionCreator",
    "add_queue_runner",
    "assert_global_step",
    "basic_train_loop",
    "batch",
    "batch_join",
    "checkpoint_exists",
    "checkpoints_iterator",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "do_quantize_training_on_graphdef",
    "exponential_decay",
    "export_meta_graph",
    "generate_checkpoint_state_proto",
    "get_checkpoint_mtimes",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "import_meta_graph",
    "init_from_checkpoint",
    "input_producer",
    "inverse_time_decay",
    "latest_checkpoint",
    "limit_epochs",
    "linear_cosine_decay",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "match_filenames_once",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
    "queue_runner",
    "range_input_producer",
    "remove_checkpoint",
    "replica_device_setter",
    "shuffle_batch",
    "shuffle_batch_join",
    "slice_input_producer",
    "start_queue_runners",
    "string_input_producer",
    "summary_iterator",
    "update_checkpoint_state",
    "warm_start",
    "write_graph",
]
