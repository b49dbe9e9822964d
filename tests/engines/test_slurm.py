"""`headrace launch --slurm` under a Slurm that runs: a step is a cluster, and a requeued job goes on: `make slurm`."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from headrace.serve.slurm import expand_hostlist
from tests.engines.slurm import NODES, PROGRAMS, running

WITHIN_S = 120.0

PROGRAM = """
import os, socket, sys
import headrace as tf
said = tf.distribute.cluster_resolver.TFConfigClusterResolver()
folder, job = sys.argv[1], said.task_type
saved = tf.train.latest_checkpoint(folder)
with tf.train.Server() as server:
    host = said.cluster_spec().task_address(job, 0).rpartition(":")[0]
    print("is on", socket.gethostbyname(host), flush=True)
    if job == "ps":
        server.join()
    with tf.device("/job:ps/task:0"):
        more = tf.train.get_or_create_global_step().assign_add(1)
        arrived = tf.FIFOQueue(9, [tf.int32], [[]], shared_name="arrived")
        arrive, greet = arrived.enqueue(1), arrived.dequeue()
    with tf.train.MonitoredTrainingSession(
        server.target, job == "chief", checkpoint_dir=folder if job == "chief" else None,
        save_checkpoint_steps=10, save_checkpoint_secs=None,
    ) as session:
        step = session.run(more)
        if job == "worker":
            session.run(arrive)
            while True:
                step = session.run(more)
        goes_on = saved is not None and step > int(saved.rpartition("-")[2])
        for _ in range(50):
            session.run(more)
        session.run(greet)  # the end of the chief is the end, also of a worker that is slow to begin
        print("has trained", flush=True)
        if os.path.exists(folder + "/news"):
            with open(folder + "/news", "w") as news:
                print("goes on" if goes_on else "begins", file=news)
            if "SLURM_RESTART_COUNT" not in os.environ:
                open(folder + "/requeued").read()
"""

BATCH = """#!/bin/bash
#SBATCH --nodes=2 --ntasks=3 --requeue
srun --distribution=block --kill-on-bad-exit=1 --wait=60 \\
  {launch} --slurm --ps 1 --chief --workers 1 -- {program}
echo "the step ended with $?" > {news}
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    missing = [each for each in PROGRAMS if shutil.which(each) is None]
    if missing:
        pytest.skip(f"needs Debian's slurm-wlm and munge; there is no {missing[0]}")
    if os.geteuid():
        pytest.skip("slurmctld, slurmd and munged of a test are root's")
    with running(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def test_a_step_is_a_cluster(slurm: dict[str, str], tmp_path: Path) -> None:
    """On two nodes; addresses and secret are of Slurm's variables, and the ps and the worker end with the chief."""
    (tmp_path / "train.py").write_text(PROGRAM)
    options = (
        "--nodes=2",
        "--ntasks=3",
        "--distribution=block",
        "--kill-on-bad-exit=1",
        "--wait=60",
    )
    launch = (sys.executable, "-m", "headrace.tools.main", "launch", "--slurm")
    tasks = ("--ps", "1", "--chief", "--workers", "1")
    program = (sys.executable, str(tmp_path / "train.py"), str(tmp_path))
    ended = subprocess.run(
        ["srun", *options, *launch, *tasks, "--", *program],
        cwd=tmp_path, env=slurm, capture_output=True, text=True, check=False, timeout=WITHIN_S,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "[chief 0] has trained" in ended.stdout
    where = dict(re.findall(r"^\[(\w+ 0)\] is on (\S+)$", ended.stdout, re.MULTILINE))
    assert where["ps 0"] == where["chief 0"] == NODES["node1"]
    assert where["worker 0"] == NODES["node2"]
    assert not list(tmp_path.glob(".headrace-secret-*"))


@contextmanager
def begun_at_once(job: str, environment: dict[str, str], path: Path) -> Iterator[TextIO]:
    """What a requeued job has to say, for which Slurm, once its end is done with, would wait for two minutes more."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as news:
        told = select.poll()
        told.register(news, select.POLLIN)
        while not told.poll(500):
            update = ["scontrol", "update", f"JobId={job}", "StartTime=now"]
            subprocess.run(update, env=environment, check=False, capture_output=True)
        os.set_blocking(news.fileno(), True)
        yield news


def lost(job: str, environment: dict[str, str]) -> list[str]:
    """What takes the job's last node from it."""
    asked = ["squeue", "--noheader", "--format=%N", f"--jobs={job}"]
    nodes = subprocess.run(
        asked, env=environment, check=True, capture_output=True, text=True, timeout=WITHIN_S
    ).stdout
    last = expand_hostlist(nodes)[-1]
    return ["scontrol", "update", f"NodeName={last}", "State=DOWN", "Reason=lost"]


def requeued(job: str, environment: dict[str, str]) -> list[str]:
    """What somebody says who wants it to begin anew."""
    return ["scontrol", "requeue", job]


@pytest.mark.parametrize("what", [requeued, lost])
def test_a_job_that_begins_anew_goes_on_from_its_checkpoint(
    slurm: dict[str, str], tmp_path: Path, what: Callable[[str, dict[str, str]], list[str]]
) -> None:
    """Elsewhere, if a node is lost: there is a spare one."""
    for name in ("news", "requeued"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "train.py").write_text(PROGRAM)
    launch = f"{sys.executable} -m headrace.tools.main launch"
    batch = tmp_path / "job.sh"
    program = f"{sys.executable} {tmp_path}/train.py {tmp_path}"
    batch.write_text(BATCH.format(launch=launch, program=program, news=tmp_path / "news"))
    environment = {k: v for k, v in slurm.items() if k != "HEADRACE_SECRET_FILE"}
    job = subprocess.run(
        ["sbatch", "--parsable", "--output=out-%j", "--open-mode=append", str(batch)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=WITHIN_S,
    ).stdout.strip()  # fmt: skip
    assert (tmp_path / "news").read_text() == "begins\n"
    assert [each.stat().st_mode & 0o777 for each in tmp_path.glob(".headrace-secret-*")] == [0o600]
    subprocess.run(what(job, environment), env=environment, check=True, timeout=WITHIN_S)
    with begun_at_once(job, environment, tmp_path / "news") as news:
        assert news.read() == "goes on\n"
    assert (tmp_path / "news").read_text() == "the step ended with 0\n"
    assert not list(tmp_path.glob(".headrace-secret-*"))
