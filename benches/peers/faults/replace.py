"""Certificate, configuration and program of sentinel are replaced in turn under writes over TLS. See README.md."""

import argparse
import collections
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

import subscriber
from node import Node
from process import Child, Failed, exit_on_sigterm, first_line, free_port
from rounds import heading, machine, progress
from txgen import Load

# Before the first replacement, after each, and after the last.
CALM_SECONDS = 3
QUERIES = {"NewBlock": "tm.event = 'NewBlock'", "Tx": "tm.event = 'Tx'"}
DRAIN_SECONDS = 5
# A new program asks the node first.
SERVING_SECONDS = 30
CONNECTIONS = 64
# By default the node ends a subscription to transactions of which it has 200 in a block.
SETTINGS = {"size": 20000, "experimental_subscription_buffer_size": 20000, "experimental_websocket_write_buffer_size": 20000}


class Operator:
    """The files of sentinel, and the process that serves."""

    def __init__(self, program, folder, node):
        self.program, self.folder, self.count = program, folder, 0
        self.authority, self.pair, self.config = (os.path.join(folder, name) for name in ("ca.pem", "pair.pem", "sentinel.toml"))
        with open(os.path.join(folder, "req.cnf"), "w", encoding="ascii") as config:
            config.write("[req]\ndistinguished_name = name\n[name]\n")
        self._openssl("-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE")
        self.port, self.admin = free_port(), free_port()
        self.command = [
            program, "--config", self.config, "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}",
            "--upstream", node.url, "--max-req", "20000/s", "--set", f"listen.handover={folder}/handover",
            "--set", f"shutdown.drain={DRAIN_SECONDS}s",
            # A door without clients ends nothing of the others.
            "--set", f"grpc.listen=127.0.0.1:{free_port()}",
        ]  # fmt: skip
        self.tls = ssl.create_default_context(cafile=self.authority)
        self.processes = []
        self._issue()
        self._write(200)

    def start(self, stack):
        """Starts the program and waits until it serves; its predecessor then ends by itself."""
        log = os.path.join(self.folder, f"sentinel-{len(self.processes)}.log")
        process = stack.enter_context(Child("sentinel", self.command, log))
        deadline = time.monotonic() + SERVING_SECONDS
        while " serving " not in process.tail():
            if not process.running() or time.monotonic() > deadline:
                raise Failed(f"sentinel does not serve\n{process.tail()}")
            time.sleep(0.02)
        self.processes.append(process)

    def replace_program(self, stack):
        self.start(stack)
        last = self.processes[-2]
        last.wait(3 * DRAIN_SECONDS)
        last.expect(0)

    def replace_certificate(self, _):
        self._issue()
        os.kill(self.processes[-1].pid, signal.SIGHUP)
        with open(self.pair, encoding="ascii") as file:
            text = file.read()
        self._until(lambda: ssl.get_server_certificate(("127.0.0.1", self.port)).strip() in text, "the new certificate")

    def replace_configuration(self, _):
        """Each other one is wrong, and changes nothing."""
        rate = 300 + len(self.processes) + self.count
        for given, said in ((rate, "in force"), ("many", "reads.rate_per_client: "), (rate + 1, "in force")):
            before = self._log().count(said)
            self._write(given)
            os.kill(self.processes[-1].pid, signal.SIGHUP)
            self._until(lambda: self._log().count(said) > before, f"a reload ({given})")

    def _log(self):
        return self.processes[-1].tail(1 << 20)

    def figures(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def _until(self, is_so, what):
        deadline = time.monotonic() + SERVING_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise Failed(f"waited in vain for {what}\n{self.processes[-1].tail()}")
            time.sleep(0.02)

    def _issue(self):
        """A pair of the authority's, put in the place of the one before at once."""
        self.count += 1
        self._openssl("-CA", "ca.pem", "-CAkey", "ca.key", "-subj", f"/CN=number {self.count}",
                      "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "pair.key", "-out", "pair.crt")  # fmt: skip
        with open(f"{self.pair}.new", "w", encoding="ascii") as pair:
            for name in ("pair.crt", "pair.key"):
                with open(os.path.join(self.folder, name), encoding="ascii") as part:
                    pair.write(part.read())
        os.replace(f"{self.pair}.new", self.pair)

    def _openssl(self, *arguments):
        command = [
            "openssl", "req", "-config", "req.cnf", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
        ]  # fmt: skip
        made = subprocess.run([*command, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if made.returncode:
            raise Failed(made.stderr)

    def _write(self, rate):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(f'[tls]\ncertificates = ["{self.pair}"]\n[reads]\nrate_per_client = "{rate}/s"\n')


def main():
    args = arguments()
    exit_on_sigterm()
    heading(machine(), {name: first_line([getattr(args, name), "--version"]) for name in ("txgen", "sentinel")})
    with tempfile.TemporaryDirectory(prefix="replace-", dir=args.scratch) as folder:
        return measure(args, folder)


def measure(args, folder):
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node(args.cometbft, folder, SETTINGS))
        operator = Operator(args.sentinel, folder, node)
        operator.start(stack)
        readers = {
            name: stack.enter_context(Child(f"subscriber of {name}", [sys.executable, subscriber.__file__, operator.port, operator.authority, query],
                                            os.path.join(folder, f"{name}.log"))) for name, query in QUERIES.items()
        }  # fmt: skip
        time.sleep(1)
        load = stack.enter_context(Load("load", args.txgen, [
            "constant", "--rate", f"{args.rate}/s", "--duration", f"{args.seconds}s", "--endpoints", f"https://127.0.0.1:{operator.port}",
            "--ca-file", operator.authority, "--connections", CONNECTIONS, "--seed", 1], folder))  # fmt: skip
        done = collections.Counter()
        ends = time.monotonic() + args.seconds
        kinds = [operator.replace_certificate, operator.replace_configuration, operator.replace_program]
        while time.monotonic() + CALM_SECONDS + 3 * DRAIN_SECONDS < ends:
            time.sleep(CALM_SECONDS)
            kind = kinds[done.total() % len(kinds)]
            progress(kind.__name__.replace("_", " "))
            kind(stack)
            done[kind.__name__.removeprefix("replace_")] += 1
        summary = load.summary(args.seconds)
        last = node.height()
        time.sleep(CALM_SECONDS)
        for reader in readers.values():
            reader.stop()
            reader.expect(0)
        blocks = {height: txs for height, txs, _ in node.headers(1, last)}
        return report(done, summary, {name: connections_of(reader) for name, reader in readers.items()}, blocks)


def connections_of(reader):
    """What it printed, among what its library said of ended connections."""
    return json.loads(next(line for line in reader.tail(1 << 24).splitlines() if line.startswith("[")))


def report(done, summary, read, blocks):
    """Prints the tables; 1 if a request failed or an event was lost."""
    offered, fate = summary["offered"], summary["fate"]
    failed = {name: fate[name] for name in ("rejected", "errors", "unanswered") if fate[name]}
    print(f"\nreplaced: {', '.join(f'{count} × {name}' for name, count in done.items())}")
    print(f"writes: {offered['sent']:,} sent of {offered['planned']:,} planned, {fate['accepted']:,} accepted, failed: {failed or 'none'}; "
          f"accept p99 {summary['latency_ms']['accept_response']['p99']:.0f} ms\n")  # fmt: skip
    print("| subscription | connections | subscribed again after, ms | blocks | events expected | got | lost |\n|---|---|---|---|---|---|---|")
    is_lossless = True
    for name, connections in read.items():
        errors = [entry["error"] for entry in connections if "error" in entry]
        subscribed = [entry for entry in connections if "events" in entry]
        got = collections.Counter()
        for entry in subscribed:
            got.update({int(height): count for height, count in entry["events"].items()})
        expected = {height: 1 if name == "NewBlock" else count for height, count in blocks.items() if height >= min(got) and count + (name == "NewBlock")}
        lost = {height: count - got[height] for height, count in expected.items() if count != got[height]}
        again = ", ".join(f"{entry['after_ms']:.0f}" for entry in subscribed[1:]) or "—"
        print(f"| {name} | {len(subscribed)} | {again} | {len(expected)} | {sum(expected.values()):,} | {sum(got[height] for height in expected):,} | {lost or 0} |")
        if errors:
            print(f"\nconnections that failed: {errors}\n")
        is_lossless &= not lost and not errors
    return 0 if is_lossless and not failed else 1


def arguments():
    parser = argparse.ArgumentParser(prog="replace", description=__doc__)
    for program in ("txgen", "sentinel", "cometbft"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=int, default=120, help="length of the load [120]; 60 is the least")
    parser.add_argument("--rate", type=int, default=2000, help="writes a second [2000]")
    parser.add_argument("--scratch", help="where homes and logs are made and removed [the system's]")
    args = parser.parse_args()
    if args.seconds < 60:
        parser.error("--seconds: at least 60, or not everything is replaced")
    return args


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"replace: {error}")
