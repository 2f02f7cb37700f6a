"""sentinel beside nginx and haproxy on one upstream: in turn, repeated, forwards and backwards. See README.md."""

import argparse
import contextlib
import http.client
import json
import os
import sys
import tempfile
import time

import report
from load import Loads
from measures import Measures
from node import Node
from process import Child, Failed, exit_on_sigterm, first_line, free_port
from proxies import OTHER, Front, Proxies
from rounds import choice, heading, machine, progress, turns, warn, write_json
from sink import Sink

PROXIES = ["direct", "nginx", "haproxy", "sentinel"]
ONLY = ["forward", "latency", "polite", "refuse", "memory", "tls", "http2", "grpc", "threads", "kept"]
THREADS = (1, 2, 4)
# Of the block that is kept, or of two that follow one another.
KEPT_TXS = 200
# As txgen ends when it is interrupted.
INTERRUPTED = 130


def main():
    args = arguments()
    exit_on_sigterm()
    result = {
        "format": "tidegate.peers.proxy/1",
        "machine": machine(),
        "versions": versions(args),
        "settings": {key: getattr(args, key) for key in SETTINGS},
        "runs": {},
    }
    heading(result["machine"], result["versions"])
    code = 0
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="proxy-"))
        sink = stack.enter_context(Sink(args.sink, folder))
        behind = grpc_node(args, folder, stack), comet(args, folder, stack)
        measures = Measures(args, Proxies(args, sink, folder), Loads(args, folder), behind)
        try:
            for measure in args.only:
                result["runs"][measure] = []
                for run in measure_rounds(args, plan(args, measures, measure)):
                    result["runs"][measure].append(run)
                    progress(f"{measure}, round {run['round']}, {run['name']}: {report.line(run)}")
        except KeyboardInterrupt:
            progress("interrupted: everything is stopped; what was measured follows")
            code = INTERRUPTED
    result["summary"] = report.summary(result["runs"])
    report.show(result)
    write_json(args.json, result)
    print(f"\nall runs: {args.json}")
    return code


def grpc_node(args, folder, stack):
    """A server of HTTP/2 on one thread that sends each message back, and ends it as gRPC does."""
    if "grpc" not in args.only:
        return None
    port = free_port()
    command = [args.nghttpd, "--no-tls", "--echo-upload", "--trailer=grpc-status: 0", "-n1", "--max-concurrent-streams=256", port]
    child = Child("nghttpd", command, os.path.join(folder, "nghttpd.log"))
    return stack.enter_context(Front(port, child))


def comet(args, folder, stack):
    """A real node with some blocks; measuring it does not end it."""
    if "kept" not in args.only:
        return None
    node = stack.enter_context(Node(args.cometbft, folder, {"timeout_commit": '"1s"'}))
    connection = http.client.HTTPConnection("127.0.0.1", node.port)

    def ask(target):
        connection.request("GET", target)
        return json.loads(connection.getresponse().read())["result"]

    for number in range(KEPT_TXS):
        tx = f"{number}=".ljust(args.size, "x").encode().hex()
        last = ask(f"/broadcast_tx_async?tx=0x{tx}")["hash"]
    while True:
        with contextlib.suppress(KeyError):
            height = int(ask(f"/tx?hash=0x{last}")["height"])
            node.wait_height(height + 2)
            return Lasting(node.port, node.process, height)
        time.sleep(1)


