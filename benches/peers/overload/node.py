"""A real CometBFT with its default configuration in a fresh home, and its chain read block by block."""

import base64
import collections
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import slow_app
from process import Child, Failed, free_port

# /blockchain answers with at most this many headers, whatever range was asked for.
PAGE_HEADERS = 20
START_SECONDS = 30
# A node that was flooded may take its time for an answer.
ANSWER_SECONDS = 60


class Node:
    """A chain that runs for as long as the `with` block lasts; its homes are removed afterwards.

    Its first validator is the one that is loaded and asked. `genesis` replaces parameters of blocks. The
    application is the kvstore within the node; or that of `abci_cli`, or `slow_app.py` with its times, over a socket.
    """

    def __init__(self, program, folder, settings, genesis=None, validators=1, check_seconds=None, commit_seconds=0,
                 abci_cli=None):  # fmt: skip
        self.program = program
        self.settings = settings
        self.genesis = genesis or {}
        self.check_seconds = check_seconds
        self.commit_seconds = commit_seconds
        self.abci_cli = abci_cli
        self.folder = os.path.join(folder, "node")
        self.homes = [os.path.join(self.folder, f"node{place}") for place in range(validators)]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes = {}

    def __enter__(self):
        try:
            self._init()
            app = self._start_app()
            ports = [free_port() for _ in self.homes]
            peers = [f"{self._run('show-node-id', '--home', home).strip()}@127.0.0.1:{port}"
                     for home, port in zip(self.homes, ports)]  # fmt: skip
            for place, (home, port) in enumerate(zip(self.homes, ports)):
                # Ports, and what was asked for: the rest stays as `cometbft` wrote it, the log included.
                command = [
                    self.program, "node", "--home", home, f"--proxy_app={app}",
                    "--rpc.laddr", f"tcp://127.0.0.1:{free_port() if place else self.port}",
                    "--p2p.laddr", f"tcp://127.0.0.1:{port}",
                    "--p2p.persistent_peers", ",".join(peers[:place] + peers[place + 1 :]),
                ]  # fmt: skip
                name = f"validator {place + 1}" if place else "node"
                self.processes[name] = Child("cometbft", command, os.path.join(home, "node.log"))
            # Without empty blocks there is one at first.
            self.wait_height(1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def process(self):
        return self.processes["node"]

    def _init(self):
        self._run("testnet", "--v", len(self.homes), "--o", self.folder)
        for home in self.homes:
            self._configure(os.path.join(home, "config", "config.toml"))
            path = os.path.join(home, "config", "genesis.json")
            with open(path, encoding="utf-8") as file:
                genesis = json.load(file)
            params = genesis["consensus_params"]
            params["block"] |= self.genesis
            # Evidence may not take more than a block.
            most = min(int(params["evidence"]["max_bytes"]), int(params["block"]["max_bytes"]))
            params["evidence"]["max_bytes"] = str(most)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(genesis, file)

    def _start_app(self):
        port = free_port()
        if self.abci_cli:
            command = [self.abci_cli, "kvstore", "--address", f"tcp://127.0.0.1:{port}", "--log_level", "error"]
        elif self.check_seconds is not None:
            command = [sys.executable, slow_app.__file__, port, self.check_seconds, self.commit_seconds]
        else:
            return "kvstore"
        self.processes["app"] = Child("app", command, os.path.join(self.folder, "app.log"))
        self.processes["app"].wait_port(port)
        return f"tcp://127.0.0.1:{port}"

    def _run(self, *arguments):
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _configure(self, path):
        """Replaces lines `key = …` of config.toml; each key must be in one section only."""
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
        headers = self.headers(1, self.height())
        return [
            (at + 1, txs, headers[at + 1][2]) for at, (_, txs, _) in enumerate(headers[:-1])
        ]

    def transactions(self, first):
        """(height, transactions) of every block from this one on."""
        return [(height, txs) for height, txs, _ in self.headers(first, self.height())]

    def headers(self, first, last):
        """(height, transactions, its own time in Unix seconds) of each."""
        headers = []
        while first + len(headers) <= last:
            low = first + len(headers)
            high = min(last, low + PAGE_HEADERS - 1)
            page = self.ask(f"blockchain?minHeight={low}&maxHeight={high}")["block_metas"]
            page.sort(key=lambda meta: int(meta["header"]["height"]))
            heights = [int(meta["header"]["height"]) for meta in page]
            if heights != list(range(low, high + 1)):
                raise Failed(f"asked for headers {low} to {high}, got {heights}")
            headers += [
                (int(meta["header"]["height"]), int(meta["num_txs"]), unix(meta["header"]["time"])) for meta in page
            ]
        return headers

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
