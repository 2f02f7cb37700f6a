"""Two real nodes, and blocks of a given number of transactions."""

import argparse
import base64
import json
import os
import tempfile
import threading
import time
import urllib.request

from process import Child, Failed, free_port

WAIT_SECONDS = 400


class Node(Child):
    """A btcd or bchd on the regression-test network."""

    def __init__(self, name, options, folder, address, peer=None):
        self.rpc, self.peers = free_port(), free_port()
        home = os.path.join(folder, name)
        os.makedirs(home)
        config = os.path.join(home, "conf")
        with open(config, "w", encoding="utf-8"):
            pass
        command = [
            options.node, "--regtest", "--nodnsseed", "--notls", "--rpcuser=txgen", "--rpcpass=txgen",
            "--rpcmaxclients=200", "--rpcmaxconcurrentreqs=200", "--blockprioritysize=0", "--nobanning",
            "--trickleinterval=100ms", *options.limits, f"--rpclisten=127.0.0.1:{self.rpc}",
            f"--listen=127.0.0.1:{self.peers}", f"--miningaddr={address}", f"--configfile={config}",
            f"--datadir={home}/data", f"--logdir={home}/logs",
        ]
        if peer:
            command.append(f"--connect=127.0.0.1:{peer.peers}")
        super().__init__(name, command, os.path.join(folder, f"{name}.log"))

    @property
    def url(self):
        return f"http://txgen:txgen@127.0.0.1:{self.rpc}"

    def ask(self, method, *parameters):
        body = {"jsonrpc": "1.0", "id": 1, "method": method, "params": parameters}
        login = base64.b64encode(b"txgen:txgen").decode()
        head = {"content-type": "application/json", "authorization": f"Basic {login}"}
        url = f"http://127.0.0.1:{self.rpc}/"
        request = urllib.request.Request(url, json.dumps(body).encode(), head)
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
            return json.load(answer)["result"]

    def tip(self):
        """Its newest block; none while it does not answer."""
        try:
            return self.ask("getbestblockhash")
        except OSError:
            return None

    def held(self):
        return self.ask("getmempoolinfo")["size"]


def numbers(text):
    return [int(number) for number in text.split(",")]


def until(condition, what):
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {WAIT_SECONDS} s")
        time.sleep(0.02)
    return time.monotonic()


class Bench:
    """The nodes, and txgen's commands for them."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.digest = ["--digest", "forkid"] if options.kind == "bchd" else []
        self.runs = 0
        address = self.txgen("bitcoin", "address").strip()
        self.first = Node("first", options, folder, address)
        until(self.first.tip, "the first node answers")
        self.first.ask("generate", 1)
        self.second = Node("second", options, folder, address, self.first)
        self.in_step()

    def stop(self):
        self.second.stop()
        self.first.stop()

    def txgen(self, *arguments):
        self.runs += 1
        log = os.path.join(self.folder, f"txgen-{self.runs}.log")
        with Child("txgen", [self.options.txgen, *arguments, *self.digest], log) as child:
            child.wait(3 * WAIT_SECONDS)
            child.expect(0)
        with open(log, encoding="utf-8") as file:
            return file.read()

    def in_step(self):
        until(lambda: self.first.tip() == self.second.tip() is not None, "both have the same block")

    def wallet(self, coins, value):
        path = os.path.join(self.folder, f"wallet-{self.runs}.csv")
        made = ["--utxos", str(coins), "--value", str(value), "--wallet", path]
        self.txgen("bitcoin", "prepare", "--endpoints", self.first.url, *made)
        self.in_step()
        return path

    def block(self, count, outputs):
        """One block of `count` transactions, and what is known of it."""
        shape = self.options.shape
        width = int(shape.split(":")[1]) if shape.startswith("fan") else 2
        wallet = self.wallet(2 * count + 10, 1_200 * width + 20_000)
        out = os.path.join(self.folder, f"run-{self.runs}")
        load = ["--batch", "10", "--concurrency", "2", "--connections", "2", "--chain-depth", "1", "--shape", shape]
        # The wallet knows the digest.
        digest, self.digest = self.digest, []
        started = ["flood", "--no-tui", "--no-follow", "--workload", "bitcoin", "--endpoints", self.first.url]
        self.txgen(*started, *load, "--count", str(count), "--signed-ahead", str(count), "--wallet", wallet, "--out", out)
        self.digest = digest
        with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
            rate = json.load(file)["rate"]
        admitted = (rate["accepted_tps"] or {}).get("mean") or rate["sent_tps"]
        until(lambda: self.second.held() >= self.first.held(), "the second node has the transactions")
        before, seen = self.first.tip(), {}

        def watch(node):
            seen[node.name] = until(lambda: node.tip() not in (before, None), "the block comes")

        watches = [threading.Thread(target=watch, args=(node,)) for node in (self.first, self.second)]
        for thread in watches:
            thread.start()
        asked = time.monotonic()
        block = self.first.ask("getblock", self.first.ask("generate", 1)[0], 1)
        for thread in watches:
            thread.join()
        mined, passed = seen["first"] - asked, seen["second"] - seen["first"]
        print(
            f"| {outputs:,} | {len(block['tx']):,} | {block['size'] / 1e6:.2f} | {admitted:,.0f} | {mined:.2f} "
            f"| {passed:.2f} |",
            flush=True,
        )
        while self.first.held():
            self.first.ask("generate", 1)
        self.in_step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["bchd", "btcd"], required=True, help=argparse.SUPPRESS)
    parser.add_argument("--node", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--txgen", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--shape", default="2in2out", help="of the transactions: 2in2out, fan:1000")
    parser.add_argument("--counts", default="600,1250,2500", help="transactions of the blocks")
    parser.add_argument("--outputs", default="0", help="unspent outputs that are made before")
    options = parser.parse_args()
    options.limits = (
        ["--blockmaxsize=31990000"]
        if options.kind == "bchd"
        else ["--blockmaxsize=950000", "--blockmaxweight=3990000", "--rejectreplacement"]
    )
    with tempfile.TemporaryDirectory(prefix="peers-blocks-") as folder:
        bench = Bench(options, folder)
        try:
            print("| outputs made before | transactions | MB | admitted/s | mined in s | second node, s later |")
            print("|--:|--:|--:|--:|--:|--:|")
            made = 0
            for outputs in numbers(options.outputs):
                if outputs > made:
                    bench.wallet(outputs - made, 10_000)
                    made = outputs
                for count in numbers(options.counts):
                    bench.block(count, made)
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
