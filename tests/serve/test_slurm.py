"""What Slurm says of a job step, read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.serve.slurm import expand_counts, expand_hostlist, read

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_NODEID": "1",
}


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n1,login", ["n1", "login"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[01-03],m[4,6-7]", ["n01", "n02", "n03", "m4", "m6", "m7"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[9-10]", ["n9", "n10"]),
        ("rack[1-2]-node[1,3].example", [f"rack{r}-node{n}.example" for r in (1, 2) for n in (1, 3)]),
        ("n[1-2]b", ["n1b", "n2b"]),
    ],
)  # fmt: skip
def test_a_list_of_hosts_is_expanded(text: str, hosts: list[str]) -> None:
    assert expand_hostlist(text) == hosts


@pytest.mark.parametrize(
    "text",
    ["n[", "n]", "n[a]", "n[1-]", "n[3-1]", "n1,,n2", "n[1[2]]", "n[]", "a b", ",", "n[0-99999999]",
     "n[0-999][0-999]"],
)  # fmt: skip
def test_what_is_no_list_of_hosts_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid hostlist format"):
        expand_hostlist(text)


NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,5}", fullmatch=True)


@st.composite
def lists(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A host list and what it stands for, made together."""
    text, hosts = [], []
    for _ in range(draw(st.integers(1, 4))):
        written, found = draw(NAMES), [""]
        found = [written]
        for _ in range(draw(st.integers(0, 2))):
            inside, numbers = [], []
            for _ in range(draw(st.integers(1, 3))):
                width = draw(st.integers(1, 4))
                first = draw(st.integers(0, 300))
                last = first + draw(st.integers(0, 5))
                single = first == last and draw(st.booleans())
                inside.append(f"{first:0{width}}" + ("" if single else f"-{last:0{width}}"))
                numbers += [f"{n:0{len(f'{first:0{width}}')}}" for n in range(first, last + 1)]
            after = draw(st.sampled_from(["", "-x", ".org"]))
            written += f"[{','.join(inside)}]{after}"
            found = [f"{name}{number}{after}" for name in found for number in numbers]
        text.append(written)
        hosts += found
    return ",".join(text), hosts


@given(lists())
def test_every_list_stands_for_the_hosts_that_it_was_made_of(made: tuple[str, list[str]]) -> None:
    text, hosts = made
    assert expand_hostlist(text) == hosts


@given(st.text(alphabet="n019[],-x ", max_size=20))
def test_any_text_is_a_list_or_a_value_error(text: str) -> None:
    try:
        hosts = expand_hostlist(text)
    except ValueError:
        with pytest.raises(ValueError, match="Invalid hostlist format"):
            expand_hostlist(text)
    else:
        assert all(host and not set(host) & set("[], ") for host in hosts)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 4)), min_size=1, max_size=5))
def test_counts_of_tasks_are_expanded(runs: list[tuple[int, int]]) -> None:
    text = ",".join(f"{count}(x{nodes})" if nodes > 1 else str(count) for count, nodes in runs)
    assert expand_counts(text) == [count for count, nodes in runs for _ in range(nodes)]


@pytest.mark.parametrize("text", ["", "x", "2(x)", "(x3)", "2(x3)(x2)", " 2", "1(x99999999)"])
def test_what_is_no_count_of_tasks_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"tasks-per-node|hosts"):
        expand_counts(text)


def test_a_step_says_where_its_tasks_are() -> None:
    step = read(STEP)
    assert (step.job_id, step.rank) == ("7", 2)
    assert step.places() == [("n1", 0), ("n1", 1), ("n2", 0)]


@pytest.mark.parametrize("name", ["PROCID", "STEP_NODELIST", "STEP_TASKS_PER_NODE"])
def test_a_process_outside_a_step_is_told_so(name: str) -> None:
    without = {key: text for key, text in STEP.items() if key != f"SLURM_{name}"}
    with pytest.raises(RuntimeError, match=f"SLURM_{name} not found in environment.*srun"):
        read(without)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"SLURM_PROCID": "3"}, "SLURM_PROCID is 3"),
        ({"SLURM_STEP_TASKS_PER_NODE": "3"}, "names 2 hosts"),
        ({"SLURM_NODEID": "0"}, "--distribution=block"),
    ],
)
def test_what_does_not_agree_is_said(change: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(STEP | change)
