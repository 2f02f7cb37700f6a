"""txgen beside wrk, oha and k6 on one sink: in turn, repeated, forwards and backwards. See README.md."""

import argparse
import base64
import json
import os
import sys
import tempfile

import report
from generators import Generators
from process import Failed
from rounds import choice, heading, machine, progress, turns, warn, write_json
from sink import Sink

GENERATORS = ["txgen", "wrk", "oha", "k6", "ticks"]

# Transactions in flight on each WebSocket connection of a flood.
WS_IN_FLIGHT = 32
# txgen's own choice of connections over WebSocket.
WS_CONNECTIONS = 4
FEW = f"ws on {WS_CONNECTIONS}"
# Sharing few cores with the sink, oha is faster on one thread than as it comes.
OHA_ONE_THREAD = ("--worker-threads", "1")
# Every tool has opened its connections by then.
SKIP_SECONDS = 1
PILOT_SECONDS = 1
# A generator's own count may differ from the sink's by what was under way at the end.
WITNESS_TOLERANCE = 0.01


def main():
    args = arguments()
    body = request_body(args.size)
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch, Sink(args.sink, scratch) as sink:
        generators = Generators(args, sink, body, scratch)
        result = {
            "format": "tidegate.peers.generate/1",
            "machine": machine(),
            "versions": generators.versions(),
            "settings": {
                "rounds": args.rounds, "seconds": args.seconds, "size": args.size,
                "request_bytes": len(body), "ws_in_flight_per_connection": WS_IN_FLIGHT,
            },
        }  # fmt: skip
        heading(result["machine"], result["versions"])
        print(f"{args.rounds} rounds, {args.size} bytes a transaction, {len(body)} bytes a request")
        if args.only != "precision":
            result["peak"] = {
                str(connections): measure_peak(args, generators, sink, connections)
                for connections in args.connections
            }
        if args.only != "peak":
            result["precision"] = measure_precision(args, generators, sink)
    result["machine"]["load_after"] = os.getloadavg()[0]
    write_json(args.json, result)
    print(f"\nall runs: {args.json}")


def measure_peak(args, generators, sink, connections):
    threads = best_threads(generators.wrk_peak, connections) if "wrk" in args.generators else None
    order = peak_order(args, generators, connections, threads)
    runs = []
    for round_, name in turns(order, args.rounds):
        run = witnessed(sink, order[name])[0]
        run.update(generator=name, round=round_)
        if abs(run["seen"] - run["requests"]) > max(connections, run["requests"] * WITNESS_TOLERANCE):
            warn(f"{name} counts {run['requests']}, the sink saw {run['seen']}")
        if run["errors"]:
            warn(f"{name}: {run['errors']} requests failed")
        runs.append(run)
        progress(f"round {round_}, {connections} connections, {name}: {run['rate']:,.0f}/s")
    summary = report.peak_summary(runs)
    report.print_peak(connections, summary)
    if threads:
        print(f"  wrk with {threads} thread(s), with which it was fastest in a pilot")
    return {"wrk_threads": threads, "summary": summary, "runs": runs}


def peak_order(args, generators, connections, wrk_threads):
    """The runs of one round, by name."""
    order = {}
    if "wrk" in args.generators:
        order["wrk"] = lambda: generators.wrk_peak(connections, args.seconds, wrk_threads)
    if "oha" in args.generators:
        order["oha"] = lambda: generators.oha_peak(connections, args.seconds)
        order["oha 1 thread"] = lambda: generators.oha_peak(connections, args.seconds, OHA_ONE_THREAD)
    floods = {
        "http": ("http", connections, connections),
        "ws": ("ws", connections, connections * WS_IN_FLIGHT),
        FEW: ("ws", WS_CONNECTIONS, WS_CONNECTIONS * WS_IN_FLIGHT),
    }
    for name, flood in floods.items():
        count = int(args.seconds * pilot(generators, args.txgen, flood))
        for whose, program in txgens(args).items():
            order[f"{whose} {name}"] = lambda program=program, flood=flood, count=count: (
                generators.txgen_flood(program, *flood, count)
            )
    return order


def txgens(args):
    """The txgen of this commit, and of another one if there is one."""
    return {"txgen": args.txgen} | ({"other": args.other} if args.other else {})


