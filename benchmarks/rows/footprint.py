"""What it costs to have the library: time to import it, room on disk and in memory."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from compileall import compile_dir
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.libraries import Library
from benchmarks.row import Bench, Floor, Unit, WrongResult, row

TIMED = "import time; start = time.perf_counter()\n{}\nprint(time.perf_counter() - start)"
USED = """{}
with tf.Graph().as_default(), tf.Session() as session:
    print(session.run(tf.constant(42.0)))"""


def in_a_new_python(source: str) -> str:
    """What the source prints there; isolated from this directory and from environment variables."""
    command = [sys.executable, "-I", "-c", source]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise WrongResult(f"exit code {ended.returncode} of: {source}\n{ended.stderr}")
    return ended.stdout.strip()


def _import_dependencies(bench: Bench) -> None:
    statement = "import numpy, ml_dtypes, google.protobuf.message, grpc"
    bench.expect(in_a_new_python(f"{statement}\nprint(numpy.add(40, 2))"), "42")
    bench.record(float(in_a_new_python(TIMED.format(statement))))


@row(
    "import",
    of_package=True,
    at_most=0.3,
    faster=10,
    floors=[Floor("numpy, ml_dtypes, protobuf, grpcio", _import_dependencies)],
)
def import_time(library: Library, bench: Bench) -> None:
    """The import statement, in a Python that has just started, with every .pyc file written and read before."""
    bench.expect(in_a_new_python(USED.format(library.statement)), "42.0")
    bench.record(float(in_a_new_python(TIMED.format(library.statement))))


def _bare_server(bench: Bench) -> None:
    source = (
        "import numpy, ml_dtypes, google.protobuf.message, grpc\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "server = grpc.server(ThreadPoolExecutor(2))\n"
        "print(server.add_insecure_port('127.0.0.1:0') > 0)\n"
        "server.start()\n"
        "status = open('/proc/self/status').read().splitlines()\n"
        "print(next(line for line in status if line.startswith('VmRSS')).split()[1])"
    )
    listens, kilobytes = in_a_new_python(source).split()
    bench.expect(listens, "True")
    bench.record(int(kilobytes) * 1024)


@row(
    "memory of a server process",
    unit=Unit.BYTES,
    cluster={"ps": 1},
    faster=6,
    floors=[Floor("numpy, ml_dtypes, protobuf and grpcio's server", _bare_server)],
)
def server_memory(tf: Any, bench: Bench) -> None:
    """Resident bytes of a server that has run a client's steps: a variable, an update, a matrix product."""
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(tf.ones([100, 100]))
        total = tf.reduce_sum(tf.matmul(x.assign_add(tf.ones([100, 100])), x))
    with tf.Session(bench.target("ps")) as session:
        session.run(tf.global_variables_initializer())
        bench.expect(session.run(total) in (2e6, 4e6), True)  # x is read before or after the update
        bench.record(bench.memory("ps"))


def required(distribution: str) -> dict[str, metadata.Distribution]:
    """The distribution and all that it needs, without extras, by name: what `pip install` of it brings."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, metadata.Distribution] = {}
    waiting = [(distribution, frozenset({""}))]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        found[canonicalize_name(name)] = dist = metadata.distribution(name)
        for text in dist.requires or ():
            need = Requirement(text)
            if need.marker and not any(need.marker.evaluate({"extra": e}) for e in extras):
                continue
            item = (canonicalize_name(need.name), frozenset({"", *need.extras}))
            if item not in seen:
                seen.add(item)
                waiting.append(item)
    return found


def files_of(dist: metadata.Distribution) -> Iterator[Path]:
    """What installing it puts into site-packages; of an editable install, the package where it stands."""
    origin = json.loads(dist.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        spec = find_spec(dist.name)
        assert spec is not None
        assert spec.submodule_search_locations
        package = Path(spec.submodule_search_locations[0])
        compile_dir(package, quiet=2)  # as pip does
        for path in package.rglob("*"):
            hidden = any(part.startswith(".") for part in path.relative_to(package).parts)
            foreign = path.suffix == ".pyc" and f".{sys.implementation.cache_tag}." not in path.name
            if path.is_file() and not hidden and not foreign:
                yield path
        return
    for file in dist.files or ():
        path = Path(str(dist.locate_file(file)))
        if path.is_file() and ".." not in file.parts:  # scripts and man pages are elsewhere
            yield path


def size_of(dist: metadata.Distribution) -> int:
    """Bytes of its files."""
    return sum(path.stat().st_size for path in set(files_of(dist)))


def _dependencies_size(bench: Bench) -> None:
    sizes = {name: size_of(d) for name, d in required("headrace").items() if name != "headrace"}
    bench.expect(all(sizes.values()), True)
    bench.record(sum(sizes.values()))


@row(
    "installed size",
    unit=Unit.BYTES,
    of_package=True,
    floors=[Floor("its dependencies", _dependencies_size)],
)
def installed_size(library: Library, bench: Bench) -> None:
    """Bytes that `pip install` of it adds to the site-packages of a new venv, with everything that it requires."""
    sizes = {name: size_of(dist) for name, dist in required(library.distribution()).items()}
    bench.expect([name for name, size in sizes.items() if not size], [])
    bench.record(sum(sizes.values()))
