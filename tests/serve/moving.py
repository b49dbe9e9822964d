"""A ps that moves to another address under the same name, with a name server and in namespaces of its own.

Run by test_moved.py within network and mount namespaces, where 127.0.0.2 and 127.0.0.3 stand for two hosts, and
/etc/resolv.conf names 127.0.0.1.  Prints what becomes of a session and of a training.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import headrace as tf
from headrace.serve.name_server import NameServer
from headrace.tools.lifeline import Lifeline
from headrace.tools.serve import parse_cluster

NAME = "ps-0.training.test"
CLUSTER = f"ps={NAME}:2222;chief=127.0.0.1:2223"


class MovingPs:
    """`headrace serve`, at one address after the other; a context manager."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses
        self._process: subprocess.Popen[str] | None = None
        self._lifeline = Lifeline()  # it ends with this process, however that ends

    def move(self, to: str) -> None:
        """Killed, and started again there; it listens."""
        self._kill()
        self._addresses[NAME] = to
        command = [sys.executable, "-m", "headrace.tools.main", "serve", "--cluster", CLUSTER]
        fd = self._lifeline.read_fd
        self._process = subprocess.Popen(
            [*command, "--job", "ps", "--watch-fd", str(fd)],
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[fd],
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("serving ")

    def __enter__(self) -> MovingPs:
        self._lifeline.__enter__()
        self.move("127.0.0.2")
        return self

    def __exit__(self, *exc: object) -> None:
        self._kill()
        self._lifeline.__exit__(*exc)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def of_a_session(target: str, ps: MovingPs) -> Iterator[str]:
    """What becomes of its steps once the ps has moved."""
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        change = tf.Variable(0).initializer
        with tf.Session(target) as session:
            session.run(change)
            ps.move("127.0.0.3")
            for _ in range(2):
                try:
                    session.run(change)
                    yield "goes on"
                except tf.errors.OpError as error:
                    yield type(error).__name__


def of_a_training(target: str, folder: str, ps: MovingPs) -> str:
    """Where it goes on once the ps has moved."""
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            more = tf.train.get_or_create_global_step().assign_add(1)
        with tf.train.MonitoredTrainingSession(
            target, checkpoint_dir=folder, save_checkpoint_steps=10, save_checkpoint_secs=None
        ) as training:
            while (step := training.run(more)) < 25:
                pass
            ps.move("127.0.0.2")
            return f"from {step} to {training.run(more)}"


def main() -> None:
    addresses: dict[str, str] = {}
    with (
        NameServer(addresses.get, ("127.0.0.1", 53)),
        MovingPs(addresses) as ps,
        tf.train.Server(parse_cluster(CLUSTER), "chief", 0) as server,
    ):
        said = [*of_a_session(server.target, ps), of_a_training(server.target, sys.argv[1], ps)]
    print(", ".join(said), flush=True)


if __name__ == "__main__":
    main()
