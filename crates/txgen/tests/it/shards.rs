//! Several generators, one load: each sends its part of one schedule, from one instant on.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Node, Place, RunFolder};

/// A little ahead, in seconds since 1970.
fn soon() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // A busy machine takes its time to start programs.
    let start = now + Duration::from_secs(4);
    format!("{}.{:03}", start.as_secs(), start.subsec_millis())
}

pub(crate) fn ids(run: &RunFolder) -> BTreeSet<String> {
    run.table("txs.csv")
        .column("txid")
        .map(Into::into)
        .collect()
}

#[test]
fn two_halves_are_the_whole_transaction_for_transaction() {
    let node = Node::quick();
    let place = Place::new();
    let load = format!(
        "--rate 301/s --duration 1s --seed 7 --connections 2 --drain-timeout 10s --endpoints {}",
        node.url()
    );
    let start = soon();
    let halves = ["1/2", "2/2"].map(|shard| {
        let out = shard.replace('/', "-");
        place.start(&format!(
            "constant {load} --threads {} --shard {shard} --start-at {start} --out {out}",
            &shard[..1]
        ))
    });
    let [first, second] = halves.map(|half| half.wait());
    let (one, two) = (place.run("1-2"), place.run("2-2"));
    first.ends_as_judged(0, &one.summary());
    second.ends_as_judged(0, &two.summary());
    one.summary().assert_all_committed(151);
    two.summary().assert_all_committed(150);
    let origin = |run: &RunFolder| run.manifest()["origin_unix_ns"].as_u64().unwrap();
    assert_eq!(origin(&one), origin(&two));

    let whole = Node::quick();
    let load = load.replace(&node.url(), &whole.url());
    let alone = place.txgen(&format!("constant {load} --out whole"));
    let run = place.run("whole");
    alone.ends_as_judged(0, &run.summary());
    let (one, two) = (ids(&one), ids(&two));
    assert!(one.is_disjoint(&two));
    assert_eq!(one.union(&two).cloned().collect::<BTreeSet<_>>(), ids(&run));

    // One machine, so one clock; but a busy one may run the generators at different times.
    let ended = place.txgen("merge 1-2 2-2 --out merged --max-clock-offset 1h");
    ended.ends_as_judged(0, &place.run("merged").summary());
    ended.prints("merged       1-2, 2-2");
    ended.prints("heights that both saw)");
    end_as_a_run_of_the_whole_does(&place);
    refuse_clocks_apart(&place);
    check_merged(&place.run("merged"), &run);
    refuse_what_was_cut_off(&place);
    refuse_what_does_not_belong_together(&place);
}

/// The clock here is said to be 1.5 s ahead of the common one: the load begins that much later by it, and every stamp
/// is by the common clock.
#[test]
fn a_corrected_start_is_the_common_instant() {
    let node = Node::quick();
    let place = Place::new();
    let start = soon();
    let common: f64 = start.parse().unwrap();
    let ended = place.txgen(&format!(
        "constant --rate 50/s --duration 1s --start-at {start}@1.5 --out run --drain-timeout 10s --endpoints {}",
        node.url()
    ));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let run = place.run("run");
    ended.ends_as_judged(0, &run.summary());
    let origin_ns = run.manifest()["origin_unix_ns"].as_u64().unwrap();
    assert_eq!(origin_ns / 1_000_000, (common * 1e3).round() as u64);
    assert!(
        now.as_secs_f64() >= common + 1.5 + 0.98,
        "the last one is due then"
    );
}

