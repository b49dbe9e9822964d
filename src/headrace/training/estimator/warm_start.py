"""WarmStartSettings: which variables begin with values of another model's checkpoint.

Called by: programs, training.estimator.estimator.  Threads: any.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.training.saver.checkpoint_management import latest_checkpoint
from headrace.training.saver.warm_starting import VocabInfo, warm_start

__all__ = ["WarmStartSettings"]

log = logging.getLogger("headrace")


class _Fields(NamedTuple):
    ckpt_to_initialize_from: Any
    vars_to_warm_start: Any
    var_name_to_vocab_info: Any
    var_name_to_prev_var_name: Any


class WarmStartSettings(_Fields):
    """See the arguments, and `tf.train.warm_start`, which they are given to."""

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> WarmStartSettings:
        """ckpt_to_initialize_from: a checkpoint, or the directory of one.  vars_to_warm_start: a pattern that names of
        trainable variables match; patterns of any variables, or variables; None for those in var_name_to_vocab_info.

        Raises ValueError: no checkpoint is named.
        """
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(
            cls,
            ckpt_to_initialize_from,
            vars_to_warm_start,
            var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )


def settings_of(warm_start_from: Any) -> WarmStartSettings | None:
    """The settings of an argument ``warm_start_from``: None, settings, a checkpoint, or a directory.

    A SavedModel's directory stands for its variables.  Raises ValueError.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if not isinstance(warm_start_from, (str, bytes, os.PathLike)):
        raise ValueError(
            f"warm_start_from must be a string or a WarmStartSettings, instead got {type(warm_start_from)}"
        )
    path = os.fsdecode(warm_start_from)
    variables = os.path.join(path, "variables")
    if os.path.isdir(variables) and latest_checkpoint(path) is None:
        log.info("Warm-starting from a SavedModel")
        path = os.path.join(variables, "variables")
    return WarmStartSettings(path)


def apply(settings: WarmStartSettings) -> None:
    """Have the default graph's variables begin as `settings` say.  Raises as `tf.train.warm_start`."""
    log.info("Warm-starting with WarmStartSettings: %s", settings)
    warm_start(*settings)
