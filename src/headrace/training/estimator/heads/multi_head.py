"""MultiHead: several heads on one model.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; names of metrics and signatures checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.math.sums import add_n
from headrace.training.estimator.export_outputs import ExportOutput, PredictOutput, with_default
from headrace.training.estimator.heads.head import DEFAULT, PREDICT, Head, regularization
from headrace.training.estimator.heads.streams import HeadMetric, mean_of
from headrace.training.estimator.modes import ModeKeys
from headrace.training.estimator.specs import EstimatorSpec

__all__ = ["MultiHead"]


class MultiHead(Head):
    """Heads with names, whose losses are added; labels and logits are dicts by those names.

    Logits may also be one tensor [batch, …, sum of their dimensions], which is split in their order.
    Heads of one name share labels and logits, of one tensor the last one's part.  What they predict, measure and export
    under one name is the last one's; the metric of their losses has the first one's alone.
    """

    def __init__(self, heads: Sequence[Any], head_weights: Sequence[float] | None = None) -> None:
        """head_weights: what each loss is multiplied with.  Raises ValueError: no heads, heads without names."""
        if not heads:
            raise ValueError(f"Must specify heads. Given: {heads}")
        if head_weights and len(head_weights) != len(heads):
            raise ValueError(
                f"heads and head_weights must have the same size. Given len(heads): {len(heads)}. "
                f"Given len(head_weights): {len(head_weights)}."
            )
        if any(head.name is None for head in heads):
            raise ValueError(f"All given heads must have name specified. Given: {heads}")
        self._heads = tuple(heads)
        self._weights = tuple(head_weights or ())

    @property
    def name(self) -> str:
        """The heads' names."""
        return "_".join(head.name for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """That of all heads together."""
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        """The heads'.  Raises ValueError: they differ, with which there is no training."""
        found: list[str] = [head.loss_reduction for head in self._heads]
        if len(set(found)) != 1:
            raise ValueError(
                f"The loss_reduction must be the same for different heads. Given: {found}"
            )
        return found[0]

    def _key(self, key: str) -> str:
        return key

    def _regularization_key(self) -> str:
        return super()._key("regularization_loss")

    def _split(self, logits: Any) -> dict[str, Any]:
        """Logits by name of the head.  Raises ValueError: some are missing, or a dimension is another."""
        if isinstance(logits, Mapping):
            return self._of_each("logits", logits)
        found: Tensor = convert(logits)
        sizes = [head.logits_dimension for head in self._heads]
        last = None if found.shape.ndims is None else found.shape[-1].value
        if last is not None and last != sum(sizes):
            raise ValueError(
                f"Could not split logits of shape {found.shape} among the heads with individual logits dimensions: "
                f"{sizes}. The last dimension of the logits tensor should equal {sum(sizes)} but is {last}."
            )
        made, begin = {}, 0
        with name_scope(None, "split_logits", (found,)):
            for head, size in zip(self._heads, sizes, strict=True):
                made[head.name] = found[..., begin : begin + size]
                begin += size
        return made

    def _of_each(self, what: str, given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise ValueError(f"{what} must be a dict. Given: {given}")
        missing = sorted({head.name for head in self._heads} - set(given))
        if missing:
            raise ValueError(f"{what} has missing values for head(s): {missing}")
        return {head.name: given[head.name] for head in self._heads}

    def _of_heads(self, labels: Any, logits: Any, features: Any, mode: Any) -> list[Tensor]:
        """The loss of each head."""
        by_label, by_logit = self._labels(labels), self._split(logits)
        return [
            head.loss(by_label[head.name], by_logit[head.name], features, mode)
            for head in self._heads
        ]

    def _labels(self, labels: Any) -> dict[str, Any]:
        """By name of the head; none are given where there are none, of which heads complain.  Raises ValueError."""
        if labels is None:
            return {head.name: None for head in self._heads}
        return self._of_each("labels", labels)

    def _merged(self, losses: Sequence[Tensor], more: Sequence[Any] | None) -> Tensor:
        if self._weights:
            losses = [loss * weight for loss, weight in zip(losses, self._weights, strict=True)]
        total: Tensor = add_n([*losses, *(more or ())])
        return total

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Tensor:
        """See `Head`: the sum of the heads' losses, weighted."""
        return self._merged(self._of_heads(labels, logits, features, mode), regularization_losses)

    def _losses(
        self,
        labels: Any,
        logits: Any,
        features: Any,
        mode: str,
        regularization_losses: Sequence[Any] | None,
    ) -> list[tuple[str, Tensor]]:
        if mode == ModeKeys.TRAIN:
            _ = self.loss_reduction
        by_label, by_logit = self._labels(labels), self._split(logits)
        reports = [
            head._losses(by_label[head.name], by_logit[head.name], features, mode, None)
            for head in self._heads
        ]
        found = [dict(report)["loss"] for report in reports]
        return [
            *(
                (head._key(key), value)
                for head, report in zip(self._heads, reports, strict=True)
                for key, value in report
            ),
            ("loss", self._merged(found, regularization_losses)),
            *regularization(regularization_losses).items(),
        ]

    def predictions(self, logits: Any, keys: Sequence[Any] | None = None) -> dict[Any, Tensor]:
        """What each head predicts, by (name of the head, key).  Raises ValueError."""
        by_logit = self._split(logits)
        found: dict[Any, Tensor] = {}
        for head in self._heads:
            with name_scope(head.name):
                made = head.predictions(by_logit[head.name])
            found.update({(head.name, key): value for key, value in made.items()})
        unknown = [key for key in keys or () if key not in found]
        if unknown:
            raise ValueError(
                f"Prediction key must be in PredictionKeys, given: {unknown[0]}. Valid prediction keys include "
                f"{list(found)}."
            )
        return found if keys is None else {key: found[key] for key in keys}

    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, HeadMetric]:
        """See `Head`: of the losses.  Those of the heads come with `update_metrics`."""
        own = [mean_of(f"loss/{head.name}") for head in self._heads]
        if regularization_losses:
            own.append(mean_of(self._regularization_key()))
        return {metric.name: metric for metric in own}

    def update_metrics(
        self,
        eval_metrics: dict[str, HeadMetric],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, HeadMetric]:
        """See `Head`; to `eval_metrics` those of the heads are added."""
        by_logit, by_label = self._split(logits), self._labels(labels)
        given = set()
        for head in self._heads:
            if head.name not in given:
                loss = head.loss(by_label[head.name], by_logit[head.name], features)
                eval_metrics[f"loss/{head.name}"].update_state(loss)
                given.add(head.name)
            eval_metrics.update(
                head.update_metrics(
                    head.metrics(), features, by_logit[head.name], by_label[head.name]
                )
            )
        if regularization_losses:
            total = add_n(list(regularization_losses))
            eval_metrics[self._regularization_key()].update_state(total)
        return eval_metrics

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Sequence[Any] | None = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Sequence[Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        """See `Head`.  In PREDICT, the first head's output is the default; the heads' are NAME and NAME/KIND."""
        if mode == ModeKeys.PREDICT:
            with name_scope(self.name, "head"):
                return self._predicting_spec(features, logits)
        return super().create_estimator_spec(
            features,
            mode,
            logits,
            labels,
            optimizer,
            trainable_variables,
            train_op_fn,
            update_ops,
            regularization_losses,
        )

    def _predicting_spec(self, features: Any, logits: Any) -> EstimatorSpec:
        by_logit = self._split(logits)
        specs = [
            (head.name, head.create_estimator_spec(features, ModeKeys.PREDICT, by_logit[head.name]))
            for head in self._heads
        ]
        found: dict[str, ExportOutput] = {
            DEFAULT: with_default(specs[0][1].export_outputs)[DEFAULT]
        }
        predictions: dict[Any, Tensor] = {}
        merged: dict[str, Tensor] = {}
        for name, spec in specs:
            predictions.update({(name, key): value for key, value in spec.predictions.items()})
            for kind, output in spec.export_outputs.items():
                found[name if kind == DEFAULT else f"{name}/{kind}"] = output
                if kind == PREDICT and isinstance(output, PredictOutput):
                    merged.update({f"{name}/{key}": each for key, each in output.outputs.items()})
        found[PREDICT] = PredictOutput(merged)
        return EstimatorSpec(ModeKeys.PREDICT, predictions=predictions, export_outputs=found)
