"""What a real CometBFT commits under a flood, with and without sentinel: in turn, repeated. See README.md."""

import argparse
import contextlib
import os
import sys
import tempfile
import time

import report
import trial
from process import Failed, exit_on_sigterm, first_line
from rounds import choice, heading, machine, progress, turns, write_json

QUOTA_PERIOD_US = 10_000
# How often the control group is tried to be removed, a tenth of a second apart.
REMOVAL_TRIES = 50
# Beside the window itself: start, preflight, drain, settling, clean-up.
SECONDS_BESIDE = 40
# Another node each, or another load on it: a row of the table in docs/experiments.md.
ROWS = {
    "default": {},
    "fast-blocks": {"block_interval": "200ms"},
    "small-mempool": {"mempool": 500, "rate": 5_000},
    "foreign-flood": {"foreign": 5_000, "rate": 5_000},
    "two-sentinels": {"sentinels": 2, "rate": 10_000},
    "four-validators": {"validators": 4, "rate": 1_000},
    "slow-checks": {"check_seconds": 0.003, "rate": 1_000},
    "blocks-by-bytes": {"block_bytes": 500_000, "rate": 5_000},
    "large-transactions": {"size": 200_000, "rate": 200},
    "no-empty-blocks": {"empty_blocks": False},
    "one-core": {"cpus": {0}},
    "half-a-core": {"cpus": {0}, "quota": 0.5},
}

# As txgen ends when it is interrupted.
INTERRUPTED = 130


def main():
    args = arguments()
    exit_on_sigterm()
    # Everything that is started inherits both.
    if args.cpus:
        os.sched_setaffinity(0, args.cpus)
    with quota(args.quota) if args.quota else contextlib.nullcontext():
        return compare(args)


def compare(args):
    trial.VARIANTS["fixed"][3] = str(args.fixed)
    result = {
        "format": "tidegate.peers.overload/1",
        "machine": machine(),
        "versions": versions(args),
        "settings": {
            "rounds": args.rounds, "seconds": args.seconds, "rate": args.rate, "size": args.size,
            "block_interval": args.block_interval, "mempool": args.mempool, "foreign": args.foreign,
            "sentinels": args.sentinels, "validators": args.validators, "check_seconds": args.check_seconds,
            "block_bytes": args.block_bytes, "empty_blocks": args.empty_blocks, "quota": args.quota, "row": args.row, "method": args.method, "cpus": sorted(os.sched_getaffinity(0)), "flood_addresses": trial.FLOOD_ADDRESSES,
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
    parser.add_argument("--row", choices=ROWS, default="default", metavar="ROW",
                        help=f"what other options default to: {', '.join(ROWS)} [default]")  # fmt: skip
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
    parser.add_argument("--block-bytes", type=int, metavar="BYTES", help="block.max_bytes of the chain")
    parser.add_argument("--no-empty-blocks", dest="empty_blocks", action="store_false",
                        help="create_empty_blocks = false")  # fmt: skip
    parser.add_argument("--validators", type=int, default=1, help="of the chain, all on this machine [1]")
    parser.add_argument("--check-seconds", type=float, metavar="SECONDS",
                        help="an application that takes so long for each check, in place of the kvstore")  # fmt: skip
    parser.add_argument("--foreign", type=int, default=0, metavar="RATE",
                        help="per second, straight at the node beside all variants [0]")  # fmt: skip
    parser.add_argument("--sentinels", type=int, default=1, help="in front of the node [1]")
    parser.add_argument("--trace", action="store_true", help="keep what sentinel's pace says of itself, five times a second")
    parser.add_argument("--cpus", type=cpus, metavar="LIST",
                        help="run node, sentinel and generators on these, such as 0 or 0,1 [all]")  # fmt: skip
    parser.add_argument("--quota", type=float, metavar="CORES",
                        help="a control group with so many cores for all of them; needs root")  # fmt: skip
    parser.add_argument("--scratch", help="where homes and run folders are made and removed [the system's]")
    parser.set_defaults(**ROWS[parser.parse_args().row])
    args = parser.parse_args()
    if not args.sentinel and any(trial.VARIANTS[name] is not None for name in args.variants):
        parser.error("only the variant direct can do without sentinel")
    if "other" in args.variants and not args.other:
        parser.error("the variant other needs --other")
    return args


@contextlib.contextmanager
def quota(cores):
    """Moves this process into a control group, of version 2 or 1, in periods of 10 ms; removed afterwards."""
    root, group = limited(int(cores * QUOTA_PERIOD_US))
    try:
        yield
    finally:
        # Whatever was started has ended; the group takes a moment to notice.
        write(root, "cgroup.procs", os.getpid())
        for _ in range(REMOVAL_TRIES):
            with contextlib.suppress(OSError):
                os.rmdir(group)
                break
            time.sleep(0.1)


def limited(limit):
    """The hierarchy and the group in it that this process is in from now on."""
    for root, files in (
        ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": QUOTA_PERIOD_US, "cpu.cfs_quota_us": limit}),
        ("/sys/fs/cgroup", {"cpu.max": f"{limit} {QUOTA_PERIOD_US}"}),
    ):
        group = os.path.join(root, f"tidegate-overload-{os.getpid()}")
        with contextlib.suppress(OSError):
            os.makedirs(group)
            for name, value in {**files, "cgroup.procs": os.getpid()}.items():
                write(group, name, value)
            return root, group
        with contextlib.suppress(OSError):
            os.rmdir(group)
    raise Failed("no control group with a CPU quota can be made: run as root, or without --quota")


def write(group, name, value):
    with open(os.path.join(group, name), "w", encoding="ascii") as file:
        file.write(str(value))


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
