"""Certificates for the tests, as files: an authority, and one for this machine that it vouches for."""

from __future__ import annotations

import os
from pathlib import Path

import trustme


class Authority:
    """`ca`, `cert` and `key`: paths of PEM files in `folder`, which it makes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.ca = str(folder / "ca.pem")
        self.cert, self.key = str(folder / "cert.pem"), str(folder / "key.pem")
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        made = authority.issue_cert("localhost", "127.0.0.1")
        made.private_key_pem.write_to_path(self.key)
        os.chmod(self.key, 0o600)
        made.cert_chain_pems[0].write_to_path(self.cert)
