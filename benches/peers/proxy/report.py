"""Figures as one table for people; the same figures go into the JSON file."""

from proxies import OTHER
from rounds import judged, spread

MEBIBYTE = 1 << 20
# What sentinel may use beside what it buffers, with 100,000 clients seen.
MEMORY_MIB = 64
# How much resident memory may still move while nothing grows: an allocator gives and takes pages.
FLAT_RATIO = 1.05

# The targets of README.md: limit, unit, whether a figure must be at least the limit.
TARGETS = {
    "writes per core, sentinel / haproxy": (0.8, "x", True),
    "writes per core, sentinel / nginx": (1.0, "x", True),
    "added p50 at 2,000/s, sentinel / haproxy": (1.5, "x", False),
    "added p99 at 2,000/s, sentinel": (2.0, "ms", False),
    "10/s client's added p99 beside 100,000/s": (10.0, "ms", False),
    "CPU of an offer in a flood / forwarding, http": (0.25, "x", False),
    "CPU of an offer in a flood / forwarding, ws": (0.25, "x", False),
    "writes over TLS per core, sentinel / nginx": (1.2, "x", True),
    "writes over TLS per core, sentinel / haproxy": (1.2, "x", True),
    "writes over HTTP/2 per core, sentinel / nginx": (1.2, "x", True),
    "writes over HTTP/2 per core, sentinel / haproxy": (1.2, "x", True),
    "gRPC per core, sentinel / nginx": (1.0, "x", True),
    "a kept answer per core, sentinel / CometBFT": (10.0, "x", True),
    "memory with 100,000 clients seen": (MEMORY_MIB, "MiB", False),
    "memory of an idle client": (200.0, "bytes", False),
    "memory, last quarter / second quarter": (FLAT_RATIO, "x", False),
}


def summary(runs):
    """Each measure by name over the rounds, and the targets from runs of the same round."""
    by_measure = {}
    for measure, of_measure in runs.items():
        by_name = by_measure.setdefault(measure, {})
        for run in of_measure:
            by_name.setdefault(run["name"], {})[run["round"]] = run
    figures = {
        measure: {name: spreads(list(rounds.values())) for name, rounds in by_name.items()}
        for measure, by_name in by_measure.items()
    }
    targets = {}
    for name, values in ratios(by_measure):
        found = spread(values)
        if found:
            limit, unit, at_least = TARGETS[name]
            targets[name] = {**judged(found, limit, at_least), "unit": unit}
    return {"figures": figures, "targets": targets, "against_other": against_other(by_measure)}


def against_other(by_measure):
    """This sentinel over that of another commit, in runs of the same round."""
    found = {}
    for measure, name, other, key in OF_OTHER:
        figure = lambda of, of_other, key=key: of[key] / of_other[key]  # noqa: E731
        values = paired(figure, by_measure.get(measure, {}), name, other)
        if values:
            found[f"{measure}, {name}: {key}"] = spread(values)
    return found


def spreads(runs):
    keys = [key for key, value in runs[0].items() if isinstance(value, (int, float)) and key != "round"]
    return {key: spread([run.get(key) for run in runs]) for key in keys}


def ratios(by_measure):
    """Name and values, one for each round in which both sides were measured."""
    forward = by_measure.get("forward", {})
    latency = by_measure.get("latency", {})
    polite = by_measure.get("polite", {})
    refuse = by_measure.get("refuse", {})
    memory = list(by_measure.get("memory", {}).get("sentinel", {}).values())
    per_core = lambda above, below: above["per_core"] / below["per_core"]  # noqa: E731
    yield "writes per core, sentinel / haproxy", paired(per_core, forward, "sentinel", "haproxy")
    yield "writes per core, sentinel / nginx", paired(per_core, forward, "sentinel", "nginx")
    for measure, title in ("tls", "writes over TLS"), ("http2", "writes over HTTP/2"), ("grpc", "gRPC"):
        for other in ("nginx", "haproxy") if measure != "grpc" else ("nginx",):
            yield f"{title} per core, sentinel / {other}", paired(per_core, by_measure.get(measure, {}), "sentinel", other)
    kept = by_measure.get("kept", {})
    yield "a kept answer per core, sentinel / CometBFT", paired(per_core, kept, "sentinel", "CometBFT")
    yield "added p50 at 2,000/s, sentinel / haproxy", paired(
        lambda of, haproxy, direct: (of["p50_ms"] - direct["p50_ms"]) / (haproxy["p50_ms"] - direct["p50_ms"])
        if haproxy["p50_ms"] > direct["p50_ms"]
        else None,
        latency, "sentinel", "haproxy", "direct",
    )  # fmt: skip
    yield "added p99 at 2,000/s, sentinel", paired(added_p99, latency, "sentinel", "direct")
    yield "10/s client's added p99 beside 100,000/s", paired(
        added_p99, polite, "sentinel flooded", "sentinel alone"
    )
    cpu = lambda refusing, forwarding: refusing["cpu_us"] / forwarding["cpu_us"]  # noqa: E731
    yield "CPU of an offer in a flood / forwarding, http", paired(cpu, refuse, "flooded", "forwarding")
    yield "CPU of an offer in a flood / forwarding, ws", paired(cpu, refuse, "flooded ws", "forwarding ws")
    yield "memory with 100,000 clients seen", [run["many_clients_bytes"] / MEBIBYTE for run in memory]
    yield "memory of an idle client", [run["per_client_bytes"] for run in memory]
    yield "memory, last quarter / second quarter", [
        run["last_quarter_bytes"] / run["second_quarter_bytes"] for run in memory
    ]


