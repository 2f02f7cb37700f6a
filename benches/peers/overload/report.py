"""Runs as tables in Markdown: medians over the rounds, ratios of runs of the same round."""

import trial
from rounds import judged, spread

# The targets of README.md for a flood of minutes: (figure, against which variant, limit, whether at least).
FLOOD_TARGETS = [
    ("committed", "direct", 1.35, True),
    ("first", "direct", 1.15, True),
    ("gap", "direct", 0.5, False),
    ("commit_p99", None, 3000, False),
]
# And for every row: sentinel does no harm.
HARM_TARGETS = [
    ("committed", "direct", 0.98, True),
    ("committed", "off", 0.98, True),
    ("own", "direct", 0.98, True),
    ("accept_p99", "off", 1, False),
    ("polite_failed", None, 0, False),
]
# Beside others' load the share is what counts.
LEAST_OWN_BESIDE_OTHERS = 0.9
NAMES = {
    "committed": "committed", "own": "own clients' part", "first": "committed in the first 60 s",
    "gap": "longest gap between blocks", "accept_p99": "polite client's accept p99",
    "commit_p99": "polite client's commit p99 (ms)", "polite_failed": "polite client's writes that failed",
}  # fmt: skip
# What a window that begins or ends inside a block counts by chance.
BY_BLOCKS = {"committed", "own", "first"}
RATIOS = ["committed", "own", "first", "gap", "accept_p99"]
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
    result["summary"] = {
        variant: {
            "figures": {key: spread([run[key] for run in runs.values()]) for key in FIGURES},
            **{f"against_{base}": against(runs, by_variant.get(base, {})) for base in ("direct", "off")},
        }
        for variant, runs in by_variant.items()
    }
    result["targets"] = against_targets(result)
    return "\n\n".join(
        [
            chain_table(result["summary"]),
            client_table(result["summary"]),
            course(result["runs"]),
            target_table(result["targets"]),
        ]
    )


def against(runs, bases):
    """Ratios of runs of the same round."""
    pairs = [(run, bases[round_]) for round_, run in runs.items() if round_ in bases]
    return {key: spread([ratio(run[key], base[key]) for run, base in pairs]) for key in RATIOS}


# Of a run, under the names of the tables.
FIGURES = [
    "committed", "own", "first", "gap", "refused_share", "unsent_share", "polite_refused", "polite_errors", "polite_vanished",
    "polite_failed", "one_block",
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
        "polite_failed": troubles(polite),
        "one_block": max(txs for _, txs, _ in chain["all_blocks"]) / max(1, chain["committed"]),
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
    rows = [["variant", "committed", "one block", "per direct", "per off", "own", "per direct", "first 60 s", "per direct", "longest gap", "per direct",
             "CPU s: node", "sentinel", "generators", "sentinel MiB"]]  # fmt: skip
    for variant, both in summary.items():
        of, against = both["figures"], both["against_direct"]
        rows.append([
            variant, show(of["committed"], "{:,.0f}"), show(of["one_block"], "{:.1%}"),
            show_spread(against["committed"]), show_spread(both["against_off"]["committed"]),
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


def against_targets(result):
    summary, settings = result["summary"], result["settings"]
    if "adaptive" not in summary:
        return []
    found = []
    for key, base, limit, at_least in targets_of(settings):
        values = summary["adaptive"][f"against_{base}" if base else "figures"][key]
        if values:
            what = f"{NAMES[key]}, adaptive" + (f" / {base}" if base else "")
            found.append({"what": what, **judged(values, limit, at_least), **resolution(summary, key, base)})
    for target in found:
        slack = target.get("one_block", 0)
        target["met"] = target["met"] or (target["at_least"] and target["median"] >= target["limit"] - slack)
    return found


def targets_of(settings):
    if settings["row"] == "default" and settings["seconds"] >= 2 * trial.FIRST_SECONDS:
        return FLOOD_TARGETS + HARM_TARGETS
    beside_others = {"own": LEAST_OWN_BESIDE_OTHERS} if settings["foreign"] else {}
    return [(key, base, beside_others.get(key, limit), at_least) for key, base, limit, at_least in HARM_TARGETS]


def resolution(summary, key, base):
    """What one block more or less, at the window's edge, makes of a ratio."""
    if key not in BY_BLOCKS or not base:
        return {}
    return {"one_block": max(summary[variant]["figures"]["one_block"]["max"] for variant in ("adaptive", base))}


def target_table(targets):
    if not targets:
        return "targets are judged when adaptive was run, those against direct and off when they were too"
    rows = [["target", "wanted", "lowest", "median", "highest", "one block", ""]]
    for target in targets:
        wanted = f"{'≥' if target['at_least'] else '≤'} {target['limit']:,}"
        found = [f"{target[key]:,.2f}" for key in ("min", "median", "max")]
        block = f"{target['one_block']:.1%}" if "one_block" in target else "-"
        met = "met" if target["met"] else "missed"
        if target["met"] and target["at_least"] and target["median"] < target["limit"]:
            met = "met within one block"
        rows.append([target["what"], wanted, *found, block, met])
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
