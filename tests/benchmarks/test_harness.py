"""What measures and reports: nothing unverified is timed, ratios and targets say what they mean."""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections import deque
from pathlib import Path

import numpy as np
import pytest

import benchmarks.rows  # noqa: F401  registers every row
from benchmarks import kernels, machine, mlp, report
from benchmarks.__main__ import arguments
from benchmarks.child import measure
from benchmarks.compare import QUICK, Effort, Outcome, run
from benchmarks.libraries import HEADRACE, TENSORFLOW
from benchmarks.processes import ProcessFailed, cluster, environment, process
from benchmarks.row import TABLE, TIMES, Bench, Floor, Row, Unit, WrongResult, row
from benchmarks.rows.footprint import required


def example(tf: object, bench: Bench) -> None:
    bench.expect(1, 1)
    bench.record(2.5)


def made(**fields: object) -> Row:
    """A row that nothing has registered."""
    given = {
        "function": example,
        "title": "an example",
        "unit": Unit.SECONDS,
        "cluster": {},
        "floors": (Floor("the least", lambda bench: example(None, bench), times=2),),
        "faster": None,
        "at_most": None,
        "of_floor": None,
        "of_package": True,
        "tensorflow": True,
        "moves": "",
    }
    return Row(**{**given, **fields})  # type: ignore[arg-type]


def outcome(ours: list[float], theirs: list[float], **fields: object) -> Outcome:
    return Outcome(made(**fields), {"headrace": ours, "TensorFlow": theirs, "floor 0": [1e-6]})


class TestBench:
    def test_nothing_is_timed_before_it_is_verified(self) -> None:
        with pytest.raises(RuntimeError, match="verifies its result"):
            Bench(0.0).time(lambda: None)

    @pytest.mark.parametrize(
        ("got", "wanted", "relative"),
        [(1.0, 2.0, 0.0), ([1.0, 2.0], [1.0, 2.1], 0.01), (b"a", b"b", 0.0)],
    )
    def test_a_wrong_result_ends_the_row(
        self, got: object, wanted: object, relative: float
    ) -> None:
        with pytest.raises(WrongResult, match="wanted"):
            Bench(0.0).expect(got, wanted, relative)

    def test_it_says_how_many_calls_it_made(self) -> None:
        bench, calls = Bench(0.0), []
        bench.expect(1, 1)
        assert bench.time(lambda: calls.append(None)) == len(calls)
        assert bench.figure is not None
        assert 0 < bench.figure < 1e-3

    def test_a_target_names_the_address_of_a_task(self) -> None:
        assert Bench(0.0, {"ps": ["a:1", "b:2"]}).target("ps", 1) == "grpc://b:2"

    def test_a_rate_is_that_of_all_clients_together_and_all_make_equally_many_calls(self) -> None:
        bench, queue = Bench(0.01), deque[int]()
        filled = threading.Semaphore(0)

        def produce() -> None:
            queue.append(1)
            filled.release()

        def consume() -> None:
            filled.acquire()
            queue.popleft()

        bench.expect(len(queue), 0)
        assert bench.rate([produce, consume, produce, consume]) >= 3
        assert len(queue) == 0
        assert bench.figure
        assert bench.figure > 0

    def test_a_client_that_fails_ends_the_row_though_others_wait_for_it(self) -> None:
        bench, never = Bench(0.0), threading.Semaphore(0)
        bench.expect(1, 1)
        with pytest.raises(ZeroDivisionError):
            bench.rate([lambda: never.acquire(timeout=30), lambda: 1 / 0])
        for _ in range(3):
            never.release()

    def test_memory_is_that_of_the_tasks_process(self) -> None:
        bench = Bench(0.0, {"ps": ["a:1"]}, {"ps": [os.getpid()]})
        assert 10e6 < bench.memory("ps") < 10e9


def test_a_floor_counts_as_often_as_the_row_needs_it() -> None:
    assert measure(made(), "floor 0", Bench(0.0)) == 5.0


def test_a_row_that_measures_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"without bench\.time"):
        measure(made(function=lambda tf, bench: None), "headrace", Bench(0.0))


def test_two_rows_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two rows are named run_const"):
        row("again")(TABLE["run_const"].function)


