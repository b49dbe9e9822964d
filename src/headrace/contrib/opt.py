"""`tf.contrib.opt`: optimizers beside those of tf.train."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.contrib.opt.accumulated import (
        AGNCustomGetter,
        AGNOptimizer,
    )
    from headrace.training.contrib.opt.adam_variants import (
        AdaMaxOptimizer,
        LazyAdamOptimizer,
        NadamOptimizer,
    )
    from headrace.training.contrib.opt.around import (
        MovingAverageOptimizer,
        MultitaskOptimizerWrapper,
        VariableClippingOptimizer,
        clip_gradients_by_global_norm,
    )
    from headrace.training.contrib.opt.external import (
        ExternalOptimizerInterface,
        ScipyOptimizerInterface,
    )
    from headrace.training.contrib.opt.ggt import GGTOptimizer
    from headrace.training.contrib.opt.lars import (
        LARSOptimizer,
    )
    from headrace.training.contrib.opt.replicas import (
        ElasticAverageCustomGetter,
        ElasticAverageOptimizer,
        ModelAverageCustomGetter,
        ModelAverageOptimizer,
    )
    from headrace.training.contrib.opt.shampoo import ShampooOptimizer
    from headrace.training.contrib.opt.signs import (
        AddSignOptimizer,
        PowerSignOptimizer,
        get_cosine_decay_fn,
        get_linear_decay_fn,
        get_restart_decay_fn,
    )
    from headrace.training.contrib.opt.weight_decay import (
        AdamWOptimizer,
        DecoupledWeightDecayExtension,
        MomentumWOptimizer,
        extend_with_decoupled_weight_decay,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.contrib.opt.accumulated": "AGNCustomGetter AGNOptimizer",
            "headrace.training.contrib.opt.adam_variants": "AdaMaxOptimizer LazyAdamOptimizer NadamOptimizer",
            "headrace.training.contrib.opt.around": (
                "MovingAverageOptimizer MultitaskOptimizerWrapper VariableClippingOptimizer "
                "clip_gradients_by_global_norm"
            ),
            "headrace.training.contrib.opt.external": "ExternalOptimizerInterface ScipyOptimizerInterface",
            "headrace.training.contrib.opt.ggt": "GGTOptimizer",
            "headrace.training.contrib.opt.lars": "LARSOptimizer",
            "headrace.training.contrib.opt.replicas": (
                "ElasticAverageCustomGetter ElasticAverageOptimizer ModelAverageCustomGetter "
                "ModelAverageOptimizer"
            ),
            "headrace.training.contrib.opt.shampoo": "ShampooOptimizer",
            "headrace.training.contrib.opt.signs": (
                "AddSignOptimizer PowerSignOptimizer get_cosine_decay_fn get_linear_decay_fn "
                "get_restart_decay_fn"
            ),
            "headrace.training.contrib.opt.weight_decay": (
                "AdamWOptimizer DecoupledWeightDecayExtension MomentumWOptimizer "
                "extend_with_decoupled_weight_decay"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "AGNCustomGetter",
    "AGNOptimizer",
    "AdaMaxOptimizer",
    "AdamWOptimizer",
    "AddSignOptimizer",
    "DecoupledWeightDecayExtension",
    "ElasticAverageCustomGetter",
    "ElasticAverageOptimizer",
    "ExternalOptimizerInterface",
    "GGTOptimizer",
    "LARSOptimizer",
    "LazyAdamOptimizer",
    "ModelAverageCustomGetter",
    "ModelAverageOptimizer",
    "MomentumWOptimizer",
    "MovingAverageOptimizer",
    "MultitaskOptimizerWrapper",
    "NadamOptimizer",
    "PowerSignOptimizer",
    "ScipyOptimizerInterface",
    "ShampooOptimizer",
    "VariableClippingOptimizer",
    "clip_gradients_by_global_norm",
    "extend_with_decoupled_weight_decay",
    "get_cosine_decay_fn",
    "get_linear_decay_fn",
    "get_restart_decay_fn",
]
