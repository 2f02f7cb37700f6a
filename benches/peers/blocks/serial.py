"""How many transactions a btcd or bchd admits at once: its goroutines' stacks under a flood of several connections."""

import argparse
import os
import tempfile
import urllib.request

from blocks import Node, until
from process import Child, free_port

REQUEST, ADMISSION = "handleSendRawTransaction", ".ProcessTransaction"


def frames(goroutine):
    """Its calls, the innermost first."""
    lines = goroutine.split("\n")[1:]
    return [line for line in lines if line and not line.startswith("\t")]


def place(goroutine):
    """Whether a request for a transaction waits for the mempool's lock, is behind it, or is elsewhere; none of others."""
    calls = frames(goroutine)
    if not any(REQUEST in call for call in calls):
        return None
    admission = next((at for at, call in enumerate(calls) if ADMISSION in call), None)
    if admission is None:
        return "elsewhere"
    return "waits" if admission and calls[admission - 1].startswith("sync.") else "inside"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["bchd", "btcd"], required=True, help=argparse.SUPPRESS)
    parser.add_argument("--node", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--txgen", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--count", default="20000", help="transactions")
    parser.add_argument("--connections", default="8", help="at once")
    options = parser.parse_args()
    profile = free_port()
    options.limits = [f"--profile={profile}"]
    digest = ["--digest", "forkid"] if options.kind == "bchd" else []
    with tempfile.TemporaryDirectory(prefix="peers-serial-") as folder:
        log = os.path.join(folder, "address.log")
        with Child("txgen", [options.txgen, "bitcoin", "address", *digest], log) as child:
            child.wait(60)
        with open(log, encoding="utf-8") as file:
            address = file.read().strip()
        with Node("node", options, folder, address) as node:
            until(node.tip, "the node answers")
            load = ["flood", "--no-tui", "--no-follow", "--workload", "bitcoin", "--endpoints", node.url, *digest]
            load += ["--count", options.count, "--signed-ahead", options.count, "--out", os.path.join(folder, "run")]
            load += ["--concurrency", options.connections, "--connections", options.connections]
            counts = []
            with Child("txgen", [options.txgen, *load], os.path.join(folder, "flood.log")) as flood:
                while flood.running():
                    url = f"http://127.0.0.1:{profile}/debug/pprof/goroutine?debug=2"
                    with urllib.request.urlopen(url, timeout=60) as answer:
                        stacks = answer.read().decode().split("\n\n")
                    places = [place(stack) for stack in stacks]
                    if any(places):
                        counts.append({name: places.count(name) for name in ("inside", "waits", "elsewhere")})
    both = [count for count in counts if count["inside"] + count["waits"] > 1]
    print("| stacks taken | with several transactions at the mempool | most at once behind its lock | most before it |")
    print("|--:|--:|--:|--:|")
    most = {name: max((count[name] for count in both), default=0) for name in ("inside", "waits")}
    print(f"| {len(counts):,} | {len(both):,} | {most['inside']} | {most['waits']} |")


if __name__ == "__main__":
    main()
