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
        with self.wrk_under_way(front, seconds, clients) as wrk:
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
