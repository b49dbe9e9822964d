"""`import tensorflow` gives headrace: a finder at the front of `sys.meta_path`, and what else that takes.

Where headrace has the module itself, the same module object is found under TensorFlow's name too; its own name and spec
stay.  A TensorFlow that is installed is hidden.  What is not there raises an ImportError that says what is.
Child processes have the same where their environment is this one's: PYTHONPATH begins with a folder whose
`sitecustomize` puts a finder into them before anything else runs, and goes on to whatever other sitecustomize there is.
Called by: programs, `headrace run`, pytest, IPython, child processes.  Threads: any; the import system's locks hold.
"""

from __future__ import annotations

import importlib.machinery
import logging
import opcode
import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any, Final

from headrace.base.missing import MissingImport, MissingModule, where_used
from headrace.base.version import VERSION
from headrace.unmodified import table
from headrace.unmodified.facade import Facade, module_at

_ROOT: Final = __name__.partition(".")[0]
SWITCH: Final = "HEADRACE_AS_TENSORFLOW"
"""Variable of the environment: "1" where `import tensorflow` is to give headrace."""
_IMPORT_NAME: Final = opcode.opmap["IMPORT_NAME"]
CHILDREN: Final = os.path.join(os.path.dirname(os.path.realpath(__file__)), "children")
NAMES: Final = ("tensorflow", "tensorflow_core")  # 1.15's own name for itself inside

Path = Sequence[str] | None


class TensorflowFinder(MetaPathFinder):
    """Finds `tensorflow` and all beneath it; pkg_resources gets to know of it, and nothing else is touched."""

    def find_spec(
        self, name: str, path: Path = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """See `MetaPathFinder`."""
        top, _, rest = name.partition(".")
        if name == _PKG_RESOURCES:
            return _knowing_tensorflow(importlib.machinery.PathFinder.find_spec(name, path))
        if top not in NAMES:
            return None
        module = module_at(rest)
        if module is not None:
            return importlib.machinery.ModuleSpec(name, _Given(module), is_package=True)
        if _only_asked() and importlib.machinery.PathFinder.find_spec(name, path) is None:
            return None
        raise not_found(f"tensorflow.{rest}", name)

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """Its metadata, for programs that ask importlib for the version of "tensorflow"."""
        name = getattr(context, "name", None)
        if name in _DISTRIBUTIONS:
            from headrace.unmodified.distribution import Distribution

            yield Distribution(name, VERSION)


_DISTRIBUTIONS = ("tensorflow", "tensorflow-gpu", "tensorflow_gpu", "tensorflow-cpu")
"""Under which TensorFlow 1.15 was installed; programs ask for the version of each."""
_PKG_RESOURCES: Final = "pkg_resources"
"""What programs asked before there was importlib.metadata; it looks for files when it is imported."""


def _tell(module: ModuleType) -> None:
    """Let pkg_resources know that there is a TensorFlow."""
    for name in _DISTRIBUTIONS:
        module.working_set.add(
            module.Distribution(project_name=name, version=VERSION), replace=True
        )


class _Telling(Loader):
    """What loads pkg_resources, and tells it at the end."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _tell(module)


def _knowing_tensorflow(
    spec: importlib.machinery.ModuleSpec | None,
) -> importlib.machinery.ModuleSpec | None:
    if spec is not None and spec.loader is not None:
        spec.loader = _Telling(spec.loader)
    return spec


class NamesOfNamespaces(MetaPathFinder):
    """At the end: says what is missing when ``from tensorflow.train import name`` finds nothing.

    Python asks for headrace.train.name then, since that is the name of the module that it has.
    """

    def find_spec(self, name: str, path: Path = None, target: ModuleType | None = None) -> None:
        """See `MetaPathFinder`."""
        parent = name.rpartition(".")[0]
        if parent in _given and _is_from_import():
            raise not_found(f"tensorflow{name.removeprefix(_ROOT)}", name)


class _Given(Loader):
    """A module that is there already, under another name."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None  # the import system marks what it gets as its own: it gets one to throw away

    def exec_module(self, module: ModuleType) -> None:
        if not isinstance(self.module, Facade):
            _given.add(self.module.__name__)
            self.module.__dict__.setdefault(
                "__path__", []
            )  # so that what is beneath it is asked for
        sys.modules[module.__name__] = self.module
        if module.__name__ == NAMES[0]:
            logging.getLogger(_ROOT).parent = logging.getLogger(NAMES[0])


_given: set[str] = set()
"""Modules of headrace that programs have got as TensorFlow's."""
_FINDER: Final = TensorflowFinder()
_LAST: Final = NamesOfNamespaces()


def not_found(path: str, wanted: str) -> ImportError:
    """The error for a module, or for a name in ``from module import name``, that is not there.

    path: where it is in TensorFlow; wanted: what the import system was asked for.
    """
    module, _, name = path.rpartition(".")
    if not _is_from_import():
        return MissingModule(path, where_used())
    row = table.rows().get(table.plain(module.partition(".")[2]))
    target = row.names.get(name, "") if row is not None else ""
    meant = f"tf.{target}" if target and target[0] not in ":@" else path
    return MissingImport(module, name, meant, where_used())


def _is_from_import() -> bool:
    """Whether the import system is at ``from … import …``, after the module had no such attribute."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_code.co_name == "_handle_fromlist":
            by = frame.f_back  # `__import__` takes what is not there for a module that is left out
            return by.f_code.co_code[by.f_lasti] == _IMPORT_NAME
        frame = frame.f_back
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen importlib"):
            return False
    return False


def _only_asked() -> bool:
    """Whether a program asks if a module is there (`importlib.util.find_spec`), and does not import it."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_filename == "<frozen importlib.util>":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    util = sys.modules.get("importlib.util")
    return frame is not None and frame.f_code.co_filename == getattr(util, "__file__", "")


def install_as_tensorflow(children: bool = True) -> None:
    """From now on `import tensorflow` gives headrace, in this process and in the processes that it starts.

    A TensorFlow that is installed is hidden.  Doing it again changes nothing.  children: whether to set this process's
    environment (HEADRACE_AS_TENSORFLOW and PYTHONPATH), by which processes that it starts do the same.
    Raises ImportError if another `tensorflow` was imported already.
    """
    other = sys.modules.get("tensorflow")
    if other is not None and other is not sys.modules[_ROOT]:
        raise ImportError(
            f"TensorFlow {getattr(other, '__version__', '')} was imported before, from "
            f"{getattr(other, '__file__', None) or 'somewhere'}, and what has it would go on with it: call "
            "headrace.install_as_tensorflow() before anything imports tensorflow, or start the program with "
            "`headrace run`",
            name="tensorflow",
        )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        sys.meta_path.append(_LAST)
        if _PKG_RESOURCES in sys.modules:
            _tell(sys.modules[_PKG_RESOURCES])
    if children:
        set_environment(os.environ)


def set_environment(environment: MutableMapping[str, str]) -> None:
    """Let the Python processes that are started with this environment have headrace as tensorflow."""
    environment[SWITCH] = "1"
    known = environment.get("PYTHONPATH")
    folders = known.split(os.pathsep) if known else []
    if CHILDREN not in folders:
        environment["PYTHONPATH"] = os.pathsep.join([CHILDREN, *folders])


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext headrace``: `install_as_tensorflow` in a notebook."""
    install_as_tensorflow()
