//! Reports of whole runs.

use measure::judge::{self, Excess, Onset, Shortfall};
use measure::read::{HlogReader, RowReader, TxReader};
use measure::{
    Answers, EndpointInfo, Evidence, EvidenceKind, FORMAT, Host, LimitedBy, Manifest, NodeLimits,
    PlanDocument, ScheduleVerdict, Strength,
};
use report::{AnswerCourse, Bep23Collector, LatencyCourse, RunReport};

use crate::{ORIGIN_UNIX_NS, Run, steady_run};

pub(crate) fn report() -> RunReport {
    let Run {
        txs,
        series,
        blocks,
        hlog,
        summary,
    } = steady_run();
    let txs = txs.bytes();
    let mut collector = Bep23Collector::new(ORIGIN_UNIX_NS / 1_000);
    let mut answers = Answers::default();
    let mut reader = TxReader::new(&txs[..]).unwrap();
    while let Some(row) = reader.next_row().unwrap() {
        collector.tx(&row);
        answers.row(&row, ORIGIN_UNIX_NS);
    }
    let mut course = LatencyCourse::new(summary.time.ended_s, summary.time.warmup_s);
    let log = hlog.bytes();
    let mut log = HlogReader::new(&log[..]);
    while let Some(interval) = log.next_interval().unwrap() {
        course.add(interval).unwrap();
    }
    course.finish(log.censored());
    let series = series.bytes();
    let mut series: Vec<_> = RowReader::new(&series[..])
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let first: &mut measure::SeriesRow = &mut series[1];
    first.mark = "index <off>".into();
    let blocks = blocks.bytes();
    let blocks: Vec<_> = RowReader::new(&blocks[..])
        .unwrap()
        .map(Result::unwrap)
        .collect();
    RunReport {
        nodes: Vec::new(),
        sights: Vec::new(),
        links: vec![("../report.html".into(), "the <campaign>".into())],
        onsets: judge::onsets(&summary.evidence),
        answers: course_of(&answers),
        manifest: Manifest {
            format: FORMAT.into(),
            version: "0.1.0".into(),
            command: vec!["txgen".into(), "constant".into()],
            origin_unix_ns: ORIGIN_UNIX_NS,
            origin_error_ns: 0,
            started: "2026-11-20T00:00:00.123456789Z".into(),
            plan: PlanDocument {
                arrivals: Some("even".into()),
                threads: 1,
                ..PlanDocument::default()
            },
            profile: "1000/s for 3s".into(),
            planned: Some(3_000),
            seed: 1,
            endpoints: vec![EndpointInfo {
                url: "http://[::1]:26657/\"><script>".into(),
                chain_id: Some("chain".into()),
                node_version: Some("0.38.17".into()),
                built_in: false,
            }],
            limits: NodeLimits::default(),
            host: Host {
                os: "Linux".into(),
                cpu: None,
                cpus: 2,
                memory_bytes: Some(1 << 30),
                clock: None,
            },
        },
        notes: vec!["a note".into()],
        excesses: vec![None],
        thresholds: vec![("commit.p99<5s (0.500)".into(), true)],
        series,
        blocks,
        bep23: Some(collector.finish()),
        course,
        summary,
    }
}

/// The page must open from a stick on a plane: nothing is fetched, nothing runs but its own script.
#[test]
fn the_page_is_self_contained() {
    let html = report().html();
    for foreign in [
        "<link",
        "<img",
        "src=",
        "@import",
        "url(",
        "href=\"http",
        "href=\"/",
    ] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    let policy = html.find("script-src 'sha256-").unwrap();
    assert!(policy < html.find("<body>").unwrap());
    assert!(html.starts_with("<!doctype html>"));
    // On paper the colours are those of light.
    assert!(html.contains("@media screen and (prefers-color-scheme: dark)"));
    assert!(html.contains("@media print"));
}

