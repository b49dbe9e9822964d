"""Programs written for TensorFlow 1.x run unmodified: `import tensorflow` gives headrace.

`finder` answers imports; `table` says what is behind each module path of TensorFlow; `facade` has the modules that are
made from it.  `internals` holds what programs import from tensorflow.python and no public name of headrace stands for.
Nothing here is imported by `import headrace`.
"""

from __future__ import annotations
