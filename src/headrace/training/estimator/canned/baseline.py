"""BaselineClassifier, BaselineRegressor, BaselineEstimator: what there is to say without looking at the features.

Called by: programs.  Threads: as `Estimator`.
Source: TF 1.15 behaviour; compared with the oracle (tests/estimator_oracle)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.nn.losses import Reduction
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import get_variable, variable_scope
from headrace.ops.array.constants import ones
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal
from headrace.ops.flow.identities import identity
from headrace.training.estimator.canned.common import classes_head, numbers_head
from headrace.training.estimator.canned.optimizers import optimizer_of
from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.specs import EstimatorSpec

__all__ = ["BaselineClassifier", "BaselineEstimator", "BaselineRegressor"]

_LEARNING_RATE: Final = 0.3


def _rows(feature: Any) -> Tensor:
    found: Tensor = shape_of(feature)[0]
    return found


def _batch_size(features: Mapping[Any, Any]) -> Tensor:
    """How many examples there are.  A step in which features disagree about that is InvalidArgument."""
    first, *others = (
        each if isinstance(each, SparseTensor) else convert(each) for each in features.values()
    )
    size = _rows(first)
    says = "Batch size (first dimension) of each feature must be same."
    checks = [assert_equal(size, _rows(each), message=says) for each in others]
    with control_dependencies(checks):
        kept: Tensor = identity(size)
        return kept


def _model_fn(head: Any, optimizer: Any) -> Any:
    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        if not isinstance(features, Mapping) or not features:
            raise ValueError(
                "features should be a dictionary of `Tensor`s, and not be empty: the batch size is theirs. "
                f"Given: {features}"
            )
        chosen = optimizer_of(optimizer, _LEARNING_RATE)
        units = head.logits_dimension
        size = _batch_size(features)
        with variable_scope("baseline", values=tuple(features.values())):
            bias = get_variable("bias", shape=[units], initializer=zeros_initializer())
            logits = ones(stack([size, units])) * bias
        return head.create_estimator_spec(  # type: ignore[no-any-return]
            features, mode, logits, labels=labels, optimizer=chosen
        )

    return model_fn


class BaselineEstimator(Estimator):
    """A bias for each logit, with a head of one's choice."""

    def __init__(
        self,
        head: Any,
        model_dir: str | None = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
    ) -> None:
        """optimizer: a name, an optimizer, or what makes one.  model_dir, config: as `Estimator` has them.

        Raises ValueError.
        """
        super().__init__(_model_fn(head, optimizer), model_dir, config)


class BaselineClassifier(BaselineEstimator):
    """How often each of n_classes is there."""

    def __init__(
        self,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.  label_vocabulary: n_classes names.

        The rest: as `BaselineEstimator` has them.  Raises ValueError.
        """
        head = classes_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)


class BaselineRegressor(BaselineEstimator):
    """The mean of each of label_dimension numbers."""

    def __init__(
        self,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        loss_reduction: str = Reduction.SUM,
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.

        The rest: as `BaselineEstimator` has them.  Raises ValueError.
        """
        head = numbers_head(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)