class TestRatio:
    @pytest.mark.parametrize(
        ("unit", "ours", "theirs", "times_better"),
        [
            (Unit.SECONDS, 2.0, 6.0, 3.0),
            (Unit.BYTES, 6.0, 2.0, 1 / 3),
            (Unit.PER_SECOND, 6.0, 2.0, 3.0),
        ],
    )
    def test_more_is_better(
        self, unit: Unit, ours: float, theirs: float, times_better: float
    ) -> None:
        assert outcome([ours], [theirs], unit=unit).ratio == times_better

    def test_it_is_of_the_medians_and_its_range_of_the_pairs(self) -> None:
        found = outcome([1.0, 2.0, 4.0], [10.0, 10.0, 10.0])
        assert found.ratio == 5.0
        assert report.ratio(found) == f"5.00{TIMES} (2.50 to 10.0)"

    def test_a_library_that_failed_once_has_none(self) -> None:
        found = outcome([1.0], [10.0, 10.0])
        found.failures["headrace"] = "it ended"
        assert found.ratio is None
        assert report.cells(found)[0] == report.NONE
        assert "headrace failed: it ended" in report.line(found)


@pytest.mark.parametrize(
    ("target", "ours", "theirs", "met"),
    [
        ({"faster": 10}, 1.0, 10.0, True),
        ({"faster": 10}, 1.1, 10.0, False),
        ({"at_most": 0.3}, 0.3, 9.0, True),
        ({"at_most": 0.3}, 0.31, 9.0, False),
        ({"of_floor": 3}, 3e-6, 9.0, True),
        ({"of_floor": 3}, 4e-6, 9.0, False),
    ],
)
def test_a_target_is_met_or_missed(
    target: dict[str, float], ours: float, theirs: float, met: bool
) -> None:
    found = outcome([ours], [theirs], **target)
    assert [verdict for _, verdict in report.targets(found)] == [met]
    assert report.target(found).endswith("met" if met else "missed")


def test_without_tensorflow_its_targets_are_not_judged() -> None:
    alone = Outcome(made(faster=10, at_most=1.0), {"headrace": [0.5]})
    assert [verdict for _, verdict in report.targets(alone)] == [None, True]


@pytest.mark.parametrize(
    ("figure", "unit", "text"),
    [
        (3.24e-6, Unit.SECONDS, "3.24 µs"),
        (0.0998, Unit.SECONDS, "99.8 ms"),
        (2.9, Unit.SECONDS, "2.90 s"),
        (4e-10, Unit.SECONDS, "0.40 ns"),
        (1.62e9, Unit.BYTES, "1.62 GB"),
        (1234.0, Unit.PER_SECOND, "1,234 /s"),
        (None, Unit.SECONDS, report.NONE),
    ],
)
def test_figures_are_shown_with_their_unit(figure: float | None, unit: Unit, text: str) -> None:
    assert report.shown(figure, unit) == text


