"""`headrace k8s`: what it prints; tests/engines has Kubernetes' schemas, and what a kubelet makes of it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from headrace.tools.kubernetes.manifests import Cluster, core, jobset
from headrace.tools.kubernetes.yaml import documents
from headrace.tools.launch.roles import Counts
from headrace.tools.main import main


def run(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(["k8s", *words], out, err), out.getvalue(), err.getvalue()


def cluster(counts: Counts, **more: Any) -> Cluster:
    return Cluster("demo", "image", ["python", "train.py"], counts, **more)


def by_kind(made: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in made}


def command_of(template: dict[str, Any]) -> list[str]:
    (container,) = template["spec"]["containers"]
    command: list[str] = container["command"]
    return command


def test_parameter_servers_are_a_stateful_set_and_the_others_an_indexed_job() -> None:
    made = by_kind(core(cluster(Counts(ps=2, chief=1, worker=1))))
    assert list(made) == ["Secret", "PersistentVolumeClaim", "Service", "StatefulSet", "Job"]
    ps, job = made["StatefulSet"]["spec"], made["Job"]["spec"]
    assert (ps["replicas"], job["completions"], job["completionMode"]) == (2, 2, "Indexed")
    said = (
        "--cluster=ps=demo-ps-0.demo:2222,demo-ps-1.demo:2222;"
        "chief=demo-0.demo:2222;worker=demo-1.demo:2222"
    )
    assert command_of(ps["template"])[2:4] == [said, "--jobs=ps"]
    assert command_of(job["template"])[2:4] == [said, "--jobs=chief,worker,evaluator"]


@pytest.mark.parametrize(
    ("counts", "deciding"),
    [
        (Counts(ps=1, chief=1, worker=2), "0"),
        (Counts(ps=1, worker=2), None),
        (Counts(ps=1, worker=2, evaluator=1), "0-1"),
        (Counts(ps=1, worker=1, evaluator=1), "0"),
    ],
)
def test_the_job_is_done_when_the_chief_or_the_workers_are(
    counts: Counts, deciding: str | None
) -> None:
    policy = by_kind(core(cluster(counts)))["Job"]["spec"].get("successPolicy")
    assert policy == (deciding and {"rules": [{"succeededIndexes": deciding}]})


def test_a_job_set_ends_the_parameter_servers_too() -> None:
    spec = by_kind(jobset(cluster(Counts(ps=1, worker=1))))["JobSet"]["spec"]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["main"]}
    names = [each["name"] for each in spec["replicatedJobs"]]
    assert names == ["ps", "main"]
    (ps, _) = spec["replicatedJobs"]
    said = "--cluster=ps=demo-ps-0-0.demo:2222;worker=demo-main-0-0.demo:2222"
    assert command_of(ps["template"]["spec"]["template"])[2] == said


def test_what_is_there_is_not_made() -> None:
    made = by_kind(core(cluster(Counts(ps=1), claim="mine", secret_name="ours")))
    assert set(made) == {"Service", "StatefulSet"}
    template = made["StatefulSet"]["spec"]["template"]["spec"]
    assert template["volumes"][0]["persistentVolumeClaim"] == {"claimName": "mine"}
    variables = {each["name"]: each for each in template["containers"][0]["env"]}
    reference = variables["HEADRACE_SECRET"]["valueFrom"]["secretKeyRef"]
    assert reference == {"name": "ours", "key": "secret"}


def test_only_pods_that_compute_get_gpus() -> None:
    made = by_kind(core(cluster(Counts(ps=1, worker=1), gpus=2, resources={"cpu": "4"})))
    ps, worker = (
        made[each]["spec"]["template"]["spec"]["containers"][0]["resources"]
        for each in ("StatefulSet", "Job")
    )
    assert ps == {"requests": {"cpu": "4"}}
    assert worker == {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "2"}}


def test_the_program_is_run_as_it_was_given() -> None:
    told = Cluster("demo", "image", ["sh", "-c", "echo $(date) $HOME"], Counts(worker=1))
    command = command_of(by_kind(core(told))["Job"]["spec"]["template"])
    assert command[command.index("--") + 1 :] == ["sh", "-c", "echo $$(date) $$HOME"]


def test_each_print_has_a_secret_of_its_own() -> None:
    printed = [run("--image", "i", "--workers", "1", "--", "true") for _ in range(2)]
    assert [code for code, _, _ in printed] == [0, 0]
    found = [line for _, out, _ in printed for line in out.splitlines() if "  secret: " in line]
    assert len(set(found)) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": {}, "b": []}, "a: {}\nb: []\n"),
        ({"a": [{"b": 1, "c": [True]}]}, "a:\n- b: 1\n  c:\n  - true\n"),
        ({"a": "yes", "b": "1", "c": "x: y", "d": None}, 'a: "yes"\nb: "1"\nc: "x: y"\nd: null\n'),
    ],
)
def test_it_is_yaml(value: dict[str, Any], text: str) -> None:
    assert documents([value]) == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no task to start"),
        (("--workers", "1", "--", "true"), "--image is missing"),
        (("--image", "i", "--workers", "1"), "no program"),
        (("--image", "i", "--workers", "1", "--name", "Demo", "--", "true"), "--name 'Demo'"),
        (("--image", "i", "--workers", "1", "--port", "0", "--", "true"), "--port 0"),
        (("--image", "i", "--workers", "1", "--gpu", "-1", "--", "true"), "not negative"),
        (("--image", "i", "--workers", "1", "--env", "A", "--", "true"), "NAME=VALUE"),
        (("--image", "i", "--workers", "1", "--checkpoints", "x", "--", "true"), "absolute"),
    ],
)
def test_what_cannot_be_is_said(words: tuple[str, ...], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_task_that_ends_its_steps_is_not_ready_and_is_let_live() -> None:
    made = by_kind(core(cluster(Counts(ps=1, worker=1))))
    (ps,) = made["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    (worker,) = made["Job"]["spec"]["template"]["spec"]["containers"]

    def asked(container: dict[str, Any], probe: str) -> str:
        *_, words = container[probe]["exec"]["command"]
        return str(words)

    health = 'exec headrace health "grpc://$HEADRACE_BIND:2222"'
    assert asked(ps, "readinessProbe") == asked(worker, "readinessProbe") == health
    assert asked(ps, "startupProbe") == asked(ps, "livenessProbe") == f"{health} --live"
