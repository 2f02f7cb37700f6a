//! Observed nodes in the report of a run, and the page of a recording without a load.

use measure::{NodeRow, SightRow};
use report::Recording;

use crate::page::report;

#[test]
fn observed_nodes_are_drawn_each_and_their_mempools_over_one_another() {
    let mut report = report();
    assert!(!report.html().contains("In each node"));
    let row = |second, node: &str| NodeRow {
        second,
        node: node.into(),
        mempool_txs: (second != 1).then_some(100 * second),
        cpu: Some(0.5),
        ..NodeRow::default()
    };
    let rows = (0..3).flat_map(|second| ["a", "<b>"].map(|node| row(second, node)));
    report.nodes = rows.collect();
    report.sights = recording().sights;
    let html = report.html();
    for part in [
        "In each node",
        "Rates at a",
        "Processors at &lt;b&gt;",
        "at &lt;b&gt;",
        "from the first node to the others",
        "in no block yet, least to most of the second",
        "A mempool is asked some times a second",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<b>)") && !html.contains("NaN"));
    report.nodes.iter_mut().for_each(|row| row.cpu = None);
    let html = report.html();
    assert!(!html.contains("Processors at"), "nothing to draw");
    // One node alone is compared with none.
    report.nodes.retain(|row| row.node == "a");
    report.sights.retain(|row| row.node == "a");
    let html = report.html();
    assert!(html.contains("In each node") && !html.contains("from the first node"));
}

/// Two nodes, of which `b` has each block 40 ms later and was away in the second second.
fn recording() -> Recording {
    let row = |second, node: &str| NodeRow {
        second,
        node: node.into(),
        asked: 5,
        answered: if node == "b" && second == 1 { 0 } else { 5 },
        height: Some(10 + second),
        mempool_txs: (node == "a" || second != 1).then_some(7),
        blocks: 1,
        cpu: (node == "a").then_some(0.25 * second as f64),
        ..NodeRow::default()
    };
    let sight = |second: u64, node: &str, late_ms: u64| SightRow {
        kind: SightRow::BLOCK.into(),
        id: (10 + second).to_string(),
        node: node.into(),
        seen_ns: second * 1_000_000_000 + late_ms * 1_000_000,
        bytes: Some(1_000),
        ..SightRow::default()
    };
    let seconds = 0..3_u64;
    Recording {
        started: "2026-11-22T10:00:00Z".into(),
        lasted_s: 3.0,
        machine: "2 × processor, Linux".into(),
        notes: vec!["the observed node b gave <no> answer".into()],
        nodes: seconds
            .clone()
            .flat_map(|second| ["a", "b"].map(|node| row(second, node)))
            .collect(),
        sights: seconds
            .flat_map(|second| [sight(second, "a", 0), sight(second, "b", 40)])
            .collect(),
    }
}

#[test]
fn a_recording_shows_each_node_and_how_much_later_it_had_what_the_first_one_had() {
    let html = recording().html();
    for part in [
        "b is the last to have blocks, half of them within <b>40 ms</b> of the first node",
        "gave &lt;no&gt; answer",
        "Height",
        "Rates at b",
        "Processors at a",
        "Blocks: later than at the first node",
        "66.7 %",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
    assert!(!html.contains("Processors at b") && !html.contains("NaN"));
    assert!(
        !html.contains("accepted, in no block yet"),
        "there is no load"
    );
    assert_eq!(html.matches("<script").count(), 1, "its own");
    assert!(!html.contains("<no>"));
    assert!(!html.contains("polled"), "all was announced");
    let mut polled = recording();
    polled.sights[0].resolution_ms = Some(110.0);
    let html = polled.html();
    for part in [
        "of the first node (polled: seen up to 110 ms late)",
        "before it was seen, blocks up to 110 ms: differences below that say nothing",
    ] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
}

/// The terminal said "up to 301 in its mempool", of all answers, and the page 286, of the last ones of the seconds.
#[test]
fn the_most_in_a_mempool_is_of_all_answers_and_the_plot_reaches_it() {
    let mut recording = recording();
    assert!(!recording.html().contains("least to most of the second"));
    recording.nodes[0].mempool_min = Some(24);
    recording.nodes[0].mempool_max = Some(301);
    let html = recording.html();
    assert!(html.contains(">301</td>"));
    assert!(html.contains("at a, least to most of the second"));
}

#[test]
fn a_recording_of_one_node_compares_it_with_none() {
    let mut alone = recording();
    alone.nodes.retain(|row| row.node == "a");
    alone.sights.retain(|row| row.node == "a");
    let html = alone.html();
    assert!(
        html.contains("<b>1 node</b> recorded for 3 s: 3 blocks seen."),
        "{html}"
    );
    assert!(!html.contains("First sight"));
    alone.nodes.clear();
    alone.sights.clear();
    assert!(
        alone.html().contains("<b>0 nodes</b> recorded"),
        "killed in its first second"
    );
}
