"""A real CometBFT with its default configuration in a fresh home, and its chain read block by block."""

import base64
import collections
import datetime
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

from process import Child, Failed, free_port

# /blockchain answers with at most this many headers, whatever range was asked for.
PAGE_HEADERS = 20
START_SECONDS = 30
# A node that was flooded may take its time for an answer.
ANSWER_SECONDS = 60


class Node:
    """Runs for as long as the `with` block lasts; its home is removed afterwards."""

    def __init__(self, program, folder, settings):
        self.program = program
        self.settings = settings
        self.home = os.path.join(folder, "node")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def __enter__(self):
        os.makedirs(self.home)
        init = subprocess.run(
            [self.program, "init", "--home", self.home], capture_output=True, text=True, check=False
        )
        if init.returncode:
            raise Failed(f"cometbft init: {init.stdout}{init.stderr}")
        self._configure()
        # Ports, and what was asked for: the rest stays as `cometbft init` wrote it, the log included.
        command = [
            self.program, "node", "--home", self.home, "--proxy_app=kvstore",
            "--rpc.laddr", f"tcp://127.0.0.1:{self.port}",
            "--p2p.laddr", f"tcp://127.0.0.1:{free_port()}",
        ]  # fmt: skip
        self.process = Child("cometbft", command, os.path.join(self.home, "node.log"))
        try:
            self.wait_height(2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _configure(self):
        """Replaces lines `key = …` of config.toml; each key must be in one section only."""
        path = os.path.join(self.home, "config", "config.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for key, value in self.settings.items():
            text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.MULTILINE)
            if count != 1:
                raise Failed(f"config.toml has {count} lines for {key}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def wait_height(self, height):
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.height() >= height:
                    return
            except (OSError, Failed):
                pass
            if not self.process.running() or time.monotonic() > deadline:
                raise Failed(f"no block {height}\n{self.process.tail()}")
            time.sleep(0.1)

    def height(self):
        return int(self.ask("status")["sync_info"]["latest_block_height"])

    def waiting(self):
        """Transactions in the mempool."""
        return int(self.ask("num_unconfirmed_txs")["n_txs"])

    def blocks(self):
        """Every block once, from 1 on, as (height, transactions, instant of its commit in Unix seconds).

        A header carries the time of the votes for the block before it: the commit of block H is
        dated by header H + 1. The newest block has no date yet and is left out.
        """
        headers = []
        last = self.height()
        while len(headers) < last:
            low = len(headers) + 1
            high = min(last, low + PAGE_HEADERS - 1)
            page = self.ask(f"blockchain?minHeight={low}&maxHeight={high}")["block_metas"]
            page.sort(key=lambda meta: int(meta["header"]["height"]))
            heights = [int(meta["header"]["height"]) for meta in page]
            if heights != list(range(low, high + 1)):
                raise Failed(f"asked for headers {low} to {high}, got {heights}")
            headers += [(int(meta["num_txs"]), unix(meta["header"]["time"])) for meta in page]
        return [
            (at + 1, txs, headers[at + 1][1]) for at, (txs, _) in enumerate(headers[:-1])
        ]

    def sizes(self, heights):
        """How many transactions of each length the blocks hold."""
        found = collections.Counter()
        for height in heights:
            txs = self.ask(f"block?height={height}")["block"]["data"]["txs"]
            found.update(len(base64.b64decode(tx)) for tx in txs)
        return found

    def ask(self, path):
        try:
            with urllib.request.urlopen(f"{self.url}/{path}", timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)["result"]
        except (urllib.error.HTTPError, KeyError, ValueError) as error:
            raise Failed(f"/{path}: {error}") from error


def unix(text):
    """RFC 3339 with nanoseconds, as the node writes it, in Unix seconds."""
    whole, _, rest = text.rstrip("Z").partition(".")
    instant = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    return instant.timestamp() + float(f"0.{rest or 0}")
