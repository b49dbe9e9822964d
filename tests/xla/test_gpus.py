"""GPUs by way of XLA: what ops give there, placement, towers, what is kept by whom."""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.graph.registry import OPS
from headrace.ops._portable.table import array_kernels, state_kernels
from headrace.run.devices import gpus
from tests.ops.operands import recipes
from tests.ops.test_operands import shown
from tests.ops.test_portable import NAMES, ON_HOST_ALONE, differs, outcomes

GPU = "/gpu:0"
SOFT = tf.ConfigProto(allow_soft_placement=True)


RUN_BY_PROGRAMS = {
    "counting",
    "ctc",
    "diagonals",
    "fractional",
    "image_parts",
    "images",
    "parts",
    "quantization",
    "recurrent",
    "segments",
    "sound",
    "sparse",
}
"""Files of kernels that test_programs.py runs here, and test_portable.py on another device."""


def apart() -> list[str]:
    """Those that are computed by functions of their own: of a variable's two ops, one."""
    found: dict[Any, str] = {}
    for name in NAMES:
        state, kernel = state_kernels().get(name), array_kernels().get(name)
        if kernel is not None and _file(kernel.function) in RUN_BY_PROGRAMS:
            continue
        if state is not None and _file(state.function) == "optimizers" and "Sparse" in name:
            continue  # a rule is one function of whole variables and of rows
        found.setdefault(name if state is None else state.function, name)
    return sorted(found.values())


def _file(function: Any) -> str:
    return str(getattr(function, "__module__", "")).rpartition(".")[2]


@pytest.mark.parametrize("name", apart())
def test_an_op_gives_on_a_gpu_what_it_gives_on_the_host(name: str) -> None:
    """More often where the kernel is JAX's own: test_portable.py has run the others."""
    kernel = array_kernels().get(name)
    most = 10 if kernel is not None and kernel.with_jax is not None else 4
    found = []
    for recipe in recipes(OPS[name], most):
        if ON_HOST_ALONE & {kind.name for kind in recipe.types}:
            continue
        pairs = zip(outcomes(recipe, "/cpu:0"), outcomes(recipe, GPU), strict=True)
        for operands, (host, device) in zip(recipe.operands, pairs, strict=True):
            if differs(name, host, device):
                found.append(f"{shown(operands)}: {host} on the host, {device} on the GPU")
    assert not found, f"{len(found)} of {name}:\n" + "\n".join(found[:5])


def placed(*tensors: tf.Tensor, config: tf.ConfigProto = SOFT) -> list[str]:
    """Where nodes of a step ran."""
    metadata = tf.RunMetadata()
    with tf.Session(config=config) as session:
        session.run(
            tensors,
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            run_metadata=metadata,
        )
    where = {
        node.node_name: device.device.rpartition("/device:")[2]
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    }
    return [where[tensor.op.name] for tensor in tensors]


def test_what_has_a_kernel_goes_to_a_gpu_by_itself() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder_with_default(np.ones((2, 2), np.float32), [2, 2])
        product = tf.matmul(x, x)
        text = tf.as_string(product)
        assert placed(product, text) == ["GPU:0", "CPU:0"]


def test_devices_say_what_they_are() -> None:
    assert tf.test.gpu_device_name() == "/device:GPU:0"
    assert tf.test.is_gpu_available()
    with tf.Session() as session:
        found = [each for each in session.list_devices() if each.device_type == "GPU"]
    assert len(found) == gpus.count()
    with tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as session:
        assert {each.device_type for each in session.list_devices()} == {"CPU"}


def test_64_bits_are_kept_and_jax_keeps_its_settings() -> None:
    import jax

    before = dict(jax.config.values)
    with tf.Graph().as_default(), tf.device(GPU):
        x = tf.placeholder(tf.float64, [])
        y = tf.exp(x) + 1e-12
        with tf.Session() as session:
            found = session.run(y, {x: 1.0})
    assert found == pytest.approx(np.exp(1.0) + 1e-12, rel=1e-15)
    assert jax.numpy.ones(2).dtype == np.float32 if not jax.config.jax_enable_x64 else True
    assert dict(jax.config.values) == before


def test_memory_that_is_missing_is_told_of_by_the_node_that_wants_it() -> None:
    with tf.Graph().as_default(), tf.device(GPU):
        weights = tf.get_variable("weights", initializer=np.ones((9, 9), np.float32))
        x = tf.placeholder(tf.float32, [None, 1])
        product = tf.matmul(x, x, transpose_b=True, name="outer")
        wanted = tf.reduce_sum(product) + tf.reduce_sum(weights)
        with tf.Session() as session:
            session.run(weights.initializer)
            assert session.run(wanted, {x: [[1.0], [2.0]]}) == 90.0
            with pytest.raises(errors.ResourceExhaustedError) as info:
                session.run(wanted, {x: np.ones((10_000_000, 1))})
            assert session.run(wanted, {x: [[1.0], [2.0]]}) == 90.0
    assert info.value.op.name == "outer"
    said = info.value.message
    assert "MatMul 'outer' was to give float32[?,?] on GPU:0" in said
    assert "its inputs were float32[10000000,1], float32[10000000,1]" in said
    assert "the largest holders: variable weights 324 bytes" in said