def measure_precision(args, generators, sink):
    rate, connections, seconds = args.rate, args.precision_connections, args.precision_seconds
    order = {
        whose: lambda program=program: generators.txgen_constant(program, rate, connections, seconds)
        for whose, program in txgens(args).items()
    }
    if "ticks" in args.generators:
        order["ticks"] = lambda: generators.ticks_constant(rate, connections, seconds)
    if "k6" in args.generators:
        order["k6"] = lambda: generators.k6_constant(rate, connections, seconds)
    if "oha" in args.generators:
        order["oha"] = lambda: generators.oha_constant(rate, connections, seconds)
    runs = []
    for round_, name in turns(order, args.rounds):
        run, counts = witnessed(sink, order[name])
        run.update(counts.against(rate, seconds, SKIP_SECONDS), generator=name, round=round_)
        runs.append(run)
        progress(
            f"round {round_}, {rate}/s, {name}: error {abs(run['rate_error']):.4%},"
            f" worst window {run['worst_window']:.2f} x, CPU {run['cpu_share']:.1%}"
        )
    summary = report.precision_summary(runs)
    report.print_precision(rate, connections, seconds, summary)
    return {"rate": rate, "connections": connections, "seconds": seconds, "summary": summary, "runs": runs}


def witnessed(sink, generate):
    """Runs a generator; its figures with what the sink saw and what that cost the sink."""
    sink.start_counting()
    before = sink.cpu_seconds()
    run = generate()
    sink_cpu = sink.cpu_seconds() - before
    counts = sink.counts()
    run["seen"] = counts.total()
    run["sink_cores"] = sink_cpu / run.get("seconds", run.get("wall_seconds"))
    return run, counts


def best_threads(peak, connections):
    """The peer gets the thread count with which it is fastest here."""
    cores = os.cpu_count()
    candidates = sorted({1, max(1, cores // 2), cores})
    return max(candidates, key=lambda threads: peak(connections, PILOT_SECONDS, threads)["rate"])


def pilot(generators, program, flood):
    """Requests per second of a flood: it ends by count, so its length has to be estimated."""
    first = generators.txgen_flood(program, *flood, 20_000)
    count = max(20_000, int(first["rate"] * PILOT_SECONDS))
    return generators.txgen_flood(program, *flood, count)["rate"]


def request_body(size):
    """As long as txgen's in the middle of a run; the bytes do not matter to the sink."""
    tx = base64.b64encode(bytes(at * 7 % 256 for at in range(size))).decode()
    request = {"jsonrpc": "2.0", "id": 123456, "method": "broadcast_tx_sync", "params": {"tx": tx}}
    return json.dumps(request, separators=(",", ":"))


def arguments():
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    for program in ("txgen", "sink"):
        parser.add_argument(f"--{program}", required=True, help=argparse.SUPPRESS)
    for peer in ("wrk", "oha", "k6", "ticks"):
        parser.add_argument(f"--{peer}", help=argparse.SUPPRESS)
    parser.add_argument("--other", metavar="PATH",
                        help="a txgen of another commit, measured beside this one")  # fmt: skip
    parser.add_argument("--generators", type=choice(GENERATORS), default=GENERATORS,
                        help=f"any of {','.join(GENERATORS)}; txgen always runs [all]")  # fmt: skip
    parser.add_argument("--json", required=True, help="where all figures go")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured [5]")
    parser.add_argument("--seconds", type=int, default=5, help="length of a peak run [5]")
    parser.add_argument("--connections", type=whole_numbers, default=[16, 64], help="of peak runs [16,64]")
    parser.add_argument("--size", type=int, default=250, help="bytes of a transaction [250]")
    parser.add_argument("--rate", type=int, default=10_000, help="of precision runs, per second [10000]")
    parser.add_argument("--precision-seconds", type=int, default=10, help="length of a precision run [10]")
    parser.add_argument("--precision-connections", type=int, default=16, help="[16]")
    parser.add_argument("--only", choices=("peak", "precision"), help="measure one of both")
    args = parser.parse_args()
    for name in args.generators:
        if not getattr(args, name):
            parser.error(f"{name} is missing; choose others with --generators")
    return args


def whole_numbers(text):
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"a generator failed: {error}")