def added_p99(above, below):
    return above["p99_ms"] - below["p99_ms"]


def paired(figure, by_name, *names):
    rounds = [by_name.get(name, {}) for name in names]
    shared = set.intersection(*(set(of_name) for of_name in rounds))
    return [figure(*(of_name[round_] for of_name in rounds)) for round_ in sorted(shared)]


def line(run):
    """One run in a few words."""
    if "per_core" in run:
        core = f"{run['per_core']:,.0f} per core-second" if run["per_core"] else "no proxy"
        return f"{run['rate']:,.0f}/s, {core}, {run['refused']:,} refused"
    if "p50_ms" in run:
        flood = run.get("flood")
        beside = f", flood {flood['sent_per_s']:,.0f}/s sent" if flood else ""
        return f"p50 {run['p50_ms']:.3f} ms, p99 {run['p99_ms']:.3f} ms, {run['not_accepted']} not accepted{beside}"
    return (
        f"{run['empty_bytes'] / MEBIBYTE:.1f} MiB empty, {run['one_client_bytes'] / MEBIBYTE:.1f} with one client,"
        f" {run['many_clients_bytes'] / MEBIBYTE:.1f} with {run['clients']:,} clients"
    )


def show(result):
    figures = result["summary"]["figures"]
    for measure, columns in TABLES.items():
        if figures.get(measure):
            print(f"\n{TITLES[measure]} (medians over the rounds)")
            print(f"{'':26}" + "".join(f"{title:>16}" for title, _, _ in columns))
            for name, of_name in figures[measure].items():
                print(f"  {name:24}" + "".join(f"{cell(of_name.get(key), form):>16}" for _, key, form in columns))
    against = result["summary"]["against_other"]
    if against:
        print(f"\n{'this sentinel / the other one':47}{'':13}{'lowest':>10}{'median':>10}{'highest':>10}")
        for name, values in against.items():
            print(f"  {name:58}" + "".join(f"{values[key]:>10.3f}" for key in ("min", "median", "max")))
    targets = result["summary"]["targets"]
    if targets:
        print(f"\n{'target':47}{'wanted':>13}{'lowest':>10}{'median':>10}{'highest':>10}")
        for name, target in targets.items():
            wanted = f"{'>=' if target['at_least'] else '<='} {target['limit']:g} {target['unit']}"
            values = "".join(f"{target[key]:>10.2f}" for key in ("min", "median", "max"))
            print(f"  {name:45}{wanted:>13}{values}  {'met' if target['met'] else 'missed'}")


def cell(values, form):
    return form.format(values["median"]) if values else "-"


OF_OTHER = [
    ("forward", "sentinel", OTHER, "rate"),
    ("forward", "sentinel", OTHER, "cpu_us"),
    ("forward", "sentinel ws", f"{OTHER} ws", "rate"),
    ("forward", "sentinel ws", f"{OTHER} ws", "cpu_us"),
    ("latency", "sentinel", OTHER, "p50_ms"),
    ("latency", "sentinel", OTHER, "p99_ms"),
    ("polite", "sentinel flooded", f"{OTHER} flooded", "p99_ms"),
]
TITLES = {
    "forward": "forwarding as fast as answers come",
    "latency": "service time at 2,000/s on 16 connections",
    "polite": "a 10/s client alone and beside 100,000/s of another, max_req 2,000/s",
    "tls": "writes over TLS 1.3",
    "http2": "writes over HTTP/2 and TLS 1.3, 24 streams of one connection",
    "grpc": "calls of gRPC in clear text, 24 streams of one connection",
    "threads": "forwarding with more threads",
    "kept": "a block that is kept",
    "refuse": "what a client far over its share costs, by answer and (flooded) by what it offers",
}
COSTS = [
    ("requests/s", "rate", "{:,.0f}"),
    ("proxy, cores", "cpu_cores", "{:.2f}"),
    ("per core-second", "per_core", "{:,.0f}"),
    ("CPU us each", "cpu_us", "{:.2f}"),
    ("refused", "refused", "{:,.0f}"),
]
WAITS = [
    ("p50 ms", "p50_ms", "{:.3f}"),
    ("p99 ms", "p99_ms", "{:.3f}"),
    ("max ms", "max_ms", "{:.3f}"),
    ("not accepted", "not_accepted", "{:.0f}"),
]
TABLES = {"forward": COSTS, "latency": WAITS, "polite": WAITS, "refuse": COSTS} | dict.fromkeys(
    ["tls", "http2", "grpc", "threads", "kept"], COSTS
)
