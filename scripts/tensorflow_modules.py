"""Write down which names the modules of TensorFlow 1.15 have, as tables that `headrace.unmodified` reads.

    pip download tensorflow==1.15.5 --no-deps --only-binary=:all: --python-version 3.7 --abi cp37m \\
        --platform manylinux2010_x86_64
    .venv/bin/python scripts/tensorflow_modules.py tensorflow-1.15.5-*.whl

Nothing of TensorFlow is run, and nothing but names is taken: which public name (`tf.nn.relu`) is which attribute of
which module, what the messages of each `*_pb2` are called, and the parameters of each function of the `gen_*` modules.
Writes `modules.txt` and `raw_ops.txt` into src/headrace/unmodified, and `tensorflow_names.txt`, the public names, into
src/headrace/base.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "src" / "headrace" / "unmodified"
TOP = "tensorflow_core/"
OTHER_WORLDS = (
    "python.autograph python.compiler python.debug python.distribute python.estimator python.keras python.lite "
    "python.tpu python.tools contrib.keras contrib.tpu contrib.lite contrib.eager contrib.autograph contrib.compiler "
    "contrib.tensorrt contrib.distribute contrib.estimator contrib.learn contrib.tensor_forest contrib.boosted_trees "
    "contrib.timeseries contrib.factorization contrib.labeled_tensor contrib.bigtable contrib.cloud contrib.kafka "
    "contrib.ignite contrib.kinesis contrib.hadoop contrib.mpi_collectives contrib.quantize contrib.all_reduce"
).split()
"""Not among the modules whose names are listed: nothing beneath them is in the public API in any other form."""
SKIPPED = ("keras", "lite", "raw_ops")
"""Public namespaces that are not listed: of no use here, or told by the registry of ops."""
MESSAGES = ("core/framework/", "core/protobuf/", "core/util/", "core/example/")

Where = tuple[str, str]
"""(module, attribute); attribute "" is the module itself."""


class Source:
    """One module's file: its names, each with where it comes from."""

    def __init__(self, module: str, is_package: bool, tree: ast.Module) -> None:
        self.module = module
        self.is_package = is_package
        self.names: dict[str, Where] = {}
        self.stars: list[str] = []
        self.exported: list[str] | None = None
        for node in tree.body:
            self._read(node)

    def _read(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.names[node.name] = (self.module, node.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self._assign(target.id, node.value)
        elif isinstance(node, ast.Try | ast.If):
            for each in node.body:
                self._read(each)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorflow."):
            source = (node.module or "").removeprefix("tensorflow.")
            for alias in node.names:
                if alias.name == "*":
                    self.stars.append(source)
                else:
                    self.names[alias.asname or alias.name] = (source, alias.name)

    def _assign(self, name: str, value: ast.expr) -> None:
        if name == "__all__" and isinstance(value, ast.List):
            self.exported = [each.value for each in value.elts if isinstance(each, ast.Constant)]
        elif isinstance(value, ast.Name) and value.id in self.names:
            self.names[name] = self.names[value.id]
        elif isinstance(value, ast.Attribute) and getattr(value.value, "id", "") in self.names:
            module, inner = self.names[value.value.id]  # type: ignore[attr-defined]
            self.names[name] = (f"{module}.{inner}", value.attr)
        else:
            self.names[name] = (self.module, name)


class Tree:
    """All modules of the wheel that matter here."""

    def __init__(self, wheel: zipfile.ZipFile) -> None:
        self.sources: dict[str, Source] = {}
        for path, tree in parsed(wheel, "python/", "contrib/"):
            is_package = path.endswith("/__init__.py")
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            self.sources[module] = Source(module, is_package, tree)

    def listing(self, module: str, seen: frozenset[str] = frozenset()) -> dict[str, Where]:
        """Every name of a module, those of star imports included, with where it comes from at last."""
        source = self.sources[module]
        found: dict[str, Where] = {}
        for star in source.stars:
            if star in self.sources and star not in seen:
                other = self.listing(star, seen | {module})
                shown = self.sources[star].exported or [n for n in other if n[0] != "_"]
                found.update({name: other[name] for name in shown if name in other})
        found.update({name: self.origin(*where) for name, where in source.names.items()})
        return found

    def origin(self, module: str, name: str, depth: int = 0) -> Where:
        """Where a name that `module` has was defined."""
        if f"{module}.{name}" in self.sources:
            return f"{module}.{name}", ""
        source = self.sources.get(module)
        if source is None or depth > 20:
            return module, name
        where = source.names.get(name)
        if where is not None:
            return where if where == (module, name) else self.origin(*where, depth + 1)
        for star in source.stars:
            if star in self.sources:
                found = self.origin(star, name, depth + 1)
                if found[0] in self.sources and (found[1] in self.sources[found[0]].names):
                    return found
        return module, name


def parsed(wheel: zipfile.ZipFile, *starts: str) -> Iterator[tuple[str, ast.Module]]:
    """(path, syntax tree) of the files that begin so."""
    for path in sorted(wheel.namelist()):
        inner = path.removeprefix(TOP)
        if inner != path and inner.startswith(starts) and path.endswith(".py"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    yield inner, ast.parse(wheel.read(path))
                except SyntaxError:
                    print(f"not read (its syntax is another Python's): {inner}")


def public_names(wheel: zipfile.ZipFile) -> dict[str, Where]:
    """Public name (`nn.relu`) -> what the API's own modules import for it."""
    found: dict[str, Where] = {}
    for path, tree in parsed(wheel, "_api/v1/"):
        folder = path.removeprefix("_api/v1/").rpartition("/")[0].replace("/", ".")
        if folder.startswith(("compat.v", "v1.")) or folder.split(".")[0] in SKIPPED:
            continue
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tensorflow."):
                source = (node.module or "").removeprefix("tensorflow.")
                for alias in node.names:
                    name = ".".join(filter(None, [folder, alias.asname or alias.name]))
                    if name[0] != "_":
                        found[name] = (source, alias.name)
    return found


def best(names: list[str], attribute: str) -> str:
    """Of the public names of one thing, that by which a reader would know it."""
    return min(names, key=lambda n: (n.split(".")[-1] != attribute, n.count("."), len(n), n))


def module_rows(tree: Tree, public: dict[str, Where]) -> Iterator[tuple[str, list[str]]]:
    """(module, words) for modules.txt; its header says what a word means."""
    known: dict[Where, list[str]] = {}
    for name, where in public.items():
        origin = tree.origin(*where)
        if not where[0].startswith("_api.") and origin[1]:
            known.setdefault(origin, []).append(name)
    for module, source in tree.sources.items():
        path = module.split(".")
        if not beneath(module):
            continue
        if path[-1].startswith("gen_") or path[-1].endswith(("_test", "_pb2")):
            continue
        words = []
        for name, where in sorted(tree.listing(module).items()):
            if where[1] == "" and source.is_package and where[0] != f"{module}.{name}":
                if name in source.names and beneath(where[0]) and name[0] != "_":
                    words.append(f"{name}=:{where[0]}")
            elif where in known:
                chosen = best(known[where], name)
                words.append(chosen if chosen.split(".")[-1] == name else f"{name}={chosen}")
        words += [f"*{star}" for star in source.stars if ".gen_" in star]
        if words or path[0] == "python":
            yield module, words


def beneath(module: str) -> bool:
    """Whether a module is among those whose names are listed."""
    return not f"{module}.".startswith(tuple(f"{each}." for each in OTHER_WORLDS))


def message_rows(wheel: zipfile.ZipFile) -> Iterator[tuple[str, list[str]]]:
    """(module, messages and enumerations) for every *_pb2."""
    for path, tree in parsed(wheel, *MESSAGES):
        if path.endswith("_pb2.py"):
            words = [
                target.id
                for node in tree.body
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
                for target in node.targets
                if isinstance(target, ast.Name)
                and re.fullmatch("[A-Z][a-z]\\w*|[A-Z]+[a-z]\\w*", target.id)
            ]
            if words:
                yield path.removesuffix(".py").replace("/", "."), words


def op_rows(wheel: zipfile.ZipFile) -> Iterator[tuple[str, list[str]]]:
    """(module, functions) for every gen_* module: `Sum(input,axis=reduction_indices,keep_dims)`."""
    for path, tree in parsed(wheel, "python/"):
        if path.rpartition("/")[2].startswith("gen_"):
            words = sorted(filter(None, map(op_word, tree.body)))
            if words:
                yield path.removesuffix(".py").replace("/", "."), words


def op_word(node: ast.stmt) -> str | None:
    if not isinstance(node, ast.FunctionDef) or node.name.endswith("_eager_fallback"):
        return None
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "_apply_op_helper":
            assert isinstance(call.args[0], ast.Constant)
            meant = {
                each.value.id: each.arg or ""
                for each in call.keywords
                if isinstance(each.value, ast.Name)
            }
            given = [arg.arg for arg in node.args.args if arg.arg != "name"]
            shown = ",".join(n if meant.get(n, n) == n else f"{n}={meant[n]}" for n in given)
            alias = "" if snake(call.args[0].value) == node.name.lstrip("_") else f"{node.name}:"
            return f"{alias}{call.args[0].value}({shown})"
    return None


def snake(name: str) -> str:
    """What TensorFlow calls an op's function: MatMul -> mat_mul, NcclAllReduce -> nccl_all_reduce."""
    spaced = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", spaced).lower()


def write(name: str, head: str, rows: list[tuple[str, list[str]]]) -> None:
    """A file of rows: the module in the first column, its words behind it and in indented lines."""
    lines = [f"# {line}" for line in head.splitlines()]
    for module, words in rows:
        lines += textwrap.wrap(
            f"{module} {' '.join(words)}", 118, subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    (OUT / name).write_text("\n".join(lines) + "\n")


HEAD_OF_MODULES = """\
Written by scripts/tensorflow_modules.py: which names the modules of TensorFlow 1.15 have.  Each row is a module beneath
`tensorflow.` and words: `nn.relu` is attribute relu, the public tf.nn.relu; `a=nn.relu` is attribute a; `a=:m` is
attribute a, the module m; `*m` are all functions of the module m.  Of core.*_pb2 the words are messages."""
HEAD_OF_OPS = """\
Written by scripts/tensorflow_modules.py: the functions of TensorFlow 1.15's gen_* modules.  `Op(a,b=c)` is the function
that the op's name makes, with parameters a and b in this order, of which b is the op's c; `f:Op(a)` is called f."""
HEAD_OF_NAMES = """\
Written by scripts/tensorflow_modules.py: the public names of TensorFlow 1.15, by namespace (`tf` is the root)."""


def main(wheel_path: str) -> None:
    with zipfile.ZipFile(wheel_path) as wheel:
        public = public_names(wheel)
        tree = Tree(wheel)
        write("modules.txt", HEAD_OF_MODULES, [*module_rows(tree, public), *message_rows(wheel)])
        write("raw_ops.txt", HEAD_OF_OPS, [*op_rows(wheel)])
    spaces: dict[str, list[str]] = {}
    for name in sorted(public):
        space, _, last = f"tf.{name}".rpartition(".")
        if last[0] != "_":
            spaces.setdefault(space, []).append(last)
    write("../base/tensorflow_names.txt", HEAD_OF_NAMES, sorted(spaces.items()))


if __name__ == "__main__":
    main(sys.argv[1])
