//! The main job on a fresh machine: a ramp on the built-in node, and every file it leaves.

use std::collections::HashSet;

use report::text::grouped;
use serde_json::Value;

use crate::support::{Place, RunFolder, Summary};

/// A second each of 1, 251, 501, 751 and 1001 a second.
const STEPS: [u64; 5] = [1, 251, 501, 751, 1001];
const PLANNED: u64 = 2_505;

#[test]
fn a_ramp_on_the_built_in_node_is_accounted_for_in_every_file() {
    let place = Place::new();
    let ended = place.txgen("ramp --start 1 --step 250 --every 1s --to 1001 --out run");
    let run = place.run("run");
    let summary = run.summary();
    ended.ends_as_judged(0, &summary);
    // A step that a busy machine leaves open is offered once more.
    let offered = summary.count("offered.planned");
    assert!((PLANNED..=2 * PLANNED).contains(&offered), "{offered}");
    summary.assert_all_committed(offered);
    assert_eq!(summary.at("interrupted"), &Value::Bool(false));
    assert_eq!(summary.text("model"), "open");
    let first_line = ended.err.lines().next().unwrap();
    assert!(first_line.contains("the built-in node"), "{ended}");
    ended
        .prints(&format!("{0} = {0} sent + 0 unsent", grouped(offered)))
        .prints(&format!(
            "{0} = {0} committed + 0 commit failed + 0 pending",
            grouped(offered)
        ))
        .prints("limited by")
        .says("second offered");
    assert_eq!(
        names(&run),
        [
            "answers.csv",
            "blocks.csv",
            "latency.hlog",
            "manifest.json",
            "report.html",
            "series.csv",
            "steps.csv",
            "summary.json",
            "txs.csv"
        ]
    );
    check_manifest(&run.manifest());
    check_transactions(&run, offered);
    check_series(&run, offered);
    check_steps(&run, &summary);
    check_blocks(&run, &summary, offered);
    check_latencies(&run, &summary, offered);
}

fn names(run: &RunFolder) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(run.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn check_manifest(manifest: &Value) {
    assert_eq!(manifest["format"], "tidegate.run/2");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["command"][1], "ramp");
    assert_eq!(manifest["planned"], PLANNED);
    assert_eq!(manifest["plan"]["method"], "sync");
    assert_eq!(manifest["endpoints"].as_array().unwrap().len(), 1);
    assert_eq!(manifest["endpoints"][0]["built_in"], true);
    assert!(manifest["seed"].is_u64());
    assert!(manifest["host"]["cpus"].as_u64().unwrap() >= 1);
    assert!(manifest["profile"].as_str().unwrap().contains("ramp"));
}

fn check_transactions(run: &RunFolder, offered: u64) {
    let txs = run.table("txs.csv");
    assert_eq!(
        txs.header.join(","),
        "txid,size,ts_send,ts_accept,ts_commit,ts_error,\
         due_ns,sent_ns,accepted_ns,committed_ns,height,code,endpoint,step,codespace"
    );
    assert_eq!(txs.rows.len() as u64, offered);
    let ids: HashSet<&str> = txs.column("txid").collect();
    assert_eq!(ids.len() as u64, offered);
    let is_hash = |id: &&str| {
        id.len() == 64
            && id
                .chars()
                .all(|c| c.is_ascii_digit() || ('A'..='F').contains(&c))
    };
    assert!(ids.iter().all(is_hash));
    assert!(txs.column("size").all(|size| size == "250"));
    assert!(txs.column("ts_error").all(str::is_empty));
    let [dues, sents, accepted] =
        ["due_ns", "sent_ns", "accepted_ns"].map(|name| txs.numbers(name));
    for ((due, sent), accepted) in dues.iter().zip(&sents).zip(&accepted) {
        assert!(due <= sent && sent <= accepted, "{due} {sent} {accepted}");
    }
    let origin = run.manifest()["origin_unix_ns"].as_u64().unwrap();
    for (text, sent) in txs.column("ts_send").zip(&sents) {
        let (_, decimals) = text.split_once('.').unwrap();
        assert_eq!(decimals.len(), 3, "{text}");
        let micros: u64 = text.replace('.', "").parse().unwrap();
        assert!(micros.abs_diff((origin + sent) / 1000) <= 1, "{text}");
    }
}

fn check_series(run: &RunFolder, offered: u64) {
    let series = run.table("series.csv");
    let seconds: Vec<u64> = (0..series.rows.len() as u64).collect();
    assert_eq!(series.numbers("second"), seconds);
    for column in ["offered", "sent", "accepted", "committed"] {
        assert_eq!(series.sum(column), offered, "{column}");
    }
    for column in ["unsent", "rejected", "errors", "commit_failed"] {
        assert_eq!(series.sum(column), 0, "{column}");
    }
    assert_eq!(series.numbers("offered")[..5], STEPS);
}

