"""`tf.initializers`: how variables begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.library.variables.initializers import constant_initializer as constant
from headrace.library.variables.initializers import glorot_normal_initializer as glorot_normal
from headrace.library.variables.initializers import glorot_uniform_initializer as glorot_uniform
from headrace.library.variables.initializers import (
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)
from headrace.library.variables.initializers import identity_initializer as identity
from headrace.library.variables.initializers import ones_initializer as ones
from headrace.library.variables.initializers import orthogonal_initializer as orthogonal
from headrace.library.variables.initializers import random_normal_initializer as random_normal
from headrace.library.variables.initializers import random_uniform_initializer as random_uniform
from headrace.library.variables.initializers import truncated_normal_initializer as truncated_normal
from headrace.library.variables.initializers import (
    uniform_unit_scaling_initializer as uniform_unit_scaling,
)
from headrace.library.variables.initializers import variance_scaling_initializer as variance_scaling
from headrace.library.variables.initializers import zeros_initializer as zeros
from headrace.library.variables.variable_lists import (
    global_variables_initializer as global_variables,
)
from headrace.library.variables.variable_lists import local_variables_initializer as local_variables
from headrace.library.variables.variable_lists import tables_initializer
from headrace.library.variables.variable_lists import variables_initializer as variables

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "constant",
    "global_variables",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "local_variables",
    "ones",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "tables_initializer",
    "truncated_normal",
    "uniform_unit_scaling",
    "variables",
    "variance_scaling",
    "zeros",
]