#[test]
fn the_page_says_everything_there_is_to_say() {
    let report = report();
    let html = report.html();
    for part in [
        "of <b>1,000/s</b> offered the node committed <b>all 3,000</b> transactions; <b>nothing</b> limited it; schedule <b>valid</b>.",
        "<nav><a href=\"../report.html\">the &lt;campaign&gt;</a></nav>",
        "Every law of conservation holds",
        "Transactions per second",
        "in the mempool",
        "Due to committed",
        "Accepted: response and service time",
        "99.9 %",
        "Due to sent, by percentile",
        "Transactions in each block",
        "Accept: from send to answer",
        "Finalized in each second",
        "index &lt;off&gt;",
        "a note",
        "commit.p99&lt;5s",
    ] {
        if part == "in the mempool" {
            // No mempool was sampled in this run.
            assert!(!html.contains(part));
            continue;
        }
        assert!(html.contains(part), "{part}");
    }
    assert!(html.len() < 300_000, "{}", html.len());
}

/// A reader finds the answer before its proof, and what few read folded at the end.
#[test]
fn the_answer_comes_first_and_a_healthy_run_has_no_causes() {
    let mut report = report();
    let html = report.html();
    let order = [
        "class=\"headline\"",
        "<h2>Throughput <a",
        "<h2>Latency <a",
        "<details class=\"fold\" id=\"the-generator-was-the-schedule-kept\"><summary><h2>The generator",
        "<h2>Conservation: does the account add up? <a",
    ];
    let places = order.map(|part| html.find(part).unwrap_or_else(|| panic!("{part}")));
    assert!(places.is_sorted(), "{places:?}");
    assert!(!html.contains("class=\"onsets\""));
    assert!(
        !html.contains("<th>which</th>"),
        "no column without an entry"
    );
    for gone in ["BEP-23", "Endpoints", "Refused, by cause"] {
        report.bep23 = None;
        assert!(!report.html().contains(gone), "{gone}");
    }
    report.onsets = vec![
        Onset {
            at_s: 1.0,
            sign: "mempool full at 2000".into(),
        },
        Onset {
            at_s: 2.0,
            sign: "refusals".into(),
        },
    ];
    let html = report.html();
    assert!(
        html.contains(
            "<ol class=\"onsets\"><li>mempool full at 2000<span class=\"soft\"> from 1 s"
        )
    );
    let marks = html.matches(">2</b>").count();
    assert!(
        marks >= 5,
        "the second one is marked in every plot over time: {marks}"
    );
    assert!(
        report
            .markdown()
            .contains("mempool full at 2000 from 1 s → refusals from 2 s")
    );
}

#[test]
fn refusals_are_told_by_what_the_node_said_and_steps_by_who_fell_short() {
    let mut report = report();
    report.summary.limited_by = LimitedBy::Node;
    report.summary.evidence = vec![Evidence {
        kind: EvidenceKind::Refused,
        points_to: LimitedBy::Node,
        strength: Strength::Strong,
        txs: 12,
        from_s: Some(2.0),
        until_s: None,
    }];
    let fate = &mut report.summary.fate;
    fate.rejected_by_code = [("-32603".to_owned(), 12)].into();
    let html = report.html();
    assert!(
        html.contains("Limited by the node: 12 refused from 2 s on: code -32603."),
        "{html}"
    );
    assert_eq!(
        html.matches("12 refused from 2 s on").count(),
        1,
        "said once"
    );
    report.summary.verdict.schedule = ScheduleVerdict::Invalid;
    let invalid = report.html();
    assert!(
        invalid.contains("<li>12 refused from 2 s on: code -32603</li>"),
        "{invalid}"
    );
    report.summary.verdict.schedule = ScheduleVerdict::Valid;
    let texts = [("-32603: mempool is full", 11), ("7: seen before", 1)];
    let texts = texts.map(|(text, count)| (text.to_owned(), count));
    report.summary.fate.rejected_by_text = texts.into();
    let said = "12 refused from 2 s on: mempool is full / seen before";
    assert!(report.html().contains(said) && report.markdown().contains(said));

    let mut step = report.summary.steps[0].clone();
    (step.awaited_s, step.counts.offered) = (Some(1.0), 1_000);
    report.summary.steps = vec![step; 3];
    let excess = |shortfall| {
        Some(Excess {
            shortfall,
            stall_s: None,
        })
    };
    let (offered, accepted) = (Shortfall::Offered(0.7), Shortfall::Accepted(0.5));
    report.excesses = vec![excess(offered), excess(accepted), None];
    let html = report.html();
    for state in ["not offered", "no", "yes"] {
        assert!(html.contains(&format!("{state}</td>")), "{state}");
    }
    for reason in [
        "step 0 (1,000/s) not offered: ",
        "step 0 (1,000/s) not sustained: ",
    ] {
        assert!(html.contains(reason), "{reason}");
    }
}

