"""What a few clients get of a node whose checks wait for its commits, directly and through sentinel. See README.md."""

import argparse
import contextlib
import os
import sys
import tempfile

from node import Node
from process import Failed, exit_on_sigterm, first_line
from rounds import heading, machine, progress, spread, turns, write_json
from sentinel import Sentinel
from txgen import Load

# A block is made of whatever was checked, and while it is committed nothing is.
SETTINGS = {"timeout_commit": '"10ms"', "create_empty_blocks": "false"}
CHECK_SECONDS = 0.001
COMMIT_SECONDS = 0.03
# What each client sends: some seconds' worth.
EACH = 100
MOST = 3_000
PATIENCE_SECONDS = 120
LEAST = 0.97


def main():
    args = arguments()
    exit_on_sigterm()
    variants = {"direct": None, "this": args.sentinel, **({"other": args.other} if args.other else {})}
    versions = {name: first_line([program, "--version"]) for name, program in variants.items() if program}
    result = {"format": "tidegate.peers.few/1", "machine": machine(), "versions": versions, "runs": []}
    heading(result["machine"], versions)
    for clients in args.clients:
        for round_, variant in turns(variants, args.rounds):
            with tempfile.TemporaryDirectory(prefix="few-", dir=args.scratch) as folder:
                run = measure(args, clients, variants[variant], folder)
            result["runs"].append({"clients": clients, "variant": variant, "round": round_, **run})
            write_json(args.json, result)
            progress(f"{clients} clients, {variant}: {run['per_second']:.0f}/s, {run['not_accepted']} not accepted")
    print("\n" + table(result["runs"], list(variants)))
    print(f"\nall runs: {args.json}")
    return 0


def measure(args, clients, program, folder):
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(Node(
            args.cometbft, folder, SETTINGS, check_seconds=CHECK_SECONDS, commit_seconds=COMMIT_SECONDS
        ))  # fmt: skip
        url = node.url
        if program:
            url = stack.enter_context(Sentinel(program, node.url, os.path.join(folder, "sentinel"))).url
        count = min(MOST, EACH * clients)
        load = stack.enter_context(Load("load", args.txgen, map(str, [
            "flood", "--concurrency", clients, "--count", count, "--endpoints", url, "--broadcast-tx-method", "sync",
            "--no-follow", "--threads", 1,
        ]), folder))  # fmt: skip
        summary = load.summary(PATIENCE_SECONDS)
        accepted = summary["fate"]["accepted"]
        return {"per_second": accepted / summary["time"]["offered_s"], "not_accepted": count - accepted}


def table(runs, variants):
    lines = [f"| clients | {' | '.join(f'{variant}, writes/s' for variant in variants)} | {' | '.join(f'{variant} / direct' for variant in variants[1:])} |"]
    lines.append("|" + "---|" * (2 * len(variants)))
    for clients in dict.fromkeys(run["clients"] for run in runs):
        middle = {variant: spread([run["per_second"] for run in runs if (run["clients"], run["variant"]) == (clients, variant)])["median"]
                  for variant in variants}  # fmt: skip
        ratios = [middle[variant] / middle["direct"] for variant in variants[1:]]
        lines.append(f"| {clients} | {' | '.join(f'{middle[variant]:.0f}' for variant in variants)} "
                     f"| {' | '.join(('' if ratio >= LEAST else '**missed** ') + f'{ratio:.2f} x' for ratio in ratios)} |")  # fmt: skip
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(prog="few", description=__doc__)
    for program in ("cometbft", "txgen", "sentinel"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--other", metavar="SENTINEL", help="another build of sentinel, in turn with this one")
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--clients", type=lambda text: [int(part) for part in text.split(",")], default=[1, 5, 8, 64],
                        help="how many at once, each one write at a time, with commas between them [1,5,8,64]")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=2, help="how often each is run [2]")
    parser.add_argument("--scratch", help="where homes and run folders are made and removed [the system's]")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"few: {error}")
