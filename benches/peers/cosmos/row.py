"""One row of the table: FOLDER VARIANT MEMPOOL, from the run folders `flood` and `polite` in FOLDER."""

import csv
import json
import pathlib
import sys


def summary(name):
    return json.loads((pathlib.Path(sys.argv[1]) / name / "summary.json").read_text())


def refusals(fate):
    return sum(fate["rejected_by_code"].values())


def longest_gap(name):
    with open(pathlib.Path(sys.argv[1]) / name / "blocks.csv", newline="") as rows:
        lengths = [float(row["interval_ms"]) for row in csv.DictReader(rows) if row["interval_ms"]]
    return max(lengths, default=0.0)


def main():
    flood, polite = summary("flood"), summary("polite")
    fate, small = flood["fate"], polite["fate"]
    accept, commit = (polite["latency_ms"][kind] or {} for kind in ("accept_response", "commit_from_due"))
    committed = flood["rate"]["committed_tps"] or {}
    gaps = fate.get("sequence_gaps") or {}
    broken = fate["errors_by_kind"]["sequence_broken"] + flood["offered"]["unsent_by_reason"]["sequence_broken"]
    print(
        f"| {sys.argv[2]} | {sys.argv[3]} | {flood['offered']['planned'] / flood['time']['offered_s']:.0f} "
        f"| {fate['committed']} | {committed.get('mean', 0):.0f} | {fate['pending']} | {fate['rejected_by_code'].get('sdk/32', 0)} "
        f"| {json.dumps(gaps)}, {broken} | {refusals(fate)} {json.dumps(fate['rejected_by_code'])} | {longest_gap('flood') / 1e3:.1f} s "
        f"| {accept.get('p50', 0):.0f}, {accept.get('p99', 0):.0f} ms | {commit.get('p50', 0):.0f} ms "
        f"| {refusals(small) + sum(small['errors_by_kind'].values())} of {polite['offered']['planned']} |",
        flush=True,
    )


main()
