"""MultiHead: several heads on one model.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; names of metrics and signatures checked against the oracle
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.math.sums import add_n
from headrace.training.estimator.export_outputs import ExportOutput, PredictOutput
from headrace.training.estimator.heads.head import DEFAULT, PREDICT, Head
from headrace.training.estimator.heads.streams import HeadMetric, mean_of

__all__ = ["MultiHead"]


class MultiHead(Head):
    """Heads with names, whose losses are added; labels and logits are dicts by those names.

    Logits may also be one tensor [batch, …, sum of their dimensions], which is split in their order.
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
        names = [head.name for head in heads]
        if not all(names):
            raise ValueError(f"All given heads must have name specified. Given: {heads}")
        if len(set(names)) != len(names):
            raise ValueError(f"All given heads must have names of their own. Given: {names}")
        if len({head.loss_reduction for head in heads}) != 1:
            raise ValueError(
                "The loss_reduction must be the same for different heads. Given: "
                f"{[head.loss_reduction for head in heads]}"
            )
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
        """The heads'."""
        reduction: str = self._heads[0].loss_reduction
        return reduction

    def _key(self, key: str) -> str:
        return key

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

    def _of_heads(self, labels: Any, logits: Any, features: Any, mode: Any) -> dict[str, Tensor]:
        """The loss of each head by its name."""
        by_label, by_logit = self._of_each("labels", labels), self._split(logits)
        return {
            head.name: head.loss(by_label[head.name], by_logit[head.name], features, mode)
            for head in self._heads
        }

    def _merged(self, losses: Mapping[str, Tensor], more: Sequence[Any] | None) -> Tensor:
        found = list(losses.values())
        if self._weights:
            found = [loss * weight for loss, weight in zip(found, self._weights, strict=True)]
        total: Tensor = add_n([*found, *(more or ())])
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
    ) -> dict[str, Tensor]:
        each = self._of_heads(labels, logits, features, mode)
        found = {f"loss/{name}": loss for name, loss in each.items()}
        found["loss"] = self._merged(each, regularization_losses)
        if regularization_losses:
            found["regularization_loss"] = add_n(list(regularization_losses))
        return found

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
        """See `Head`."""
        own = [mean_of(f"loss/{head.name}") for head in self._heads]
        if regularization_losses:
            own.append(mean_of(f"regularization_loss/{self.name}"))
        found = {metric.name: metric for metric in own}
        for head in self._heads:
            found.update(head.metrics())
        return found

    def update_metrics(
        self,
        eval_metrics: Mapping[str, HeadMetric],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Mapping[str, HeadMetric]:
        """See `Head`."""
        by_logit, by_label = self._split(logits), self._of_each("labels", labels)
        for name, loss in self._of_heads(labels, logits, features, None).items():
            eval_metrics[f"loss/{name}"].update_state(loss)
        if regularization_losses:
            total = add_n(list(regularization_losses))
            eval_metrics[f"regularization_loss/{self.name}"].update_state(total)
        for head in self._heads:
            head.update_metrics(eval_metrics, features, by_logit[head.name], by_label[head.name])
        return eval_metrics

    def _export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        """The first head's output is the default; NAME and NAME/KIND are the heads', predict has all predictions."""
        found: dict[str, ExportOutput] = {}
        for head in self._heads:
            own = {key: value for (name, key), value in predictions.items() if name == head.name}
            with name_scope(head.name):
                outputs = head._export_outputs(own)
            for kind, output in outputs.items():
                if kind == DEFAULT:
                    found.setdefault(DEFAULT, output)
                    found[head.name] = output
                else:
                    found[f"{head.name}/{kind}"] = output
        return {**found, PREDICT: PredictOutput(dict(predictions))}
