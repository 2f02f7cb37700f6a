"""Other clients' throughput, p99 and sentinel's memory, without and under each attack. See README.md."""

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
import time

import gateway
import hostile
from probes import Probe
from process import Child, Failed, exit_on_sigterm, first_line, free_port
from rounds import choice, heading, likely, machine, progress, spread, turns, write_json
from sentinel import Sampler, Sentinel
from setups import SETUPS
from sockets import connections_at
from txgen import Load

MEBIBYTE = 1 << 20
# What the documentation plans for beside the buffers.
# Accepted transactions that are kept (`upstream.retain-bytes`), and the process itself.
REST_BYTES = (32 + 64) * MEBIBYTE
MOST_RSS = 1.25
LEAST_THROUGHPUT = 0.9
MOST_P99 = 2.0
# Writes of the others in all rounds of a set-up, so that their p99 has bounds: from 368 on it has both.
LEAST_WRITES = 500
# Of what an honest client asked beside it.
LEAST_RIGHT = 0.9
# Connections at the node beyond the quiet ones, with those closed within the last minute: two for each read that may
# be under way (`reads.concurrency`).
MOST_CONNECTIONS = 512
# A pace, and a little.
MOST_SERVED = 1.1
POLITE_ADDRESSES = [f"127.0.0.{host}" for host in range(2, 6)]
# The attack has begun when the others are measured.
AHEAD_SECONDS = 2
# Attackers and their others are on machines of their own. Here they share the cores: what measures gets them
# first, and the attack what nobody needs; how much it did of what it wants is in the table.
ATTACK_NICE = 19
METER_NICE = -10
VARIANTS = ["quiet", "one", "elsewhere", "direct", "attack"]


def main():
    args = arguments()
    exit_on_sigterm()
    builds = {"this": args.sentinel, **({"other": args.other} if args.other else {})}
    result = {
        "format": "tidegate.peers.attacks/2",
        "machine": machine(),
        "versions": {name: first_line([program, "--version"]) for name, program in [("txgen", args.txgen), *builds.items()]},
        "settings": {"rounds": args.rounds, "seconds": args.seconds},
        "runs": [],
    }  # fmt: skip
    heading(result["machine"], result["versions"])
    pairs = [(variant, build) for variant in args.variants for build in builds]
    for attack in args.attacks:
        of_attack = [pair for pair in pairs if pair[0] != "direct" or SETUPS[attack].direct]
        for round_, (variant, build) in turns(of_attack, args.rounds):
            with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
                run = measure(args, builds[build], attack, variant, folder)
            run.update(kind=attack, variant=variant, build=build, round=round_)
            result["runs"].append(run)
            bare = [{key: value for key, value in run.items() if key != "accept_ms"} for run in result["runs"]]
            write_json(args.json, {**result, "runs": bare})
            progress(line(run))
    print("\n" + table(result["runs"], list(builds)))
    print(f"\nall runs: {args.json}")
    return 0


class Stand:
    """A node of its own with sentinel in front, and a gateway between them where the node has to lie."""

    def __init__(self, args, program, setup, stack, folder):
        os.makedirs(folder)
        node_port = free_port()
        command = [args.txgen, "devnode", "--listen", f"127.0.0.1:{node_port}"]
        for pair in setup.node:
            command += ["--set", pair]
        stack.enter_context(Child("devnode", command, os.path.join(folder, "node.log"))).wait_port(node_port)
        self.node_port, self.control_port = node_port, None
        if setup.lie:
            self.node_port, self.control_port = free_port(), free_port()
            command = [sys.executable, gateway.__file__, self.node_port, node_port, self.control_port]
            stack.enter_context(Child("gateway", command, os.path.join(folder, "gateway.log"))).wait_port(self.node_port)
        flags = ["--buffer-bytes", f"{setup.buffer_mib}MiB", "--max-req", 10_000]
        if "--max-req" in setup.flags:
            flags = flags[:2]
        upstream = f"http://127.0.0.1:{self.node_port}"
        self.sentinel = stack.enter_context(Sentinel(program, upstream, folder, *flags, *setup.flags))
        if setup.prepare:
            setup.prepare(node_port)


