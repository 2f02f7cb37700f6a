"""The loads: wrk and txgen, and the figures that they report."""

import base64
import itertools
import json
import os
import re

from process import Child, Failed
from txgen import Load

WRK_GRACE_SECONDS = 30
# Digits that make a transaction of wrk distinct.
NUMBER_DIGITS = 12
# Writes of a run over HTTP/2 before they come again, and their length.
WRITES = 100_000
TARGET_TX_BYTES = 60
GRPC_PATH = "/peers.Service/Echo"


class Loads:
    """The programs, and runs that never send a transaction twice."""

    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.runs = itertools.count(1)
        self.head, self.tail = cut_request(args.size)
        self.lua = os.path.join(os.path.dirname(os.path.abspath(__file__)), "request.lua")

    def wrk(self, front, seconds, clients=0):
        """As fast as answers come, on one thread; its connections are one client unless more are asked for."""
        return self._result(self.wrk_under_way(front, seconds, clients), seconds)

    @staticmethod
    def _result(load, seconds):
        with load as wrk:
            wrk.wait(seconds + WRK_GRACE_SECONDS)
            wrk.expect(0)
            with open(wrk.log, encoding="utf-8") as log:
                found = re.search(r"^RESULT (.*)$", log.read(), re.M)
            if not found:
                raise Failed(wrk.tail())
            return json.loads(found.group(1))

    def wrk_under_way(self, front, seconds, clients):
        run = next(self.runs)
        os.environ.update(
            PEERS_HEAD=self.head,
            PEERS_TAIL=self.tail,
            PEERS_FIRST=str(run * 1_000_000_000),
            PEERS_CLIENTS=str(clients),
        )
        command = [
            self.args.wrk, "-t", "1", "-c", str(self.args.connections), "-d", f"{seconds}s",
            "-s", self.lua, front.url + "/",
        ]  # fmt: skip
        return Child("wrk", command, os.path.join(self.folder, f"wrk-{run}.log"))

    def h2load(self, front, seconds, spoken):
        """As fast as answers come, on one thread: writes in targets over HTTP/2, or calls of gRPC; 24 under way on one connection."""
        run = next(self.runs)
        if spoken == "grpc":
            asked = ["-d", self._grpc_message(), "-H", "content-type: application/grpc", "-H", "te: trailers", front.url + GRPC_PATH]
        else:
            asked = ["-i", self._targets(front, run)]
        command = [self.args.h2load, "-t", "1", "-c", "1", "-m", "24", "-D", seconds, *asked]
        with Child("h2load", command, os.path.join(self.folder, f"h2load-{run}.log")) as load:
            load.wait(seconds + WRK_GRACE_SECONDS)
            load.expect(0)
            with open(load.log, encoding="utf-8") as log:
                text = log.read()
        done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
        if not done or not int(done[1]):
            raise Failed(text)
        refused = int(re.search(r"(\d+) 4xx", text)[1])
        return {"requests": int(done[1]), "seconds": float(seconds), "refused": refused, "errors": int(done[2]) + int(done[3])}

    def wrk_kept(self, front, seconds, height):
        """As fast as answers come, on one thread: a block that is kept, asked for by many clients."""
        run = next(self.runs)
        lua = os.path.join(os.path.dirname(self.lua), "kept.lua")
        command = [
            self.args.wrk, "-t", "1", "-c", str(self.args.connections), "-d", f"{seconds}s", "-s", lua,
            f"{front.url}/block?height={height}",
        ]  # fmt: skip
        return self._result(Child("wrk", command, os.path.join(self.folder, f"wrk-{run}.log")), seconds)

    def _targets(self, front, run):
        """A file with writes, none of which is that of another run."""
        path = os.path.join(self.folder, "targets")
        with open(path, "w", encoding="ascii") as file:
            for number in range(WRITES):
                tx = f"{run}.{number}=".ljust(TARGET_TX_BYTES, "x")
                file.write(f"{front.url}/broadcast_tx_sync?tx=0x{tx.encode().hex()}\n")
        return path

    def _grpc_message(self):
        """A file with a message of 100 bytes behind its prefix."""
        path = os.path.join(self.folder, "message")
        with open(path, "wb") as file:
            file.write(b"\0" + (100).to_bytes(4, "big") + bytes(100))
        return path

    def txgen(self, *arguments):
        """A txgen run under way; sync and without following blocks, which a sink has none of."""
        run = next(self.runs)
        common = ["--no-follow", "--size", self.args.size, "--seed", run, "--drain-timeout", "5s"]
        return Load(f"txgen-{run}", self.args.txgen, map(str, [*arguments, *common]), self.folder)


def cut_request(size):
    """The JSON of a broadcast, cut where the digits of a distinct transaction go."""
    raw = bytes(at * 7 % 256 for at in range(size))
    tx = base64.b64encode(raw).decode()
    request = {"jsonrpc": "2.0", "id": 1, "method": "broadcast_tx_sync", "params": {"tx": tx}}
    text = json.dumps(request, separators=(",", ":"))
    at = text.index(tx) + len(tx) // 2
    return text[:at], text[at + NUMBER_DIGITS :]