class Lasting(Front):
    """A node that others end, and its block with many transactions."""

    def __init__(self, port, process, height):
        super().__init__(port, process)
        self.height = height

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def plan(args, measures, measure):
    """The runs of one round, by name."""
    names = args.proxies
    with_sentinel = "sentinel" in names
    sentinels = [name for name in names if name in ("sentinel", OTHER)]
    if measure == "forward":
        runs = {name: lambda name=name: measures.forward(name) for name in names}
        return runs | {f"{name} ws": lambda name=name: measures.forward_ws(name) for name in sentinels}
    if measure == "latency":
        return {name: lambda name=name: measures.latency(name) for name in names}
    if measure == "polite":
        return {
            f"{name} {load}": lambda name=name, load=load: measures.polite(name, load)
            for name in names
            for load in ("alone", "flooded")
        }
    if measure in ("tls", "http2", "grpc"):
        return {name: lambda name=name: measures.spoken(name, measure) for name in names if name != "direct"}
    if not with_sentinel:
        warn(f"{measure} measures sentinel alone")
        return {}
    if measure == "refuse":
        return {
            "forwarding": lambda: measures.forward("sentinel"),
            "refusing": measures.refuse,
            "forwarding ws": lambda: measures.forward_ws("sentinel"),
            "flooded": lambda: measures.flooded("http"),
            "flooded ws": lambda: measures.flooded("ws"),
        }
    if measure == "threads":
        return {f"{count} threads": lambda count=count: measures.threads(count) for count in THREADS}
    if measure == "kept":
        return {name: lambda name=name: measures.kept(name) for name in ("CometBFT", "sentinel")}
    return {"sentinel": measures.memory}


def measure_rounds(args, order):
    for round_, name in turns(order, args.rounds):
        run = order[name]()
        run.update(name=name, round=round_)
        if run.get("errors"):
            warn(f"{name}: {run['errors']} requests failed")
        yield run


def versions(args):
    asked = {
        "nginx": [args.nginx, "-v"],
        "haproxy": [args.haproxy, "-v"],
        "wrk": [args.wrk, "-v"],
        "h2load": [args.h2load, "--version"],
        "cometbft": [args.cometbft, "version"],
        "txgen": [args.txgen, "--version"],
        "sentinel": [args.sentinel, "--version"],
        OTHER: [args.other, "--version"],
    }
    found = {name: first_line(command) for name, command in asked.items() if command[0]}
    return {
        name: line.removeprefix("nginx version: ").split(" - ")[0].split(" Copyright")[0]
        for name, line in found.items()
    }


# Beside wrk.
NEEDED = {"tls": ["h2load"], "http2": ["h2load"], "grpc": ["h2load", "nghttpd"], "kept": ["cometbft"]}
SETTINGS = [
    "rounds", "seconds", "connections", "size", "polite_seconds", "flat_seconds", "ws_count", "proxies", "only",
]  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("wrk", "txgen", "sink"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    for proxy in ("nginx", "haproxy", "sentinel", "h2load", "nghttpd", "cometbft"):
        parser.add_argument(f"--{proxy}", help=argparse.SUPPRESS)
    parser.add_argument("--other", metavar="PATH",
                        help="a sentinel of another commit, measured beside this one")  # fmt: skip
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--only", type=choice(ONLY), default=ONLY, help=f"any of {','.join(ONLY)} [all]")
    parser.add_argument("--proxies", type=choice(PROXIES), default=PROXIES,
                        help=f"any of {','.join(PROXIES)} [all]")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=4, help="how often each is measured [4]")
    parser.add_argument("--seconds", type=int, default=8, help="length of a run [8]")
    parser.add_argument("--connections", type=int, default=64, help="of wrk [64]")
    parser.add_argument("--size", type=int, default=250, help="bytes of a transaction [250]")
    parser.add_argument("--polite-seconds", type=int, default=30, help="length of a run of the polite client [30]")
    parser.add_argument("--flat-seconds", type=int, default=60, help="how long memory is watched [60]")
    # The sink makes no blocks, and sentinel keeps at most 131,072 own transactions that no block has shown.
    parser.add_argument("--ws-count", type=int, default=100_000, help="transactions of a WebSocket flood [100000]")
    args = parser.parse_args()
    for proxy in args.proxies:
        if proxy != "direct" and not getattr(args, proxy):
            parser.error(f"{proxy} is missing; choose others with --proxies")
    for measure, programs in NEEDED.items():
        missing = [program for program in programs if not getattr(args, program)]
        if measure in args.only and missing:
            parser.error(f"{measure} needs {', '.join(missing)}; choose others with --only")
    if args.other:
        args.proxies = [*args.proxies, OTHER]
    # A flood ends by count: how long it may take.
    args.ws_seconds = 60
    return args


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"a run failed: {error}")
