"""The cluster of secret_cluster.py with TLS instead of the secret: both servers and all clients show certificates.

An authority of your own, and a certificate for each host (OpenSSL 3):

    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=cluster -keyout ca-key.pem -out ca.pem
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=ps -addext subjectAltName=IP:192.0.2.1 \
        -addext basicConstraints=critical,CA:FALSE -CA ca.pem -CAkey ca-key.pem -keyout key.pem -out cert.pem

and the same for the worker with its own address. Each host gets a folder with its cert.pem and key.pem, and with
ca.pem; ca-key.pem stays where it is. Then

    python examples/tls_cluster.py ps 192.0.2.1:2222 192.0.2.2:2222 FOLDER          # on the first host
    python examples/tls_cluster.py worker 192.0.2.1:2222 192.0.2.2:2222 FOLDER      # on the second one
"""

import os
import sys

from secret_cluster import run

import headrace as tf


def credentials(folder):
    """What this host shows, and whom it believes."""
    return tf.train.Security(
        certificate=os.path.join(folder, "cert.pem"),
        key=os.path.join(folder, "key.pem"),
        authorities=os.path.join(folder, "ca.pem"),
        clients_too=True,
    )


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    role, ps, worker, folder = sys.argv[1:]
    run(role, ps, worker, credentials(folder))
