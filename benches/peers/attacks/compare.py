"""Other clients' throughput, p99 and sentinel's memory, without and under each attack. See README.md."""

import argparse
import contextlib
import os
import sys
import tempfile
import time

import hostile
from process import Child, Failed, exit_on_sigterm, first_line, free_port
from rounds import choice, heading, machine, progress, spread, turns, write_json
from sentinel import Sampler, Sentinel
from txgen import Load

MEBIBYTE = 1 << 20
# What the documentation plans for beside the buffers.
# Accepted transactions that are kept (`upstream.retain-bytes`), and the process itself.
REST_BYTES = (32 + 64) * MEBIBYTE
MOST_RSS = 1.25
LEAST_THROUGHPUT = 0.9
MOST_P99 = 2.0
POLITE_ADDRESSES = [f"127.0.0.{host}" for host in range(2, 6)]
# The attack has begun when the others are measured.
AHEAD_SECONDS = 2
NAMES = [kind.__name__ for kind in hostile.KINDS]


def main():
    args = arguments()
    exit_on_sigterm()
    result = {
        "format": "tidegate.peers.attacks/1",
        "machine": machine(),
        "versions": {name: first_line([getattr(args, name), "--version"]) for name in ("txgen", "sentinel")},
        "settings": {"rounds": args.rounds, "seconds": args.seconds, "rate": args.rate, "buffer_mib": args.buffer_mib},
        "runs": [],
    }  # fmt: skip
    heading(result["machine"], result["versions"])
    for attack in args.attacks:
        for round_, variant in turns(["quiet", attack], args.rounds):
            with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
                run = measure(args, None if variant == "quiet" else attack, folder)
            run.update(attack=attack, variant=variant, round=round_)
            result["runs"].append(run)
            write_json(args.json, result)
            progress(f"{attack}, {variant}: {run['accepted_per_second']:.0f}/s, p99 {run['p99_ms']:.1f} ms, "
                     f"{run['rss_bytes'] / MEBIBYTE:.0f} MiB, {run['buffered_bytes'] / MEBIBYTE:.1f} MiB buffered")  # fmt: skip
    print("\n" + table(args, result["runs"]))
    print(f"\nall runs: {args.json}")
    return 0


def measure(args, attack, folder):
    node_port = free_port()
    node = [args.txgen, "devnode", "--listen", f"127.0.0.1:{node_port}"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(Child("devnode", node, os.path.join(folder, "node.log"))).wait_port(node_port)
        flags = ["--buffer-bytes", f"{args.buffer_mib}MiB", "--max-req", 10_000]
        sentinel = stack.enter_context(Sentinel(args.sentinel, f"http://127.0.0.1:{node_port}", folder, *flags))
        # A block or two, so that the pace has seen how far they are apart.
        time.sleep(AHEAD_SECONDS)
        peak = stack.enter_context(Peak(sentinel))
        if attack:
            seconds = AHEAD_SECONDS * 2 + args.seconds
            command = [sys.executable, hostile.__file__, attack, sentinel.port, seconds]
            stack.enter_context(Child(attack, command, os.path.join(folder, "attack.log")))
        time.sleep(AHEAD_SECONDS)
        others = stack.enter_context(Load("others", args.txgen, list(map(str, [
            "constant", "--rate", f"{args.rate}/s", "--duration", f"{args.seconds}s", "--endpoints", sentinel.url,
            "--connections", 64, "--source-address", ",".join(POLITE_ADDRESSES), "--broadcast-tx-method", "sync",
            "--size", 250, "--seed", int(time.time()), "--drain-timeout", "5s", "--threads", 1, "--no-follow",
        ])), folder))  # fmt: skip
        summary = others.summary(args.seconds)
        if not sentinel.process.running():
            raise Failed(f"sentinel has ended\n{sentinel.process.tail()}")
        return {
            "accepted_per_second": summary["fate"]["accepted"] / args.seconds,
            "p99_ms": summary["latency_ms"]["accept_response"]["p99"],
            **peak.figures,
        }


class Peak(Sampler):
    """The most memory of sentinel, and the most bytes in its own account."""

    def __init__(self, sentinel):
        super().__init__(0.2)
        self.sentinel = sentinel
        self.figures = {"rss_bytes": 0, "buffered_bytes": 0}

    def sample(self):
        self._note("rss_bytes", self.sentinel.process.rss_bytes())
        self._note("buffered_bytes", self.sentinel.figures().get("sentinel_buffered_bytes", 0))

    def _note(self, name, value):
        self.figures[name] = max(self.figures[name], value)


def table(args, runs):
    """Ratios of runs of the same round, as medians."""
    plan = args.buffer_mib * MEBIBYTE + REST_BYTES
    lines = [
        "| attack | others' throughput | others' p99 | memory / plan | most buffered |",
        "|---|---|---|---|---|",
    ]
    for attack in dict.fromkeys(run["attack"] for run in runs):
        of = [run for run in runs if run["attack"] == attack]
        quiet = {run["round"]: run for run in of if run["variant"] == "quiet"}
        pairs = [(run, quiet[run["round"]]) for run in of if run["variant"] == attack]
        ratio = lambda key, pairs=pairs: spread([run[key] / base[key] for run, base in pairs])["median"]  # noqa: E731
        throughput, p99 = ratio("accepted_per_second"), ratio("p99_ms")
        p99_ms = spread([run["p99_ms"] for run, _ in pairs])["median"]
        rss = max(run["rss_bytes"] for run, _ in pairs) / plan
        buffered = max(run["buffered_bytes"] for run, _ in pairs) / MEBIBYTE
        lines.append(
            f"| {attack} | {mark(throughput >= LEAST_THROUGHPUT)}{throughput:.2f} x "
            f"| {mark(p99 <= MOST_P99)}{p99:.2f} x ({p99_ms:.1f} ms) | {mark(rss <= MOST_RSS)}{rss:.2f} x | {buffered:.1f} MiB |"
        )
    return "\n".join(lines)


def mark(is_met):
    return "" if is_met else "**missed** "


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("txgen", "sentinel"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--attacks", type=choice(NAMES), default=NAMES, help="which attacks, with commas between them")
    parser.add_argument("--rounds", type=int, default=2, help="pairs of runs for each attack")
    parser.add_argument("--seconds", type=int, default=8, help="length of a run")
    parser.add_argument("--rate", type=int, default=1000, help="writes a second of the others")
    parser.add_argument("--buffer-mib", type=int, default=64, help="--buffer-bytes, in MiB")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"attacks: {error}")
