"""What an operator does to sentinel while it serves: its certificates, its settings, and the disk under its access log."""

import errno
import os
import shlex
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from process import Failed

BUFFER_BYTES = 64 << 20
# A disk of its own for the access log, in a name space of its own, so that nobody has to be root.
DISK = """#!/bin/sh
exec unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=64m tmpfs "$1" && shift && exec "$@"' sh {disk} {program} "$@"
"""
PIECE = 1 << 20
# Lines are written by then.
AGAIN_SECONDS = 3
LOST = 'sentinel_access_lost_total{to="file"}'


class Upkeep:
    """The files of one sentinel. What did not go as it should is in `wrongs`."""

    def __init__(self, folder, program):
        self.folder, self.count, self.wrongs = folder, 0, []
        self.config, self.pair, self.program = (os.path.join(folder, name) for name in ("sentinel.toml", "pair.pem", "sentinel.sh"))
        self.disk = os.path.join(folder, "disk")
        os.mkdir(self.disk)
        with open(self.program, "w", encoding="utf-8") as script:
            script.write(DISK.format(disk=shlex.quote(self.disk), program=shlex.quote(program)))
        os.chmod(self.program, 0o755)
        self._new_pair()
        self._write()

    def replace_certificates(self, sentinel):
        self._new_pair()
        self._reload(sentinel, 200)
        served = ssl.get_server_certificate(("127.0.0.1", sentinel.port))
        with open(self.pair, encoding="ascii") as file:
            if served.strip() not in file.read():
                self.wrongs.append("a new connection got the old certificate")

    def reload(self, sentinel):
        """A right file, and a wrong one that changes nothing."""
        for rate, expected in ("300/s", 200), ("many", 422), ("200/s", 200):
            self._write(rate)
            self._reload(sentinel, expected)

    def fill_disk(self, sentinel, seconds):
        before = sentinel.figures().get(LOST, 0)
        disk = f"/proc/{sentinel.process.pid}/root{self.disk}"
        try:
            with open(f"{disk}/ballast", "wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(PIECE))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        time.sleep(seconds)
        if sentinel.figures().get(LOST, 0) <= before:
            self.wrongs.append("the full disk was not noticed")
        os.remove(f"{disk}/ballast")
        size = os.path.getsize(f"{disk}/access.log")
        time.sleep(AGAIN_SECONDS)
        if os.path.getsize(f"{disk}/access.log") <= size:
            self.wrongs.append("nothing was written to the disk when it had room again")
        os.truncate(f"{disk}/access.log", 0)

    def _write(self, rate="200/s"):
        log = os.path.join(self.disk, "access.log")
        text = (
            f'[tls]\ncertificates = ["{self.pair}"]\n[buffer]\nbytes = {BUFFER_BYTES}\n'
            f'[reads]\nrate_per_client = "{rate}"\n[log]\naccess = "{log}"\n'
        )
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def _new_pair(self):
        self.count += 1
        key, chain = (os.path.join(self.folder, name) for name in ("key.pem", "chain.pem"))
        command = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-subj", f"/CN=number {self.count}", "-keyout", key, "-out", chain,
        ]  # fmt: skip
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise Failed(f"{' '.join(command)}: {made.stderr}")
        with open(f"{self.pair}.new", "w", encoding="ascii") as pair:
            for name in (chain, key):
                with open(name, encoding="ascii") as part:
                    pair.write(part.read())
        # Whoever reads it has one pair or the other.
        os.replace(f"{self.pair}.new", self.pair)

    def _reload(self, sentinel, expected):
        order = urllib.request.Request(f"{sentinel.admin}/reload", b"", method="POST")
        try:
            with urllib.request.urlopen(order, timeout=10) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        if status != expected:
            self.wrongs.append(f"a reload was answered {status} instead of {expected}: {text[:200]}")
