"""Whether sentinel drowns a node by itself: defaults, no attacker, own load alone. See README.md."""

import argparse
import collections
import contextlib
import json
import os
import sys
import tempfile
import time
import urllib.request
from statistics import mean, median

from node import Node
from process import Child, Failed, exit_on_sigterm, first_line, free_port
from rounds import choice, heading, machine, progress, turns, write_json
from sentinel import Sampler, Sentinel
from sockets import connections_at
from txgen import Load

# Blocks of the real node take so many bytes: some 230 transactions of 80 bytes.
BLOCK_BYTES = 20_000
# The built-in node commits so many in each second.
BUILTIN_PER_BLOCK = 200
ADDRESSES = [f"127.0.0.{host}" for host in range(2, 7)]
CONNECTIONS = 10
# What a load may owe: one second's worth.
OWES_SECONDS = 1
IDLE_BLOCKS = 4
# Blocks at the start that may be partly filled, and the window is found.
RAMP_BLOCKS = 4
NODES = ("cometbft", "builtin")
# A few blocks deep.
MOST_BLOCKS_DEEP = 4
INTERRUPTED = 130


def main():
    args = arguments()
    exit_on_sigterm()
    builds = {"this": args.sentinel, **({"other": args.other} if args.other else {})}
    result = {
        "format": "tidegate.peers.alone/1",
        "machine": machine(),
        "versions": {
            **{name: first_line([program, "--version"]) for name, program in [("txgen", args.txgen), *builds.items()]},
            "cometbft": "cometbft " + first_line([args.cometbft, "version"]) if "cometbft" in args.nodes else "",
        },
        "settings": {"seconds": args.seconds, "rate": args.rate, "size": args.size, "method": args.method},
        "runs": [],
    }  # fmt: skip
    heading(result["machine"], result["versions"])
    code = 0
    try:
        for node in args.nodes:
            for sentinels in args.sentinels:
                for round_, build in turns(builds, args.rounds):
                    with tempfile.TemporaryDirectory(prefix="alone-", dir=args.scratch) as folder:
                        run = measure(args, node, sentinels, builds[build], folder)
                    run = {"node": node, "sentinels": sentinels, "build": build, "round": round_, **run}
                    result["runs"].append(run)
                    write_json(args.json, result)
                    progress(line(run))
    except KeyboardInterrupt:
        progress("interrupted: everything is stopped; what was measured follows")
        code = INTERRUPTED
    print("\n" + table(result["runs"]))
    print(f"\nall runs, second by second: {args.json}")
    return code


