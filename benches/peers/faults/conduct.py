"""Whether every write has one fate, and nothing grows, while a node fails and clients attack. See README.md."""

import argparse
import collections
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from statistics import median

import crowd
import gateway
import hostile
import schedule
from honest import Clients
from nodes import BuiltIn, Chains, Real
from process import Child, Failed, exit_on_sigterm, first_line, free_port
from rounds import heading, machine, progress, write_json
from sentinel import Sampler, Sentinel
from sockets import connections_at
from upkeep import BUFFER_BYTES, Upkeep

# Before the first fault, and after the last.
CALM_SECONDS = 10
# What was accepted comes into a block, and what waits has its end.
SETTLE_SECONDS = 40
ATTACK_NICE = 19
MEBIBYTE = 1 << 20
# The last quarter against the first one: so many times as much, and so much beyond.
MOST_GROWTH = 1.25
# What the documentation plans for: the buffers, what is retained, and the process. Attacks included.
PLAN_BYTES = (256 + 32 + 64) * MEBIBYTE
# With the buffers of a soak, of which a quarter at most is retained.
SOAK_BYTES = BUFFER_BYTES + BUFFER_BYTES // 4 + 64 * MEBIBYTE
# The buffers are at their cap.
FULL_SHARE = 0.9
MOST_RSS = 1.25
# What an attack held has gone so long after it.
AFTER_SECONDS = 2
SLACK = {"rss_bytes": 16 * MEBIBYTE, "descriptors": 64, "connections": 16}
# Acknowledged so long before another chain: it may have gone with the first one.
CHAIN_SECONDS = 60