class TestReadme:
    SECTION = report.markdown(
        {"local": [outcome([1e-6], [1e-4], faster=10)]},
        ["2 cores"],
        Effort(5, 1.0, 60.0),
        "2020-01-31",
    )

    def test_the_table_says_what_was_measured_when_and_on_what(self) -> None:
        assert "2020-01-31: medians of 5 runs of 1 s" in self.SECTION
        assert "- 2 cores\n" in self.SECTION
        cells = "an example | `example` | 1.00 µs | 100 µs | 100{0} | ≥ 10{0}: met | 1.00 µs (the least)"
        assert f"| {cells.format(TIMES)} |" in self.SECTION

    def test_what_rows_move_stands_beside_them_where_any_says_so(self) -> None:
        silent, telling = outcome([1.0], [2.0]), outcome([1.0], [2.0], moves="4 MB read")
        made = report.markdown(
            {"local": [silent], "transfer": [silent, telling]},
            [],
            Effort(1, 1.0, 60.0),
            "2020-01-31",
        )
        local, transfer = made.split("### Transfer")
        assert report.MOVES not in local
        heading, rule, first, second = transfer.strip().splitlines()
        assert heading.endswith(f"| {report.MOVES} |")
        assert first.endswith(f"| {report.NONE} |")
        assert second.endswith("| 4 MB read |")
        assert len({line.count("|") for line in (heading, rule, first, second)}) == 1

    @pytest.mark.parametrize("name", [*TABLE])
    def test_the_real_table_has_every_row(self, name: str) -> None:
        lines = [line for line in report.README.read_text().splitlines() if f"| `{name}` |" in line]
        assert len(lines) == 1
        title, moves = TABLE[name].title, TABLE[name].moves
        assert lines[0].startswith(f"| {title} |")
        assert not moves or lines[0].endswith(f"| {moves} |")

    def test_the_table_is_replaced_between_its_markers(self, tmp_path: Path) -> None:
        path = tmp_path / "README.md"
        path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
        report.write(self.SECTION, path)
        once = path.read_text()
        report.write(self.SECTION, path)
        assert path.read_text() == once
        assert once.startswith(f"before\n{report.BEGIN}\n\nMeasured")
        assert once.endswith(f"\n{report.END}\nafter\n")
        assert "old" not in once

    @pytest.mark.parametrize(
        "text", ["", report.BEGIN, f"{report.END}{report.BEGIN}", f"{report.BEGIN}{report.END}" * 2]
    )
    def test_missing_markers_are_an_error_and_change_nothing(
        self, tmp_path: Path, text: str
    ) -> None:
        path = tmp_path / "README.md"
        path.write_text(text)
        with pytest.raises(ValueError, match="once each"):
            report.write(self.SECTION, path)
        assert path.read_text() == text

    def test_the_real_one_has_its_markers(self) -> None:
        text = report.README.read_text()
        assert [text.count(report.BEGIN), text.count(report.END)] == [1, 1]


def test_a_cluster_listens_while_it_lasts() -> None:
    with cluster(HEADRACE, {"ps": 1, "worker": 2}) as (addresses, pids):
        ports = [int(address.rpartition(":")[2]) for job in addresses.values() for address in job]
        assert {job: len(tasks) for job, tasks in addresses.items()} == {"ps": 1, "worker": 2}
        assert {job: len(tasks) for job, tasks in pids.items()} == {"ps": 1, "worker": 2}
        for port in ports:
            socket.create_connection(("127.0.0.1", port)).close()
    for port in ports:
        with socket.socket() as s:
            assert s.connect_ex(("127.0.0.1", port)) != 0


def test_a_process_that_ends_early_is_quoted() -> None:
    command = [HEADRACE.python(), "-c", "raise SystemExit('no such luck')"]
    with (
        process(command) as started,
        pytest.raises(ProcessFailed, match="exit code 1\n    no such luck"),
    ):
        started.first_line(60.0)


def test_a_process_that_says_nothing_in_time_is_ended() -> None:
    with (
        process([HEADRACE.python(), "-c", "input()"]) as started,
        pytest.raises(ProcessFailed, match="no word from it within 0 s"),
    ):
        started.first_line(0.0)
    assert started.popen.returncode is not None


def test_a_failure_of_one_subject_is_that_subject_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_ORACLE_PYTHON", raising=False)
    monkeypatch.setattr(
        type(HEADRACE),
        "python",
        lambda self, estimator=False: "/bin/false" if self is TENSORFLOW else "true",
    )
    found = run(made(floors=()), [TENSORFLOW], QUICK)
    assert "ended with exit code 1" in found.failures["TensorFlow"]


def test_children_write_their_pyc_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in environment()