def measure(args, kind, sentinels, program, folder):
    with contextlib.ExitStack() as stack:
        if kind == "cometbft":
            node = stack.enter_context(Node(args.cometbft, folder, {}, {"max_bytes": str(BLOCK_BYTES)}))
        else:
            node = stack.enter_context(BuiltIn(args.txgen, folder))
        fronts = [
            stack.enter_context(Sentinel(program, node.url, os.path.join(folder, f"sentinel-{place}")))
            for place in range(sentinels)
        ]
        node.wait_height(node.height() + IDLE_BLOCKS)
        began = node.height()
        watch = stack.enter_context(Watch(node, fronts))
        loads = [
            stack.enter_context(load(args, place, front, os.path.join(folder, f"load-{place}")))
            for place, front in enumerate(fronts)
        ]
        summaries = [each.summary(args.seconds) for each in loads]
        if watch.failed:
            raise Failed(watch.failed)
        for front in fronts:
            if not front.process.running():
                raise Failed(f"sentinel has ended\n{front.process.tail()}")
        blocks = [txs for height, txs in node.transactions(began + 1) if txs][RAMP_BLOCKS:]
        per_block = median(blocks) if blocks else 0
        samples = [sample for sample in watch.samples if sample["seconds"] <= args.seconds]
        depths = [sample["mempool"] for sample in samples]
        bounds = collections.Counter(sample["bound"] for sample in samples)
        return {
            "per_block": per_block,
            "blocks": len(blocks),
            "committed_per_block": mean(blocks) if blocks else 0,
            "deepest_blocks": max(depths) / per_block if per_block else None,
            "deep_last_quarter_blocks": median(depths[-(len(depths) // 4 or 1):]) / per_block if per_block else None,
            "refused": sum(each["full"] for each in (watch.samples[-1]["by_sentinel"] if watch.samples else [])),
            "connections": max(sample["connections"] for sample in samples),
            "connections_last": samples[-1]["connections"],
            "bounds": dict(bounds.most_common()),
            "accepted": sum(each["fate"]["accepted"] for each in summaries),
            "explain": watch.explained,
            "samples": samples,
        }  # fmt: skip


class BuiltIn:
    """`txgen devnode`, asked as the real node is."""

    def __init__(self, txgen, folder):
        port = free_port()
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        command = [txgen, "devnode", "--listen", f"127.0.0.1:{port}",
                   "--set", f"max_block_txs={BUILTIN_PER_BLOCK}", "--set", "retain_blocks=100000"]  # fmt: skip
        self.process = Child("devnode", command, os.path.join(folder, "node.log"))

    def __enter__(self):
        self.process.wait_port(self.port)
        self.wait_height(1)
        return self

    def __exit__(self, *_):
        self.process.stop()

    # The same questions, in the same words.
    ask, height, waiting, wait_height, headers = Node.ask, Node.height, Node.waiting, Node.wait_height, Node.headers
    transactions = Node.transactions


def load(args, place, front, folder):
    os.makedirs(folder, exist_ok=True)
    url = front.url.replace("http://", "ws://") + "/websocket"
    return Load("load", args.txgen, map(str, [
        "constant", "--rate", f"{args.rate}/s", "--duration", f"{args.seconds}s", "--endpoints", url,
        "--connections", CONNECTIONS, "--source-address", ",".join(ADDRESSES), "--broadcast-tx-method", args.method,
        "--size", args.size, "--seed", place + 1, "--max-in-flight", args.rate * OWES_SECONDS,
        "--drain-timeout", "1s", "--no-follow", "--threads", 1,
    ]), folder)  # fmt: skip


class Watch(Sampler):
    """Once a second what the node holds, and what each sentinel says of itself."""

    def __init__(self, node, fronts):
        super().__init__(1)
        self.node, self.fronts = node, fronts
        self.began = time.monotonic()
        self.samples = []
        self.explained = ""
        self.failed = None

    def sample(self):
        try:
            figures = [front.figures() for front in self.fronts]
            self.samples.append({
                "seconds": round(time.monotonic() - self.began, 1),
                "mempool": self.node.waiting(),
                "height": self.node.height(),
                "connections": connections_at(self.node.port)[0],
                "bound": bound(figures[0]),
                "by_sentinel": [
                    {
                        "full": each.get('sentinel_upstream_errors_total{class="full"}', 0),
                        "open": each.get('sentinel_upstream_connections{state="open"}', 0),
                        "bound": bound(each),
                    }
                    for each in figures
                ],
            })  # fmt: skip
            self.explained = explain(self.fronts[0]) or self.explained
        except (OSError, Failed) as error:
            progress(f"no sample: {error}")


def bound(figures):
    """The one that holds the next write back."""
    prefix = 'sentinel_bound{bound="'
    return next((name[len(prefix) : -2] for name, value in figures.items() if name.startswith(prefix) and value), "none")


def explain(front):
    """What the page says that all wait for."""
    request = urllib.request.Request(f"{front.admin}/explain?ip={ADDRESSES[0]}", headers={"Accept": "text/plain"})
    with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
        return next((text for text in lines if text.startswith("all wait")), "")
    return ""


def line(run):
    deepest = "no block" if run["deepest_blocks"] is None else f"{run['deepest_blocks']:.1f} blocks deep at most"
    return (f"{run['node']}, {run['sentinels']} × {run['build']}: {deepest}, {run['refused']:,.0f} refused, "
            f"{run['connections']} connections, {run['committed_per_block']:.0f} a block, bounds {json.dumps(run['bounds'])}, "
            f"{run['explain']}")  # fmt: skip


def table(runs):
    lines = [
        "| node | sentinels | build | transactions a block: median, mean | mempool, blocks: deepest | last quarter's median | refused by the node | connections at the node: most, last | seconds under each bound |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        if run["deepest_blocks"] is None:
            lines.append(f"| {run['node']} | {run['sentinels']} | {run['build']} | no block | | | {run['refused']:,.0f} | | |")
            continue
        bounds = ", ".join(f"{name} {count}" for name, count in run["bounds"].items())
        lines.append(
            f"| {run['node']} | {run['sentinels']} | {run['build']} | {run['per_block']:.0f}, {run['committed_per_block']:.0f} "
            f"| {missed(run['deepest_blocks'] > MOST_BLOCKS_DEEP)}{run['deepest_blocks']:.1f} | {run['deep_last_quarter_blocks']:.1f} "
            f"| {missed(run['refused'])}{run['refused']:,.0f} | {run['connections']}, {run['connections_last']} | {bounds} |"
        )
    return "\n".join(lines)


def missed(is_missed):
    return "**missed** " if is_missed else ""


def arguments():
    parser = argparse.ArgumentParser(prog="alone", description=__doc__)
    for program in ("cometbft", "txgen", "sentinel"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--other", metavar="SENTINEL", help="another build of sentinel, in turn with this one")
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--nodes", type=choice(NODES), default=list(NODES), help=f"any of {','.join(NODES)} [all]")
    parser.add_argument("--sentinels", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4],
                        help="how many in front of one node, with commas between them [1,2,4]")  # fmt: skip
    parser.add_argument("--seconds", type=int, default=60, help="length of a run [60]; the hour is 3600")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is run [1]")
    parser.add_argument("--rate", type=int, default=1000, help="writes a second through each sentinel [1000]")
    parser.add_argument("--size", type=int, default=80, help="bytes of a transaction [80]")
    parser.add_argument("--method", choices=("async", "sync"), default="async", help="the broadcast call [async]")
    parser.add_argument("--scratch", help="where homes and run folders are made and removed [the system's]")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"alone: {error}")
