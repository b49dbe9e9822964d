"""Which TensorFlow this is like, and which headrace it is.

Programs parse `tf.__version__`, some of them number by number, and branch on what they find, so it is TensorFlow's;
headrace's own version is `tf.version.headrace`, and stands in `__git_version__`.
"""

from __future__ import annotations

import sys
from typing import Final

HEADRACE_VERSION: Final = "0.1.0"

__version__: Final = "1.15.5"
__git_version__: Final = f"headrace-{HEADRACE_VERSION}"
__compiler_version__: Final = sys.version.split()[0]

VERSION: Final = __version__
GIT_VERSION: Final = __git_version__
COMPILER_VERSION: Final = __compiler_version__
CXX11_ABI_FLAG: Final = 0
MONOLITHIC_BUILD: Final = 0