#[test]
fn the_link_of_a_disturbed_run_is_an_address_in_markdown_as_on_the_page() {
    let mut report = report();
    report.summary.verdict.schedule = ScheduleVerdict::Degraded;
    report.summary.late.causes.schedule = 12;
    let text = report.markdown();
    let (_, link) = text
        .split_once("[On a busy or shared machine](")
        .expect("a link");
    let (to, _) = link.split_once(')').expect("its end");
    assert!(to.starts_with("https://") && !to.contains(' '), "{to}");
    assert!(report.html().contains(to), "{to}");
}

#[test]
fn only_a_step_that_was_judged_is_called_sustained() {
    let mut report = report();
    let mut judged = report.summary.steps[0].clone();
    (judged.awaited_s, judged.counts.offered) = (Some(1.0), 1_000);
    let (mut cut, mut few, mut pause) = (judged.clone(), judged.clone(), judged.clone());
    cut.awaited_s = None;
    few.counts.offered = 3;
    pause.pause = true;
    report.summary.steps = vec![judged, cut, few, pause];
    report.excesses = vec![None; 4];
    let text = report.markdown();
    let (_, table) = text
        .split_once("## Steps")
        .expect("several steps have a table");
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(2);
    let told: Vec<&str> = rows
        .take(4)
        .filter_map(|row| row.split('|').nth(3))
        .map(str::trim)
        .collect();
    assert_eq!(told, ["yes", "cut short", "too few", "pause"]);
    let html = report.html();
    for state in &told {
        assert!(html.contains(&format!(">{state}</td>")), "{state}");
    }
}

#[test]
fn blocks_are_held_against_every_limit_that_they_come_near() {
    let mut report = report();
    assert!(
        !report.html().contains("Blocks against their limit"),
        "no limit is known"
    );
    report.manifest.limits.block_bytes = Some(1_000_000);
    let far = "The fullest block had 0.1 % of the 1,000,000 bytes that one may hold.";
    let html = report.html();
    assert!(
        html.contains(far) && !html.contains("Blocks against their limit"),
        "{html}"
    );
    report.manifest.limits.block_txs = Some(500);
    report.manifest.limits.block_gas = Some(40_000_000);
    let html = report.html();
    assert!(html.contains("of its transactions, 500") && html.contains(far));
    assert!(!html.contains("gas"), "no block says how much gas it took");
    for block in &mut report.blocks {
        block.gas_wanted = Some(30_000_000);
    }
    assert!(
        report.html().contains("of its gas, 40,000,000 75 % at"),
        "{}",
        report.html()
    );
}

fn course_of(answers: &Answers) -> AnswerCourse {
    AnswerCourse::new(&answers.rows().collect::<Vec<_>>())
}

#[test]
fn an_endpoint_that_does_not_answer_is_seen_beside_the_others() {
    let mut report = report();
    let mut answers = Answers::default();
    let text = steady_run().txs.bytes();
    let mut rows = TxReader::new(&text[..]).unwrap();
    while let Some(mut row) = rows.next_row().unwrap() {
        if row.due.as_nanos() / 1_000_000 % 2 == 1 {
            row.endpoint = 1;
            (row.accepted, row.committed) = (None, None);
        }
        answers.row(&row, ORIGIN_UNIX_NS);
    }
    report.answers = course_of(&answers);
    report
        .manifest
        .endpoints
        .push(report.manifest.endpoints[0].clone());
    report.manifest.endpoints[1].url = "http://frozen".into();
    let html = report.html();
    let row = "<td class=\"w\">http://frozen</td><td>0</td><td>0</td><td class=\"bad\">1,500</td><td>–</td>";
    assert!(html.contains(row), "{html}");
    assert!(html.contains("Mean response time of each endpoint"));
}

