"""Where the outcomes of writers within graphs, of vocabularies and of fingerprints are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "CreateSummaryDbWriter": "there are no databases, whatever the writer is",
    "Write(RawProto|Graph)Summary": "the message is looked at before the writer",
    "LoadAndRemapMatrix": "the checkpoint is looked for before the remappings are looked at",
    "Fingerprint": "rows of no columns have the fingerprint of nothing; TensorFlow's reads what the memory holds",
}