/// The merged halves are the whole: the same plan in every second and step, and files that agree.
fn check_merged(merged: &RunFolder, whole: &RunFolder) {
    let summary = merged.summary();
    summary.assert_all_committed(301);
    assert_eq!(ids(merged), ids(whole));
    assert_eq!(merged.manifest()["planned"], 301);
    assert_eq!(merged.manifest()["plan"]["merged"][1]["shard"], "2/2");
    let offered = |run: &RunFolder| -> Vec<u64> {
        let offered = run.table("series.csv").numbers("offered");
        offered.into_iter().filter(|count| *count > 0).collect()
    };
    assert_eq!(offered(merged), offered(whole));
    let steps = |run: &RunFolder| run.table("steps.csv").numbers("offered");
    assert_eq!(steps(merged), steps(whole));
    for (table, columns) in [
        ("series.csv", ["sent", "accepted", "committed"]),
        ("blocks.csv", ["own_txs", "own_txs", "own_txs"]),
    ] {
        for column in columns {
            assert_eq!(merged.table(table).sum(column), 301, "{table} {column}");
        }
    }
    let heights = merged.table("blocks.csv").numbers("height");
    assert!(
        heights.windows(2).all(|pair| pair[0] < pair[1]),
        "{heights:?}"
    );
    let histograms = merged.histograms();
    for tag in ["lateness", "accept_response", "commit_from_due"] {
        assert_eq!(histograms[tag].len(), 301, "{tag}");
    }
    assert_eq!(summary.count("latency_ms.commit_from_due.count"), 301);
    assert!(summary.number("latency_ms.commit_from_due.p50") > 0.0);
}

/// A copy of a folder beside it.
fn copy(place: &Place, from: &str, to: &str) {
    let copy = place.path().join(to);
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(place.path().join(from)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
}

/// A whole that was invalid, or interrupted, or broke a threshold that its halves kept, was merged with exit code 0.
fn end_as_a_run_of_the_whole_does(place: &Place) {
    let edit = |file: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let text = place.run("edited").text(file);
        let mut document = serde_json::from_str(&text).unwrap();
        change(&mut document);
        let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
        place.write(&format!("edited/{file}"), text);
    };
    copy(place, "2-2", "edited");
    let merge = |out: &str| {
        place.txgen(&format!(
            "merge 1-2 edited --out {out} --max-clock-offset 1h"
        ))
    };
    edit("manifest.json", &|manifest| {
        manifest["plan"]["thresholds"] = ["fate.committed>300", "fate.committed<300"].into();
    });
    let ended = merge("thresholds");
    ended.ends_as_judged(99, &place.run("thresholds").summary());
    ended.prints("fate.committed>300 held 301");
    ended.prints("fate.committed<300 BROKEN 301");
    for (verdict, interrupted, code) in [("invalid", false, 98), ("valid", true, 130)] {
        edit("summary.json", &|summary| {
            summary["verdict"]["schedule"] = verdict.into();
            // Whatever the half itself was short of on this machine.
            summary["verdict"]["bars"] = Vec::<String>::new().into();
            summary["interrupted"] = interrupted.into();
        });
        merge(verdict).expect(code);
    }
}

/// The second machine's clock is 3 s ahead: it stamps every block 3 s later than the first.
fn refuse_clocks_apart(place: &Place) {
    copy(place, "2-2", "apart");
    let blocks = place.run("2-2").text("blocks.csv");
    let later = |line: &str| {
        let mut fields: Vec<String> = line.split(',').map(Into::into).collect();
        if let Ok(observed) = fields[2].parse::<u64>() {
            fields[2] = (observed + 3_000_000_000).to_string();
        }
        fields.join(",") + "\n"
    };
    place.write(
        "apart/blocks.csv",
        blocks.lines().map(later).collect::<String>(),
    );
    place
        .txgen("merge 1-2 apart --out refused")
        .expect(2)
        .says("ms ahead of that of generator 1")
        .says("--max-clock-offset");
    let ended = place.txgen("merge 1-2 apart --out allowed --max-clock-offset 1h");
    ended.ends_as_judged(0, &place.run("allowed").summary());
    ended.prints("ms ahead of that of generator 1");
    let clock = &place.run("allowed").manifest()["plan"]["merged"][1]["clock"];
    let offset_ms = clock["offset_ms"].as_f64().unwrap();
    assert!(offset_ms > 1_000.0, "{clock}");
    assert!(clock["heights"].as_u64().unwrap() > 0);
}