/// Every tag that is opened is closed, in order.
#[test]
fn the_page_is_well_formed() {
    let html = report().html();
    let mut open = Vec::new();
    let body = &html[html.find("<main>").unwrap()..html.find("<script>").unwrap()];
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split_whitespace().next().unwrap();
        if let Some(name) = name.strip_prefix('/') {
            let expected = open.pop();
            assert!(expected == Some(name), "{name} closes {expected:?}");
        } else if !tag.ends_with('/') && !["br", "input", "wbr"].contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn the_markdown_has_the_figures() {
    let text = report().markdown();
    for part in [
        "# 1000/s for 3s",
        "of **1,000/s** offered the node committed **all 3,000** transactions",
        "| planned | 3,000 |",
        "| accept, response (due to accepted) |",
        "- 1 s: index <off>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// "of 251/s offered" of a ramp from 1 to 501/s.
#[test]
fn a_run_of_several_rates_is_not_said_to_have_offered_their_mean() {
    let mut report = report();
    let mut slower = report.summary.steps[0].clone();
    slower.rate_tps = 500.0;
    report.summary.steps.push(slower);
    let text = report.markdown();
    assert!(text.contains("of **500 to 1,000/s** offered"), "{text}");
}

#[test]
fn a_mempool_is_drawn_from_its_least_to_its_most_and_not_where_none_was_sampled() {
    let mut report = report();
    let (range, limit) = ("class=\"r t-depth\"", "the mempool&#39;s limit");
    assert!(!report.html().contains(range));
    for row in &mut report.series {
        (row.mempool_min, row.mempool_txs, row.mempool_max) = (Some(24), Some(300), Some(588));
    }
    let html = report.html();
    assert!(html.contains(range), "{html}");
    // Far from its limit the axis is the mempool's, near it the limit is drawn.
    report.manifest.limits.mempool_txs = Some(5_000);
    assert!(!report.html().contains(limit));
    report.manifest.limits.mempool_txs = Some(600);
    assert!(report.html().contains(limit));
}

#[test]
fn the_generators_processor_time_is_drawn_where_it_was_measured() {
    let mut report = report();
    let title = "Processor time of the generator";
    assert!(!report.html().contains(title));
    for row in &mut report.series {
        row.generator_cpu = Some(0.3);
    }
    let html = report.html();
    assert!(
        html.contains(title) && html.contains("Of the whole process."),
        "{html}"
    );
    assert!(!html.contains("all there are"), "far from all cores");
    report.series[0].generator_cpu = Some(1.9);
    assert!(report.html().contains("all there are"));
}

#[test]
fn every_plot_over_time_shades_the_drain_and_the_words_are_defined() {
    let html = report().html();
    let drains = html.matches(">drain</b>").count();
    assert!(drains >= 5, "{drains}");
    for word in [
        "due",
        "origin",
        "lateness",
        "response time",
        "backlog",
        "drain",
    ] {
        assert!(html.contains(&format!("<b>{word}</b>: ")), "{word}");
    }
    assert!(html.contains("instant from which all times count"));
}

#[test]
fn tiles_are_of_the_knee_and_no_means_over_steps_of_different_rates() {
    let mut report = report();
    assert!(report.html().contains("committed, mean"), "one rate");
    let step = report.summary.steps[0].clone();
    let mut faster = step.clone();
    (faster.step, faster.rate_tps) = (1, 2.0 * step.rate_tps);
    faster.committed_tps = Some(1_234.0);
    report.summary.steps = vec![step, faster];
    report.excesses = vec![None, None];
    let html = report.html();
    assert!(!html.contains("committed, mean"), "{html}");
    assert!(html.contains("committed in all"));
    report.summary.knee = Some(measure::Knee {
        below_tps: Some(2_500.0),
        rate_tps: 2_000.0,
        step: Some(1),
    });
    let html = report.html();
    assert!(html.contains("1,234/s</b><span>committed at the knee</span>"));
    assert!(html.contains(">knee <b>2,000 to 2,500/s</b>; "));
    assert!(!html.contains("committed, mean"));
}
