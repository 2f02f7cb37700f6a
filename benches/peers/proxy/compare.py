"""sentinel beside nginx and haproxy on one upstream: in turn, repeated, forwards and backwards. See README.md."""

import argparse
import subprocess
import sys
import tempfile

import report
from load import Loads
from measures import Measures
from process import Failed, exit_on_sigterm
from proxies import Proxies, Sink
from rounds import heading, machine, progress, turns, warn, write_json

PROXIES = ["direct", "nginx", "haproxy", "sentinel"]
ONLY = ["forward", "latency", "polite", "refuse", "memory"]
# As txgen ends when it is interrupted.
INTERRUPTED = 130


def main():
    args = arguments()
    exit_on_sigterm()
    result = {
        "format": "tidegate.peers.proxy/1",
        "machine": machine(),
        "versions": versions(args),
        "settings": {key: getattr(args, key) for key in SETTINGS},
        "runs": {},
    }
    heading(result["machine"], result["versions"])
    code = 0
    with tempfile.TemporaryDirectory(prefix="proxy-") as folder, Sink(args.sink, folder) as sink:
        measures = Measures(args, Proxies(args, sink, folder), Loads(args, folder))
        try:
            for measure in args.only:
                result["runs"][measure] = []
                for run in measure_rounds(args, plan(args, measures, measure)):
                    result["runs"][measure].append(run)
                    progress(f"{measure}, round {run['round']}, {run['name']}: {report.line(run)}")
        except KeyboardInterrupt:
            progress("interrupted: everything is stopped; what was measured follows")
            code = INTERRUPTED
    result["summary"] = report.summary(result["runs"])
    report.show(result)
    write_json(args.json, result)
    print(f"\nall runs: {args.json}")
    return code


def plan(args, measures, measure):
    """The runs of one round, by name."""
    names = args.proxies
    with_sentinel = "sentinel" in names
    if measure == "forward":
        runs = {name: lambda name=name: measures.forward(name) for name in names}
        return runs | ({"sentinel ws": measures.forward_ws} if with_sentinel else {})
    if measure == "latency":
        return {name: lambda name=name: measures.latency(name) for name in names}
    if measure == "polite":
        return {
            f"{name} {load}": lambda name=name, load=load: measures.polite(name, load)
            for name in names
            for load in ("alone", "flooded")
        }
    if not with_sentinel:
        warn(f"{measure} measures sentinel alone")
        return {}
    if measure == "refuse":
        return {
            "forwarding": lambda: measures.forward("sentinel"),
            "refusing": measures.refuse,
            "forwarding ws": measures.forward_ws,
            "flooded": lambda: measures.flooded("http"),
            "flooded ws": lambda: measures.flooded("ws"),
        }
    return {"sentinel": measures.memory}


def measure_rounds(args, order):
    for round_, name in turns(order, args.rounds):
        run = order[name]()
        run.update(name=name, round=round_)
        if run.get("errors"):
            warn(f"{name}: {run['errors']} requests failed")
        yield run


def versions(args):
    def first(command):
        output = subprocess.run(command, capture_output=True, text=True, check=False)
        return (output.stdout or output.stderr).splitlines()[0].strip()

    found = {
        "nginx": first([args.nginx, "-v"]).removeprefix("nginx version: "),
        "haproxy": first([args.haproxy, "-v"]).split(" - ")[0],
        "wrk": first([args.wrk, "-v"]).split(" Copyright")[0],
        "txgen": first([args.txgen, "--version"]),
    }
    if args.sentinel:
        found["sentinel"] = first([args.sentinel, "--version"])
    return found


SETTINGS = [
    "rounds", "seconds", "connections", "size", "polite_seconds", "flat_seconds", "ws_count", "proxies", "only",
]  # fmt: skip


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("nginx", "haproxy", "wrk", "txgen", "sink"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--sentinel", help=argparse.SUPPRESS)
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--only", type=choice(ONLY), default=ONLY, help=f"any of {','.join(ONLY)} [all]")
    parser.add_argument("--proxies", type=choice(PROXIES), default=PROXIES,
                        help=f"any of {','.join(PROXIES)} [all]")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=4, help="how often each is measured [4]")
    parser.add_argument("--seconds", type=int, default=8, help="length of a run [8]")
    parser.add_argument("--connections", type=int, default=64, help="of wrk [64]")
    parser.add_argument("--size", type=int, default=250, help="bytes of a transaction [250]")
    parser.add_argument("--polite-seconds", type=int, default=30, help="length of a run of the polite client [30]")
    parser.add_argument("--flat-seconds", type=int, default=60, help="how long memory is watched [60]")
    parser.add_argument("--ws-count", type=int, default=500_000, help="transactions of a WebSocket flood [500000]")
    args = parser.parse_args()
    if not args.sentinel and "sentinel" in args.proxies:
        parser.error("sentinel is not built; --proxies direct,nginx,haproxy does without")
    # A flood ends by count: how long it may take.
    args.ws_seconds = 60
    return args


def choice(known):
    def parse(text):
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {unknown[0]}; there are {', '.join(known)}")
        return chosen

    return parse


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"a run failed: {error}")
