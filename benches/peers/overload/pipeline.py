"""What CometBFT's kvstore loses as a process of its own behind a TCP socket. See README.md."""

import argparse
import os
import sys
import tempfile

from node import Node
from process import Failed, exit_on_sigterm, first_line
from rounds import heading, machine, progress, spread, turns, write_json
from txgen import Load

# BEP-19's node: blocks of 10,000 transactions of 250 bytes, a mempool of 100,000.
SETTINGS = {"size": "100000", "cache_size": "100000", "timeout_commit": '"1s"'}
GENESIS = {"max_bytes": "2531000"}
# As tm-bench: ten WebSockets.
CONNECTIONS = 10
SIZE = 250
# What one client at a time sends, to see a check alone.
ALONE = 500
PATIENCE_SECONDS = 120
FIGURES = {
    "accepted": "accepted/s",
    "committed": "committed/s",
    "alone_ms": "one check alone, p50, ms",
    "node_seconds": "processor time of the node, s",
    "app_seconds": "of the application, s",
}


def main():
    args = arguments()
    exit_on_sigterm()
    variants = {"within the node": None, "TCP socket": args.abci_cli}
    versions = {
        "txgen": first_line([args.txgen, "--version"]),
        "cometbft": "cometbft " + first_line([args.cometbft, "version"]),
    }
    result = {"format": "tidegate.peers.pipeline/1", "machine": machine(), "versions": versions, "runs": []}
    heading(result["machine"], versions)
    for round_, variant in turns(variants, args.rounds):
        with tempfile.TemporaryDirectory(prefix="pipeline-", dir=args.scratch) as folder:
            run = measure(args, variants[variant], folder)
        result["runs"].append({"variant": variant, "round": round_, **run})
        write_json(args.json, result)
        progress(f"{variant}: {', '.join(f'{name} {run[key]:.2f}' for key, name in FIGURES.items())}")
    print("\n" + table(result["runs"], list(variants)))
    print(f"\nall runs: {args.json}")
    return 0


def measure(args, abci_cli, folder):
    with Node(args.cometbft, folder, SETTINGS, GENESIS, abci_cli=abci_cli) as node:
        with load("alone", args, node, folder, "flood", "--concurrency", 1, "--count", ALONE, "--no-follow") as alone:
            one = alone.summary(PATIENCE_SECONDS)
        app = node.processes.get("app")
        before = node.process.cpu_seconds(), app.cpu_seconds() if app else 0
        with load("load", args, node, folder, "constant", "--rate", f"{args.rate}/s", "--duration", f"{args.seconds}s",
                  "--transport", "ws", "--connections", CONNECTIONS) as many:  # fmt: skip
            summary = many.summary(args.seconds + PATIENCE_SECONDS)
        return {
            "accepted": summary["rate"]["accepted_tps"]["mean"],
            "committed": summary["rate"]["committed_tps"]["mean"],
            "alone_ms": one["latency_ms"]["accept_service"]["p50"],
            "node_seconds": node.process.cpu_seconds() - before[0],
            "app_seconds": (app.cpu_seconds() if app else 0) - before[1],
            "schedule": summary["verdict"]["schedule"],
        }


def load(name, args, node, folder, command, *options):
    return Load(name, args.txgen, map(str, [
        command, *options, "--endpoints", node.url, "--broadcast-tx-method", "sync", "--size", SIZE, "--threads", 1,
    ]), folder)  # fmt: skip


def table(runs, variants):
    lines = [f"| | {' | '.join(variants)} | {variants[1]} / {variants[0]} |", "|---|" + "--:|" * 3]
    for key, name in FIGURES.items():
        values = {variant: spread([run[key] for run in runs if run["variant"] == variant]) for variant in variants}
        within, beside = (values[variant]["median"] for variant in variants)
        cells = [f"{each['median']:.2f} ({each['min']:.2f} to {each['max']:.2f})" for each in values.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {f'{beside / within:.2f}' if within else ''} |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(prog="pipeline", description=__doc__)
    for program in ("cometbft", "abci-cli", "txgen"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--rate", type=int, default=10_000, help="transactions a second [10000]")
    parser.add_argument("--seconds", type=int, default=20, help="length of a load [20]")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run [3]")
    parser.add_argument("--scratch", help="where homes and run folders are made and removed [the system's]")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"pipeline: {error}")
