"""What a real CometBFT commits under a flood, with and without sentinel: in turn, repeated. See README.md."""

import argparse
import os
import sys
import tempfile
import time

import report
import trial
from process import Failed, exit_on_sigterm, first_line
from rounds import choice, heading, machine, progress, turns, write_json

# Beside the window itself: start, preflight, drain, settling, clean-up.
SECONDS_BESIDE = 40
# As txgen ends when it is interrupted.
INTERRUPTED = 130


def main():
    args = arguments()
    exit_on_sigterm()
    if args.cpus:
        # Everything that is started inherits it.
        os.sched_setaffinity(0, args.cpus)
    trial.VARIANTS["fixed"][3] = str(args.fixed)
    result = {
        "format": "tidegate.peers.overload/1",
        "machine": machine(),
        "versions": versions(args),
        "settings": {
            "rounds": args.rounds, "seconds": args.seconds, "rate": args.rate, "size": args.size,
            "block_interval": args.block_interval, "mempool": args.mempool, "foreign": args.foreign,
            "sentinels": args.sentinels, "method": args.method, "cpus": sorted(os.sched_getaffinity(0)), "flood_addresses": trial.FLOOD_ADDRESSES,
            "flood_connections": trial.FLOOD_CONNECTIONS, "polite_rate": trial.POLITE_RATE,
            "variants": {name: trial.VARIANTS[name] for name in args.variants},
        },
        "runs": [],
    }  # fmt: skip
    heading(result["machine"], result["versions"])
    runs = args.rounds * len(args.variants)
    minutes = runs * (args.seconds + SECONDS_BESIDE) / 60
    print(f"{runs} runs of {args.seconds} s: about {minutes:.0f} minutes", flush=True)
    code = 0
    try:
        measure(args, result)
    except KeyboardInterrupt:
        progress("interrupted: everything is stopped; what was measured follows")
        code = INTERRUPTED
    if result["runs"]:
        print("\n" + report.tables(result))
        write_json(args.json, result)
        print(f"\nall runs: {args.json}")
    return code


def measure(args, result):
    for at, (round_, variant) in enumerate(turns(args.variants, args.rounds), start=1):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="overload-", dir=args.scratch) as folder:
            run = trial.run(args, variant, folder)
        run.update(variant=variant, round=round_, seconds=args.seconds, wall_seconds=time.monotonic() - began)
        result["runs"].append(run)
        # After each run, so that nothing measured is lost.
        write_json(args.json, result)
        progress(f"{at}/{args.rounds * len(args.variants)} round {round_}, {report.line(run)}")


def versions(args):
    found = {
        "cometbft": "cometbft " + first_line([args.cometbft, "version"]),
        "txgen": first_line([args.txgen, "--version"]),
    }
    for program in ("sentinel", "other"):
        if getattr(args, program):
            found[program] = first_line([getattr(args, program), "--version"])
    return found


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("cometbft", "txgen"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--sentinel", help=argparse.SUPPRESS)
    parser.add_argument("--other", metavar="SENTINEL", help="another build of sentinel, for the variant other")
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--variants", type=choice(trial.VARIANTS), default=[name for name in trial.VARIANTS if name != "other"],
                        help=f"any of {','.join(trial.VARIANTS)} [all but other]")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=2, help="how often each is run [2]")
    parser.add_argument("--seconds", type=int, default=280, help="length of the flood [280]")
    parser.add_argument("--rate", type=int, default=20_000, help="of the flood, per second [20000]")
    parser.add_argument("--size", type=int, default=250, help="bytes of a transaction [250]")
    parser.add_argument("--method", choices=("async", "sync"), default="async",
                        help="the flood's broadcast call [async]")  # fmt: skip
    parser.add_argument("--fixed", type=int, default=4_000, metavar="RATE",
                        help="--max-req of the variant fixed [4000]")  # fmt: skip
    parser.add_argument("--block-interval", metavar="DURATION", help="the node's timeout_commit, such as 200ms")
    parser.add_argument("--mempool", type=int, metavar="TXS", help="the node's mempool.size")
    parser.add_argument("--foreign", type=int, default=0, metavar="RATE",
                        help="per second, straight at the node beside all variants [0]")  # fmt: skip
    parser.add_argument("--sentinels", type=int, default=1, help="in front of the node [1]")
    parser.add_argument("--trace", action="store_true", help="keep what sentinel's pace says of itself, five times a second")
    parser.add_argument("--cpus", type=cpus, metavar="LIST",
                        help="run node, sentinel and generators on these, such as 0 or 0,1 [all]")  # fmt: skip
    parser.add_argument("--scratch", help="where homes and run folders are made and removed [the system's]")
    args = parser.parse_args()
    if not args.sentinel and any(trial.VARIANTS[name] is not None for name in args.variants):
        parser.error("only the variant direct can do without sentinel")
    if "other" in args.variants and not args.other:
        parser.error("the variant other needs --other")
    return args


def cpus(text):
    try:
        chosen = {int(number) for number in text.split(",")}
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of CPU numbers") from None
    missing = chosen - os.sched_getaffinity(0)
    if missing:
        raise argparse.ArgumentTypeError(f"there is no CPU {min(missing)} here")
    return chosen


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"a run failed: {error}")
