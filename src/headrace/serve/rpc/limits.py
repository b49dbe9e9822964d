"""How long the distributed runtime waits for what, and how much of what it keeps.

One object of the process, looked at when a limit counts; tests choose other figures, since theirs are seconds and not
minutes.  What users may choose is not here but in the environment and in ConfigProto: see docs/operations.md.
Called by: serve, client, tools.  Threads: any; nothing changes while servers run.
"""

from __future__ import annotations

from typing import Final


class Limits:
    """Seconds, where a name ends in _s.

    Patience is what a caller waits past its deadline, so that whoever was asked, and knows more, says it first: of a
    call, of a step for its tasks, of a question that waits for a server to be ready.
    ask_after: of the time after which a silent task counts as gone, when it is asked for the first time.
    prove_within_s: for a client to show that it knows the secret; a client of ours gives up after half of that.
    keeps_memory_s: an idle connection that shares memory with the other side.
    task_answers_within_s, server_answers_within_s, inspect_within_s: what people ask: tasks, a server, a master.
    client_gone_after_s: without a word of a client that keeps its session alive.  close_within_s: a session's tasks.
    first_probe_s, last_probe_s, probe_for_s: of a server that is not ready: after how long it is looked at, then after
    twice as long each time, and how long that may take.  first_notice_s, last_notice_s: the same, of people being told.
    log_again_s: about one peer of a server; what comes within that is counted.
    missing_after_s: when a client asks its master for whom it waits; steps tell after 5 s.
    unstarted_s: values that came for a step that does not begin.  partial_ends_within_s: the parts of a partial run
    that has failed; their master's caller is as patient after its limit.
    after_failure_s: until what has failed in the background is tried again.
    leaves_within_s: a step that was cancelled and computes no more than one operation.
    reach_within_s: a task that may be asked for steps by the client itself.
    nearby_within_s: a server that is found on this host says who it is, or is asked in another way: who calls waits.
    multiplexed_idle_s: connections that one thread reads, when nothing comes on any of them.  multiplexed_wait_s: a
    call of one of them that waits.
    most_plans, most_prepared: of a session, plans and signatures that are remembered.  most_scattered: plans with parts
    on several tasks whose client asks for those by itself.
    most_servers, most_cancelled: of which is known what was cancelled, and of one server how many calls.
    """

    call_patience_s: float = 0.05
    step_patience_s: float = 0.025
    ready_patience_s: float = 0.01
    ask_after: float = 1 / 3
    prove_within_s: float = 10.0
    keeps_memory_s: float = 2.0
    task_answers_within_s: float = 3.0
    server_answers_within_s: float = 10.0
    inspect_within_s: float = 10.0
    client_gone_after_s: float = 15.0
    close_within_s: float = 5.0
    first_probe_s: float = 0.2
    last_probe_s: float = 5.0
    probe_for_s: float = 3.0
    first_notice_s: float = 5.0
    last_notice_s: float = 60.0
    missing_after_s: float = 4.5
    unstarted_s: float = 60.0
    partial_ends_within_s: float = 0.02
    log_again_s: float = 10.0
    after_failure_s: float = 3.0
    leaves_within_s: float = 10.0
    reach_within_s: float = 5.0
    nearby_within_s: float = 0.05
    multiplexed_idle_s: float = 1.0
    multiplexed_wait_s: float = 0.1
    most_plans: int = 1024
    most_prepared: int = 4096
    most_scattered: int = 256
    most_servers: int = 256
    most_cancelled: int = 4096


LIMITS: Final = Limits()
