"""A ps that moves to another address under the same name, with a name server and in namespaces of its own.

Run by test_moved.py within network and mount namespaces, where 127.0.0.2 and 127.0.0.3 stand for two hosts, and
/etc/resolv.conf names 127.0.0.1.  Prints what becomes of a session and of a training.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading

import headrace as tf
from headrace.tools.serve import parse_cluster

NAME = "ps-0.training.test"
CLUSTER = f"ps={NAME}:2222;chief=127.0.0.1:2223"


class NameServer:
    """Answers questions for NAME with `address`; every other name has none.  DNS over UDP (RFC 1035)."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            question, client = self._socket.recvfrom(512)
            self._socket.sendto(self._answer(question), client)

    def _answer(self, data: bytes) -> bytes:
        labels, at = [], 12
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode())
            at += 1 + length
        (kind,) = struct.unpack_from(">H", data, at + 1)
        known = ".".join(labels).lower() == NAME
        record = b""
        if known and kind == 1:  # A
            record = struct.pack(">HHHIH", 0xC00C, 1, 1, 30, 4) + socket.inet_aton(self.address)
        flags = 0x8580 if known else 0x8583
        head = data[:2] + struct.pack(">HHHHH", flags, 1, bool(record), 0, 0)
        return head + data[12 : at + 5] + record


def serve() -> subprocess.Popen[str]:
    """The ps, once it listens: at the address that its name has now."""
    command = [sys.executable, "-m", "headrace.tools.main", "serve", "--cluster", CLUSTER]
    process = subprocess.Popen([*command, "--job", "ps"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("serving ")
    return process


def main() -> None:
    names = NameServer("127.0.0.2")
    ps = serve()
    ends = []

    def move(to: str) -> None:
        nonlocal ps
        ps.kill()
        ps.communicate()
        names.address = to
        ps = serve()

    with tf.train.Server(parse_cluster(CLUSTER), "chief", 0) as server, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            step = tf.train.get_or_create_global_step()
            more = step.assign_add(1)
        with tf.Session(server.target) as session:
            session.run(step.initializer)
            move("127.0.0.3")
            for _ in range(2):
                try:
                    session.run(step.initializer)
                    ends.append("goes on")
                except tf.errors.OpError as error:
                    ends.append(type(error).__name__)
        with tf.train.MonitoredTrainingSession(
            server.target,
            checkpoint_dir=sys.argv[1],
            save_checkpoint_steps=10,
            save_checkpoint_secs=None,
        ) as training:
            while (now := training.run(more)) < 25:
                pass
            move("127.0.0.2")
            ends.append(f"from {now} to {training.run(more)}")
    ps.terminate()
    ps.communicate()
    print(", ".join(ends), flush=True)


if __name__ == "__main__":
    main()