fn check_steps(run: &RunFolder, summary: &Summary) {
    let steps = run.table("steps.csv");
    let numbers: Vec<u64> = (0..steps.rows.len() as u64).collect();
    assert_eq!(steps.numbers("step"), numbers);
    let offered = steps.numbers("offered");
    assert_eq!(offered[..5], STEPS);
    let rates: Vec<f64> = steps
        .column("rate_tps")
        .map(|rate| rate.parse().unwrap())
        .collect();
    let by_rate: Vec<f64> = offered.iter().map(|count| *count as f64).collect();
    assert_eq!(rates, by_rate);
    let in_summary: Vec<u64> = summary
        .at("steps")
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["offered"].as_u64().unwrap())
        .collect();
    assert_eq!(in_summary, offered);
    assert!(!summary.text("knee_reason").is_empty());
}

fn check_blocks(run: &RunFolder, summary: &Summary, offered: u64) {
    let blocks = run.table("blocks.csv");
    let heights = blocks.numbers("height");
    assert!(
        heights.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{heights:?}"
    );
    assert_eq!(blocks.sum("own_txs"), offered);
    assert_eq!(blocks.sum("own_failed"), 0);
    assert_eq!(summary.count("blocks.count"), heights.len() as u64);
    assert_eq!(summary.count("blocks.missing"), 0);
    let included: HashSet<u64> = run.table("txs.csv").numbers("height").into_iter().collect();
    assert!(included.iter().all(|height| heights.contains(height)));
}

fn check_latencies(run: &RunFolder, summary: &Summary, offered: u64) {
    let histograms = run.histograms();
    let tags: Vec<&str> = histograms.keys().map(String::as_str).collect();
    assert_eq!(
        tags,
        [
            "accept_response",
            "accept_service",
            "commit_from_accepted",
            "commit_from_due",
            "commit_from_sent",
            "lateness"
        ]
    );
    for (tag, histogram) in &histograms {
        assert_eq!(histogram.len(), offered, "{tag}");
        assert_eq!(summary.count(&format!("latency_ms.{tag}.count")), offered);
        let logged = histogram.value_at_quantile(0.99) as f64 / 1e6;
        let summed = summary.number(&format!("latency_ms.{tag}.p99"));
        let distance = (logged - summed).abs();
        assert!(
            distance <= summed * 0.002 + 1e-5,
            "{tag}: {logged} {summed}"
        );
    }
}

#[test]
fn without_a_name_the_folder_is_called_after_time_and_profile() {
    let place = Place::new();
    let ended = place.txgen("flood --count 5 --concurrency 1");
    ended.expect(0);
    assert_eq!(place.contents(), ["runs"]);
    let made: Vec<String> = std::fs::read_dir(place.path().join("runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(made.len(), 1);
    assert!(
        made[0].starts_with("20") && made[0].ends_with("Z-flood"),
        "{made:?}"
    );
    ended.prints(&made[0]);
    place
        .run(&format!("runs/{}", made[0]))
        .summary()
        .assert_all_committed(5);
}

#[test]
fn a_ramp_without_an_end_stops_when_the_node_is_saturated() {
    let place = Place::new();
    place.write(
        "scenario.toml",
        "stop_when_saturated = true\n\
         [[phases]]\nprofile = \"ramp\"\nstart = 100\nstep = \"150/s\"\nevery = \"500ms\"\n\
         [settings]\ndrain_timeout = \"1s\"\nsize = 64\n\
         [builtin]\nblock_interval = \"100ms\"\n\
         [builtin.mempool]\nsize = 150\n\
         [builtin.capacity]\ninitial = 500.0\nfloor = 1.0\nbacklog_share = 0.0\n",
    );
    let ended = place.txgen("run scenario.toml --out run");
    let summary = place.run("run").summary();
    summary.assert_conserved();
    // What was not sent when the end was decided is the ramp's own doing, not a fault.
    ended.ends_as_judged(0, &summary);
    // How high the knee is depends on the machine; that there is an end does not.
    ended.says("the ramp ends: ");
    assert_eq!(summary.at("interrupted"), &Value::Bool(false));
    assert!(!summary.text("knee_reason").is_empty());
    if summary.at("knee").is_object() {
        let (knee, step) = (summary.number("knee.rate_tps"), summary.count("knee.step"));
        let sustained = 100.0 + 150.0 * step as f64;
        assert!(knee <= sustained && knee < summary.number("knee.below_tps"));
        ended.says(&format!(
            "the ramp ends: sustained up to step {step} ({sustained:.0}/s)"
        ));
        ended.prints(&format!("/s: sustained up to step {step}"));
        ended.prints(&format!("between {knee:.0} and "));
        let limit = "the built-in node commits at most 500/s: its capacity model, at first";
        assert!(summary.text("knee_reason").ends_with(limit));
    }
}
