"""`tf.saved_model`: graphs with their variables and signatures, as directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.saved_model import (
        builder,
        constants,
        loader,
        main_op,
        signature_constants,
        signature_def_utils,
        tag_constants,
        utils,
    )
    from headrace.training.saved_model.builder import SavedModelBuilder as Builder
    from headrace.training.saved_model.builder import simple_save
    from headrace.training.saved_model.constants import (
        ASSETS_DIRECTORY,
        ASSETS_KEY,
        CLASSIFY_INPUTS,
        CLASSIFY_METHOD_NAME,
        CLASSIFY_OUTPUT_CLASSES,
        CLASSIFY_OUTPUT_SCORES,
        DEFAULT_SERVING_SIGNATURE_DEF_KEY,
        GPU,
        LEGACY_INIT_OP_KEY,
        MAIN_OP_KEY,
        PREDICT_INPUTS,
        PREDICT_METHOD_NAME,
        PREDICT_OUTPUTS,
        REGRESS_INPUTS,
        REGRESS_METHOD_NAME,
        REGRESS_OUTPUTS,
        SAVED_MODEL_FILENAME_PB,
        SAVED_MODEL_FILENAME_PBTXT,
        SAVED_MODEL_SCHEMA_VERSION,
        SERVING,
        TPU,
        TRAINING,
        VARIABLES_DIRECTORY,
        VARIABLES_FILENAME,
    )
    from headrace.training.saved_model.loader import load, maybe_saved_model_directory
    from headrace.training.saved_model.loader import (
        maybe_saved_model_directory as contains_saved_model,
    )
    from headrace.training.saved_model.main_op import main_op_with_restore
    from headrace.training.saved_model.signatures import (
        build_signature_def,
        build_tensor_info,
        classification_signature_def,
        get_tensor_from_tensor_info,
        is_valid_signature,
        predict_signature_def,
        regression_signature_def,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.saved_model.builder": ("Builder=SavedModelBuilder simple_save"),
            "headrace.training.saved_model.constants": (
                "ASSETS_DIRECTORY ASSETS_KEY LEGACY_INIT_OP_KEY MAIN_OP_KEY "
                "SAVED_MODEL_FILENAME_PB SAVED_MODEL_FILENAME_PBTXT "
                "SAVED_MODEL_SCHEMA_VERSION VARIABLES_DIRECTORY VARIABLES_FILENAME "
                "CLASSIFY_INPUTS CLASSIFY_METHOD_NAME CLASSIFY_OUTPUT_CLASSES "
                "CLASSIFY_OUTPUT_SCORES DEFAULT_SERVING_SIGNATURE_DEF_KEY PREDICT_INPUTS "
                "PREDICT_METHOD_NAME PREDICT_OUTPUTS REGRESS_INPUTS REGRESS_METHOD_NAME "
                "REGRESS_OUTPUTS GPU SERVING TPU TRAINING"
            ),
            "headrace.training.saved_model.loader": (
                "contains_saved_model=maybe_saved_model_directory load maybe_saved_model_directory"
            ),
            "headrace.training.saved_model.main_op": ("main_op_with_restore"),
            "headrace.training.saved_model.signatures": (
                "build_signature_def classification_signature_def is_valid_signature "
                "predict_signature_def regression_signature_def build_tensor_info "
                "get_tensor_from_tensor_info"
            ),
        },
    )

__all__ = [
    "ASSETS_DIRECTORY",
    "ASSETS_KEY",
    "CLASSIFY_INPUTS",
    "CLASSIFY_METHOD_NAME",
    "CLASSIFY_OUTPUT_CLASSES",
    "CLASSIFY_OUTPUT_SCORES",
    "DEFAULT_SERVING_SIGNATURE_DEF_KEY",
    "GPU",
    "LEGACY_INIT_OP_KEY",
    "MAIN_OP_KEY",
    "PREDICT_INPUTS",
    "PREDICT_METHOD_NAME",
    "PREDICT_OUTPUTS",
    "REGRESS_INPUTS",
    "REGRESS_METHOD_NAME",
    "REGRESS_OUTPUTS",
    "SAVED_MODEL_FILENAME_PB",
    "SAVED_MODEL_FILENAME_PBTXT",
    "SAVED_MODEL_SCHEMA_VERSION",
    "SERVING",
    "TPU",
    "TRAINING",
    "VARIABLES_DIRECTORY",
    "VARIABLES_FILENAME",
    "Builder",
    "build_signature_def",
    "build_tensor_info",
    "builder",
    "classification_signature_def",
    "constants",
    "contains_saved_model",
    "get_tensor_from_tensor_info",
    "is_valid_signature",
    "load",
    "loader",
    "main_op",
    "main_op_with_restore",
    "maybe_saved_model_directory",
    "predict_signature_def",
    "regression_signature_def",
    "signature_constants",
    "signature_def_utils",
    "simple_save",
    "tag_constants",
    "utils",
]
