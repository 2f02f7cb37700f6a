"""BEP-10's loops in Python, Go and here: in turn, repeated, forwards and backwards. See README.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from rounds import heading, machine, progress, spread, turns, write_json

# One pass of a published loop of 100,000, in seconds.
PUBLISHED = {
    "python fulfillment": 22.658e-5,
    "go fulfillment": 0.578e-5,
    "python schema": 76e-5,
    "go schema": 5e-5,
}
# The targets of the documents: how many times the rate of the second loop the first one has.
RATIOS = [
    ("fulfillment, here / Go (standard library only)", "fulfillment", "go fulfillment", 10),
    ("fulfillment, here / Python cryptoconditions", "fulfillment", "python fulfillment", None),
    ("schema typed, here / gojsonschema", "schema typed", "go schema", 20),
    ("schema jsonschema route, here / gojsonschema", "schema jsonschema", "go schema", 1),
    ("signed CREATEs / raw signatures", "sign create", "sign raw", 0.7),
    ("signed CREATEs, all cores / one", "sign create all cores", "sign create", None),
    ("block of CREATEs, batch / one by one", "block batch", "block one by one", 1.5),
    ("block of CREATEs, batch, all cores / one", "block batch all cores", "block batch", None),
]


ALL_CORES = "all cores"


def main():
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
        result, order = prepare(args, scratch)
        heading(result["machine"], result["versions"])
        runs = []
        for round_, name in turns(order, args.rounds):
            rounds, seconds, worked = map(float, run(order[name]).split())
            runs.append({"loop": name, "round": round_, "rounds": rounds, "seconds": seconds, "worked": worked})
            progress(f"round {round_}, {name}: {rounds / worked:,.0f} a second of processor time")
    result["runs"] = runs
    result["summary"] = summary(runs)
    report(result["summary"])
    result["machine"]["load_after"] = os.getloadavg()[0]
    write_json(args.json, result)
    print(f"\nall runs: {args.json}")


def prepare(args, scratch):
    with open(os.path.join(args.vectors, "external.json"), encoding="utf-8") as file:
        create = json.load(file)[0]["tx"]
    fulfillment, body = os.path.join(scratch, "fulfillment"), os.path.join(scratch, "create")
    for path, text in [(fulfillment, create["inputs"][0]["fulfillment"]), (body, json.dumps(create))]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    schemas = [os.path.join(args.schema, name) for name in ("common.json", "create.json")]
    seconds = str(args.seconds)
    cores = str(os.cpu_count())
    loops = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loops.py")
    order = {
        "python fulfillment": [args.python, loops, fulfillment, seconds],
        "go fulfillment": [args.go, "fulfillment", fulfillment, seconds],
        "fulfillment": [args.rust, "fulfillment", fulfillment, seconds, "1"],
        "go schema": [args.go, "schema", body, *schemas, seconds],
        "schema typed": [args.rust, "schema-typed", body, seconds, "1"],
        "schema jsonschema": [args.rust, "schema-jsonschema", body, seconds, "1"],
        "sign raw": [args.rust, "sign-raw", body, seconds, "1"],
        "sign create": [args.rust, "sign-create", body, seconds, "1"],
        "sign create all cores": [args.rust, "sign-create", body, seconds, cores],
        "validate": [args.rust, "validate", body, seconds, "1"],
        "block one by one": [args.rust, "block-single", body, seconds, "1"],
        "block batch": [args.rust, "block-batch", body, seconds, "1"],
        "block batch all cores": [args.rust, "block-batch", body, seconds, cores],
    }
    result = {
        "format": "tidegate.peers.bigchaindb/1",
        "machine": machine(),
        "versions": {
            "python": run([args.python, "-c", PYTHON_VERSION]).strip(),
            "go": run(["go", "version"]).strip().removeprefix("go version "),
            "rust": run(["rustc", "--version"]).strip(),
        },
        "settings": {"rounds": args.rounds, "seconds": args.seconds, "create_bytes": os.path.getsize(body)},
    }
    return result, order


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def summary(runs):
    # On one thread processor time: what else runs on the machine does not change it. On several threads
    # the clock on the wall, because the question is what they bring together.
    rates = {}
    for entry in runs:
        seconds = entry["seconds" if entry["loop"].endswith(ALL_CORES) else "worked"]
        rates.setdefault(entry["loop"], []).append(entry["rounds"] / seconds)
    ratios = {}
    for name, above, below, target in RATIOS:
        values = [a / b for a, b in zip(rates[above], rates[below])]
        ratios[name] = {**spread(values), "target": target}
    return {"rates": {name: spread(values) for name, values in rates.items()}, "ratios": ratios}


def report(figures):
    print(f"\n{'loop':<26}{'a second':>12}{'100,000 take':>14}   published for 100,000")
    for name, rate in figures["rates"].items():
        published = PUBLISHED.get(name)
        beside = f"{published * 1e5:.3f} s" if published else ""
        print(f"{name:<26}{rate['median']:>12,.0f}{1e5 / rate['median']:>12.3f} s   {beside}")
    print(f"\n{'ratio':<50}{'min':>8}{'median':>8}{'max':>8}   target")
    for name, ratio in figures["ratios"].items():
        target = ratio["target"]
        met = "" if target is None else f">= {target} {'met' if ratio['median'] >= target else 'MISSED'}"
        print(f"{name:<50}{ratio['min']:>8.2f}{ratio['median']:>8.2f}{ratio['max']:>8.2f}   {met}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rust", "go", "python", "schema", "vectors", "json"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--rounds", type=int, default=4, help="each loop runs so often (4)")
    parser.add_argument("--seconds", type=float, default=2, help="each run takes so long (2)")
    return parser.parse_args()


PYTHON_VERSION = """
import importlib.metadata as m, platform
print('Python', platform.python_version(), 'cryptoconditions', m.version('cryptoconditions'), 'pyasn1', m.version('pyasn1'))
"""

if __name__ == "__main__":
    main()
