"""Other clients' throughput, p99 and sentinel's memory, without and under each attack. See README.md."""

import argparse
import contextlib
import json
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
# Attackers and their others are on machines of their own. Here they share the cores: what measures gets them
# first, and the attack what nobody needs; how much it did of what it wants is in the table.
ATTACK_NICE = 19
METER_NICE = -10
VARIANTS = ["quiet", "one", "elsewhere", "attack"]
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
        for round_, variant in turns(args.variants, args.rounds):
            with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
                run = measure(args, attack, variant, folder)
            run.update(kind=attack, variant=variant, round=round_)
            result["runs"].append(run)
            write_json(args.json, result)
            progress(f"{attack}, {variant}: {run['accepted_per_second']:.0f}/s, p99 {run['p99_ms']:.1f} ms, "
                     f"{run['rss_bytes'] / MEBIBYTE:.0f} MiB, {run['buffered_bytes'] / MEBIBYTE:.1f} MiB buffered, "
                     f"sentinel {run['sentinel_cores']:.2f} cores, attack {run['attack']}")  # fmt: skip
    print("\n" + table(args, result["runs"]))
    print(f"\nall runs: {args.json}")
    return 0


def guarded_node(args, stack, folder):
    """A node of its own with sentinel in front."""
    os.makedirs(folder)
    port = free_port()
    node = [args.txgen, "devnode", "--listen", f"127.0.0.1:{port}"]
    stack.enter_context(Child("devnode", node, os.path.join(folder, "node.log"))).wait_port(port)
    flags = ["--buffer-bytes", f"{args.buffer_mib}MiB", "--max-req", 10_000]
    return stack.enter_context(Sentinel(args.sentinel, f"http://127.0.0.1:{port}", folder, *flags))


def measure(args, attack, variant, folder):
    """The others' figures. An attack elsewhere goes to another node behind another sentinel: what it takes from
    the others then is the machine's, not sentinel's. With one connection in place of all it is what a single such
    client costs."""
    with contextlib.ExitStack() as stack:
        sentinel = guarded_node(args, stack, os.path.join(folder, "here"))
        target = guarded_node(args, stack, os.path.join(folder, "elsewhere")) if variant == "elsewhere" else sentinel
        # A block or two, so that the pace has seen how far they are apart.
        time.sleep(AHEAD_SECONDS)
        peak = stack.enter_context(Peak(sentinel))
        attackers = None
        if variant != "quiet":
            seconds = AHEAD_SECONDS * 2 + args.seconds
            command = [sys.executable, hostile.__file__, attack, target.port, seconds, *([1] if variant == "one" else [])]
            log = os.path.join(folder, "attack.log")
            attackers = stack.enter_context(Child(attack, command, log, ATTACK_NICE))
        time.sleep(AHEAD_SECONDS)
        cpu_before, began = sentinel.process.cpu_seconds(), time.monotonic()
        others = stack.enter_context(Load("others", args.txgen, list(map(str, [
            "constant", "--rate", f"{args.rate}/s", "--duration", f"{args.seconds}s", "--endpoints", sentinel.url,
            "--connections", 64, "--source-address", ",".join(POLITE_ADDRESSES), "--broadcast-tx-method", "sync",
            "--size", 250, "--seed", int(time.time()), "--drain-timeout", "5s", "--threads", 1, "--no-follow",
        ])), folder, METER_NICE))  # fmt: skip
        summary = others.summary(args.seconds)
        cores = (sentinel.process.cpu_seconds() - cpu_before) / (time.monotonic() - began)
        if not sentinel.process.running():
            raise Failed(f"sentinel has ended\n{sentinel.process.tail()}")
        return {
            "accepted_per_second": summary["fate"]["accepted"] / args.seconds,
            "p99_ms": summary["latency_ms"]["accept_response"]["p99"],
            "sentinel_cores": cores,
            "attack": done_by(attackers, seconds) if attackers else None,
            **peak.figures,
        }


def done_by(attackers, seconds):
    """What the attackers did, as they say at their end."""
    attackers.wait(seconds + AHEAD_SECONDS)
    attackers.expect(0)
    return json.loads(attackers.tail().splitlines()[-1])


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
        "| attack | connections, pieces sent | others' throughput | p99 quiet | one | elsewhere | under it | / quiet | / elsewhere | memory / plan | most buffered |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for attack in dict.fromkeys(run["kind"] for run in runs):
        by_variant = {variant: [run for run in runs if (run["kind"], run["variant"]) == (attack, variant)] for variant in VARIANTS}
        quiet, elsewhere, under = (by_variant[variant] for variant in ("quiet", "elsewhere", "attack"))
        if not under:
            continue
        throughput, p99 = ratio("accepted_per_second", under, quiet), ratio("p99_ms", under, quiet)
        rss = max(run["rss_bytes"] for run in under) / plan
        lines.append(
            f"| {attack} | {done(elsewhere)} elsewhere, {done(under)} here | {marked(throughput, throughput and throughput >= LEAST_THROUGHPUT)} "
            f"| {' | '.join(median_ms(by_variant[variant]) for variant in VARIANTS)} | {marked(p99, p99 and p99 <= MOST_P99)} "
            f"| {marked(ratio('p99_ms', under, elsewhere), True)} | {marked(rss, rss <= MOST_RSS)} "
            f"| {max(run['buffered_bytes'] for run in under) / MEBIBYTE:.1f} MiB |"
        )
    return "\n".join(lines)


def ratio(key, runs, bases):
    """The median; none without a run of the same round to compare with."""
    bases = {run["round"]: run[key] for run in bases}
    ratios = [run[key] / bases[run["round"]] for run in runs if run["round"] in bases]
    return spread(ratios)["median"] if ratios else None


def median_ms(runs):
    return f"{spread([run['p99_ms'] for run in runs])['median']:.1f} ms" if runs else "–"


def done(runs):
    """What the attackers came to."""
    if not runs:
        return "–"
    return " and ".join(f"{spread([run['attack'][key] for run in runs])['median']:,.0f}" for key in ("connections", "sent"))


def marked(ratio, is_met):
    if ratio is None:
        return "–"
    return f"{'' if is_met else '**missed** '}{ratio:.2f} x"


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("txgen", "sentinel"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--attacks", type=choice(NAMES), default=NAMES, help="which attacks, with commas between them")
    parser.add_argument("--variants", type=choice(VARIANTS), default=VARIANTS, help=f"any of {','.join(VARIANTS)} [all]")
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