class TestKernels:
    """Nobody's shell chooses them, and `--isa` does for all."""

    FORCE = ("OPENBLAS_CORETYPE", "Prescott"), ("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_SKX")

    @pytest.fixture
    def forced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (
            *self.FORCE,
            ("OPENBLAS_L2_SIZE", "512"),
            ("ONEDNN_MAX_CPU_ISA", "SSE41"),
        ):
            monkeypatch.setenv(name, value)

    @pytest.fixture
    def limited(self, monkeypatch: pytest.MonkeyPatch) -> kernels.Limit:
        monkeypatch.setenv(kernels.ISA_VARIABLE, "avx2")
        return kernels.LIMITS["avx2"]

    def test_no_process_sees_what_forces_them(self, forced: None) -> None:
        assert set(kernels.forced()) == {
            "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NPY_DISABLE_CPU_FEATURES", "ONEDNN_MAX_CPU_ISA",
        }  # fmt: skip
        assert not set(environment()) & set(kernels.FORCED)
        (said,) = kernels.about()
        assert "OPENBLAS_CORETYPE" in said

    def test_what_processes_compute_with_is_what_they_would_without(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in kernels.FORCED:
            monkeypatch.delenv(name, raising=False)
        free = machine.kernels(HEADRACE)
        for name, value in self.FORCE:
            monkeypatch.setenv(name, value)
        assert machine.kernels(HEADRACE) == free
        assert "NumPy" in free

    def test_a_limit_reaches_every_process_and_those_that_it_starts(
        self, forced: None, limited: kernels.Limit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = environment()
        for name in [*os.environ]:
            if name not in first:
                monkeypatch.delenv(name)
        for name, value in first.items():
            monkeypatch.setenv(name, value)
        for each in (first, environment()):
            assert limited.variables.items() <= each.items()
            assert "OPENBLAS_L2_SIZE" not in each

    def test_it_is_said_what_is_limited_and_what_is_not(self, limited: kernels.Limit) -> None:
        *_, said = kernels.about()
        assert said.startswith("limited to AVX2: ")
        assert limited.reaches in said
        assert "not limited: Eigen in TensorFlow" in said

    @pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 instructions")
    def test_a_limited_process_computes_with_less(self, limited: kernels.Limit) -> None:
        said = machine.kernels(HEADRACE)
        assert "(Haswell)" in said or "openblas" not in said
        assert "AVX512" not in said
        assert "X86_V4" not in said

    def test_a_processor_without_those_instructions_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
        with pytest.raises(SystemExit):
            arguments(["--isa", "avx2"])
        assert "x86-64, not aarch64" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("flags", "text"),
        [
            ("fpu avx avx2 avx512f", " with vectors of 512 bits (AVX-512)"),
            ("fpu avx avx2", " with vectors of 256 bits (AVX2)"),
            ("fpu sse2", ""),
        ],
    )
    def test_the_table_names_the_width_of_vectors(
        self, flags: str, text: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "cpuinfo"
        path.write_text(f"model name\t: Some CPU\nflags\t\t: {flags}\n")
        assert machine.vectors(str(path)) == text


def test_a_transfer_says_what_it_moves_and_all_that_moves_is_read() -> None:
    for each in TABLE.values():
        if each.area == "transfer":
            assert "MB" in each.moves, each.name


def test_without_a_python_that_has_tensorflow_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HEADRACE_ORACLE_PYTHON", raising=False)
    with pytest.raises(LookupError, match="make bench"):
        TENSORFLOW.python()


def test_an_unknown_row_brings_up_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["run_cosnt"])
    assert "there is run_const" in capsys.readouterr().err


def test_installing_headrace_brings_its_requirements_and_no_tools() -> None:
    names = set(required("headrace"))
    assert {"headrace", "numpy", "grpcio", "protobuf", "ml-dtypes"} <= names
    assert not {"pytest", "mypy", "ruff"} & names


def test_the_network_by_hand_learns() -> None:
    losses = mlp.losses(20)
    assert losses[-1] < 0.9 * losses[0]


def test_the_gradient_by_hand_is_the_slope_of_the_loss() -> None:
    data = mlp.batch()
    start, moved = mlp.initial_layers(), mlp.initial_layers()
    mlp.train_step(moved, *data)
    before, after = ([part for layer in layers for part in layer] for layers in (start, moved))
    gradient = [(a - b) / mlp.LEARNING_RATE for a, b in zip(before, after, strict=True)]

    def loss_along_it(distance: float) -> float:
        parts = iter(p + np.float32(distance) * g for p, g in zip(before, gradient, strict=True))
        return mlp.train_step(list(zip(parts, parts, strict=True)), *data)

    slope = (loss_along_it(0.001) - loss_along_it(-0.001)) / 0.002
    assert slope == pytest.approx(sum(float((g * g).sum()) for g in gradient), rel=0.01)