def main():
    args = arguments()
    exit_on_sigterm()
    prefix = f"honest{args.seed}t{int(time.time())}n".encode()
    result = {
        "format": "tidegate.peers.faults/1",
        "machine": machine(),
        "versions": {name: first_line([getattr(args, name), "--version"]) for name in ("txgen", "sentinel")},
        "settings": {"seconds": args.seconds, "seed": args.seed, "real": args.real, "soak": args.soak},
    }
    heading(result["machine"], result["versions"])
    began = CALM_SECONDS
    weights = schedule.WEIGHTS | (schedule.UPKEEP if args.soak else {})
    attacks = [] if args.soak else schedule.attacks(args.seed, began, began + args.seconds)
    plan = schedule.faults(args.seed, began, began + args.seconds, weights), attacks
    print(f"seed {args.seed}: {len(plan[0])} faults, {len(plan[1])} attacks in {args.seconds} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="faults-", dir=args.scratch) as folder:
        measured = measure(args, *plan, prefix, folder)
    result.update(measured)
    write_json(args.json, result)
    print("\n" + report(result))
    print(f"\nall writes that are not in order, and the samples: {args.json}")
    return 0 if not result["violations"] and not result["wrongs"] else 1


def measure(args, faults, attacks, prefix, folder):
    node = Real(args.cometbft, folder) if args.real else BuiltIn(args.txgen, folder)
    with contextlib.ExitStack() as stack:
        node.start()
        stack.callback(node.stop)
        port, control = free_port(), free_port()
        command = [sys.executable, gateway.__file__, port, node.port, control]
        stack.enter_context(Child("gateway", command, os.path.join(folder, "gateway.log"))).wait_port(port)
        upkeep = Upkeep(folder, args.sentinel) if args.soak else None
        program, flags = (upkeep.program, ("--config", upkeep.config)) if upkeep else (args.sentinel, ())
        sentinel = stack.enter_context(Sentinel(program, f"http://127.0.0.1:{port}", os.path.join(folder, "sentinel"), *flags))
        began = time.monotonic(), time.time()
        sizes = stack.enter_context(Sizes(sentinel, port))
        chains = stack.enter_context(Chains(node, prefix))
        clients = Clients(sentinel.port, prefix, crowd.context() if args.soak else None)
        visitors = Child("crowd", [sys.executable, crowd.__file__, sentinel.port, CALM_SECONDS + args.seconds, args.seed, args.clients],
                         os.path.join(folder, "crowd.log"), ATTACK_NICE) if args.soak else contextlib.nullcontext()  # fmt: skip
        stack.enter_context(visitors)
        with clients:
            done = threading.Event()
            attackers = threading.Thread(target=attack, args=(attacks, sentinel.port, began[0], done, folder), daemon=True)
            attackers.start()
            replaced = []
            try:
                for fault in faults:
                    wait_until(began[0] + fault.at)
                    progress(str(fault))
                    cause(fault, node, chains, control, upkeep, sentinel)
                    if fault.kind == "another chain":
                        replaced.append(time.time())
                    if not sentinel.process.running():
                        raise Failed(f"sentinel has ended\n{sentinel.process.tail()}")
                wait_until(began[0] + CALM_SECONDS + args.seconds)
            finally:
                done.set()
                attackers.join()
            time.sleep(CALM_SECONDS)
        time.sleep(SETTLE_SECONDS)
        if not sentinel.process.running():
            raise Failed(f"sentinel has ended\n{sentinel.process.tail()}")
        chains.read_to_end()
        metrics = {name: value for name, value in sentinel.figures().items() if value and "bucket" not in name}
        return {
            "faults": collections.Counter(fault.kind for fault in faults),
            "attacks": collections.Counter(attack.kind for attack in attacks),
            **judge(clients.writes, chains.places, replaced, began[1]),
            "blocks": chains.height,
            "chains": chains.chain,
            "txs": chains.txs,
            "wrongs": upkeep.wrongs if upkeep else [],
            "crowd": json.loads(visitors.tail().splitlines()[-1]) if args.soak else None,
            "plan_bytes": SOAK_BYTES if args.soak else PLAN_BYTES,
            "full_seconds": sum(sample["buffered"] >= FULL_SHARE for sample in sizes.samples),
            "sizes": sizes.summary(args.seconds, attacks),
            "samples": sizes.samples,
            "metrics": metrics,
        }


def cause(fault, node, chains, control, upkeep, sentinel):
    """One fault from its begin to its end."""
    match fault.kind:
        case "killed":
            node.kill(fault.seconds)
        case "stopped":
            os.kill(node.process.pid, signal.SIGSTOP)
            time.sleep(fault.seconds)
            os.kill(node.process.pid, signal.SIGCONT)
        case "slow":
            gateway.tell(control, delay_ms=fault.delay_ms)
            time.sleep(fault.seconds)
            gateway.tell(control, delay_ms=0)
        case "lying":
            gateway.tell(control, lie=fault.lie)
            time.sleep(fault.seconds)
            gateway.tell(control, lie=None)
        case "another chain":
            chains.replace()
        case "certificates":
            upkeep.replace_certificates(sentinel)
        case "reload":
            upkeep.reload(sentinel)
        case "disk full":
            upkeep.fill_disk(sentinel, fault.seconds)


def attack(attacks, port, began, done, folder):
    """From a thread of its own: one hostile process after another."""
    for each in attacks:
        if done.wait(max(0.0, began + each.at - time.monotonic())):
            return
        command = [sys.executable, hostile.__file__, each.kind, port, each.seconds, each.count]
        with Child(each.kind, command, os.path.join(folder, "attack.log"), ATTACK_NICE):
            progress(f"{each.at:.0f} s: {each.count} × {each.kind} for {each.seconds:.0f} s")
            if done.wait(each.seconds + 1):
                return


def wait_until(instant):
    time.sleep(max(0.0, instant - time.monotonic()))


def judge(writes, places, replaced, began):
    """Answers beside blocks. A violation is what no fault of a node excuses."""
    table = collections.Counter()
    violations, lost, others = [], [], []
    for write in writes:
        found = places.get(write.tx, [])
        chains = collections.Counter(chain for chain, _ in found)
        where = "in no block" if not found else "twice" if max(chains.values()) > 1 else "in two chains" if len(chains) > 1 else "in one block"
        table[f"{write.method} {write.answer or 'unanswered'}", where] += 1
        entry = {
            "tx": write.tx.decode(), "method": write.method, "transport": write.transport, "second": round(write.sent - began, 1),
            "answered": round(write.answered - began, 1), "answer": write.answer, "text": write.text, "places": found,
        }  # fmt: skip
        if write.answer not in ("accepted", "committed"):
            others.append(entry)
        if where == "twice" or write.answer in ("", "unanswered"):
            violations.append(entry)
        elif write.answer in ("refused", "not forwarded") and found:
            violations.append(entry)
        elif write.answer == "committed" and not found:
            violations.append(entry)
        elif write.answer == "accepted" and not found:
            entry["before_another_chain"] = any(0 <= at - write.sent <= CHAIN_SECONDS for at in replaced)
            lost.append(entry)
    return {
        "writes": len(writes),
        "fates": [{"answer": answer, "where": where, "count": count} for (answer, where), count in sorted(table.items())],
        "violations": violations,
        "acknowledged_and_lost": lost,
        # Refused, broken off, unknown: with what was said.
        "others": others,
    }


class Sizes(Sampler):
    """What could grow, once a second."""

    def __init__(self, sentinel, node_port):
        super().__init__(1)
        self.sentinel, self.node_port = sentinel, node_port
        self.began = time.monotonic()
        self.samples = []

    def sample(self):
        process, figures = self.sentinel.process, self.sentinel.figures()
        capacity = figures.get("sentinel_buffer_capacity_bytes", 1)
        self.samples.append({
            "second": round(time.monotonic() - self.began, 1),
            "rss_bytes": process.rss_bytes(),
            "descriptors": process.descriptors(),
            "connections": connections_at(self.node_port)[0],
            "buffered": figures.get("sentinel_buffered_bytes", 0) / capacity,
        })  # fmt: skip

    def summary(self, seconds, attacks):
        """Quarters are compared by the seconds in which nobody attacked: attacks differ."""
        quarter, end = seconds / 4, CALM_SECONDS + seconds
        return {
            name: {
                "idle_before": median(self._between(name, 0, CALM_SECONDS, [])),
                "first_quarter": median(first := self._between(name, CALM_SECONDS, CALM_SECONDS + quarter, attacks)),
                "last_quarter": median(last := self._between(name, end - quarter, end, attacks)),
                "most": max(sample[name] for sample in self.samples),
                "idle_after": self.samples[-1][name],
                "is_flat": median(last) <= MOST_GROWTH * median(first) + SLACK[name],
            }
            for name in SLACK
        }

    def _between(self, name, begin, end, attacks):
        within = [sample for sample in self.samples if begin <= sample["second"] < end]
        quiet = [sample for sample in within
                 if not any(each.at <= sample["second"] < each.at + each.seconds + AFTER_SECONDS for each in attacks)]  # fmt: skip
        return [sample[name] for sample in quiet or within] or [0]


def report(result):
    lost = result["acknowledged_and_lost"]
    excused = sum(entry["before_another_chain"] for entry in lost)
    by_method = collections.Counter(entry["method"] for entry in lost)
    lines = [
        f"{result['writes']} honest writes over {result['chains']} chains with {result['txs']:,} transactions; "
        f"faults: {listed(result['faults'])}; attacks: {listed(result['attacks'])}.",
        "",
        "| answered | in one block | in no block | in two chains | twice |",
        "|---|---|---|---|---|",
    ]
    counts = {(row["answer"], row["where"]): row["count"] for row in result["fates"]}
    for answer in sorted({answer for answer, _ in counts}):
        cells = (str(counts.get((answer, where), 0)) for where in ("in one block", "in no block", "in two chains", "twice"))
        lines.append(f"| {answer} | {' | '.join(cells)} |")
    lines += [
        "",
        f"{missed(result['violations'])}without exactly one fate: {len(result['violations'])} (target 0)",
        f"acknowledged and lost: {len(lost)} ({listed(by_method) or 'none'}), {excused} of them within {CHAIN_SECONDS} s before another chain",
        "",
        "| sentinel | before | first quarter, without attacks | last quarter, without attacks | most | at the end | flat |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, figures in result["sizes"].items():
        unit = MEBIBYTE if name == "rss_bytes" else 1
        cells = " | ".join(f"{figures[key] / unit:.0f}" for key in ("idle_before", "first_quarter", "last_quarter", "most", "idle_after"))
        title = {"rss_bytes": "resident memory, MiB", "descriptors": "open files", "connections": "connections at the node"}[name]
        lines.append(f"| {title} | {cells} | {'yes' if figures['is_flat'] else '**missed**'} |")
    rss = result["sizes"]["rss_bytes"]["most"] / result["plan_bytes"]
    if result["crowd"]:
        lines += [
            "",
            f"{result['crowd']['clients']:,} clients came: {listed(result['crowd']['visits'])}.",
            f"Buffers at {FULL_SHARE:.0%} of their bound or above: in {result['full_seconds']} of {len(result['samples'])} s.",
            f"{missed(result['wrongs'])}certificates, reloads, disk: {'; '.join(result['wrongs']) or 'as they should be'}",
        ]
    lines += ["", f"{missed(rss > MOST_RSS)}resident memory at its most: {rss:.2f} x the plan (target {MOST_RSS} x)"]
    return "\n".join(lines)


def listed(counts):
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def missed(is_missed):
    return "**missed** " if is_missed else ""


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("txgen", "sentinel"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--cometbft", help=argparse.SUPPRESS)
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--seconds", type=int, default=3600, help="length of the faults [3600]; 120 is the least")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule [1]")
    parser.add_argument("--soak", action="store_true",
                        help="in place of attacks a crowd over TLS at full buffers; certificates, reloads, a full disk besides")  # fmt: skip
    parser.add_argument("--clients", type=int, default=100_000, help="addresses of the crowd [100000]")
    parser.add_argument("--real", action="store_true", help="CometBFT in place of the built-in node")
    parser.add_argument("--scratch", help="where homes and logs are made and removed [the system's]")
    args = parser.parse_args()
    if args.seconds < 120:
        parser.error("--seconds: at least 120, or not every fault comes")
    return args


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"faults: {error}")