def measure(args, program, attack, variant, folder):
    """The others' figures. An attack elsewhere goes to another node behind another sentinel: what it takes from
    the others then is the machine's, not sentinel's. With one connection in place of all it is what a single such
    client costs. Directly, attackers and others talk to the node, past sentinel."""
    setup = SETUPS[attack]
    measured = max(args.seconds, math.ceil(LEAST_WRITES / setup.rate / args.rounds))
    seconds = AHEAD_SECONDS * 2 + measured
    with contextlib.ExitStack() as stack:
        here = Stand(args, program, setup, stack, os.path.join(folder, "here"))
        sentinel = here.sentinel
        target = Stand(args, program, setup, stack, os.path.join(folder, "elsewhere")) if variant == "elsewhere" else here
        is_direct = variant == "direct"
        port = here.node_port if is_direct else sentinel.port
        attacked = port if target is here else target.sentinel.port
        if setup.beside:
            command = [sys.executable, hostile.__file__, setup.beside, sentinel.port, seconds + AHEAD_SECONDS]
            stack.enter_context(Child(setup.beside, command, os.path.join(folder, "beside.log")))
        # A block or two, so that the pace has seen how far they are apart.
        time.sleep(AHEAD_SECONDS)
        peak = stack.enter_context(Peak(here))
        attackers = begin(attack, setup, variant, (target, attacked), seconds, stack, folder)
        time.sleep(AHEAD_SECONDS)
        probe = Probe(setup.probe, port, setup.interval) if setup.probe else None
        before, began = sentinel.process.core_seconds(), time.monotonic()
        with probe or contextlib.nullcontext():
            others = stack.enter_context(Load("others", args.txgen, list(map(str, [
                "constant", "--rate", f"{setup.rate}/s", "--duration", f"{measured}s", "--endpoints", f"http://127.0.0.1:{port}" if is_direct else sentinel.url,
                "--connections", 64, "--source-address", ",".join(POLITE_ADDRESSES), "--broadcast-tx-method", "sync",
                "--size", 250, "--seed", int(time.time()), "--drain-timeout", "5s", "--threads", 1, "--no-follow",
            ])), folder, METER_NICE))  # fmt: skip
            summary, trouble = offered(others, measured)
            asked = probe.figures() if probe else None
        passed = time.monotonic() - began
        ran, waited = ((now - then) / passed for now, then in zip(sentinel.process.core_seconds(), before))
        if not sentinel.process.running():
            raise Failed(f"sentinel has ended\n{sentinel.process.tail()}")
        return {
            **summary,
            "trouble": trouble,
            "probe": asked,
            "sentinel_cores": ran,
            "sentinel_waited_cores": waited,
            "attack": done_by(attackers, seconds) if attackers else None,
            "attack_seconds": seconds,
            **peak.figures,
        }


def begin(attack, setup, variant, where, seconds, stack, folder):
    """The attackers; none where the node is the attacker."""
    target, port = where
    if variant == "quiet" and not setup.instead:
        return None
    if setup.lie:
        gateway.tell(target.control_port, lie=setup.lie)
        return None
    kind = setup.instead if variant == "quiet" else attack
    command = [sys.executable, hostile.__file__, kind, port, seconds]
    if variant == "one":
        command.append(1)
    return stack.enter_context(Child(attack, command, os.path.join(folder, "attack.log"), ATTACK_NICE))


def offered(others, seconds):
    """What the others had; nothing when the load did not even begin because nobody answered."""
    try:
        summary = others.summary(seconds)
    except Failed as error:
        nothing = {"accepted_per_second": 0, "p99_ms": None, "accept_ms": [], "rejected": 0, "errors": 0}
        return nothing, str(error)[-500:]
    fate, accepted = summary["fate"], summary["latency_ms"]["accept_response"]
    return {
        "accepted_per_second": fate["accepted"] / seconds,
        # Of those that were accepted: throughput tells of the rest.
        "p99_ms": accepted["p99"] if accepted else None,
        "accept_ms": others.accept_ms(),
        "rejected": fate["rejected"],
        "errors": fate["errors"] + fate["unanswered"],
    }, None


def done_by(attackers, seconds):
    """What the attackers did, as they say at their end."""
    attackers.wait(seconds + AHEAD_SECONDS + STARVED_SECONDS)
    attackers.expect(0)
    return json.loads(attackers.tail().splitlines()[-1])


