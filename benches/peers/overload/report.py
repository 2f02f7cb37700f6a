"""Runs as tables in Markdown: medians over the rounds, ratios of runs of the same round."""

import trial
from rounds import judged, spread

# The targets of README.md, as (name, figure, limit, whether the figure must be at least the limit).
TARGETS = [
    ("committed, adaptive / direct", "committed", 1.35, True),
    ("committed in the first 60 s, adaptive / direct", "first", 1.15, True),
    ("longest gap between blocks, adaptive / direct", "gap", 0.5, False),
    ("polite client's refusals, adaptive", "polite_refused", 0, False),
    ("polite client's accept p99, adaptive (ms)", "accept_p99", 3000, False),
    ("polite client's commit p99, adaptive (ms)", "commit_p99", 3000, False),
]
OF_DIRECT = {"committed", "own", "first", "gap"}
MEBIBYTE = 1 << 20


def line(run):
    chain, flood, polite = run["chain"], run["flood"], run["polite"]
    return (
        f"{run['variant']}: {chain['committed']:,} committed ({chain['committed_first']:,} in the first"
        f" {trial.FIRST_SECONDS} s), own {chain['committed'] - chain.get('foreign', 0):,}, longest gap {chain['longest_gap_s']:.1f} s; flood"
        f" {flood['sent']:,} sent, {share(flood['rejected'], flood['sent'])} refused,"
        f" {share(sum(flood['unsent'].values()), flood['planned'])} unsent; polite {troubles(polite)} in trouble,"
        f" accept p99 {milliseconds(polite['accept_p99_ms'])},"
        f" commit p99 {milliseconds(polite['commit_p99_ms'])}"
    )


def tables(result):
    by_variant = {}
    for run in result["runs"]:
        by_variant.setdefault(run["variant"], {})[run["round"]] = figures(run)
    direct = by_variant.get("direct", {})
    result["summary"] = {
        variant: {
            "figures": {key: spread([run[key] for run in runs.values()]) for key in FIGURES},
            "against_direct": {
                key: spread([ratio(run[key], direct[round_][key]) for round_, run in runs.items() if round_ in direct])
                for key in OF_DIRECT
            },
        }
        for variant, runs in by_variant.items()
    }
    result["targets"] = against_targets(result["summary"])
    return "\n\n".join(
        [
            chain_table(result["summary"]),
            client_table(result["summary"]),
            course(result["runs"]),
            target_table(result["targets"]),
        ]
    )


# Of a run, under the names of the tables.
FIGURES = [
    "committed", "own", "first", "gap", "refused_share", "unsent_share", "polite_refused", "polite_errors", "polite_vanished",
    "accept_p50", "accept_p99", "commit_p50", "commit_p99",
    "node_cpu", "sentinel_cpu", "generator_cpu", "sentinel_rss",
]  # fmt: skip


def figures(run):
    chain, flood, polite, costs = run["chain"], run["flood"], run["polite"], run["costs"]

    def cpu(*names):
        known = [costs[name]["cpu_seconds"] for name in names if name in costs]
        return sum(known) if known else None

    sentinel = costs.get("sentinel")
    return {
        "committed": chain["committed"],
        "own": chain["committed"] - chain.get("foreign", 0),
        "first": chain["committed_first"],
        "gap": chain["longest_gap_s"],
        "refused_share": flood["rejected"] / max(1, flood["sent"]),
        "unsent_share": sum(flood["unsent"].values()) / max(1, flood["planned"]),
        "polite_refused": polite["rejected"],
        "polite_errors": troubles(polite) - polite["rejected"],
        # Accepted by the node and never in a block: its mempool was full when the check came back.
        "polite_vanished": polite["pending"],
        "accept_p50": polite["accept_p50_ms"],
        "accept_p99": polite["accept_p99_ms"],
        "commit_p50": polite["commit_p50_ms"],
        "commit_p99": polite["commit_p99_ms"],
        "node_cpu": cpu("node"),
        "sentinel_cpu": cpu("sentinel"),
        "generator_cpu": cpu("flood", "polite"),
        "sentinel_rss": sentinel and sentinel["max_rss_bytes"] / MEBIBYTE,
    }


