"""An estimator's model as a SavedModel: a graph for each mode, with signatures of what is fed and what comes of it.

Called by: training.estimator.estimator.  Threads: the caller's.
Source: TF 1.15 behaviour; directories are read by TensorFlow 2.15 and 2.21
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.base import errors
from headrace.base.traits import PLACEHOLDER
from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.training.estimator.export_outputs import EvalOutput, ExportOutput, TrainOutput
from headrace.training.estimator.modes import ModeKeys
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.saved_model import constants
from headrace.training.scaffold import Scaffold

__all__ = [
    "TAGS",
    "add_extra_assets",
    "export_outputs_of",
    "signatures_of",
    "timestamped_directory",
]

log = logging.getLogger("headrace")

TAGS: Final = {
    ModeKeys.PREDICT: [constants.SERVING],
    ModeKeys.TRAIN: [constants.TRAINING],
    ModeKeys.EVAL: ["eval"],
}
_TRAIN_OP_KEY: Final = "saved_model_train_op"
_KEYS: Final = {ModeKeys.TRAIN: "train", ModeKeys.EVAL: "eval"}
_SUPERVISED: Final[dict[str, Any]] = {ModeKeys.TRAIN: TrainOutput, ModeKeys.EVAL: EvalOutput}
_TRIES: Final = 10


def export_outputs_of(spec: EstimatorSpec) -> dict[str, ExportOutput]:
    """What the model gives in the spec's mode: its own export_outputs, or loss, predictions and metrics."""
    if spec.mode == ModeKeys.PREDICT:
        return spec.export_outputs  # type: ignore[no-any-return]
    made = _SUPERVISED[spec.mode](
        loss=spec.loss, predictions=spec.predictions, metrics=spec.eval_metric_ops
    )
    return {_KEYS[spec.mode]: made}


def signatures_of(
    receiver_tensors: Any,
    export_outputs: Mapping[str, ExportOutput],
    alternatives: Mapping[str, Mapping[str, Any]] | None,
    serving: bool,
) -> dict[str, pb.SignatureDef]:
    """Signatures by key: of each output, with what is fed and with each alternative of that.

    An output that cannot be of what is fed (a classification of other inputs than Examples; one that needs more) has
    none; that is logged.
    """
    found: dict[str, pb.SignatureDef] = {}
    refused: dict[str, str] = {}
    sources: list[tuple[str, Mapping[str, Any]]] = [("", receiver_tensors)]
    if serving:
        sources += [(f"{name or 'None'}:", each) for name, each in (alternatives or {}).items()]
    for prefix, tensors in sources:
        for name, output in export_outputs.items():
            key = f"{prefix}{name}"
            try:
                signature = output.as_signature_def(tensors)
                _check_fed(signature)
            except ValueError as error:
                refused[key] = str(error)
            else:
                found[key] = signature
    for key, signature in found.items():
        log.info("Signatures INCLUDED in export for %s: %s", signature.method_name, [key])
    for key, why in refused.items():
        log.info("Signature %r EXCLUDED from export because it cannot be served: %s", key, why)
    if serving and constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY not in found:
        log.warning("Export includes no default signature!")
    return found


def _names(infos: Mapping[str, pb.TensorInfo]) -> list[str]:
    """Of the tensors; a sparse one has three."""
    found = []
    for info in infos.values():
        sparse = info.coo_sparse
        found += (
            [info.name]
            if info.name
            else [
                sparse.values_tensor_name,
                sparse.indices_tensor_name,
                sparse.dense_shape_tensor_name,
            ]
        )
    return found


def _check_fed(signature: pb.SignatureDef) -> None:
    """Raise ValueError if what comes out needs a placeholder that is not fed."""
    graph = scopes.get_default_graph()
    fed = {graph.get_tensor_by_name(name) for name in _names(signature.inputs)}
    waiting = [graph.get_tensor_by_name(name) for name in _names(signature.outputs)]
    seen: set[Any] = set()
    while waiting:
        tensor = waiting.pop()
        if tensor in fed or tensor.op in seen:
            continue
        seen.add(tensor.op)
        if PLACEHOLDER in tensor.op.traits and not tensor.op.inputs:
            raise ValueError(f"it needs {tensor.name}, which is not among what is fed")
        waiting += tensor.op.inputs