# At the lowest priority an end may take its time.
STARVED_SECONDS = 20


class Peak(Sampler):
    """The most memory of sentinel, of bytes in its own account, of its open files and connections to the node, and
    what the node refused."""

    def __init__(self, stand):
        super().__init__(0.25)
        self.stand = stand
        names = ("rss_bytes", "buffered_bytes", "descriptors", "node_connections", "node_closed", "node_full", "node_mempool")
        self.figures = dict.fromkeys(names, 0)

    def sample(self):
        process = self.stand.sentinel.process
        self._note("rss_bytes", process.rss_bytes())
        self._note("descriptors", process.descriptors())
        connected, closed = connections_at(self.stand.node_port)
        self._note("node_connections", connected)
        self._note("node_closed", closed)
        figures = self.stand.sentinel.figures()
        self._note("buffered_bytes", figures.get("sentinel_buffered_bytes", 0))
        self._note("node_full", figures.get('sentinel_upstream_errors_total{class="full"}', 0))
        self._note("node_mempool", figures.get("sentinel_upstream_mempool_txs", 0))

    def _note(self, name, value):
        self.figures[name] = max(self.figures[name], value)


def line(run):
    asked = f", probe {asked_text([run])}" if run["probe"] else ""
    return (f"{run['kind']}, {run['variant']}, {run['build']}: {run['accepted_per_second']:.0f}/s, p99 {median_ms([run])}, "
            f"{run['rejected']} rejected, {run['errors']} errors{asked}, {run['rss_bytes'] / MEBIBYTE:.0f} MiB, "
            f"{run['buffered_bytes'] / MEBIBYTE:.1f} MiB buffered, {run['descriptors']} files, "
            f"{run['node_connections']} + {run['node_closed']} connections at the node, it refused {run['node_full']:.0f}, "
            f"sentinel {run['sentinel_cores']:.2f} cores and {run['sentinel_waited_cores']:.2f} waited for, attack {run['attack']} {run['trouble'] or ''}")  # fmt: skip