/// An interrupted copy: with half the rows of a part, or half its latencies, the whole was merged with exit code 0.
fn refuse_what_was_cut_off(place: &Place) {
    for (file, phrase) in [
        ("txs.csv", "txs.csv lacks "),
        ("latency.hlog", "latency.hlog was cut off"),
    ] {
        let whole = place.run("2-2").text(file);
        place.write(&format!("2-2/{file}"), &whole[..whole.len() / 2]);
        place
            .txgen(&format!(
                "merge 1-2 2-2 --out without-{file} --max-clock-offset 1h"
            ))
            .expect(1)
            .says("cannot read 2-2")
            .says(phrase);
        place.write(&format!("2-2/{file}"), whole);
    }
}

fn refuse_what_does_not_belong_together(place: &Place) {
    place.write("file", "");
    std::fs::create_dir(place.path().join("empty")).unwrap();
    std::fs::create_dir(place.path().join("other")).unwrap();
    for file in [
        "txs.csv",
        "series.csv",
        "steps.csv",
        "blocks.csv",
        "latency.hlog",
        "summary.json",
    ] {
        let from = place.path().join("2-2").join(file);
        std::fs::copy(from, place.path().join("other").join(file)).unwrap();
    }
    let [manifest, summary] =
        ["manifest.json", "summary.json"].map(|file| place.run("2-2").text(file));
    let other = |from: &str, to: &str| {
        assert!(manifest.contains(from), "{from} in {manifest}");
        place.write("other/manifest.json", manifest.replace(from, to));
        place.write("other/summary.json", summary.replace(from, to));
    };
    for (folders, phrase) in [
        ("1-2 1-2", "overlap: both are shard 1/2"),
        ("1-2", "shards are missing: 2/2"),
        ("1-2 whole", "whole is a run of its own"),
        ("1-2 nowhere", "there is no file or folder nowhere"),
        ("1-2 file", "is a file"),
        ("1-2 empty", "is not a run"),
    ] {
        place
            .txgen(&format!("merge {folders} --out refused"))
            .expect(2)
            .says(phrase);
    }
    for (from, to, phrase) in [
        (
            "\"seed\": 7",
            "\"seed\": 8",
            "the seed is 7 in the first and 8 in the second",
        ),
        (
            "\"2/2\"",
            "\"2/3\"",
            "the number of generators is 2 in the first and 3",
        ),
        ("\"rows\": \"all\"", "\"rows\": \"none\"", "--rows none"),
        ("tidegate.run/2", "tidegate.run/3", "tidegate.run/3"),
        (
            "\"origin_unix_ns\": 1",
            "\"origin_unix_ns\": 2",
            "did not begin together",
        ),
        (
            "kvstore, 250 bytes",
            "kvstore, 300 bytes",
            "the workload is",
        ),
    ] {
        other(from, to);
        place
            .txgen("merge 1-2 other --out refused")
            .expect(2)
            .says(phrase);
    }
    assert!(!place.contents().contains(&"refused".to_owned()));
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let place = Place::new();
    let target = "--endpoints http://127.0.0.1:9";
    for (line, phrase) in [
        (
            format!("constant --rate 1 --shard 1/2 {target}"),
            "--shard needs --seed",
        ),
        (
            "constant --rate 1 --shard 1/2 --seed 1".into(),
            "--shard needs --endpoints",
        ),
        (
            format!("flood --count 10 --shard 1/2 --seed 1 {target}"),
            "a flood has none",
        ),
        (
            format!("ramp --shard 2/2 --seed 1 {target}"),
            "give the ramp a --to",
        ),
        (
            format!("constant --rate 1 --shard 3/2 --seed 1 {target}"),
            "they count from 1 to 2",
        ),
        (
            format!("constant --rate 1 --start-at soon {target}"),
            "write RFC 3339",
        ),
        (
            format!("constant --rate 1 --start-at 1000 {target}"),
            "has passed",
        ),
        (
            format!("constant --rate 1 --start-at 9000000000 {target}"),
            "hours ahead",
        ),
    ] {
        place.txgen(&line).expect(2).says(phrase).says_it_once();
    }
}
