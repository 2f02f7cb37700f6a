"""Figures as a table for people; the same figures go into the JSON file."""

from rounds import judged, spread

# The targets of README.md: the limit, and whether a figure must be at least the limit.
TARGETS = {
    "txgen http / wrk": (0.9, True),
    "txgen http / oha": (1.5, True),
    "txgen http / oha 1 thread": (1.5, True),
    "txgen ws / txgen http": (2.0, True),
    "txgen ws on 4 / txgen http": (2.0, True),
    "pacing error": (0.0001, False),
    "lateness p99 us": (150.0, False),
    "worst 10 ms window": (1.3, False),
    "cpu share": (0.30, False),
}

RATIOS = [
    ("txgen http / wrk", "txgen http", "wrk", "rate"),
    ("txgen http / oha", "txgen http", "oha", "rate"),
    ("txgen http / oha 1 thread", "txgen http", "oha 1 thread", "rate"),
    ("txgen ws / txgen http", "txgen ws", "txgen http", "rate"),
    ("txgen ws on 4 / txgen http", "txgen ws on 4", "txgen http", "rate"),
]
# This txgen over that of another commit.
PEAK_OF_OTHER = [
    (f"{name} / other, {what}", f"txgen {name}", f"other {name}", key)
    for name in ("http", "ws", "ws on 4")
    for what, key in (("rate", "rate"), ("CPU", "cpu_per_100k"))
]
PRECISION_OF_OTHER = [
    ("lateness p50", "lateness_p50_us"),
    ("lateness p99", "lateness_p99_us"),
    ("worst 10 ms window", "worst_window"),
    ("CPU", "cpu_share"),
]


def peak_summary(runs):
    """Medians of each generator, and the ratios of runs of the same round."""
    by_name = {}
    for run in runs:
        by_name.setdefault(run["generator"], []).append(run)
    generators = {
        name: {
            key: spread([run[key] for run in of_name])
            for key in ("rate", "cpu_per_100k", "cpu_cores", "sink_cores")
        }
        for name, of_name in by_name.items()
    }
    ratios = {}
    for name, above, below, key in [*RATIOS, *PEAK_OF_OTHER]:
        values = paired(by_name, above, below, key)
        if values:
            ratios[name] = judged(values, *TARGETS[name]) if name in TARGETS else values
    return {"generators": generators, "ratios": ratios}


def paired(by_name, above, below, key):
    """The ratio of one figure of two generators, in runs of the same round."""
    return spread([a[key] / b[key] for a, b in zip(by_name.get(above, []), by_name.get(below, []))])


def print_peak(connections, summary):
    print(f"\npeak, {connections} connections (medians over the rounds)")
    print(f"{'':28}{'requests/s':>12}{'CPU s / 100k':>14}{'CPU, cores':>12}{'sink, cores':>13}")
    for name, values in summary["generators"].items():
        figures = [values[key]["median"] for key in ("rate", "cpu_per_100k", "cpu_cores", "sink_cores")]
        rate, cpu, cores, sink = figures
        print(f"  {name:26}{rate:>12,.0f}{cpu:>14.2f}{cores:>12.2f}{sink:>13.2f}")
    print(f"{'':28}{'min':>8}{'median':>10}{'max':>8}   target")
    for name, values in summary["ratios"].items():
        goal = f"   >= {values['limit']:.1f} {'met' if values['met'] else 'missed'}" if "limit" in values else ""
        print(f"  {name:26}{values['min']:>8.3f}{values['median']:>10.3f}{values['max']:>8.3f}{goal}")


def precision_summary(runs):
    by_name = {}
    for run in runs:
        by_name.setdefault(run["generator"], []).append(run)
    summary = {}
    for name, of_name in by_name.items():
        keys = [key for key, value in of_name[0].items() if isinstance(value, (int, float))]
        values = [(key, [run[key] for run in of_name if run.get(key) is not None]) for key in keys]
        summary[name] = {key: spread(found) for key, found in values if found}
        summary[name]["rate_error_abs"] = spread([abs(run["rate_error"]) for run in of_name])
        summary[name]["answer_from"] = of_name[0]["answer_from"]
    own = summary.get("txgen")
    if own:
        own["against_other"] = {
            name: values
            for name, key in PRECISION_OF_OTHER
            if (values := paired(by_name, "txgen", "other", key))
        }
        own["targets"] = {
            name: judged(own[key], *TARGETS[name])
            for name, key in [
                ("pacing error", "rate_error_abs"),
                ("lateness p99 us", "lateness_p99_us"),
                ("worst 10 ms window", "worst_window"),
                ("cpu share", "cpu_share"),
            ]
        }
    return summary


def print_precision(rate, connections, seconds, summary):
    print(f"\nprecision, {rate}/s on {connections} connections for {seconds} s (medians over the rounds)")
    names = list(summary)
    print(f"{'':34}" + "".join(f"{name:>14}" for name in names) + "   txgen's target")
    targets = summary.get("txgen", {}).get("targets", {})

    def row(title, key, form, target=None, scale=1.0):
        cells = []
        for name in names:
            value = summary[name].get(key)
            cells.append(f"{form.format(value['median'] * scale) if value else '-':>14}")
        goal = ""
        if target in targets:
            limit, met = targets[target]["limit"], "met" if targets[target]["met"] else "missed"
            goal = f"   <= {form.format(limit * scale)} {met}"
        print(f"  {title:32}" + "".join(cells) + goal)

    row("sent and seen by the sink", "arrived", "{:,.0f}")
    row("pacing error (at the sink)", "rate_error_abs", "{:.4f} %", "pacing error", 100)
    row("lateness p50 (own figure)", "lateness_p50_us", "{:.0f} us")
    row("lateness p99 (own figure)", "lateness_p99_us", "{:.0f} us", "lateness p99 us")
    row("worst 10 ms window (at the sink)", "worst_window", "{:.2f} x", "worst 10 ms window")
    row("p99 of the windows", "p99_window", "{:.2f} x")
    row("emptiest window", "emptiest_window", "{:.2f} x")
    row("answer p99 (own figure)", "answer_p99_ms", "{:.2f} ms")
    since = "".join(f"{'from ' + summary[name]['answer_from']:>14}" for name in names)
    print(f"  {'  measured':32}" + since)
    row("CPU, share of one core", "cpu_share", "{:.1f} %", "cpu share", 100)
    row("sink CPU, share of one core", "sink_cores", "{:.1f} %", None, 100)
    for name, values in summary.get("txgen", {}).get("against_other", {}).items():
        print(f"  txgen / other, {name:20}{values['min']:>11.3f}{values['median']:>14.3f}{values['max']:>14.3f}")
