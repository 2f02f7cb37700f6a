"""One run: a fresh node, sentinel in front or not, a flood and a polite client, and figures from the chain."""

import contextlib
import os
import time

from node import Node
from sentinel import Sampler, Sentinel
from txgen import Load

FLOOD_ADDRESSES = [f"127.0.0.{host}" for host in range(2, 7)]
FLOOD_CONNECTIONS = 10
POLITE_ADDRESS = "127.0.0.10"
POLITE_RATE = 10
# One request in flight on each; at ten a second enough for answers that take six seconds.
POLITE_CONNECTIONS = 64
# What the flood may owe: one second's worth. More would only be sent in a lump when the target reads
# again; what does not fit is counted as unsent.
FLOOD_OWES_SECONDS = 1
# How long the flood waits for answers, and the polite client for its last commits.
FLOOD_DRAIN_SECONDS = 5
POLITE_DRAIN_SECONDS = 30
# Empty blocks before the flood, so that sentinel has seen how far apart they are.
IDLE_BLOCKS = 4
# How long blocks are awaited that hold what the window left over, and date its last block.
SETTLE_SECONDS = 30
BIN_SECONDS = 30
FIRST_SECONDS = 60
# Load that goes to the node directly comes from here, in transactions of one byte more.
FOREIGN_ADDRESS = "127.0.0.20"

# sentinel's part of each variant; none means that the clients talk to the node.
VARIANTS = {
    "direct": None,
    "off": ["--pace", "off"],
    "fixed": ["--pace", "fixed", "--max-req", "4000"],
    "adaptive": ["--pace", "adaptive", "--max-req", "30000"],
    # The same of another build.
    "other": ["--pace", "adaptive", "--max-req", "30000"],
    "interval-pause": [
        "--pace", "adaptive", "--max-req", "30000",
        "--pause-interval", "100s", "--pause-for", "1s", "--pause-action", "pause",
    ],
    "interval-reconnect": [
        "--pace", "adaptive", "--max-req", "30000",
        "--pause-interval", "100s", "--pause-for", "1s", "--pause-action", "reconnect",
    ],
    "threshold": [
        "--pace", "adaptive", "--max-req", "30000", "--min-tx-rate", "learn",
        "--pause-for", "1s", "--pause-action", "pause",
    ],
}  # fmt: skip


def run(args, variant, folder):
    """The figures of one run; everything it started has ended when it returns."""
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node(
            args.cometbft, folder, node_settings(args), genesis(args), args.validators, args.check_seconds
        ))  # fmt: skip
        processes = dict(node.processes)
        targets, sentinel = [node.url], None
        if VARIANTS[variant] is not None:
            places = [os.path.join(folder, f"sentinel-{place}") for place in range(args.sentinels)]
            program = args.other if variant == "other" else args.sentinel
            made = [Sentinel(program, node.url, place, *VARIANTS[variant]) for place in places]
            sentinels = [stack.enter_context(each) for each in made]
            targets, sentinel = [each.url for each in sentinels], sentinels[0]
            processes |= {f"sentinel {place}": each.process for place, each in enumerate(sentinels[1:], start=2)}
            processes["sentinel"] = sentinel.process
        # In operation a proxy has seen more of its chain than these blocks when a flood comes.
        if args.empty_blocks:
            node.wait_height(node.height() + IDLE_BLOCKS)
        if args.foreign:
            processes["foreign"] = stack.enter_context(foreign_flood(args, node.url, folder))
        polite = stack.enter_context(polite_client(args, targets[0], folder))
        flood = stack.enter_context(flooders(args, targets, folder))
        processes["flood"], processes["polite"] = flood, polite
        costs = stack.enter_context(Costs(processes))
        trace = stack.enter_context(Trace(sentinel)) if sentinel and args.trace else None
        flood_summary = flood.summary(args.seconds)
        start = flood_summary["time"]["origin_unix_ns"] / 1e9
        polite_summary = polite.summary(args.seconds)
        settle(node, start + args.seconds)
        blocks = node.blocks()
        result = {
            "chain": judge(blocks, start, args.seconds),
            "left_in_mempool": node.waiting(),
            "flood": offered(flood_summary),
            "polite": {**offered(polite_summary), **latencies(polite_summary)},
            "costs": costs.between(start, start + args.seconds),
        }
        if args.foreign:
            window = [height for height, _, at in blocks if start <= at < start + args.seconds]
            sizes = node.sizes(window)
            result["chain"]["foreign"] = sizes[args.size + 1]
        if sentinel:
            result["sentinel_metrics"] = sentinel.metrics()
        if trace:
            result["trace"] = [[round(at - start, 2), gauges] for at, gauges in trace.samples]
        return result


def node_settings(args):
    """Lines of config.toml."""
    settings = {}
    if args.block_interval:
        settings["timeout_commit"] = f'"{args.block_interval}"'
    if args.mempool:
        settings["size"] = args.mempool
    if not args.empty_blocks:
        settings["create_empty_blocks"] = "false"
    return settings


def genesis(args):
    """Parameters of the chain's blocks."""
    return {"max_bytes": str(args.block_bytes)} if args.block_bytes else {}


def websockets(targets):
    return ",".join(target.replace("http://", "ws://") + "/websocket" for target in targets)