def test_towers_average_their_gradients() -> None:
    """As programs share the GPUs of a host: variables on the CPU, a tower on each GPU."""

    def weights_after(devices: list[str]) -> Any:
        with tf.Graph().as_default():
            rows = np.linspace(-1, 1, 32).reshape(8, 4).astype(np.float32)
            with tf.device("/cpu:0"):
                weights = tf.get_variable("w", initializer=np.ones((4, 1), np.float32))
            optimizer, towers = tf.train.GradientDescentOptimizer(0.1), []
            for number, device in enumerate(devices):
                part = rows[number * 8 // len(devices) : (number + 1) * 8 // len(devices)]
                with tf.device(device):
                    loss = tf.reduce_mean(tf.square(tf.matmul(tf.constant(part), weights) - 1.0))
                    towers.append(optimizer.compute_gradients(loss, [weights]))
            with tf.device("/cpu:0"):
                mean = tf.add_n([tower[0][0] for tower in towers]) / float(len(towers))
                train = optimizer.apply_gradients([(mean, weights)])
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for _ in range(5):
                    session.run(train)
                return session.run(weights)

    np.testing.assert_allclose(
        weights_after(["/gpu:0", "/gpu:1"] if gpus.count() > 1 else [GPU, GPU]),
        weights_after(["/cpu:0", "/cpu:0"]),
        1e-5,
    )


def example(name: str) -> list[str]:
    """The lines that an example prints."""
    program = Path(__file__).resolve().parents[2] / "examples" / f"{name}.py"
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.splitlines()


def test_the_example_of_layers_has_one_on_each_gpu() -> None:
    where, first, last = example("layers_on_two_gpus")
    if gpus.count() > 1:
        assert where == "layers on device:GPU:0 and device:GPU:1"
    assert float(last.split()[-1]) < float(first.split()[-1]) / 2


def test_the_example_of_batches_has_them_on_a_gpu() -> None:
    where, first, last, left = example("staged_batches")
    assert (where, left) == ("batches on device:GPU:0", "1 left")
    assert float(last.split()[-1]) < float(first.split()[-1]) / 100


def test_the_example_of_towers_has_one_on_each_gpu() -> None:
    where, first, last = example("towers")
    if gpus.count() > 1:
        assert where == "towers on device:GPU:0 and device:GPU:1"
    assert float(last.split()[-1]) < float(first.split()[-1]) / 2


def test_a_whole_model_trains_on_a_gpu() -> None:
    def losses(device: str) -> list[float]:
        with tf.Graph().as_default(), tf.device(device):
            tf.set_random_seed(3)
            images = tf.constant(np.linspace(0, 1, 8 * 36).reshape(8, 6, 6, 1), tf.float32)
            labels = tf.constant([0, 1] * 4)
            hidden = tf.layers.conv2d(images, 4, 3, activation=tf.nn.relu)
            hidden = tf.layers.max_pooling2d(hidden, 2, 2)
            logits = tf.layers.dense(tf.layers.flatten(hidden), 2)
            loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
            train = tf.train.AdamOptimizer(0.01).minimize(loss)
            with tf.Session(config=SOFT) as session:
                session.run(tf.global_variables_initializer())
                return [session.run([loss, train])[0] for _ in range(10)]

    np.testing.assert_allclose(losses(GPU), losses("/cpu:0"), 1e-4)


# -- processes --------------------------------------------------------------------------------------


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_jax_is_not_imported_where_there_is_nothing_for_it() -> None:
    program = (
        "import sys, headrace as tf\n"
        "with tf.Session() as session: session.run(tf.constant(1.0) + 1.0)\n"
        "assert 'jax' not in sys.modules"
    )
    done = run(program, HEADRACE_GPUS="")
    if gpus.stand_ins():
        assert done.returncode == 0, done.stderr


def test_a_number_that_is_none_is_refused() -> None:
    done = run("import headrace as tf; tf.Session()", HEADRACE_GPUS="many")
    assert "InvalidArgumentError" in done.stderr
    assert "HEADRACE_GPUS='many'" in done.stderr


def test_jax_that_was_there_before_is_said_to_have_too_few() -> None:
    program = (
        "import jax; jax.devices(); import headrace as tf; print(len(tf.Session().list_devices()))"
    )
    done = run(program, HEADRACE_GPUS="3", XLA_FLAGS="")
    if gpus.stand_ins():
        assert "xla_force_host_platform_device_count=3" in done.stderr, done.stderr
        assert done.stdout.strip() == "2"


LISTED = """
import sys, headrace as tf
options = tf.GPUOptions(visible_device_list=sys.argv[1], allow_growth=True, per_process_gpu_memory_fraction=0.25)
with tf.Session(config=tf.ConfigProto(gpu_options=options)) as session:
    found = [each for each in session.list_devices() if each.device_type == "GPU"]
from headrace.run.devices.table import of_name
print([of_name(each.name).description.rpartition("device ")[2][:1] for each in found])
import os
print(os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"], os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"])
"""


@pytest.mark.parametrize(("visible", "shown"), [("1", "['1']"), ("1,0", "['1', '0']")])
def test_the_visible_gpus_are_those_of_the_list(visible: str, shown: str) -> None:
    done = run(LISTED.replace("sys.argv[1]", repr(visible)), HEADRACE_GPUS="2")
    if gpus.stand_ins():
        assert done.stdout.splitlines() == [shown, "0.250 false"], done.stderr


@pytest.mark.parametrize(
    ("visible", "said"), [("7", "invalid GPU id '7'"), ("one", "Could not parse entry")]
)
def test_a_list_of_none_is_refused(visible: str, said: str) -> None:
    done = run(LISTED.replace("sys.argv[1]", repr(visible)), HEADRACE_GPUS="2")
    assert said in done.stderr
    assert "InvalidArgumentError" in done.stderr
    assert done.returncode == 1


def test_options_that_come_too_late_are_a_warning() -> None:
    program = "import headrace as tf; tf.Session()\n" + LISTED.replace("sys.argv[1]", "'1'")
    program = program.replace("import os\nprint(os", "import os\n#")
    done = run(program, HEADRACE_GPUS="2")
    if gpus.stand_ins():
        assert "gpu_options come too late" in done.stderr
        assert done.stdout.strip() == "['0', '1']"


CHAIN = """
import headrace as tf
from headrace.run.exec.fused import compiler
x = y = tf.placeholder(tf.float32, [3])
for _ in range(9):
    y = tf.tanh(y * 1.5)
session = tf.Session()
for _ in range(20):
    session.run(y, {x: [1.0, 2.0, 3.0]})
    compiler.wait(60)
"""


def test_a_compiled_step_goes_on_in_a_forked_process() -> None:
    program = (
        CHAIN
        + """
import os, sys
assert "jax" in sys.modules
before = session.run(y, {x: [1.0, 2.0, 3.0]}).tolist()
child = os.fork()
if not child:
    found = [session.run(y, {x: [1.0, 2.0, 3.0]}).tolist() for _ in range(40)]
    os._exit(any(abs(a - b) > 1e-5 for each in found for a, b in zip(each, before)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    done = run(program, HEADRACE_GPUS="", HEADRACE_XLA="on")
    assert done.stdout.strip() == "0", done.stderr


def test_a_broken_jax_is_one_warning_and_cpus(tmp_path: Any) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax/__init__.py").write_text("raise RuntimeError('no driver')")
    for gpus_wanted in ("2", ""):
        done = run(
            CHAIN + "print(len(session.list_devices()))",
            HEADRACE_GPUS=gpus_wanted,
            HEADRACE_XLA="on",
            PYTHONPATH=str(tmp_path),
        )
        assert done.stdout.strip() == "1", done.stderr
        assert done.stderr.count("\n") == done.stderr.count("no driver") == 1


def _run_in_child(queue: Any) -> None:
    with tf.Graph().as_default(), tf.device(GPU):
        x = tf.placeholder(tf.float32, [])
        try:
            with tf.Session() as session:
                queue.put(float(session.run(tf.exp(x), {x: 0.0})))
        except errors.OpError as error:
            queue.put(f"{type(error).__name__}: {error.message}")


@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_forked_process_is_told_so() -> None:
    with tf.Graph().as_default(), tf.device(GPU), tf.Session() as session:
        session.run(tf.exp(tf.placeholder_with_default(0.0, [])))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_run_in_child, args=(queue,))
    child.start()
    found = queue.get(timeout=60)
    child.join(60)
    assert "forked" in str(found), found


def test_the_log_says_where_nodes_are(caplog: pytest.LogCaptureFixture) -> None:
    with tf.Graph().as_default(), tf.device(GPU):
        x = tf.exp(tf.placeholder_with_default(0.0, []), name="there")
        with (
            caplog.at_level(logging.INFO, "headrace"),
            tf.Session(config=tf.ConfigProto(log_device_placement=True)) as session,
        ):
            session.run(x)
    assert "there: (Exp): /job:localhost/replica:0/task:0/device:GPU:0" in caplog.text


def test_every_array_kernel_has_been_looked_at() -> None:
    assert len(array_kernels()) > 100