def table(runs, builds):
    """Ratios of runs of the same round, as medians."""
    lines = [
        "| attack | build | connections, pieces sent | others' throughput | refused, unanswered | p99 quiet | one | elsewhere | directly at the node | under it | / quiet | / elsewhere | sentinel's cores: used, waited for "
        "| honest requests beside: quiet → under it | memory / plan | most buffered | open files: quiet, under it | connections at the node: quiet, under it | refused by the node: quiet, under it |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for attack in dict.fromkeys(run["kind"] for run in runs):
        for build in builds:
            of_build = [run for run in runs if (run["kind"], run["build"]) == (attack, build)]
            by_variant = {variant: [run for run in of_build if run["variant"] == variant] for variant in VARIANTS}
            if by_variant["attack"]:
                lines.append(row(attack, build, by_variant))
    return "\n".join(lines)


def row(attack, build, by_variant):
    quiet, elsewhere, under = (by_variant[variant] for variant in ("quiet", "elsewhere", "attack"))
    # Where the node is the limit, what it gives without sentinel is what counts.
    base = by_variant["direct"] or quiet
    throughput = ratio("accepted_per_second", under, base)
    rss = max(run["rss_bytes"] for run in under) / (SETUPS[attack].buffer_mib * MEBIBYTE + REST_BYTES)
    asked, before = share_right(under), share_right(base)
    most_served = SETUPS[attack].most_served
    is_served_more = most_served and any(
        run["attack"]["served"] > MOST_SERVED * most_served * run["attack_seconds"] for run in under
    )
    is_asked_well = asked is None or asked >= LEAST_RIGHT * (before or 1)
    return (
        f"| {attack} | {build} | {done(elsewhere)} elsewhere, {missed(is_served_more)}{done(under)} here | {marked(throughput, throughput and throughput >= LEAST_THROUGHPUT)} "
        f"| {sum(run['rejected'] for run in under)}, {sum(run['errors'] for run in under)} "
        f"| {' | '.join(median_ms(by_variant[variant]) for variant in VARIANTS)} | {p99_beside(under, base)} | {p99_beside(under, elsewhere)} | {cores(under)} "
        f"| {missed(not is_asked_well)}{asked_text(base)} → {asked_text(under)} | {marked(rss, rss <= MOST_RSS)} "
        f"| {most(under, 'buffered_bytes') / MEBIBYTE:.1f} MiB | {most(quiet, 'descriptors'):.0f}, {most(under, 'descriptors'):.0f} "
        f"| {at_node(quiet)}, {missed(connections(under) > connections(quiet) + MOST_CONNECTIONS)}{at_node(under)} | {most(quiet, 'node_full'):,.0f}, {most(under, 'node_full'):,.0f} |"
    )


def most(runs, key):
    return max((run[key] for run in runs), default=0)


def connections(runs):
    return most(runs, "node_connections") + most(runs, "node_closed")


def at_node(runs):
    return f"{most(runs, 'node_connections')} (and {most(runs, 'node_closed')} closed)"


def share_right(runs):
    """Of what was asked beside; none where nothing was."""
    asked = [run["probe"] for run in runs if run["probe"]]
    return sum(each["right"] for each in asked) / sum(each["due"] for each in asked) if asked else None


def asked_text(runs):
    asked = [run["probe"] for run in runs if run["probe"]]
    if not asked:
        return "–"
    slowest = max((each["max_ms"] for each in asked if each["max_ms"] is not None), default=None)
    at_most = "" if slowest is None else f", at most {slowest:.0f} ms"
    return f"{sum(each['right'] for each in asked)} of {sum(each['due'] for each in asked)}{at_most}"


def ratio(key, runs, bases):
    """The median; none without a run of the same round to compare with."""
    bases = {run["round"]: run[key] for run in bases if run[key]}
    ratios = [run[key] / bases[run["round"]] for run in runs if run["round"] in bases and run[key] is not None]
    return spread(ratios)["median"] if ratios else None


def p99_beside(runs, bases):
    """The ratio of the p99 of all rounds with its bounds. Told from the target only where both bounds are on one side of
    it; and where sentinel's threads waited longer for a core than they ran, a miss may be the machine's."""
    ours, theirs = ([ms for run in each for ms in run["accept_ms"]] for each in (runs, bases))
    if not ours or not theirs:
        return "–"
    (seen, low, high), (base, base_low, base_high) = likely(ours), likely(theirs)
    least = low / base_high if low and base_high else 0
    most_ = high / base_low if high and base_low else math.inf
    waited, ran = (sum(run[key] for run in runs) for key in ("sentinel_waited_cores", "sentinel_cores"))
    verdict = ""
    if least > MOST_P99 and waited <= ran:
        verdict = missed(True)
    elif most_ > MOST_P99:
        verdict = "cannot tell "
    return f"{verdict}{seen / base:.2f} x ({least:.2f} to {most_:.2f})"


def cores(runs):
    used, waited = (spread([run[key] for run in runs])["median"] for key in ("sentinel_cores", "sentinel_waited_cores"))
    return f"{used:.2f}, {waited:.2f}"


def median_ms(runs):
    values = spread([run["p99_ms"] for run in runs])
    return f"{values['median']:.1f} ms" if values else "–"


def done(runs):
    """What the attackers came to."""
    counts = [run["attack"] for run in runs if run["attack"]]
    if not counts:
        return "–"
    middle = {key: spread([count[key] for count in counts])["median"] for key in counts[0]}
    served = f", {middle['served']:,.0f} served" if middle["served"] else ""
    return f"{middle['connections']:,.0f} and {middle['sent']:,.0f}{served}"


def marked(ratio, is_met):
    if ratio is None:
        return "–"
    return f"{missed(not is_met)}{ratio:.2f} x"


def missed(is_missed):
    return "**missed** " if is_missed else ""


def arguments():
    names = list(SETUPS)
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("txgen", "sentinel"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--other", metavar="SENTINEL", help="another build of sentinel, in turn with this one")
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--attacks", type=choice(names), default=names, help=f"any of {','.join(names)} [all]")
    parser.add_argument("--variants", type=choice(VARIANTS), default=VARIANTS, help=f"any of {','.join(VARIANTS)} [all]")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is run [2]")
    parser.add_argument("--seconds", type=int, default=8, help="length of a run [8]")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"attacks: {error}")
