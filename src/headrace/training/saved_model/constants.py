"""Names of files, collections, tags and signatures of SavedModels, as TensorFlow Serving knows them.

Called by: training.saved_model, public namespaces.  Threads: any.
Source: directories that TensorFlow 2.21 writes.
"""

from __future__ import annotations

from typing import Final

SAVED_MODEL_SCHEMA_VERSION: Final = 1
SAVED_MODEL_FILENAME_PB: Final = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT: Final = "saved_model.pbtxt"
ASSETS_DIRECTORY: Final = "assets"
VARIABLES_DIRECTORY: Final = "variables"
VARIABLES_FILENAME: Final = "variables"

ASSETS_KEY: Final = "saved_model_assets"
MAIN_OP_KEY: Final = "saved_model_main_op"
LEGACY_INIT_OP_KEY: Final = "legacy_init_op"
INIT_SIGNATURE: Final = "__saved_model_init_op"
RESERVED_SIGNATURES: Final = {
    INIT_SIGNATURE: "initialization",
    "__saved_model_train_op": "the train op",
}
ASSET_TYPE: Final = "type.googleapis.com/tensorflow.AssetFileDef"

SERVING: Final = "serve"
TRAINING: Final = "train"
GPU: Final = "gpu"
TPU: Final = "tpu"

DEFAULT_SERVING_SIGNATURE_DEF_KEY: Final = "serving_default"
CLASSIFY_INPUTS: Final = "inputs"
CLASSIFY_METHOD_NAME: Final = "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES: Final = "classes"
CLASSIFY_OUTPUT_SCORES: Final = "scores"
PREDICT_INPUTS: Final = "inputs"
PREDICT_METHOD_NAME: Final = "tensorflow/serving/predict"
PREDICT_OUTPUTS: Final = "outputs"
REGRESS_INPUTS: Final = "inputs"
REGRESS_METHOD_NAME: Final = "tensorflow/serving/regress"
REGRESS_OUTPUTS: Final = "outputs"
