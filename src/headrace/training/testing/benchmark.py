"""`tf.test.Benchmark`, and `tf.test.main`.

Called by: programs.  Threads: the main one.
"""

from __future__ import annotations

import inspect
import json
import numbers
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Never

import numpy as np
from absl.testing import absltest

from headrace.codec import protos as pb
from headrace.graph import scopes
from headrace.training import app

__all__ = ["Benchmark", "main"]


class Benchmark:
    """Methods whose names begin with ``benchmark`` are run by ``--benchmarks=PATTERN``, which `main` knows.

    So is ``--benchmark_filter=PATTERN``, its later name.
    """

    classes: ClassVar[list[type[Benchmark]]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Benchmark.classes.append(cls)

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether there is nothing to run."""
        return not any(name.startswith("benchmark") for name in dir(cls))

    def evaluate(self, tensors: Any) -> Any:
        """What the default session computes.  Raises ValueError (there is none)."""
        session = scopes.get_default_session()
        if session is None:
            raise ValueError("evaluate needs a default session: `with tf.Session():`")
        return session.run(tensors)

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: Mapping[str, Any] | None = None,
        name: str | None = None,
        metrics: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Print what was measured, as the text of a message BenchmarkEntries; times in seconds, throughput in MB/s."""
        measured = {
            "iters": iters,
            "cpu_time": cpu_time,
            "wall_time": wall_time,
            "throughput": throughput,
        }
        lines = [f"name: {_shown(self._name(name))}"]
        lines += [f"{key}: {_shown(value)}" for key, value in measured.items() if value is not None]
        for key, value in sorted((extras or {}).items()):
            kind = "double_value" if isinstance(value, numbers.Real) else "string_value"
            given = float(value) if isinstance(value, numbers.Real) else str(value)
            lines += [
                "extras {",
                f"  key: {_shown(key)}",
                "  value {",
                f"    {kind}: {_shown(given)}",
                "  }",
                "}",
            ]
        for metric in metrics or ():
            lines += [
                "metrics {",
                *(f"  {key}: {_shown(value)}" for key, value in metric.items()),
                "}",
            ]
        print("entry {", *(f"  {line}" for line in lines), "}\n", sep="\n")

    def _name(self, given: str | None) -> str:
        """The class and the method that asks, or what is given for the latter."""
        frame = inspect.currentframe()
        while given is None and frame is not None:
            if frame.f_code.co_name.startswith("benchmark") and frame.f_locals.get("self") is self:
                given = frame.f_code.co_name
            frame = frame.f_back
        return f"{type(self).__name__}.{given or 'unnamed'}"

    def run_op_benchmark(
        self,
        sess: Any,
        op_or_tensor: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: Mapping[str, Any] | None = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Run an operation often, report the median of its times, in seconds, and return what was measured.

        burn_iters: runs before.  mbs: megabytes that a run moves, for the throughput.  store_trace: one more run is
        traced, and its steps are in extras as ``full_trace_chrome_format``.
        """
        target = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(target, feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(target, feed_dict)
            times.append(time.perf_counter() - start)
        found = dict(extras or {})
        if store_trace:
            from headrace.training.timeline import Timeline

            metadata = pb.RunMetadata()
            options = pb.RunOptions(trace_level=pb.RunOptions.FULL_TRACE)
            sess.run(target, feed_dict, options=options, run_metadata=metadata)
            timeline = Timeline(metadata.step_stats)
            found["full_trace_chrome_format"] = timeline.generate_chrome_trace_format()
        median = float(np.median(times)) if times else -1.0
        throughput = mbs / median if mbs and times else None
        self.report_benchmark(min_iters, None, median, throughput, found, name)
        found["wall_time_mean"] = float(np.mean(times)) if times else -1.0
        found["wall_time_stdev"] = float(np.std(times)) if times else -1.0
        return {
            "iters": min_iters,
            "wall_time": median,
            "extras": found,
            "name": name,
            "throughput": throughput,
        }


def _shown(value: Any) -> str:
    """A value as texts of messages have it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(float(value)).removesuffix(".0") if isinstance(value, numbers.Real) else str(value)


def main(argv: Sequence[str] | None = None) -> Never:
    """Run the tests of the program, or with ``--benchmarks=PATTERN`` its benchmarks, and exit.

    Raises SystemExit: 0 if all passed.
    """
    words = list(sys.argv if argv is None else argv)
    for word in words[1:]:
        found = re.fullmatch("--?(?:benchmarks|benchmark_filter)=(.*)", word)
        if found is not None:
            others = [each for each in words if each != word]
            app.run(partial(_run_benchmarks, found[1]), others)
    sys.argv = words  # which absl takes the program's flags from
    absltest.main()
    raise SystemExit(0)


def _run_benchmarks(pattern: str, argv: list[str]) -> int:
    """Every method whose name, after those of its module and class, has the pattern; "all" and "." are all.

    Raises ValueError (no benchmark has it).
    """
    found = False
    for each in Benchmark.classes:
        instance = None
        for name in dir(each):
            if not name.startswith("benchmark") or not callable(getattr(each, name)):
                continue
            full = f"{each.__module__}.{each.__name__}.{name}"
            if pattern == "all" or re.search(pattern, full):
                found = True
                scopes.reset_default_graph()
                instance = each() if instance is None else instance
                getattr(instance, name)()
    if not found:
        raise ValueError(f"No benchmarks matched the pattern: '{pattern}'")
    return 0
