"""Run by every Python that starts with this folder on PYTHONPATH: `import tensorflow` gives headrace there.

Where HEADRACE_AS_TENSORFLOW is "1".  A process that never imports tensorflow pays for nothing: headrace is loaded by
the first such import.  A Python that has no headrace is left as it is.  Then the sitecustomize that would have been run
without this one is run.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


class _UntilImported:
    """Stands for `headrace.unmodified.finder`, which takes its place at the first use."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found: ModuleSpec | None = None
        if name in ("tensorflow", "tensorflow_core") and self._installed():
            found = sys.meta_path[0].find_spec(name, path, target)
        return found

    def find_distributions(self, context: Any = None) -> Any:
        if getattr(context, "name", None) == "tensorflow" and self._installed():
            return sys.meta_path[0].find_distributions(context)  # type: ignore[attr-defined]
        return iter(())

    def _installed(self) -> bool:
        sys.meta_path.remove(self)
        try:
            from headrace.unmodified.finder import install_as_tensorflow
        except ModuleNotFoundError as error:
            if error.name != "headrace":
                raise
            return False
        install_as_tensorflow()
        return True


def _go_on() -> None:
    """Run the next sitecustomize."""
    here = os.path.dirname(os.path.realpath(__file__))
    others = [folder for folder in sys.path if os.path.realpath(folder or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("HEADRACE_AS_TENSORFLOW") == "1":
    sys.meta_path.insert(0, _UntilImported())
_go_on()
