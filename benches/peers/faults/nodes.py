"""The node that is killed, stopped and replaced, and every block of every chain that it had."""

import base64
import http.client
import json
import os
import shutil
import signal
import threading
import time
import urllib.request

from node import Node
from process import Child, Failed, free_port

# A node that is stopped does not answer; it is asked again.
ANSWER_SECONDS = 5
# A block that was begun is committed.
HALT_SECONDS = 1
BLOCK_INTERVAL = "500ms"
READY_SECONDS = 60
# Blocks that are not read yet.
RETAIN_BYTES = 1 << 30


class BuiltIn:
    """`txgen devnode` on ports that stay the same."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.port, self.control = free_port(), free_port()

    def start(self):
        command = [
            self.program, "devnode", "--listen", f"127.0.0.1:{self.port}", "--control", f"127.0.0.1:{self.control}",
            "--set", f"block_interval={BLOCK_INTERVAL}", "--set", "retain_blocks=100000", "--set", f"retain_bytes={RETAIN_BYTES}",
        ]  # fmt: skip
        self.process = Child("devnode", command, os.path.join(self.folder, "node.log"))
        self.process.wait_port(self.port)

    def kill(self, down):
        """Connections and mempool are lost, the chain is kept; back after so many seconds."""
        self._order("restart", {"down": f"{int(down * 1000)}ms"})
        time.sleep(down)

    def another_chain(self, read_rest):
        self._order("halt", {})
        time.sleep(HALT_SECONDS)
        read_rest(self.port)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.stop()
        self.start()

    def stop(self):
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.stop()

    def _order(self, name, body):
        url = f"http://127.0.0.1:{self.control}/{name}"
        with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=ANSWER_SECONDS) as answer:
            answer.read()


class Real:
    """CometBFT 0.38 with the kvstore."""

    def __init__(self, program, folder):
        self.program, self.folder, self.chains = program, folder, 0
        self.port = free_port()

    def start(self):
        self.chains += 1
        folder = os.path.join(self.folder, f"chain-{self.chains}")
        os.makedirs(folder)
        self.node = Node(self.program, folder, {"timeout_commit": f'"{BLOCK_INTERVAL}"'})
        self.node.port, self.node.url = self.port, f"http://127.0.0.1:{self.port}"
        self.node.__enter__()
        self.process = self.node.process
        self.command = list(self.process.command)

    def kill(self, down):
        self._end()
        time.sleep(down)
        self._begin(self.command, self.port)

    def another_chain(self, read_rest):
        self._end()
        # What it has committed, at a port that nobody else knows. Its mempool is gone, so it commits nothing more.
        port = free_port()
        address = f"tcp://127.0.0.1:{self.port}"
        self._begin([f"tcp://127.0.0.1:{port}" if part == address else part for part in self.command], port)
        read_rest(port)
        self._end()
        shutil.rmtree(self.node.folder, ignore_errors=True)
        self.start()

    def stop(self):
        os.kill(self.process.pid, signal.SIGCONT)
        self.process.stop()

    def _end(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.stop()

    def _begin(self, command, port):
        self.process = Child("cometbft", command, os.path.join(self.folder, "node.log"))
        self.process.wait_port(port, READY_SECONDS)


class Chains:
    """Where each honest write is: (chain, height), read from the node itself, never through sentinel.

    Read on from a thread of its own; a chain is read to its end before another one begins.
    """

    def __init__(self, node, prefix):
        self.node, self.prefix = node, prefix
        self.places = {}
        self.chain, self.height, self.txs = 1, 0, 0
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def replace(self):
        """Another chain in place of this one; nothing of either is missed."""
        with self.lock:
            self.node.another_chain(self._read_all)
            self.chain, self.height = self.chain + 1, 0

    def read_to_end(self):
        with self.lock:
            self._read_all(self.node.port)

    def _run(self):
        while not self.done.wait(0.5):
            with self.lock:
                try:
                    self._read(self.node.port)
                except (OSError, http.client.HTTPException, ValueError, KeyError, Failed):
                    # It is down, or stopped, or in the middle of either.
                    continue

    def _read_all(self, port):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                return self._read(port)
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                if time.monotonic() > deadline:
                    raise Failed(f"the chain cannot be read: {error}") from error
                time.sleep(0.2)

    def _read(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
        try:
            last = int(ask(connection, "/status")["sync_info"]["latest_block_height"])
            while self.height < last:
                block = ask(connection, f"/block?height={self.height + 1}")["block"]
                for tx in map(base64.b64decode, block["data"]["txs"]):
                    self.txs += 1
                    if tx.startswith(self.prefix):
                        self.places.setdefault(tx, []).append((self.chain, self.height + 1))
                self.height += 1
        finally:
            connection.close()


def ask(connection, path):
    connection.request("GET", path)
    return json.loads(connection.getresponse().read())["result"]
