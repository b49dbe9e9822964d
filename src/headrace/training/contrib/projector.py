"""`tf.contrib.tensorboard.plugins.projector`: what TensorBoard's projector shows of embeddings.

The messages are made when this module is imported, with TensorFlow's names and numbers of fields.
Called by: programs.  Threads: any.
Source: the format of projector_config.pbtxt, which a test reads by TensorBoard
"""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from headrace.training.gfile import Open

__all__ = ["EmbeddingInfo", "ProjectorConfig", "SpriteMetadata", "visualize_embeddings"]

_FIELDS = {
    "SpriteMetadata": (("image_path", 1, "string"), ("single_image_dim", 2, "uint32*")),
    "EmbeddingInfo": (
        ("tensor_name", 1, "string"),
        ("metadata_path", 2, "string"),
        ("bookmarks_path", 3, "string"),
        ("tensor_shape", 4, "uint32*"),
        ("sprite", 5, "SpriteMetadata"),
        ("tensor_path", 6, "string"),
    ),
    "ProjectorConfig": (
        ("model_checkpoint_path", 1, "string"),
        ("embeddings", 2, "EmbeddingInfo*"),
        ("model_checkpoint_dir", 3, "string"),
    ),
}
_FILE = "projector_config.pbtxt"


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="headrace/projector_config.proto", package="headrace", syntax="proto3"
    )
    field = descriptor_pb2.FieldDescriptorProto
    plain = {"string": field.TYPE_STRING, "uint32": field.TYPE_UINT32}
    for message, fields in _FIELDS.items():
        made = file.message_type.add(name=message)
        for name, number, kind in fields:
            word = kind.removesuffix("*")
            label = field.LABEL_REPEATED if kind != word else field.LABEL_OPTIONAL
            added = made.field.add(name=name, number=number, label=label)
            if word in plain:
                added.type = plain[word]
            else:
                added.type, added.type_name = field.TYPE_MESSAGE, f".headrace.{word}"
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"headrace.{name}"))
        for name in _FIELDS
    }


_made = _messages()
SpriteMetadata: Any = _made["SpriteMetadata"]
EmbeddingInfo: Any = _made["EmbeddingInfo"]
ProjectorConfig: Any = _made["ProjectorConfig"]


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Write a ProjectorConfig into the directory of a summary writer, where TensorBoard looks for it.

    Raises ValueError: the writer has no directory.
    """
    logdir = summary_writer.get_logdir()
    if logdir is None:
        raise ValueError("Summary writer must have a logdir")
    with Open(os.path.join(logdir, _FILE), "w") as file:
        file.write(text_format.MessageToString(config))
