"""Whether servers on which a call has failed were restarted, found out by asking them.

A server that answers says which start of it is there.  One that does not answer soon is waited for only if somebody
listens at its address, so that a server which is up is never taken for one that is down, however busy the machine is.
Called by: serve.connect.cluster_view, client.remote.  Threads: any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.rpc.methods import GET_STATUS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.waiting import follow

BACK_WITHIN_S = 0.4  # a server that was lost; more than the pause between two attempts to connect
ANSWERS_WITHIN_S = 5.0  # one that listens, on a busy machine
_AFTER_ALL_S = 0.03  # past the deadline


@dataclass(slots=True)
class RestartCheck:
    """restarted: what those servers say that are in another start than the one that was known.  silent: those that did
    not answer.
    """

    restarted: dict[str, pb.GetStatusResponse] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)


def check_restarts(
    peers: Mapping[str, Peer], known: Mapping[str, int], scope: Scope, session: Scope
) -> RestartCheck:
    """Ask servers, by name, that were `known` in these starts.

    That takes no longer than the step of `scope` may, and some seconds; `session` ends it.
    """
    found = RestartCheck()
    left_s = scope.remaining()
    within_s = ANSWERS_WITHIN_S
    if left_s is not None:
        within_s = min(within_s, max(left_s, _AFTER_ALL_S))
    with Scope(within_s, session) as asking:
        request = pb.GetStatusRequest()
        asked = {
            name: peer.call(GET_STATUS, request, asking, wait_for_ready=True)
            for name, peer in peers.items()
        }

        def ask(name: str, limit: Scope) -> None:
            try:
                status = follow(asked[name]).wait(limit)
            except errors.OpError:
                found.silent.append(name)
            else:
                devices = status.device_attributes
                if devices and all(device.incarnation != known[name] for device in devices):
                    found.restarted[name] = status

        with Scope(BACK_WITHIN_S, asking) as soon:
            for name in asked:
                ask(name, soon)
        if not found.restarted:
            silent, found.silent = found.silent, []
            for name in silent:
                if _listens(peers[name], asking):
                    ask(name, asking)
                else:
                    found.silent.append(name)
        asking.cancel(errors.cancelled("nobody waits for this any more"))
    return found


def _listens(peer: Peer, scope: Scope) -> bool:
    with contextlib.suppress(errors.OpError):  # out of time
        return peer.listens(scope)
    return False
