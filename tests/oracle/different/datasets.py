"""Where the outcomes of ops of datasets are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "(Experimental)?LMDBDataset": "TensorFlow 2.21 has the name alone",
    "AnonymousRandomSeedGenerator": "TensorFlow's kernel asks for an input that the op does not have",
    "Delete(RandomSeedGenerator|SeedGenerator|MemoryCache)": "of variables that TensorFlow has not initialized",
}