def add_graph(
    builder: Any,
    spec: EstimatorSpec,
    receiver: Any,
    checkpoint_path: str,
    save_variables: bool,
    strip_default_attrs: bool,
    session_config: Any,
) -> None:
    """Restore the default graph, which is the spec's, and add it to the builder; its variables, too, if asked to.

    Raises ValueError, NotFoundError: what the checkpoint lacks.
    """
    from headrace.client.session import Session
    from headrace.training.saver.saver import Saver

    signatures = signatures_of(
        receiver.receiver_tensors,
        export_outputs_of(spec),
        getattr(receiver, "receiver_tensors_alternatives", None),
        serving=spec.mode == ModeKeys.PREDICT,
    )
    graph = scopes.get_default_graph()
    with Session(config=session_config) as session:
        main_op = spec.scaffold.local_init_op
        if main_op is None:
            main_op = Scaffold.default_local_init_op()
        saver = spec.scaffold.saver or Saver(sharded=True)
        try:
            saver.restore(session, checkpoint_path)
        except errors.NotFoundError as error:
            raise ValueError(
                f"Could not load all requested variables from checkpoint {checkpoint_path}, which another model_fn may "
                f"have written. {error}"
            ) from error
        if spec.mode != ModeKeys.PREDICT and spec.train_op is not None:
            graph.add_to_collection(_TRAIN_OP_KEY, spec.train_op)
        described: dict[str, Any] = {
            "tags": TAGS[spec.mode],
            "signature_def_map": signatures,
            "assets_collection": graph.get_collection(GraphKeys.ASSET_FILEPATHS),
            "main_op": main_op,
            "saver": saver,
            "strip_default_attrs": strip_default_attrs,
        }
        if save_variables:
            builder.add_meta_graph_and_variables(session, **described)
        else:
            builder.add_meta_graph(**described)


def timestamped_directory(
    base: str, now: Callable[[], float] = time.time, pause: Callable[[float], None] = time.sleep
) -> str:
    """A directory in `base` that is not there yet, named after the second.

    Another export of this second makes it wait for the next.  Raises RuntimeError after ten of them.
    """
    for _ in range(_TRIES):
        path = os.path.join(base, str(int(now())))
        if not os.path.exists(path):
            return path
        log.warning("Directory %s already exists; retrying in a second", path)
        pause(1.0 - now() % 1.0)
    raise RuntimeError(f"Failed to obtain a unique export directory name after {_TRIES} attempts.")


def temporary_directory(path: str) -> str:
    """Where a directory is written before it gets its name: beside it, so that nobody takes it for a whole one."""
    return os.path.join(os.path.dirname(path), f"temp-{os.path.basename(path)}")


def exports_in(base: str) -> list[str]:
    """Paths of the timestamped directories in `base`, oldest first."""
    try:
        names = os.listdir(base)
    except FileNotFoundError:
        return []
    found = [name for name in names if name.isdigit() and os.path.isdir(os.path.join(base, name))]
    return [os.path.join(base, name) for name in sorted(found, key=int)]


def add_extra_assets(directory: str, assets_extra: Mapping[str, Any] | None) -> None:
    """Copy files to ``assets.extra``: from path by path there.  Raises NotFoundError."""
    if not assets_extra:
        return
    for there, source in assets_extra.items():
        path = os.path.join(directory, "assets.extra", there)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            shutil.copyfile(os.fsdecode(source), path)
        except FileNotFoundError:
            raise errors.NotFoundError(
                None,
                None,
                f"{os.fsdecode(source)}; No such file or directory: an asset of assets_extra",
            ) from None