def chain_table(summary):
    rows = [["variant", "committed", "per direct", "own", "per direct", "first 60 s", "per direct", "longest gap", "per direct",
             "CPU s: node", "sentinel", "generators", "sentinel MiB"]]  # fmt: skip
    for variant, both in summary.items():
        of, against = both["figures"], both["against_direct"]
        rows.append([
            variant, show(of["committed"], "{:,.0f}"), show_spread(against["committed"]),
            show(of["own"], "{:,.0f}"), show_spread(against["own"]),
            show(of["first"], "{:,.0f}"), show_spread(against["first"]),
            show(of["gap"], "{:.1f} s"), show_spread(against["gap"]),
            show(of["node_cpu"], "{:.0f}"), show(of["sentinel_cpu"], "{:.0f}"),
            show(of["generator_cpu"], "{:.0f}"), show(of["sentinel_rss"], "{:.0f}"),
        ])  # fmt: skip
    return markdown(rows)


def client_table(summary):
    rows = [["variant", "flood refused", "flood unsent", "polite refused", "polite errors",
             "polite vanished", "accept p50", "accept p99", "commit p50", "commit p99"]]  # fmt: skip
    for variant, both in summary.items():
        of = both["figures"]
        rows.append([
            variant, show(of["refused_share"], "{:.1%}"), show(of["unsent_share"], "{:.1%}"),
            show(of["polite_refused"], "{:.0f}"), show(of["polite_errors"], "{:.0f}"),
            show(of["polite_vanished"], "{:.0f}"),
            *(show(of[key], "{:,.0f} ms") for key in ("accept_p50", "accept_p99", "commit_p50", "commit_p99")),
        ])  # fmt: skip
    return markdown(rows)


def course(runs):
    """Committed a second by stretches of the window, the mean of the rounds."""
    by_variant = {}
    for run in runs:
        by_variant.setdefault(run["variant"], []).append(run["chain"]["per_bin"])
    width = max(len(bins) for of_variant in by_variant.values() for bins in of_variant)
    rows = [["committed/s from", *(f"{at * trial.BIN_SECONDS} s" for at in range(width))]]
    seconds = bin_lengths(runs, width)
    for variant, of_variant in by_variant.items():
        means = [sum(bins) / len(of_variant) for bins in zip(*of_variant)]
        rows.append([variant, *(f"{mean / length:,.0f}" for mean, length in zip(means, seconds))])
    return markdown(rows)


def bin_lengths(runs, width):
    """All stretches are whole but for the last one, which ends with the window."""
    window = runs[0]["seconds"]
    return [min(trial.BIN_SECONDS, window - at * trial.BIN_SECONDS) for at in range(width)]


def against_targets(summary):
    adaptive = summary.get("adaptive")
    if not adaptive:
        return []
    found = []
    for what, key, limit, at_least in TARGETS:
        values = adaptive["against_direct" if key in OF_DIRECT else "figures"][key]
        if values:
            found.append({"what": what, **judged(values, limit, at_least)})
    return found


def target_table(targets):
    if not targets:
        return "targets are judged when adaptive and direct were both run"
    rows = [["target", "wanted", "lowest", "median", "highest", ""]]
    for target in targets:
        wanted = f"{'≥' if target['at_least'] else '≤'} {target['limit']:,}"
        found = [f"{target[key]:,.2f}" for key in ("min", "median", "max")]
        rows.append([target["what"], wanted, *found, "met" if target["met"] else "missed"])
    return markdown(rows)


def markdown(rows):
    head, *body = rows
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def show(values, form):
    return form.format(values["median"]) if values else "-"


def show_spread(values):
    if not values:
        return "-"
    if values["min"] == values["max"]:
        return f"{values['median']:.2f}"
    return f"{values['median']:.2f} ({values['min']:.2f}–{values['max']:.2f})"


def ratio(above, below):
    return above / below if below else None


def troubles(polite):
    """Requests of the polite client that did not end as accepted."""
    return polite["planned"] - polite["accepted"]


def share(part, whole):
    return f"{part / max(1, whole):.1%}"


def milliseconds(value):
    return "-" if value is None else f"{value:,.0f} ms"
