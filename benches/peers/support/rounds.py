"""What every comparison shares: the order of the runs, the machine, figures over the rounds, options."""

import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import sys
from statistics import median


def turns(names, rounds):
    """A B C, C B A, A B C, …: a machine that drifts touches all alike."""
    names = list(names)
    for round_ in range(1, rounds + 1):
        for name in names if round_ % 2 else reversed(names):
            yield round_, name


def spread(values):
    """Lowest, median and highest; none without values."""
    values = sorted(value for value in values if value is not None)
    return {"min": values[0], "median": median(values), "max": values[-1]} if values else None


def likely(values, part=0.99, confidence=0.95):
    """A quantile with the bounds between which it is (95 %), of order statistics, whatever the distribution is; a bound
    is none where there are too few values for it."""
    descending, tail = sorted(values, reverse=True), (1 - confidence) / 2
    count, at_most, low, high = len(descending), 0.0, None, None
    # So many are above the quantile with a binomial probability.
    for above, value in enumerate(descending):
        at_most += binomial(count, above, 1 - part)
        if at_most <= tail:
            high = value
        if at_most >= 1 - tail:
            low = value
            break
    return descending[int(count * (1 - part))], low, high


def binomial(count, chosen, part):
    ways = math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)
    return math.exp(ways + chosen * math.log(part) + (count - chosen) * math.log(1 - part))


def judged(values, limit, at_least):
    """A spread with its target, and whether the median meets it."""
    met = values["median"] >= limit if at_least else values["median"] <= limit
    return {**values, "limit": limit, "at_least": at_least, "met": met}


def machine():
    model = platform.processor() or "unknown"
    with contextlib.suppress(OSError, StopIteration), open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_before": os.getloadavg()[0],
    }


def heading(machine_, versions):
    print(f"{machine_['cores']} cores, {machine_['cpu']}, Linux {machine_['kernel']}")
    print(", ".join(versions.values()), flush=True)
    if machine_["load_before"] > 0.5:
        warn(f"the machine is not idle (load {machine_['load_before']:.1f}): the figures will suffer")


def write_json(path, result):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def choice(known):
    """The type of an option that takes some of the known names, with commas between them."""

    def parse(text):
        chosen = text.split(",")
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {unknown[0]}; known: {', '.join(known)}")
        return chosen

    return parse


def progress(text):
    print(text, file=sys.stderr, flush=True)


def warn(text):
    print(f"note: {text}", file=sys.stderr, flush=True)
