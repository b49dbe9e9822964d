"""The examples of clusters on two hosts.

The name of each test says what the hosts were, network namespaces or addresses of the loopback.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme

from tests.hosts import NAMESPACES, Host, kind, two_hosts

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SRC = EXAMPLES.parent / "src"
WITHIN_S = 60.0
KIND = kind()
LINE = "the line is 3.00 x + 1.00\n"

STRANGER = """
import sys
import headrace as tf
config = tf.ConfigProto(operation_timeout_in_ms=50_000)
try:
    tf.Session(sys.argv[1], config=config).run(tf.read_file("/etc/hostname"))
except tf.errors.OpError as error:
    print(type(error).__name__)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(params=[KIND])
def hosts(request: pytest.FixtureRequest) -> Iterator[tuple[Host, Host]]:
    with two_hosts(request.param) as hosts:
        yield hosts


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """start(host, argument, ...) runs this Python there, in `tmp_path`; it is killed after the test if need be."""
    with ExitStack() as stack:

        def started(host: Host, *arguments: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [*host.within, sys.executable, *arguments], cwd=tmp_path, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, "HEADRACE_LANE": "tcp", "PYTHONPATH": str(SRC), "HEADRACE_BLOCKED_AFTER_S": "0"},
            )  # fmt: skip
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield started


def secret_of(folder: Path, ip: str) -> str:
    """The file of the secret, which is the same for both hosts."""
    path = folder / "secret"
    path.write_text("of the two hosts and nobody else\n")
    path.chmod(0o600)
    return str(path)


def certificates_of(authority: trustme.CA, folder: Path, ip: str) -> str:
    """A folder with what a host has."""
    own = folder / ip
    own.mkdir()
    made = authority.issue_cert(ip)
    authority.cert_pem.write_to_path(str(own / "ca.pem"))
    made.private_key_pem.write_to_path(str(own / "key.pem"))
    (own / "key.pem").chmod(0o600)
    made.cert_chain_pems[0].write_to_path(str(own / "cert.pem"))
    return str(own)


@pytest.mark.parametrize("example", ["secret_cluster", "tls_cluster"])
def test_two_hosts_train_together_and_strangers_are_kept_out(
    hosts: tuple[Host, Host], example: str, start: Start, tmp_path: Path
) -> None:
    authority = trustme.CA()
    shows = (
        secret_of
        if example == "secret_cluster"
        else lambda folder, ip: certificates_of(authority, folder, ip)
    )
    program = str(EXAMPLES / f"{example}.py")
    addresses = [host.address for host in hosts]
    given = [shows(tmp_path, address.partition(":")[0]) for address in addresses]
    ps = start(hosts[0], program, "ps", *addresses, given[0])
    assert ps.stdout is not None
    said = ps.stdout.readline()
    assert said == f"serving grpc://{addresses[0]}\n", ps.communicate(timeout=WITHIN_S)
    stranger = start(hosts[1], "-c", STRANGER, f"grpc://{addresses[0]}")
    assert stranger.communicate(timeout=WITHIN_S) == ("UnauthenticatedError\n", "")
    worker = start(hosts[1], program, "worker", *addresses, given[1])
    assert worker.communicate(timeout=WITHIN_S) == (LINE, "")
    assert ps.communicate(timeout=WITHIN_S) == ("stopped by the worker\n", "")
    assert (ps.returncode, worker.returncode) == (0, 0)


OPEN = """
import sys
import headrace as tf
with tf.train.Server({"ps": [sys.argv[1]]}, security=tf.train.Security(insecure=True)) as server:
    print("serving", flush=True)
    server.join()
"""


def test_without_credentials_a_server_starts_only_where_nobody_else_reaches_it(
    hosts: tuple[Host, Host], start: Start
) -> None:
    """What it says is to be believed: somebody else is there, and cannot read files outside the working directory."""
    host, other = hosts
    server = start(host, "-m", "headrace.tools.main", "serve", "--cluster", f"ps={host.address}",
                   "--job", "ps")  # fmt: skip
    assert server.stdout is not None
    if KIND != NAMESPACES:
        assert server.stdout.readline().startswith("serving ")
        return
    out, err = server.communicate(timeout=WITHIN_S)
    assert (server.returncode, out) == (1, "")
    for word in ("192.0.2.1", "HEADRACE_SECRET_FILE", "HEADRACE_TLS_CERT", "HEADRACE_INSECURE=1"):
        assert word in err
    opened = start(host, "-c", OPEN, host.address)
    assert opened.stdout is not None
    assert opened.stdout.readline() == "serving\n", opened.communicate(timeout=WITHIN_S)
    stranger = start(other, "-c", STRANGER, f"grpc://{host.address}")
    assert stranger.communicate(timeout=WITHIN_S) == ("PermissionDeniedError\n", "")