def foreign_flood(args, target, folder):
    """Load past sentinel, straight at the node, for longer than the flood."""
    seconds = args.seconds + POLITE_DRAIN_SECONDS
    arguments = [
        "constant", "--rate", f"{args.foreign}/s", "--duration", f"{seconds}s",
        "--endpoints", websockets([target]), "--connections", FLOOD_CONNECTIONS,
        "--source-address", FOREIGN_ADDRESS, "--broadcast-tx-method", args.method,
        "--size", args.size + 1, "--seed", 3, "--max-in-flight", args.foreign * FLOOD_OWES_SECONDS,
        "--drain-timeout", f"{FLOOD_DRAIN_SECONDS}s", "--no-follow",
    ]  # fmt: skip
    return Load("foreign", args.txgen, map(str, arguments), folder)


def flooders(args, targets, folder):
    """One process, its connections from several addresses in turn."""
    arguments = [
        "constant", "--rate", f"{args.rate}/s", "--duration", f"{args.seconds}s",
        "--endpoints", websockets(targets), "--connections", FLOOD_CONNECTIONS,
        "--source-address", ",".join(FLOOD_ADDRESSES),
        "--broadcast-tx-method", args.method, "--size", args.size, "--seed", 1,
        "--max-in-flight", args.rate * FLOOD_OWES_SECONDS,
        "--drain-timeout", f"{FLOOD_DRAIN_SECONDS}s", "--no-follow",
    ]  # fmt: skip
    return Load("flood", args.txgen, map(str, arguments), folder)


def polite_client(args, target, folder):
    arguments = [
        "constant", "--rate", f"{POLITE_RATE}/s", "--duration", f"{args.seconds}s",
        "--endpoints", target, "--connections", POLITE_CONNECTIONS,
        "--source-address", POLITE_ADDRESS,
        "--broadcast-tx-method", "sync", "--size", args.size, "--seed", 2,
        "--drain-timeout", f"{POLITE_DRAIN_SECONDS}s", "--threads", 1,
    ]  # fmt: skip
    return Load("polite", args.txgen, map(str, arguments), folder)


class Trace(Sampler):
    """What sentinel's pace says of itself: the bound that holds and its numbers."""

    GAUGES = ("sentinel_pace_", "sentinel_bound", "sentinel_upstream_mempool", "sentinel_queue_depth",
              "sentinel_upstream_connections", "sentinel_upstream_errors")  # fmt: skip

    def __init__(self, sentinel):
        super().__init__(0.2)
        self.sentinel = sentinel
        self.samples = []

    def sample(self):
        found = self.sentinel.figures().items()
        self.samples.append((time.time(), {name: value for name, value in found if value and name.startswith(self.GAUGES)}))


class Costs(Sampler):
    """CPU time and memory of processes, once a second, beside the wall clock."""

    def __init__(self, processes):
        super().__init__(1)
        self.processes = processes
        self.samples = []

    def between(self, start, end):
        """For each process the CPU seconds of the window and the most memory seen in it."""
        samples = [sample for sample in self.samples if start - 1 <= sample[0] <= end + 1]
        if len(samples) < 2:
            return {}
        span = samples[-1][0] - samples[0][0]
        return {
            name: {
                "cpu_seconds": samples[-1][1][name][0] - samples[0][1][name][0],
                "cores": (samples[-1][1][name][0] - samples[0][1][name][0]) / span,
                "max_rss_bytes": max(figures[name][1] for _, figures in samples),
            }
            for name in self.processes
        }

    def sample(self):
        figures = {
            name: (process.cpu_seconds(), process.rss_bytes()) for name, process in self.processes.items()
        }
        self.samples.append((time.time(), figures))


def settle(node, end):
    """Until the mempool is empty and the window's last block is dated, or some time has passed."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        blocks = node.blocks()
        if blocks and blocks[-1][2] > end and node.waiting() == 0:
            return
        time.sleep(1)


def judge(blocks, start, seconds):
    """What the chain did in the window, and after it."""
    end = start + seconds
    inside = [(txs, at - start) for _, txs, at in blocks if start <= at < end]
    # A window that begins or ends in a gap has lived through that part of it.
    instants = [0.0, *(at for _, at in inside), float(seconds)]
    bins = [0] * -(-seconds // BIN_SECONDS)
    for txs, at in inside:
        bins[int(at // BIN_SECONDS)] += txs
    return {
        "blocks": len(inside),
        "committed": sum(txs for txs, _ in inside),
        "committed_first": sum(txs for txs, at in inside if at < FIRST_SECONDS),
        "committed_after": sum(txs for _, txs, at in blocks if at >= end),
        "per_bin": bins,
        "longest_gap_s": max(b - a for a, b in zip(instants, instants[1:])),
        "all_blocks": [[height, txs, round(at - start, 3)] for height, txs, at in blocks],
    }


def offered(summary):
    fate, planned = summary["fate"], summary["offered"]
    return {
        "planned": planned["planned"],
        "sent": planned["sent"],
        "unsent": {reason: count for reason, count in planned["unsent_by_reason"].items() if count},
        "accepted": fate["accepted"],
        "rejected": fate["rejected"],
        "rejected_by_code": fate["rejected_by_code"],
        "errors": fate["errors"],
        "errors_by_kind": {kind: count for kind, count in fate["errors_by_kind"].items() if count},
        "unanswered": fate["unanswered"],
        "committed": fate["committed"],
        "pending": fate["pending"],
        "verdict": summary["verdict"]["schedule"],
    }


def latencies(summary):
    """Milliseconds from due, so that waiting for a connection is in them."""
    latency = summary["latency_ms"]
    return {
        f"{name}_{quantile}_ms": latency[key][quantile] if latency[key] else None
        for name, key in (("accept", "accept_response"), ("commit", "commit_from_due"))
        for quantile in ("p50", "p99", "max")
    }
